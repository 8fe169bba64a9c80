/* SPDX-License-Identifier: BSD-3-Clause
 * CLOCK_MONOTONIC, from the processor's own counter. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define CLOSE 4000     /* ticks: a look at both that took longer was interrupted, and tells neither well */
#define LEAST 10000000 /* nanoseconds over which the rate is measured at first */
#define RENEWED 1000000000 /* and for which it is used at most, as the kernel steers its clock meanwhile */
#define STEADY 1024        /* the rate changes by less than one part in so many */

struct anchor anchor;

static uint64_t clock_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

#ifdef __x86_64__

/* Where both stood when the rate's measurement began; ticks 0: the counter is not used. */
static _Atomic(uint64_t) first_ticks, first_time;

/* One thread at a time; who finds another there goes without. Both looks that a rate is of may be off by
 * CLOSE. It is used no longer than it was measured, so that a time is off by no more than CLOSE for the rate
 * and CLOSE for the anchor: 2.7 us at 3 GHz. While a machine is suspended, the clock stands still and the
 * counter goes on or begins anew: then the measurement begins anew, too. */
static void set_anchor(uint64_t ticks, uint64_t time) {
    unsigned sequence = atomic_load_explicit(&anchor.sequence, memory_order_acquire);
    uint64_t passed = ticks - first_ticks, spent = time - first_time,
             before = atomic_load_explicit(&anchor.scale, memory_order_relaxed);
    if (spent < LEAST || time < first_time || (sequence & 1) ||
        !atomic_compare_exchange_strong(&anchor.sequence, &sequence, sequence + 1))
        return;
    uint64_t scale = passed ? (uint64_t)(((unsigned __int128)spent << 32) / passed) : 0;
    if (before && (scale > before + before / STEADY || scale < before - before / STEADY)) {
        first_ticks = ticks;
        first_time = time;
        scale = 0;
    }
    atomic_store_explicit(&anchor.ticks, ticks, memory_order_relaxed);
    atomic_store_explicit(&anchor.time, time, memory_order_relaxed);
    atomic_store_explicit(&anchor.scale, scale, memory_order_relaxed);
    uint64_t used = spent < RENEWED ? spent : RENEWED;
    atomic_store_explicit(&anchor.valid, scale ? (uint64_t)(((unsigned __int128)used << 32) / scale) : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&anchor.sequence, sequence + 2, memory_order_release);
}

void start_clock(void) {
    char name[16] = "";
    int fd =
        (int)syscall(SYS_openat, AT_FDCWD, "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                     O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    bool used = syscall(SYS_read, fd, name, sizeof name - 1) == 4 && memcmp(name, "tsc\n", 4) == 0;
    syscall(SYS_close, fd);
    for (int tries = 0; used && !first_ticks && tries < 4; tries++) {
        uint64_t ticks = __builtin_ia32_rdtsc();
        first_time = clock_now();
        first_ticks = __builtin_ia32_rdtsc() - ticks < CLOSE ? ticks : 0;
    }
}

uint64_t ask_clock(void) {
    uint64_t ticks = first_ticks ? __builtin_ia32_rdtsc() : 0, time = clock_now();
    if (ticks && __builtin_ia32_rdtsc() - ticks < CLOSE)
        set_anchor(ticks, time);
    return time;
}

#else

void start_clock(void) {}

uint64_t ask_clock(void) {
    return clock_now();
}

#endif
