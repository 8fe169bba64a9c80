/* One rank opens and reads a small file that all ranks need, and sends it to them. */
#include <mpi.h>
#include <stdio.h>

int read_once(MPI_Comm comm, const char *path, char *text, int size) {
    int rank, length = 0;
    MPI_Comm_rank(comm, &rank);
    if (rank == 0) {
        FILE *file = fopen(path, "rb");
        if (file) {
            length = (int)fread(text, 1, (size_t)size, file);
            fclose(file);
        }
    }
    MPI_Bcast(&length, 1, MPI_INT, 0, comm);
    MPI_Bcast(text, length, MPI_CHAR, 0, comm);
    return length;
}
