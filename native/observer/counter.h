/* SPDX-License-Identifier: BSD-3-Clause
 * Amounts that several threads add to, and the clock. */
#ifndef STRIPEWISE_COUNTER_H
#define STRIPEWISE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "clock.h"

typedef _Atomic(uint64_t) counter;

static inline uint64_t value(counter *of) {
    return atomic_load_explicit(of, memory_order_relaxed);
}

static inline void put(counter *to, uint64_t amount) {
    atomic_store_explicit(to, amount, memory_order_relaxed);
}

/* Of glibc 2.32 and newer: no other thread is there that could count at the same time. */
extern char __libc_single_threaded __attribute__((weak));

static inline void add(counter *to, uint64_t amount) {
    if (&__libc_single_threaded && __libc_single_threaded)
        put(to, value(to) + amount);
    else
        atomic_fetch_add_explicit(to, amount, memory_order_relaxed);
}

#endif
