"""What is decided beside the samplers: repeats, failures, pruning, stopping."""
