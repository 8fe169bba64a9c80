/* hdf5_field FILE STEPS VALUES: ranks write a smooth field with noise collectively, one dataset of doubles
 * per step.
 *
 * Each rank writes VALUES numbers per step. Prints the seconds of creating, writing and closing. With
 * FIELD_ACCURACY, the file is read back afterwards, outside the time, and no number may be further off. */
#include <hdf5.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void demand(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s failed\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static double value(hsize_t place, int step) {
    unsigned noise = (unsigned)(place * 2654435761u + 97u * (unsigned)step);
    noise ^= noise >> 15;
    return 300 + 20 * sin(1e-5 * (double)place + step) + 1e-5 * (double)(noise % 1000);
}

int main(int count, char **words) {
    int rank, ranks;
    MPI_Init(&count, &words);
    demand(count == 4, "usage: hdf5_field FILE STEPS VALUES, which");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int steps = atoi(words[2]);
    hsize_t own = strtoull(words[3], NULL, 10), all = own * (hsize_t)ranks, start = own * (hsize_t)rank;
    double *data = malloc(own * sizeof *data), worst = 0;
    const char *allowed = getenv("FIELD_ACCURACY");
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    hid_t space = H5Screate_simple(1, &all, NULL), memory = H5Screate_simple(1, &own, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &own, NULL);
    double seconds = -MPI_Wtime();
    for (int reading = 0; reading < (allowed ? 2 : 1); reading++) {
        hid_t file = reading ? H5Fopen(words[1], H5F_ACC_RDONLY, access)
                             : H5Fcreate(words[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
        demand(file >= 0, "opening the file");
        for (int step = 0; step < steps; step++) {
            char name[32];
            snprintf(name, sizeof name, "step_%d", step);
            hid_t set = reading ? H5Dopen2(file, name, H5P_DEFAULT)
                                : H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT,
                                             H5P_DEFAULT);
            demand(set >= 0, "opening the dataset");
            for (hsize_t i = 0; !reading && i < own; i++)
                data[i] = value(start + i, step);
            demand((reading ? H5Dread(set, H5T_NATIVE_DOUBLE, memory, space, transfer, data)
                            : H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, transfer, data)) >= 0,
                   "moving data");
            for (hsize_t i = 0; reading && i < own; i++)
                worst = fmax(worst, fabs(data[i] - value(start + i, step)));
            H5Dclose(set);
        }
        H5Fclose(file);
        if (!reading)
            seconds += MPI_Wtime();
    }
    MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    demand(worst <= (allowed ? atof(allowed) : 0), "accuracy: reading what was written");
    if (rank == 0)
        printf("seconds: %.4f, worst error: %.6g\n", seconds, worst);
    MPI_Finalize();
    return 0;
}
