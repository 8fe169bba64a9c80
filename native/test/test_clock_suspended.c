/* SPDX-License-Identifier: BSD-3-Clause
 * The observer's clock beside a machine that is suspended: CLOCK_MONOTONIC stands still meanwhile, and the
 * processor's counter does not. Both are pretended here. */
#define _GNU_SOURCE
#include <stdint.h>
#include <time.h>

#include "check.h"

static uint64_t counted = 5000000000, nanoseconds = 1000000000;

static int pretended_time(struct timespec *time) {
    *time = (struct timespec){(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
    return 0;
}

#define __builtin_ia32_rdtsc() counted
#define clock_gettime(which, time) pretended_time(time)
#include "../observer/clock.c" /* NOLINT(bugprone-suspicious-include) */

/* The most that the clock is off in some seconds, of which the counter says three ticks a nanosecond. */
static uint64_t run(unsigned tenths) {
    uint64_t most = 0;
    for (unsigned i = 0; i < 1000 * tenths; i++) {
        uint64_t said = now(), off = said > nanoseconds ? said - nanoseconds : nanoseconds - said;
        most = off > most ? off : most;
        counted += 300000;
        nanoseconds += 100000;
    }
    return most;
}

int main(void) {
#ifdef __x86_64__
    first_ticks = counted; /* as start_clock, where the kernel uses the counter */
    first_time = nanoseconds;
#endif
    CHECK(run(50) < 1000);
    counted += UINT64_C(300000000000); /* it goes on */
    CHECK(run(50) < 1000);
    counted = 7000; /* it begins anew */
    CHECK(run(50) < 1000);
    counted = UINT64_C(900000000000);
    CHECK(run(50) < 1000);
    return failures;
}
