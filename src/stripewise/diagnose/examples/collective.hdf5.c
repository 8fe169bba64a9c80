/* Every rank writes its block of one dataset in one collective call; H5Dread reads alike. */
#include <hdf5.h>

herr_t write_blocks(hid_t dataset, const double *block, hsize_t rank, hsize_t count) {
    hsize_t start = rank * count;
    hid_t memory = H5Screate_simple(1, &count, NULL), space = H5Dget_space(dataset);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
    hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    herr_t failed = H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, transfer, block);
    H5Pclose(transfer);
    H5Sclose(space);
    H5Sclose(memory);
    return failed;
}
