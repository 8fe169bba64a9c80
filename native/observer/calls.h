/* SPDX-License-Identifier: BSD-3-Clause
 * How a call of the C library is taken the place of, and the real one found. */
#ifndef STRIPEWISE_CALLS_H
#define STRIPEWISE_CALLS_H

/* Or headers of the C library define some of the calls themselves. */
#undef _FORTIFY_SOURCE
#ifndef __NO_INLINE__
#define __NO_INLINE__ 1
#endif
#include <errno.h>
#include <stdatomic.h>

#include "counting.h"

#define EXPORT __attribute__((visibility("default")))

/* A call whose place is taken, and the real one behind it; all of them lie one behind the other in a section
 * of the library. */
struct call {
    const char *name;
    _Atomic(void *) next;
};

#pragma GCC visibility push(hidden)

/* Finds the real one again: constructors of other libraries may make calls before ours, and libraries may be
 * loaded later. NULL if there is none. */
void *find_next(struct call *call);

#pragma GCC visibility pop

#define NEXT(NAME, RESULT, ...)                                                                              \
    static struct call call __attribute__((section("stripewise_calls"), used)) = {NAME, NULL};               \
    void *known = atomic_load_explicit(&call.next, memory_order_relaxed);                                    \
    RESULT (*next)(__VA_ARGS__) = (RESULT (*)(__VA_ARGS__))(known ? known : find_next(&call));

/* Of newer calls: programs look them up, find these, and then do without them. */
#define IF_THERE                                                                                             \
    if (!next) {                                                                                             \
        errno = ENOSYS;                                                                                      \
        return -1;                                                                                           \
    }

#define TYPES(...) __VA_ARGS__

#endif
