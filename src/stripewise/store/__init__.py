"""Where experiments are kept: SQLite and PostgreSQL databases, and journals for shared file systems."""
