/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "helper.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "arena.h"

enum { NEVER_STARTED, STARTING, RUNS, ENDED };

static atomic_int state;
static atomic_bool ending;
static pthread_t thread;
static sem_t bell; /* may be rung from a handler of signals, as exit may be called there */
static sw_helper_work *work;

static void sleep_until_rung(int64_t nanoseconds) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    nanoseconds += end.tv_nsec;
    end.tv_sec += (time_t)(nanoseconds / 1000000000);
    end.tv_nsec = (long)(nanoseconds % 1000000000);
    while (sem_timedwait(&bell, &end) != 0 && errno == EINTR) {
    }
    while (sem_trywait(&bell) == 0) {
    }
}

static void *live(void *none) {
    for (;;) {
        bool last = atomic_load(&ending);
        int64_t pause = work(last);
        if (last)
            return none;
        sleep_until_rung(pause);
    }
}

/* A forked child has no such thread. */
static void in_child(void) {
    atomic_store(&state, ENDED);
}

void sw_helper_end(void) {
    struct timespec most;
    if (atomic_load(&state) != RUNS || atomic_exchange(&ending, true))
        return;
    sem_post(&bell);
    if (sw_lock_is_impatient()) { /* this thread may hold what the helper waits for */
        clock_gettime(CLOCK_REALTIME, &most);
        most.tv_sec += 10;
        pthread_timedjoin_np(thread, NULL, &most);
    } else {
        pthread_join(thread, NULL);
    }
    atomic_store(&state, ENDED);
}

/* Without MPI_Finalize. A signal may have come while this very thread held a lock. */
static void at_exit(void) {
    if (atomic_load(&state) != RUNS)
        return;
    sw_lock_be_impatient();
    sw_helper_end();
}

bool sw_helper_start(sw_helper_work *wanted) {
    int found = NEVER_STARTED;
    sigset_t all, own;
    if (!atomic_compare_exchange_strong(&state, &found, STARTING)) {
        while (atomic_load(&state) == STARTING) /* by another thread */
            sched_yield();
        return atomic_load(&state) == RUNS;
    }
    work = wanted;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &own);
    bool runs = sem_init(&bell, 0, 0) == 0 && pthread_atfork(NULL, NULL, in_child) == 0 &&
                pthread_create(&thread, NULL, live, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &own, NULL);
    atomic_store(&state, runs ? RUNS : ENDED);
    if (runs)
        atexit(at_exit);
    return runs;
}

void sw_helper_ring(void) {
    if (atomic_load(&state) == RUNS)
        sem_post(&bell);
}
