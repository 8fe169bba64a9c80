"""Runs as jobs of a scheduler, or as steps within an allocation."""
