/* hdf5_chunks FILE PATTERN [ROWS]: one way of using a dataset of HDF5 whose chunks or cache do not fit.
 * Prints its seconds.
 *
 * series   one process appends steps to chunks of one step each, then reads series in time at many places
 * blocks   ranks write blocks of columns together, in chunks of one row each; 4096 rows, or ROWS
 * slices   reads planes across the chunks of a file (made before if it is not there), whose cache holds too
 * few of them
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;

static void demand(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s failed\n", what);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

static hid_t create(hid_t file, int dimensions, const hsize_t *size, const hsize_t *chunk) {
    hid_t space = H5Screate_simple(dimensions, size, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
    demand(H5Pset_chunk(list, dimensions, chunk) >= 0, "H5Pset_chunk");
    hid_t made = H5Dcreate2(file, "field", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, list, H5P_DEFAULT);
    demand(made >= 0, "H5Dcreate2");
    H5Pclose(list);
    H5Sclose(space);
    return made;
}

static void move(hid_t set, int writes, hid_t transfer, const hsize_t *start, const hsize_t *count,
                 int dimensions, float *data) {
    hid_t space = H5Dget_space(set), memory = H5Screate_simple(dimensions, count, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    herr_t done = writes ? H5Dwrite(set, H5T_NATIVE_FLOAT, memory, space, transfer, data)
                         : H5Dread(set, H5T_NATIVE_FLOAT, memory, space, transfer, data);
    demand(done >= 0, writes ? "H5Dwrite" : "H5Dread");
    H5Sclose(memory);
    H5Sclose(space);
}

static void series(const char *name) {
    enum { STEPS = 64, ROWS = 512, COLUMNS = 512 };
    float *data = calloc((size_t)ROWS * COLUMNS, sizeof *data);
    hsize_t size[3] = {STEPS, ROWS, COLUMNS}, chunk[3] = {1, ROWS, COLUMNS}, place[3] = {0, 0, 0};
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), set = create(file, 3, size, chunk);
    for (place[0] = 0; place[0] < STEPS; place[0]++)
        move(set, 1, H5P_DEFAULT, place, chunk, 3, data);
    hsize_t one[3] = {STEPS, 1, 16};
    place[0] = 0;
    for (int i = 0; i < 40; i++) {
        place[1] = (hsize_t)(i * 37 % ROWS);
        place[2] = (hsize_t)(i * 101 % (COLUMNS / 16) * 16);
        move(set, 0, H5P_DEFAULT, place, one, 3, data);
    }
    H5Dclose(set);
    H5Fclose(file);
    free(data);
}

static void blocks(const char *name, hsize_t rows) {
    enum { COLUMNS = 4096 };
    hsize_t size[2] = {rows, COLUMNS}, chunk[2] = {1, COLUMNS}, count[2] = {rows, (hsize_t)(COLUMNS / ranks)};
    hsize_t place[2] = {0, count[1] * (hsize_t)rank};
    float *data = calloc(count[0] * count[1], sizeof *data);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
    demand(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0, "H5Pset_fapl_mpio");
    H5Pset_dxpl_mpio(transfer, H5FD_MPIO_INDEPENDENT);
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access), set = create(file, 2, size, chunk);
    move(set, 1, transfer, place, count, 2, data);
    H5Dclose(set);
    H5Fclose(file);
    free(data);
}

static void slices(const char *name) {
    enum { SIDE = 256, EDGE = 64 };
    hsize_t size[3] = {SIDE, SIDE, SIDE}, chunk[3] = {EDGE, EDGE, EDGE}, place[3] = {0, 0, 0};
    hsize_t plane[3] = {SIDE, SIDE, 1};
    float *data = calloc((size_t)SIDE * SIDE * EDGE, sizeof *data);
    if (access(name, R_OK)) {
        hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
              set = create(file, 3, size, chunk);
        hsize_t part[3] = {EDGE, SIDE, SIDE};
        for (; place[0] < SIDE; place[0] += EDGE)
            move(set, 1, H5P_DEFAULT, place, part, 3, data);
        H5Dclose(set);
        H5Fclose(file);
        return;
    }
    hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT), set = H5Dopen2(file, "field", H5P_DEFAULT);
    for (place[2] = 0; place[2] < SIDE / 4; place[2]++)
        move(set, 0, H5P_DEFAULT, place, plane, 3, data);
    H5Dclose(set);
    H5Fclose(file);
    free(data);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    demand(argc == 3 || argc == 4, "the arguments: FILE PATTERN [ROWS]");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double begin = MPI_Wtime(), spent, longest;
    int together = !strcmp(argv[2], "blocks");
    if (together)
        blocks(argv[1], argc == 4 ? strtoull(argv[3], NULL, 10) : 4096);
    else if (rank == 0)
        (strcmp(argv[2], "series") ? slices : series)(argv[1]);
    spent = MPI_Wtime() - begin;
    MPI_Reduce(&spent, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("seconds: %.4f\n", longest);
    MPI_Finalize();
    return 0;
}
