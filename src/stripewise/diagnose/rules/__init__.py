"""Kinds of findings, one theme per module; importing this package registers all."""

from stripewise.diagnose.rules import balance, calls, files, hdf5, interface, layout, requests, training
from stripewise.diagnose.rules import calls as profile
from stripewise.diagnose.rules import interface as modes

__all__ = ["balance", "calls", "files", "hdf5", "interface", "layout", "modes", "profile", "requests", "training"]
