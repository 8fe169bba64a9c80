"""Write three two-dimensional fields with h5py on MPI, each rank its columns, together; print the MiB/s."""

import sys

import h5py
import numpy
from mpi4py import MPI

ROWS, COLUMNS, FIELDS = 2048, 512, 3

comm = MPI.COMM_WORLD
data = numpy.full((ROWS, COLUMNS), comm.rank, "f8")
comm.Barrier()
begun = MPI.Wtime()
with h5py.File(sys.argv[1], "w", driver="mpio", comm=comm) as file:
    for step in range(FIELDS):
        field = file.create_dataset(f"field{step}", (ROWS, COLUMNS * comm.size), "f8")
        with field.collective:
            field[:, comm.rank * COLUMNS : (comm.rank + 1) * COLUMNS] = data
comm.Barrier()
spent = comm.allreduce(MPI.Wtime() - begun, MPI.MAX)
if comm.rank == 0:
    print(f"bandwidth: {FIELDS * data.nbytes * comm.size / 2**20 / spent:.1f}")
