/* SPDX-License-Identifier: BSD-3-Clause
 * How a call of the C library is taken the place of, and the real one found. */
#ifndef STRIPEWISE_CALLS_H
#define STRIPEWISE_CALLS_H

/* Or headers of the C library define some of the calls themselves. */
#undef _FORTIFY_SOURCE
#ifndef __NO_INLINE__
#define __NO_INLINE__ 1
#endif
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>

#include "counting.h"

#define EXPORT __attribute__((visibility("default")))

#define NEXT(NAME, RESULT, ...)                                                                              \
    static RESULT (*_Atomic found)(__VA_ARGS__);                                                             \
    RESULT (*next)(__VA_ARGS__) = atomic_load_explicit(&found, memory_order_relaxed);                        \
    if (!next) {                                                                                             \
        next = (RESULT (*)(__VA_ARGS__))dlsym(RTLD_NEXT, NAME);                                              \
        atomic_store_explicit(&found, next, memory_order_relaxed);                                           \
    }

/* Of newer calls: programs look them up, find these, and then do without them. */
#define IF_THERE                                                                                             \
    if (!next) {                                                                                             \
        errno = ENOSYS;                                                                                      \
        return -1;                                                                                           \
    }

#define TYPES(...) __VA_ARGS__

#endif
