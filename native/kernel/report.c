/* The human table, and the statistics both outputs share. */
#include "kernel.h"

#include <inttypes.h>
#include <stdlib.h>

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Of the bandwidths of one operation; returns how many there are (0: the statistics are untouched, -1: no
 * memory). */
int64_t statistics_of(const struct measurement *list, int64_t count, enum operation operation,
                      struct statistics *statistics) {
    double *values = malloc((size_t)(count > 0 ? count : 1) * sizeof *values);
    if (values == NULL)
        return -1;
    int64_t found = 0;
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        if (list[i].operation == operation) {
            values[found++] = list[i].bandwidth;
            sum += list[i].bandwidth;
        }
    if (found > 0) {
        qsort(values, (size_t)found, sizeof *values, by_value);
        statistics->min = values[0];
        statistics->max = values[found - 1];
        statistics->mean = sum / (double)found;
        statistics->median = (values[(found - 1) / 2] + values[found / 2]) / 2;
    }
    free(values);
    return found;
}

void report_head(const struct job *job, const struct options *options) {
    const struct geometry *geometry = &options->geometry;
    printf(KERNEL_NAME " " STRIPEWISE_VERSION ": %s%s, %d ranks on %d node%s\n", options->api,
           options->collective ? " collective" : "", job->ranks, job->nodes, job->nodes == 1 ? "" : "s");
    printf("layout %s%s: transfer %" PRId64 ", block %" PRId64 ", segments %" PRId64,
           layout_name(geometry->layout), options->file_per_process ? ", a file per process" : "",
           geometry->transfer, geometry->block, geometry->segments);
    if (geometry->layout == LAYOUT_STRIDED)
        printf(", piece %" PRId64, geometry->piece);
    if (geometry->layout == LAYOUT_TILE)
        printf("\ntiles %" PRId64 " x %" PRId64 " of %" PRId64 " x %" PRId64 " elements of %" PRId64
               " bytes, overlap %" PRId64 " x %" PRId64,
               geometry->tile.tiles_x, geometry->tile.tiles_y, geometry->tile.size_x, geometry->tile.size_y,
               geometry->tile.element, geometry->tile.overlap_x, geometry->tile.overlap_y);
    putchar('\n');
    if (options->resolution[0] != '\0')
        printf("size: %s\n", options->resolution);
    printf("\n%4s %-9s %12s %12s %12s %12s %12s %12s  %s\n", "rep", "operation", "MiB/s", "open s",
           "access s", "sync s", "close s", "total s", "verified");
    fflush(stdout);
}

void report_line(const struct measurement *m) {
    printf("%4" PRId64 " %-9s %12.3f %12.6f %12.6f %12.6f %12.6f %12.6f  %s\n", m->repetition,
           m->operation == OPERATION_WRITE ? "write" : "read", m->bandwidth, m->open, m->access, m->sync,
           m->close, m->total,
           m->verified < 0    ? "-"
           : m->verified == 1 ? "yes"
                              : "NO");
    fflush(stdout);
}

void report_summary(const struct measurement *list, int64_t count) {
    static const char *const names[] = {"write", "read"};
    putchar('\n');
    for (int operation = OPERATION_WRITE; operation <= OPERATION_READ; operation++) {
        struct statistics statistics;
        if (statistics_of(list, count, operation, &statistics) > 0)
            printf("%s bandwidth: %.3f MiB/s\n", names[operation], statistics.median);
    }
}
