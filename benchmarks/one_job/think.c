/* Compiled together with a program, with MPI_Barrier renamed in both: it computes before each phase, which
 * the programs begin with a barrier. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int MPI_Barrier(MPI_Comm comm) {
    const char *milliseconds = getenv("THINK_MILLISECONDS");
    if (milliseconds)
        usleep((useconds_t)atoi(milliseconds) * 1000);
    return PMPI_Barrier(comm);
}
