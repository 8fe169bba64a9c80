/* SPDX-License-Identifier: BSD-3-Clause
 * Record locks, which a process loses with any descriptor of the file that it closes (reopened.h). */
#define _GNU_SOURCE
#include "calls.h"
#include "reopened.h"

#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#define COMMANDS(NAME)                                                                                       \
    EXPORT int NAME(int fd, int command, ...) {                                                              \
        NEXT(#NAME, int, int, int, ...)                                                                      \
        IF_THERE                                                                                             \
        va_list rest;                                                                                        \
        va_start(rest, command);                                                                             \
        void *argument = va_arg(rest, void *);                                                               \
        va_end(rest);                                                                                        \
        if (command == F_SETLK || command == F_SETLKW)                                                       \
            before_lock();                                                                                   \
        return next(fd, command, argument);                                                                  \
    }

#undef fcntl
COMMANDS(fcntl)
COMMANDS(fcntl64)

#define LOCKS(NAME, OFFSET)                                                                                  \
    EXPORT int NAME(int fd, int command, OFFSET size) {                                                      \
        NEXT(#NAME, int, int, int, OFFSET)                                                                   \
        before_lock();                                                                                       \
        return next(fd, command, size);                                                                      \
    }

LOCKS(lockf, off_t)
LOCKS(lockf64, off64_t)
