/* SPDX-License-Identifier: BSD-3-Clause
 * Record locks, which a process loses with any descriptor of the file that it closes. */
#define _GNU_SOURCE
#include "acts.h"
#include "calls.h"

#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

static void about_to_lock(void) {
    const struct acts *by = acting();
    if (by)
        by->before_lock();
}

#define COMMANDS(NAME)                                                                                       \
    EXPORT int NAME(int fd, int command, ...) {                                                              \
        NEXT(#NAME, int, int, int, ...)                                                                      \
        IF_THERE                                                                                             \
        va_list rest;                                                                                        \
        va_start(rest, command);                                                                             \
        void *argument = va_arg(rest, void *);                                                               \
        va_end(rest);                                                                                        \
        if (command == F_SETLK || command == F_SETLKW)                                                       \
            about_to_lock();                                                                                 \
        return next(fd, command, argument);                                                                  \
    }

#undef fcntl
COMMANDS(fcntl)
COMMANDS(fcntl64)

#define LOCKS(NAME, OFFSET)                                                                                  \
    EXPORT int NAME(int fd, int command, OFFSET size) {                                                      \
        NEXT(#NAME, int, int, int, OFFSET)                                                                   \
        about_to_lock();                                                                                     \
        return next(fd, command, size);                                                                      \
    }

LOCKS(lockf, off_t)
LOCKS(lockf64, off64_t)
