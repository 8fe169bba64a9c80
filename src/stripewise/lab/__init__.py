"""The simulated cluster: MPI-IO on Lustre as a model of bottlenecks, vectorised over workloads and configurations.

Everything that comes from here is simulated and must say so wherever it is shown.
"""
