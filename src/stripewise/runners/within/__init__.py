"""Runs inside one launch: each phase of a running program, from open to close of a file, is a run."""
