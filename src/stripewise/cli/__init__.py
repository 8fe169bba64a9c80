"""The command line: parse, call a loop, print."""

from stripewise.cli.main import main

__all__ = ["main"]
