/*
 * Dummy: no I/O, only delays, the same for the same (seed, rank, repetition, options). A call of the job's
 * share takes latency + bytes / bandwidth, times log-normal noise with median 1: one draw for the whole job
 * in a repetition and operation (the machine's mood), one more for each rank if asked.
 */
#include "kernel.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum draw { DRAW_JOB_NOISE = 1, DRAW_RANK_NOISE = 2, DRAW_FAILURE = 3 };

struct dummy_file {
    double latency, transfer; /* seconds, noise included */
    struct timespec due;      /* when the delays so far are over */
    bool fails;
};

/* Uniform in (0, 1), a function of its arguments alone. */
static double uniform(const struct session *session, enum draw draw, int64_t rank, uint64_t index) {
    uint64_t bits = session->options->dummy.key;
    const uint64_t parts[] = {draw, (uint64_t)session->repetition, session->operation, (uint64_t)rank, index};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        bits = mix64(bits ^ mix64(parts[i] + UINT64_C(0x9e3779b97f4a7c15)));
    return ((double)(bits >> 11) + 0.5) / 9007199254740992.0;
}

/* exp(sigma z) with z standard normal (Box and Muller). */
static double log_normal(const struct session *session, enum draw draw, int64_t rank, double sigma) {
    const double pi = 3.14159265358979323846;
    const double radius = sqrt(-2 * log(uniform(session, draw, rank, 0)));
    return exp(sigma * radius * cos(2 * pi * uniform(session, draw, rank, 1)));
}

/* Delays add up to an absolute due time, so that short ones are not lengthened by the sleep's granularity. */
static void delay(struct session *session, struct dummy_file *file, double seconds, bool settle) {
    if (session->job->virtual_time) {
        session->job->virtual_now += seconds;
        return;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec > file->due.tv_sec || (now.tv_sec == file->due.tv_sec && now.tv_nsec > file->due.tv_nsec))
        file->due = now;
    const double whole = floor(seconds);
    file->due.tv_sec += (time_t)whole;
    file->due.tv_nsec += (long)((seconds - whole) * 1e9);
    if (file->due.tv_nsec >= 1000000000L) {
        file->due.tv_sec++;
        file->due.tv_nsec -= 1000000000L;
    }
    const double ahead =
        (double)(file->due.tv_sec - now.tv_sec) + (double)(file->due.tv_nsec - now.tv_nsec) * 1e-9;
    if (settle || ahead > 1e-3)
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &file->due, NULL) != 0)
            continue;
}

static int dummy_open(struct session *session, void **handle, struct fault *fault) {
    const struct dummy_options *dummy = &session->options->dummy;
    const struct geometry *geometry = &session->options->geometry;
    struct dummy_file *file = calloc(1, sizeof *file);
    if (file == NULL)
        return fault_set(fault, "malloc", session->path, "out of memory");
    const double noise = log_normal(session, DRAW_JOB_NOISE, 0, dummy->noise) *
                         log_normal(session, DRAW_RANK_NOISE, session->job->rank, dummy->rank_noise);
    const double rank_bandwidth = dummy->bandwidth * dummy->factor * 1048576.0 / session->job->ranks;
    file->latency = dummy->latency * noise;
    file->transfer = file->latency + (double)geometry->transfer / rank_bandwidth * noise;
    /* One rank fails, as a real fault would have it. */
    const int64_t culprit = (int64_t)(uniform(session, DRAW_FAILURE, 0, 1) * session->job->ranks);
    const bool unlucky = dummy->fails || uniform(session, DRAW_FAILURE, 0, 0) < dummy->fail_probability;
    file->fails = unlucky && culprit == session->job->rank;
    clock_gettime(CLOCK_MONOTONIC, &file->due);
    *handle = file;
    delay(session, file, file->latency, true);
    return 0;
}

static int dummy_transfer(struct session *session, void *handle, int64_t call, void *buffer,
                          struct fault *fault) {
    struct dummy_file *file = handle;
    (void)buffer;
    while (session->options->dummy.hangs)
        pause();
    if (file->fails)
        return fault_set(fault, session->operation == OPERATION_WRITE ? "dummy write" : "dummy read",
                         session->path, "injected failure in call %lld", (long long)call);
    delay(session, file, file->transfer, call == session->options->geometry.calls - 1);
    return 0;
}

static int dummy_sync(struct session *session, void *handle, struct fault *fault) {
    struct dummy_file *file = handle;
    (void)fault;
    delay(session, file, file->latency, true);
    return 0;
}

static int dummy_close(struct session *session, void *handle, struct fault *fault) {
    struct dummy_file *file = handle;
    (void)fault;
    delay(session, file, file->latency, true);
    free(file);
    return 0;
}

static int dummy_remove(const char *path, struct fault *fault) {
    (void)path;
    (void)fault;
    return 0;
}

const struct backend backend_dummy = {
    .name = "dummy",
    .collective = true,
    .stores = false,
    .open = dummy_open,
    .transfer = dummy_transfer,
    .sync = dummy_sync,
    .close = dummy_close,
    .remove = dummy_remove,
};
