/* SPDX-License-Identifier: BSD-3-Clause
 * Ends of a process that run no destructors, and what forbids it to ask for the time. */
#define _GNU_SOURCE
#include "calls.h"
#include "process.h"

#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXITS(NAME)                                                                                          \
    EXPORT void NAME(int code) {                                                                             \
        finish();                                                                                            \
        for (;;)                                                                                             \
            syscall(SYS_exit_group, code);                                                                   \
    }

EXITS(_exit)
EXITS(_Exit)

/* In strict mode any call but four ends the process, and so does reading the processor's counter. */
EXPORT int prctl(int option, ...) {
    NEXT("prctl", int, int, ...)
    unsigned long given[4];
    va_list rest;
    va_start(rest, option);
    for (int i = 0; i < 4; i++)
        given[i] = va_arg(rest, unsigned long);
    va_end(rest);
    if ((option == PR_SET_SECCOMP && given[0] == SECCOMP_MODE_STRICT) ||
        (option == PR_SET_TSC && given[0] == PR_TSC_SIGSEGV))
        stop();
    return next(option, given[0], given[1], given[2], given[3]);
}
