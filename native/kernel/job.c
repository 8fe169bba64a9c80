/* The processes together: their clock, and how they agree on a fault so that none waits for one that gave up.
 */
#include "kernel.h"

#include <limits.h>
#include <stdarg.h>
#include <string.h>

void job_init(struct job *job) {
    memset(job, 0, sizeof *job);
    MPI_Comm_rank(MPI_COMM_WORLD, &job->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job->ranks);
    MPI_Comm node;
    int node_rank;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &node_rank);
    MPI_Comm_free(&node);
    int leader = node_rank == 0;
    MPI_Allreduce(&leader, &job->nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

double job_now(const struct job *job) {
    return job->virtual_time ? job->virtual_now : MPI_Wtime();
}

double job_max(double value) {
    double largest;
    MPI_Allreduce(&value, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return largest;
}

/* Keeps the first fault of several; folds a library's many lines into one. */
int fault_set(struct fault *fault, const char *call, const char *path, const char *format, ...) {
    if (fault->call[0] != '\0')
        return -1;
    snprintf(fault->call, sizeof fault->call, "%s", call);
    snprintf(fault->path, sizeof fault->path, "%s", path);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->reason, sizeof fault->reason, format, arguments);
    va_end(arguments);
    for (char *c = fault->reason; *c != '\0'; c++)
        if (*c == '\n' || *c == '\r')
            *c = c[1] == '\0' ? '\0' : ';';
    return -1;
}

int job_agree(const struct job *job, const struct fault *fault) {
    int mine[2] = {fault->call[0] != '\0' ? job->rank : INT_MAX, fault->call[0] != '\0'};
    int lowest, faulty;
    MPI_Allreduce(&mine[0], &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (lowest == INT_MAX)
        return 0;
    MPI_Allreduce(&mine[1], &faulty, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    struct fault first = *fault;
    MPI_Bcast(&first, sizeof first, MPI_BYTE, lowest, MPI_COMM_WORLD);
    if (job->rank == 0) {
        fprintf(stderr, KERNEL_NAME ": error: rank %d: %s of %s: %s", lowest, first.call, first.path,
                first.reason);
        if (faulty > 1)
            fprintf(stderr, " (and %d other ranks)", faulty - 1);
        fputc('\n', stderr);
    }
    return -1;
}
