/* hdf5_small FILE STEPS DATASETS VALUES ATTRIBUTES: checkpoints of many small datasets, in parallel HDF5.
 *
 * Each step makes a group, and in it as many datasets, each with so many attributes; the ranks take turns in
 * writing a dataset's values, and the step is flushed. Then the file is read back. Prints one JSON object:
 * seconds of both, maximum over ranks. */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;

static void demand(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s failed\n", what);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

static void step(hid_t file, int number, int datasets, hsize_t values, int attributes, const double *data) {
    char name[32];
    hsize_t one = 1;
    hid_t whole = H5Screate_simple(1, &values, NULL), single = H5Screate_simple(1, &one, NULL);
    snprintf(name, sizeof name, "step%04d", number);
    hid_t group = H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    for (int i = 0; i < datasets; i++) {
        snprintf(name, sizeof name, "values%04d", i);
        hid_t set = H5Dcreate2(group, name, H5T_NATIVE_DOUBLE, whole, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        for (int k = 0; k < attributes; k++) {
            snprintf(name, sizeof name, "number%04d", k);
            hid_t note = H5Acreate2(set, name, H5T_NATIVE_INT, single, H5P_DEFAULT, H5P_DEFAULT);
            demand(H5Awrite(note, H5T_NATIVE_INT, &i) >= 0, "H5Awrite");
            H5Aclose(note);
        }
        if (i % ranks == rank)
            demand(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0, "H5Dwrite");
        H5Dclose(set);
    }
    H5Gclose(group);
    H5Sclose(single);
    H5Sclose(whole);
    demand(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "H5Fflush");
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    demand(argc == 6, "usage: hdf5_small FILE STEPS DATASETS VALUES ATTRIBUTES;");
    int steps = atoi(argv[2]), datasets = atoi(argv[3]), attributes = atoi(argv[5]);
    hsize_t values = strtoull(argv[4], NULL, 10);
    double *data = malloc(values * sizeof *data);
    for (hsize_t i = 0; i < values; i++)
        data[i] = rank + (double)i / 1024;
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
    demand(file >= 0, "H5Fcreate");
    for (int i = 0; i < steps; i++)
        step(file, i, datasets, values, attributes, data);
    H5Fclose(file);
    double mine[2] = {MPI_Wtime() - begin, 0}, slowest[2];
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    file = H5Fopen(argv[1], H5F_ACC_RDONLY, access);
    demand(file >= 0, "H5Fopen");
    for (int i = 0; i < steps; i++)
        for (int k = rank; k < datasets; k += ranks) {
            char name[64];
            snprintf(name, sizeof name, "step%04d/values%04d", i, k);
            hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
            demand(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0, "H5Dread");
            demand(data[0] == rank, "the values");
            H5Dclose(set);
        }
    H5Fclose(file);
    mine[1] = MPI_Wtime() - begin;
    MPI_Reduce(mine, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"write\": %.6f, \"read\": %.6f}\n", slowest[0], slowest[1]);
    H5Pclose(access);
    free(data);
    MPI_Finalize();
    return 0;
}
