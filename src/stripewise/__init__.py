"""Stripewise tunes the parallel I/O of MPI programs: it measures, proves and applies better settings."""

__version__ = "0.1.0"
