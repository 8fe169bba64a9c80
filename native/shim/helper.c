/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "helper.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "arena.h"

#define STACK (512 << 10) /* at least: with a small limit of the stack threads get as little */

enum { NEVER_STARTED, STARTING, RUNS, ENDED };

static atomic_int state;
static atomic_bool ending;
static pthread_t thread;
static pid_t process;
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

static bool close_all_but_stderr(void) {
    DIR *folder = opendir("/proc/thread-self/fd");
    const struct dirent *entry;
    if (!folder)
        return false;
    while ((entry = readdir(folder))) {
        char *end;
        long fd = strtol(entry->d_name, &end, 10);
        if (!*end && fd != STDERR_FILENO && fd != dirfd(folder))
            syscall(SYS_close, fd); /* not by its name: no table of the program's descriptors is meant */
    }
    closedir(folder);
    return true;
}

/* A table of descriptors of its own: a file that this thread opens takes no number that the program counts
 * on, and a program that closes all descriptors, and opens others, closes none of it. Nothing that the
 * program closes stays open here, but where complaints go. */
static bool keep_descriptors_apart(void) {
    return unshare(CLONE_FILES) == 0 && close_all_but_stderr();
}

static void *live(void *none) {
    bool apart = keep_descriptors_apart();
    atomic_store(&state, apart ? RUNS : ENDED);
    if (!apart)
        return none;
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
    /* A child that was made by a system call alone has no such thread. */
    if (atomic_load(&state) != RUNS || getpid() != process || atomic_exchange(&ending, true))
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

static bool create(void) {
    pthread_attr_t attributes;
    size_t stack = 0;
    sigset_t all, own;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    if (pthread_attr_getstacksize(&attributes, &stack) == 0 && stack < STACK)
        pthread_attr_setstacksize(&attributes, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &own);
    bool created = pthread_create(&thread, &attributes, live, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &own, NULL);
    pthread_attr_destroy(&attributes);
    return created;
}

bool sw_helper_start(sw_helper_work *wanted) {
    int found = NEVER_STARTED;
    if (atomic_compare_exchange_strong(&state, &found, STARTING)) {
        work = wanted;
        process = getpid();
        if (sem_init(&bell, 0, 0) != 0 || pthread_atfork(NULL, NULL, in_child) != 0 || atexit(at_exit) != 0 ||
            !create())
            atomic_store(&state, ENDED);
    }
    while (atomic_load(&state) == STARTING)
        sched_yield();
    return atomic_load(&state) == RUNS;
}

void sw_helper_ring(void) {
    if (atomic_load(&state) == RUNS)
        sem_post(&bell);
}
