"""Kinds of findings, one theme per module; importing this package registers all."""

from stripewise.diagnose.rules import (
    balance,
    calls,
    files,
    hdf5,
    interface,
    layout,
    modes,
    profile,
    requests,
    training,
)

__all__ = ["balance", "calls", "files", "hdf5", "interface", "layout", "modes", "profile", "requests", "training"]
