"""Random kills of tuners, workers and programs over every kind of store."""
