"""Why I/O is slow, and what would mend it: from what a job did to findings with evidence and settings."""
