/* How long a pread of 4 KiB from memory takes: prints nanoseconds a call, the median of batches.
 *     pread FILE BATCHES CALLS */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 4096 };

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    static char data[SIZE];
    long batches = strtol(argv[2], NULL, 10), calls = strtol(argv[3], NULL, 10);
    double *spent = calloc((size_t)batches, sizeof *spent);
    int file = open(argv[1], O_RDWR | O_CREAT, 0644);
    if (!spent || file < 0 || pwrite(file, data, SIZE, 0) != SIZE)
        return 1;
    for (long batch = 0; batch < batches; batch++) {
        double began = now();
        for (long i = 0; i < calls; i++)
            if (pread(file, data, SIZE, 0) != SIZE)
                return 1;
        spent[batch] = (now() - began) / (double)calls;
    }
    qsort(spent, (size_t)batches, sizeof *spent, by_value);
    printf("%.2f\n", spent[batches / 2]);
    return 0;
}
