"""Causes from time alone: which layer answered an operation, told by how long it took.

The approach is that of J. Kunkel (2019): repeat operations under known conditions, fit time = constant + f(size) for
each condition, and give each observed operation the condition whose model is nearest.
"""
