"""What a run says: reports, logs and outputs turned into numbers, and numbers into statements that hold."""
