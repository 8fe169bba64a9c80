"""Campaigns: benchmark runs over workloads and tunables, of which a table comes."""
