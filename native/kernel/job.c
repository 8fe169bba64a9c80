/* The processes together: their clock, and how they agree on a fault so that none waits for one that gave up.
 */
#include "kernel.h"

#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE 5 /* seconds a rank with a fault waits for the others before it ends the job */

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
            *c = c[1] == '\0' ? '\0' : ' ';
    return -1;
}

/*
 * The watch over a rank with a fault. ROMIO (seen in MPICH 5.0.2) keeps the file locked when the write of a
 * data sieving block fails, and the other ranks then wait inside their writes for a lock that only the end of
 * this process, or its close, would release. What the handler needs is prepared before it is armed.
 */
static char watch_text[TEXT_MAX + REASON_MAX + 256];
static char watch_leftover[TEXT_MAX];

static void watch_ring(int signal_number) {
    (void)signal_number;
    if (write(STDERR_FILENO, watch_text, strlen(watch_text)) >= 0 && watch_leftover[0] != '\0')
        unlink(watch_leftover);
    _exit(EXIT_FAILED);
}

void fault_watch(const struct fault *fault, const char *leftover) {
    if (watch_text[0] != '\0')
        return;
    snprintf(watch_text, sizeof watch_text,
             KERNEL_NAME ": error: %s of %s: %s (ended the job: the other ranks did not return)\n",
             fault->call, fault->path, fault->reason);
    snprintf(watch_leftover, sizeof watch_leftover, "%s", leftover != NULL ? leftover : "");
    struct sigaction action = {.sa_handler = watch_ring};
    sigaction(SIGALRM, &action, NULL);
    alarm(PATIENCE);
}

int job_agree(const struct job *job, const struct fault *fault) {
    int mine[2] = {fault->call[0] != '\0' ? job->rank : INT_MAX, fault->call[0] != '\0'};
    int lowest, faulty;
    MPI_Allreduce(&mine[0], &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    alarm(0);
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
