/* The repetitions: who does what when, and what of it is inside which time. */
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

struct batch {
    unsigned char *buffer;
    int64_t calls; /* that the buffer holds */
};

struct check {
    int64_t wrong, first_wrong;
    unsigned char expected;
};

int64_t benchmark_operations(const struct options *options) {
    return options->repetitions * ((options->write ? 1 : 0) + (options->read ? 1 : 0));
}

static void session_init(struct session *session, struct job *job, const struct options *options,
                         enum operation operation, int64_t repetition, int rank) {
    session->job = job;
    session->options = options;
    session->operation = operation;
    session->repetition = repetition;
    pattern_init(&session->pattern, options, rank);
    if (options->file_per_process)
        snprintf(session->path, sizeof session->path, "%s.%08d", options->file, rank);
    else
        snprintf(session->path, sizeof session->path, "%s", options->file);
}

static double phase_start(const struct job *job) {
    MPI_Barrier(MPI_COMM_WORLD);
    return job_now(job);
}

/*
 * The calls, a buffer's worth at a time. Making the data before a write and checking them after a read stand
 * between the timed stretches, behind a barrier, so that no rank waits inside a timed call for one that still
 * computes.
 */
static double access_phase(struct session *session, const struct backend *backend, void *handle,
                           const struct batch *batch, uint64_t key, struct check *check,
                           struct fault *fault) {
    const struct options *options = session->options;
    const struct geometry *geometry = &options->geometry;
    const bool writing = session->operation == OPERATION_WRITE;
    double elapsed = 0;
    for (int64_t first = 0; first < geometry->calls; first += batch->calls) {
        const int64_t left = geometry->calls - first;
        const int64_t calls = left < batch->calls ? left : batch->calls;
        const int64_t position = first * geometry->transfer, length = calls * geometry->transfer;
        if (backend->stores && writing)
            content_fill(&session->pattern, key, position, batch->buffer, length);
        else if (backend->stores)
            memset(batch->buffer, 0x5a,
                   (size_t)length); /* so that bytes never delivered are not taken for right */
        const double start = phase_start(session->job);
        for (int64_t i = 0; i < calls; i++) {
            unsigned char *at = backend->stores ? batch->buffer + i * geometry->transfer : NULL;
            /* After a fault a rank goes on with collective calls: the others would wait for it for ever. */
            if (fault->call[0] != '\0' && !options->collective)
                break;
            if (backend->transfer(session, handle, first + i, at, fault) != 0)
                fault_watch(fault, writing && !options->keep && !options->existing ? session->path : NULL);
        }
        elapsed += job_now(session->job) - start;
        if (check != NULL && fault->call[0] == '\0')
            check->wrong +=
                content_check(&session->pattern, key, position, batch->buffer, length, &check->first_wrong);
    }
    return job_max(elapsed);
}

/* 0, or -1 after a fault that all ranks know of and rank 0 has printed. */
static int run_session(struct session *session, const struct backend *backend, const struct batch *batch,
                       uint64_t key, struct check *check, struct measurement *measurement) {
    const struct job *job = session->job;
    struct fault fault = {.call = ""};
    void *handle = NULL;
    double start = phase_start(job);
    backend->open(session, &handle, &fault);
    measurement->open = job_max(job_now(job) - start);
    if (job_agree(job, &fault) != 0)
        return -1;
    measurement->access = access_phase(session, backend, handle, batch, key, check, &fault);
    int failed = job_agree(job, &fault);
    if (failed == 0 && session->operation == OPERATION_WRITE && session->options->fsync) {
        start = phase_start(job);
        backend->sync(session, handle, &fault);
        measurement->sync = job_max(job_now(job) - start);
        failed = job_agree(job, &fault);
    }
    start = phase_start(job);
    backend->close(session, handle, &fault);
    measurement->close = job_max(job_now(job) - start);
    if (failed == 0)
        failed = job_agree(job, &fault);
    measurement->total = measurement->open + measurement->access + measurement->sync + measurement->close;
    return failed;
}

/* Adds up the wrong bytes of all ranks; rank 0 says where the lowest rank with one saw its first. */
static void verdict(const struct session *session, const struct check *check,
                    struct measurement *measurement) {
    MPI_Allreduce(&check->wrong, &measurement->errors, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    measurement->verified = measurement->errors == 0;
    if (measurement->errors == 0)
        return;
    struct fault fault = {.call = ""};
    if (check->wrong > 0)
        fault_set(&fault, "verification", session->path, "%lld wrong bytes, the first at offset %lld",
                  (long long)check->wrong, (long long)check->first_wrong);
    job_agree(session->job, &fault);
}

static int run_operation(struct job *job, const struct options *options, const struct backend *backend,
                         const struct batch *batch, struct measurement *measurement) {
    const bool writing = measurement->operation == OPERATION_WRITE;
    const int rank = writing ? job->rank : (int)((job->rank + options->shift) % job->ranks);
    const uint64_t key = content_key(options->seed, options->file_per_process ? rank : 0);
    struct session session;
    struct check check = {.first_wrong = -1};
    const bool checking = backend->stores && !writing && !options->no_verify;
    session_init(&session, job, options, measurement->operation, measurement->repetition, rank);
    if (run_session(&session, backend, batch, key, checking ? &check : NULL, measurement) != 0)
        return -1;
    if (writing && backend->stores) {
        struct fault fault = {.call = ""};
        if (options->file_per_process || job->rank == 0)
            file_check_after(&session, &fault);
        if (job_agree(job, &fault) != 0)
            return -1;
    }
    measurement->bytes = options->geometry.rank_bytes * job->ranks;
    measurement->bandwidth =
        measurement->total > 0 ? (double)measurement->bytes / 1048576.0 / measurement->total : 0;
    measurement->verified = -1;
    if (checking)
        verdict(&session, &check, measurement);
    if (writing && options->verify_write && backend->stores) {
        struct measurement untimed = {0};
        session_init(&session, job, options, OPERATION_READ, measurement->repetition, rank);
        if (run_session(&session, backend, batch, key, &check, &untimed) != 0)
            return -1;
        verdict(&session, &check, measurement);
    }
    return 0;
}

/* Deletes the test file or, with a file per process, each rank its own. */
static int remove_files(struct job *job, const struct options *options, const struct backend *backend) {
    struct session session;
    struct fault fault = {.call = ""};
    session_init(&session, job, options, OPERATION_WRITE, 0, job->rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (options->file_per_process || job->rank == 0)
        backend->remove(session.path, &fault);
    return job_agree(job, &fault);
}

static int batch_allocate(const struct job *job, const struct options *options, const struct backend *backend,
                          struct batch *batch) {
    const struct geometry *geometry = &options->geometry;
    struct fault fault = {.call = ""};
    batch->buffer = NULL;
    batch->calls = backend->stores ? options->memory / geometry->transfer : geometry->calls;
    if (batch->calls < 1)
        batch->calls = 1;
    if (batch->calls > geometry->calls)
        batch->calls = geometry->calls;
    if (backend->stores) {
        const size_t page = 4096, bytes = (size_t)(batch->calls * geometry->transfer);
        batch->buffer =
            bytes <= SIZE_MAX - page ? aligned_alloc(page, (bytes + page - 1) / page * page) : NULL;
        if (batch->buffer == NULL)
            fault_set(&fault, "aligned_alloc", "the I/O buffer",
                      "no memory for %zu bytes; choose a smaller --transfer", bytes);
    }
    return job_agree(job, &fault);
}

int benchmark_run(struct job *job, const struct options *options, const struct backend *backend,
                  struct measurement *measurements, void (*emit)(const struct measurement *)) {
    struct batch batch;
    int failed = batch_allocate(job, options, backend, &batch);
    int64_t done = 0;
    bool wrote = false;
    for (int64_t repetition = 0; repetition < options->repetitions && failed == 0; repetition++) {
        for (int operation = OPERATION_WRITE; operation <= OPERATION_READ && failed == 0; operation++) {
            if (operation == OPERATION_WRITE ? !options->write : !options->read)
                continue;
            struct measurement *measurement = &measurements[done];
            memset(measurement, 0, sizeof *measurement);
            measurement->repetition = repetition;
            measurement->operation = operation;
            if (operation == OPERATION_WRITE && !options->existing)
                failed = remove_files(job, options, backend);
            wrote = wrote || operation == OPERATION_WRITE;
            if (failed == 0)
                failed = run_operation(job, options, backend, &batch, measurement);
            if (failed == 0) {
                done++;
                if (job->rank == 0 && emit != NULL)
                    emit(measurement);
            }
        }
    }
    if (wrote && !options->keep && !options->existing && remove_files(job, options, backend) != 0)
        failed = -1;
    free(batch.buffer);
    return failed;
}
