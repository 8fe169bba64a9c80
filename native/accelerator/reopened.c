/* SPDX-License-Identifier: BSD-3-Clause
 * Descriptors of our own for files that the program has open. By system calls: those of the C library are
 * counted as the program's. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../observer/creating.h"
#include "accelerator.h"

#define TRIES 1000 /* a handler of signals may have interrupted the one that is waited for */

static atomic_bool locks;
static atomic_int closing_now;

bool may_reopen(void) {
    return !atomic_load(&locks);
}

int reopen(int fd, int flags) {
    char link[40];
    link_of(fd, link);
    return (int)syscall(SYS_openat, AT_FDCWD, link, flags | O_CLOEXEC);
}

void close_reopened(int fd) {
    atomic_fetch_add(&closing_now, 1);
    if (!atomic_load(&locks))
        syscall(SYS_close, fd);
    atomic_fetch_sub(&closing_now, 1);
}

void before_lock(void) {
    atomic_store(&locks, true);
    for (int i = 0; i < TRIES && atomic_load(&closing_now); i++)
        sched_yield();
}

void leave_reopened(void) {
    atomic_store(&closing_now, 0);
}
