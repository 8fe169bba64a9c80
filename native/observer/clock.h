/* SPDX-License-Identifier: BSD-3-Clause
 * CLOCK_MONOTONIC, from the processor's own counter where the kernel trusts that too: asking the kernel's
 * page twice a call is most of what counting costs. The counter's rate is measured against the clock once the
 * process has run for a while, and again after up to a second; until then, and elsewhere, the clock itself is
 * asked. (The runtime measures it during MPI_Init: native/shim/clock.c.) What one thread reads later may be
 * some nanoseconds less than before: differences go through since. */
#ifndef STRIPEWISE_CLOCK_H
#define STRIPEWISE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

/* Amounts that several threads add to, and the clock. */

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

#pragma GCC visibility push(hidden)

/* Finds out whether the kernel uses the counter. */
void start_clock(void);

/* Nanoseconds of CLOCK_MONOTONIC by the clock itself, which also sets what the counter is compared with. */
uint64_t ask_clock(void);

/* Where the counter stood at a time. The sequence is odd while it is written. */
extern struct anchor {
    atomic_uint sequence;
    _Atomic(uint64_t) ticks, time, scale; /* scale: nanoseconds a tick, times 2^32; 0: not known yet */
    _Atomic(uint64_t) valid;              /* for so many ticks */
} anchor;

static inline uint64_t now(void) {
#ifdef __x86_64__
    unsigned sequence = atomic_load_explicit(&anchor.sequence, memory_order_acquire);
    uint64_t scale = atomic_load_explicit(&anchor.scale, memory_order_relaxed),
             time = atomic_load_explicit(&anchor.time, memory_order_relaxed),
             valid = atomic_load_explicit(&anchor.valid, memory_order_relaxed),
             passed = __builtin_ia32_rdtsc() - atomic_load_explicit(&anchor.ticks, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (passed < valid && !(sequence & 1) &&
        sequence == atomic_load_explicit(&anchor.sequence, memory_order_relaxed))
        return time + (uint64_t)(((unsigned __int128)passed * scale) >> 32);
#endif
    return ask_clock();
}

static inline uint64_t since(uint64_t began, uint64_t ended) {
    return ended > began ? ended - began : 0;
}

#pragma GCC visibility pop

#endif
