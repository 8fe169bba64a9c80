"""Samplers: which configuration to run next, from the history alone."""
