"""The native parts: how they are built, and how the benchmark program is called."""
