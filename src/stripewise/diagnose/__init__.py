"""Why I/O is slow, and what would fix it: from what a job did to findings with evidence and settings."""
