/* Every rank writes its block of one shared file in one collective call; MPI_File_read_at_all reads alike. */
#include <mpi.h>

int write_blocks(MPI_Comm comm, const char *path, const double *block, int count) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    MPI_File file;
    int failed = MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    if (failed)
        return failed;
    MPI_Offset offset = (MPI_Offset)rank * count * (MPI_Offset)sizeof *block;
    failed = MPI_File_write_at_all(file, offset, block, count, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    return failed;
}
