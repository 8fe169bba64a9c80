"""Batch systems: one module each, which says everything that differs, and a queue that drives any of them."""
