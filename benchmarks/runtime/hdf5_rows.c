/* hdf5_rows FILE STEPS DATASETS ROWS COLUMNS: an analysis of compressed datasets, in parallel HDF5.
 *
 * One rank writes the datasets of all steps, each in one compressed chunk, unless the file is there. Then all
 * ranks share them out and read each row by row. Prints one JSON object: seconds of both, maximum over ranks.
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int rank, ranks;

static void demand(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s failed\n", what);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

static double value_of(int number, hsize_t place) {
    return number + (double)(place % 4096) / 1024;
}

static void make(const char *path, int count, const hsize_t *size) {
    char name[32];
    double *data = malloc(size[0] * size[1] * sizeof *data);
    hid_t space = H5Screate_simple(2, size, NULL), creation = H5Pcreate(H5P_DATASET_CREATE);
    demand(H5Pset_chunk(creation, 2, size) >= 0 && H5Pset_deflate(creation, 1) >= 0, "the layout");
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    demand(file >= 0, "H5Fcreate");
    for (int i = 0; i < count; i++) {
        for (hsize_t k = 0; k < size[0] * size[1]; k++)
            data[k] = value_of(i, k);
        snprintf(name, sizeof name, "values%04d", i);
        hid_t set = H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
        demand(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0, "H5Dwrite");
        H5Dclose(set);
    }
    H5Fclose(file);
    H5Pclose(creation);
    H5Sclose(space);
    free(data);
}

static void look(hid_t file, int number, const hsize_t *size, double *row) {
    char name[32];
    hsize_t one[2] = {1, size[1]};
    snprintf(name, sizeof name, "values%04d", number);
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), memory = H5Screate_simple(2, one, NULL);
    hid_t space = H5Dget_space(set);
    for (hsize_t r = 0; r < size[0]; r++) {
        hsize_t start[2] = {r, 0};
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, one, NULL);
        demand(H5Dread(set, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, row) >= 0, "H5Dread");
        demand(row[size[1] - 1] == value_of(number, (r + 1) * size[1] - 1), "the values");
    }
    H5Sclose(space);
    H5Sclose(memory);
    H5Dclose(set);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    demand(argc == 6, "usage: hdf5_rows FILE STEPS DATASETS ROWS COLUMNS;");
    int count = atoi(argv[2]) * atoi(argv[3]);
    hsize_t size[2] = {strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10)};
    double mine[2] = {0, 0}, slowest[2], *row = malloc(size[1] * sizeof *row);
    double begin = MPI_Wtime();
    if (rank == 0 && access(argv[1], F_OK) != 0)
        make(argv[1], count, size);
    mine[0] = MPI_Wtime() - begin;
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, list);
    demand(file >= 0, "H5Fopen");
    for (int i = 0; i < count; i++)
        if (i % ranks == rank)
            look(file, i, size, row);
    H5Fclose(file);
    mine[1] = MPI_Wtime() - begin;
    MPI_Reduce(mine, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"write\": %.6f, \"read\": %.6f}\n", slowest[0], slowest[1]);
    H5Pclose(list);
    free(row);
    MPI_Finalize();
    return 0;
}
