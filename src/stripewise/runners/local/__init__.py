"""Runs on this machine: scratch folder, processes, supervision."""
