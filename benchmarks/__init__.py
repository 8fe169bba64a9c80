"""Benchmarks, and what their figures are made of. A package, because pyarrow installs one of this name, too."""
