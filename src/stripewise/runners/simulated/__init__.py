"""Runs on the simulated cluster."""
