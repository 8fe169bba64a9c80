/* SPDX-License-Identifier: BSD-3-Clause
 * Time for what happens once a call. Where the kernel itself trusts the processor's time stamp counter (then
 * it runs at one rate and is the same on all cores), the counter is read directly, which takes a third of the
 * time of clock_gettime; its rate is found between the loading of this library and the end of MPI_Init. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime.h"

int64_t sw_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

#ifdef __x86_64__
#include <x86intrin.h>

#define LEAST_TIME                                                                                           \
    2000000 /* nanoseconds between the two readings: then the rate is right to 5 in 100,000                  \
             */

static uint64_t first_count, base_count, rate; /* rate: nanoseconds a count, times 2^32; 0: not used */
static int64_t first_time, base_time;

__attribute__((constructor)) static void first_reading(void) {
    first_count = __rdtsc();
    first_time = sw_now();
}

static bool kernel_trusts_counter(void) {
    char name[8] = "";
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    if (!file)
        return false;
    bool trusts = fgets(name, sizeof name, file) && strcmp(name, "tsc\n") == 0;
    fclose(file);
    return trusts;
}

void sw_clock_start(void) {
    uint64_t count = __rdtsc();
    int64_t time = sw_now();
    if (time - first_time < LEAST_TIME || count <= first_count || !kernel_trusts_counter())
        return;
    base_count = count;
    base_time = time;
    rate = (uint64_t)(((unsigned __int128)(uint64_t)(time - first_time) << 32) / (count - first_count));
}

int64_t sw_tick(void) {
    if (!rate)
        return sw_now();
    return base_time + (int64_t)((unsigned __int128)(__rdtsc() - base_count) * rate >> 32);
}
#else
void sw_clock_start(void) {}

int64_t sw_tick(void) {
    return sw_now();
}
#endif
