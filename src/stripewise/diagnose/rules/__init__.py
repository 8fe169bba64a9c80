"""Kinds of findings, one theme per module; importing this package registers all."""

from stripewise.diagnose.rules import calls, collective, files, processes, requests

__all__ = ["calls", "collective", "files", "processes", "requests"]
