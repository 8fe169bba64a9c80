"""The command line: parse, call a loop, print."""

from stripewise.desk.cli.main import main

__all__ = ["main"]
