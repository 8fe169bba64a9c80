/* SPDX-License-Identifier: BSD-3-Clause
 * How counting begins and ends in a process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acts.h"
#include "caller.h"
#include "counting.h"
#include "creating.h"
#include "places.h"
#include "requests.h"
#include "thread_calls.h"

/* A child has descriptors of its own, and a part of its own as soon as it does something. */
static void in_child(void) {
    const struct acts *by = acting();
    if (by)
        by->in_child();
    leave_part();
    leave_calls();
    self = getpid();
    begin_process();
    forget_all(0, DESCRIPTORS);
}

/* pthread_atfork of glibc is a piece of this library that needs glibc's __register_atfork, which musl lacks.
 * Programs linked to musl are to start, too, when this library is preloaded: they have pthread_atfork. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *) /* NOLINT */
    __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden"))); /* NOLINT */

static void tell_children(void) {
    if (__register_atfork) {
        (void)__register_atfork(NULL, NULL, in_child, (void *)&__dso_handle);
        return;
    }
    int (*const at_fork)(void (*)(void), void (*)(void), void (*)(void)) =
        (int (*)(void (*)(void), void (*)(void), void (*)(void)))dlsym(RTLD_DEFAULT, "pthread_atfork");
    if (at_fork)
        (void)at_fork(NULL, NULL, in_child);
}

static int number(const char *const *names) {
    for (; *names; names++) {
        const char *text = getenv(*names);
        if (text && *text >= '0' && *text <= '9')
            return (int)strtol(text, NULL, 10);
    }
    return -1;
}

/* Variables are read here: later, another thread may be changing them. A setuid program, into which only the
 * site can load the library, does not let its user choose where a file is made. */
__attribute__((constructor)) static void begin(void) {
    const char *given = secure_getenv("STRIPEWISE_PROCESSES");
    size_t length = given ? strlen(given) : 0;
    if (!given || *given != '/' || length >= sizeof prefix)
        return;
    self = getpid();
    /* Below srun or mpiexec, all workers of one torchrun have that launcher's rank. */
    const int torchrun = getenv("TORCHELASTIC_RUN_ID") != NULL;
    rank = number((const char *[]){torchrun ? "RANK" : "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                   "SLURM_PROCID", "FLUX_TASK_RANK", "PALS_RANKID", "RANK", NULL});
    ranks = number((const char *[]){torchrun ? "WORLD_SIZE" : "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                    "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "WORLD_SIZE", NULL});
    start_clock();
    begin_process();
    find_runtime();
    read_layouts_told();
    begin_places();
    begin_requests();
    begin_calls();
    atomic_store(&acts, read_acts());
    tell_children();
    /* Threads of other libraries may be there: they begin to count when all else is ready. */
    for (size_t at = 1; at <= length; at++)
        prefix[at] = given[at];
    atomic_thread_fence(memory_order_release);
    *prefix = '/';
}

__attribute__((destructor)) void finish(void) {
    struct part *in = atomic_load(&part);
    if (in && getpid() == self)
        put(&in->end, now());
}

void stop(void) {
    finish();
    atomic_store(&acts, NULL);
    *prefix = '\0';
}
