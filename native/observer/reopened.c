/* SPDX-License-Identifier: BSD-3-Clause
 * Descriptors of our own for files that the program has open. By system calls: those of the C library are
 * counted as the program's. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "part.h"
#include "reopened.h"

#define TRIES 1000 /* a handler of signals may have interrupted the one that is waited for */

static atomic_bool locks;
static atomic_int closing_now;

bool lies_on(int fd, const uint32_t *magic, size_t count) {
    struct statfs about;
    if (fstatfs(fd, &about) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if ((uint32_t)about.f_type == magic[i])
            return true;
    return false;
}

bool may_reopen(void) {
    return !atomic_load(&locks);
}

int reopen(int fd, int flags) {
    char link[40] = "/proc/self/fd/";
    link[14 + decimal(link + 14, (uint64_t)fd)] = '\0';
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
