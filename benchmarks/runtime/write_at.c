/* SPDX-License-Identifier: BSD-3-Clause
 * write_at FILE BYTES CALLS: the time of MPI_File_write_at on a file that stays small and, where FILE lies in
 * memory, costs no more than copying; so that what a preloaded library adds is seen. Prints nanoseconds a
 * call: the median and the mean over batches, and that of the fastest batch, which is short enough to be
 * undisturbed now and then where other programs run. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCHES 500
#define FILE_BYTES (16L << 20)

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    long bytes = argc > 2 ? atol(argv[2]) : 4096, calls = (argc > 3 ? atol(argv[3]) : 100000) / BATCHES,
         slots = FILE_BYTES / bytes;
    if (argc < 2 || bytes < 1 || calls < 1 || slots < 1) {
        fprintf(stderr, "usage: write_at FILE BYTES CALLS, at least %d calls of at most %ld bytes\n", BATCHES,
                FILE_BYTES);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    char *data = malloc((size_t)bytes);
    MPI_File file;
    if (!data || MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL,
                               &file) != MPI_SUCCESS) {
        fprintf(stderr, "cannot open %s\n", argv[1]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (long i = 0; i < bytes; i++)
        data[i] = (char)i;
    for (long i = 0; i < slots; i++) /* the file's pages exist before the clock runs */
        MPI_File_write_at(file, i * bytes, data, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    double times[BATCHES], sum = 0;
    for (int batch = 0; batch < BATCHES; batch++) {
        double start = now();
        for (long i = 0; i < calls; i++)
            MPI_File_write_at(file, i % slots * bytes, data, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE);
        times[batch] = (now() - start) / (double)calls;
        sum += times[batch];
    }
    MPI_File_close(&file);
    qsort(times, BATCHES, sizeof *times, compare);
    printf("{\"median\": %.3f, \"mean\": %.3f, \"fastest\": %.3f}\n",
           (times[BATCHES / 2 - 1] + times[BATCHES / 2]) / 2, sum / BATCHES, times[0]);
    free(data);
    MPI_Finalize();
    return 0;
}
