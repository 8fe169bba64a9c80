/* SPDX-License-Identifier: BSD-3-Clause
 * What ROMIO sends from within MPI-IO calls. Its two-phase exchange makes no system call on the file, but it
 * calls the MPI library by the names of the profiling interface. Each of these calls is counted with the
 * MPI-IO call that made it. The names MPI_* are left alone: a program's own messages do not pass here. */
#include "call.h"

#define COUNTED(NAME, PARAMETERS, ...)                                                                       \
    SW_EXPORT int NAME PARAMETERS {                                                                          \
        static int(*_Atomic found) PARAMETERS;                                                               \
        SW_RESOLVE_OR_FAIL(next, found, #NAME);                                                              \
        if (sw_thread.file)                                                                                  \
            sw_thread.messages++;                                                                            \
        return next(__VA_ARGS__);                                                                            \
    }

COUNTED(PMPI_Allgather,
        (const void *sent, int count, MPI_Datatype type, void *got, int got_count, MPI_Datatype got_type,
         MPI_Comm comm),
        sent, count, type, got, got_count, got_type, comm)
COUNTED(PMPI_Allreduce, (const void *sent, void *got, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
        sent, got, count, type, op, comm)
COUNTED(PMPI_Alltoall,
        (const void *sent, int count, MPI_Datatype type, void *got, int got_count, MPI_Datatype got_type,
         MPI_Comm comm),
        sent, count, type, got, got_count, got_type, comm)
COUNTED(PMPI_Alltoallv,
        (const void *sent, const int *counts, const int *places, MPI_Datatype type, void *got,
         const int *got_counts, const int *got_places, MPI_Datatype got_type, MPI_Comm comm),
        sent, counts, places, type, got, got_counts, got_places, got_type, comm)
COUNTED(PMPI_Barrier, (MPI_Comm comm), comm)
COUNTED(PMPI_Bcast, (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm), buffer, count,
        type, root, comm)
COUNTED(PMPI_Isend,
        (const void *sent, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
         MPI_Request *request),
        sent, count, type, to, tag, comm, request)
