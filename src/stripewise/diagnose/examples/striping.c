/* A layout is set when the file is created: here 8 stripes of 4 MiB. */
#include <mpi.h>

int create_striped(MPI_Comm comm, const char *path, MPI_File *file) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "striping_factor", "8");
    MPI_Info_set(info, "striping_unit", "4194304");
    int failed = MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, info, file);
    MPI_Info_free(&info);
    return failed;
}
