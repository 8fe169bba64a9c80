/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes files: opens PREFIX COUNT [MILLISECONDS], with a pause before each open. Each rank writes
 * 64 bytes, so that each open to close is a phase. The names of the files repeat after ten. Prints the
 * processor seconds that the main thread of rank 0 takes for each phase. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double used(void) {
    struct timespec clock;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &clock);
    return (double)clock.tv_sec + (double)clock.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, count = argc > 2 ? atoi(argv[2]) : 0, pause = argc > 3 ? atoi(argv[3]) : 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!count)
        MPI_Abort(MPI_COMM_WORLD, 2);
    char data[64] = {0}, path[4096];
    double start = used();
    for (int number = 0; number < count; number++) {
        MPI_File file;
        usleep((useconds_t)pause * 1000);
        snprintf(path, sizeof path, "%s.%04d", argv[1], number % 10);
        if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file))
            MPI_Abort(MPI_COMM_WORLD, 9);
        MPI_File_write_at(file, (MPI_Offset)rank * 64, data, 64, MPI_BYTE, MPI_STATUS_IGNORE);
        MPI_File_close(&file);
    }
    if (rank == 0)
        printf("%.9f\n", (used() - start) / count);
    MPI_Finalize();
    return 0;
}
