/* SPDX-License-Identifier: BSD-3-Clause
 * The observer's clock tells the time of CLOCK_MONOTONIC, before and after its rate is known, also to
 * threads. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "../observer/clock.h"
#include "check.h"

static uint64_t told(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Looks for 1.2 s, in which the rate is renewed some times. What the clock itself says before and after
 * bounds the time, but for what the rate is off by (clock.c): 8 us at 1 GHz. */
static void *look(void *wrong) {
    const uint64_t drift = 20000;
    for (uint64_t end = told() + 1200000000; told() < end;) {
        uint64_t before = told(), now_is = now(), after = told();
        *(int *)wrong += now_is + drift < before || now_is > after + drift;
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    int wrong[2] = {0, 0};
    start_clock();
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, look, &wrong[i]) != 0)
            return EXIT_FAILURE;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK(wrong[0] == 0 && wrong[1] == 0);
    CHECK(since(5, 3) == 0 && since(3, 5) == 2);
    return failures;
}
