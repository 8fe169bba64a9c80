"""Samplers: how the next configurations are proposed."""
