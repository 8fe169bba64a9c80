/* 8 stripes of 4 MiB, and objects of 1 MiB or more that begin at a stripe. */
#include <hdf5.h>

hid_t create_striped(MPI_Comm comm, const char *path) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "striping_factor", "8");
    MPI_Info_set(info, "striping_unit", "4194304");
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, comm, info);
    H5Pset_alignment(access, 1 << 20, 4 << 20);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pclose(access);
    MPI_Info_free(&info);
    return file;
}
