"""Immutable values of the field: parameters, spaces, stacks, workloads, plans, reports, trials, experiments."""
