/* A layout is set when the file is created: here 8 stripes of 4 MiB. */
#include <mpi.h>
#include <netcdf.h>
#include <netcdf_par.h>

int create_striped(MPI_Comm comm, const char *path, int *file) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "striping_factor", "8");
    MPI_Info_set(info, "striping_unit", "4194304");
    int failed = nc_create_par(path, NC_NETCDF4 | NC_CLOBBER, comm, info, file);
    MPI_Info_free(&info);
    return failed;
}
