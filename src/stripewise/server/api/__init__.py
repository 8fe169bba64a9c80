"""The resources under ``/api``."""
