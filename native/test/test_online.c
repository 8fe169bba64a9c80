/* SPDX-License-Identifier: BSD-3-Clause
 * The online learner on made-up times: how many phases it explores, what it settles on, and what the whole
 * costs against the best setting known in advance. Simulated: no file is written. */
#include "online.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "check.h"

#define PHASES 60
#define BYTES 1e9

static uint64_t state;

static double uniform(void) {
    state ^= state << 13; /* xorshift64 (Marsaglia 2003) */
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}

static double normal(void) {
    double u = 1 - uniform(), v = uniform();
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static const char *const names[SW_CANDIDATES] = {"", "hint a 1", "hint a 2", "hint a 3"};

static struct sw_site new_site(uint32_t count) {
    struct sw_site site = {.name = "/x", .write = true, .asked = true};
    for (uint32_t i = 0; i < count; i++)
        CHECK(sw_site_add(&site, names[i], i ? 0.5 : 0) == (int)i);
    return site;
}

/* The time of all phases; truth: seconds of each candidate. */
static double run(struct sw_site *site, const double *truth, double noise, uint32_t *explored) {
    double total = 0;
    *explored = 0;
    for (int phase = 0; phase < PHASES; phase++) {
        uint32_t choice = sw_site_pick(site);
        double seconds = truth[choice] * exp(noise * normal());
        *explored += !site->settled;
        sw_site_learn(site, choice, BYTES, seconds);
        total += seconds;
    }
    return total;
}

/* No bound holds for whatever a candidate may really cost: the phase that shows it cannot be taken back.
 * These cost up to SW_ONLINE_EXCESS times the default, or little more, as their predictions promised. */
static void test_bounds_without_noise(void) {
    static const double truths[][SW_CANDIDATES] = {{1, 0.5, 0.6, 0.9}, {1, 1.3, 1.2, 1.1},
                                                   {1, 1.3, 0.2, 0.9}, {1, 1.02, 1.01, 1.05},
                                                   {4, 1, 2, 3},       {1, 1.24, 1.24, 1.24}};
    for (size_t i = 0; i < sizeof truths / sizeof *truths; i++) {
        struct sw_site site = new_site(SW_CANDIDATES);
        uint32_t explored;
        double best = INFINITY, total = run(&site, truths[i], 0, &explored);
        for (int k = 0; k < SW_CANDIDATES; k++)
            best = fmin(best, truths[i][k]);
        CHECK(explored <= 2 * SW_CANDIDATES);
        CHECK(site.settled && truths[i][site.choice] == best);
        CHECK(total <= 1.15 * best * PHASES + 2 * truths[i][0]);
        if (best == truths[i][0])
            CHECK(total <= 1.05 * truths[i][0] * PHASES);
    }
}

/* With noise: the mean over many seeds keeps the bounds, the tail is what chance makes of it. */
static void test_bounds_with_noise(void) {
    static const double good[SW_CANDIDATES] = {1, 0.4, 0.55, 0.8}, bad[SW_CANDIDATES] = {1, 1.2, 1.1, 2};
    double good_sum = 0, bad_sum = 0;
    int good_over = 0, bad_over = 0, rounds = 400;
    for (int seed = 1; seed <= rounds; seed++) {
        state = (uint64_t)seed * 0x9e3779b97f4a7c15ull;
        uint32_t explored;
        struct sw_site first = new_site(SW_CANDIDATES), second = new_site(SW_CANDIDATES);
        double total = run(&first, good, 0.1, &explored) / (1.15 * 0.4 * PHASES + 2);
        good_sum += total;
        good_over += total > 1;
        total = run(&second, bad, 0.1, &explored) / (1.05 * PHASES);
        bad_sum += total;
        bad_over += total > 1;
    }
    CHECK(good_sum / rounds < 1 && bad_sum / rounds < 1);
    CHECK(good_over <= rounds / 20);
    CHECK(bad_over <= rounds / 5);
}

static void test_excess_drops_at_once(void) {
    struct sw_site site = new_site(3);
    static const double seconds[] = {1, 1.3, 0.9};
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(sw_site_pick(&site) == i);
        sw_site_learn(&site, i, BYTES, seconds[i]);
    }
    CHECK(site.candidates[1].dropped && !site.candidates[2].dropped);
    CHECK(sw_site_pick(&site) == 0); /* the second round leaves it out */
    sw_site_learn(&site, 0, BYTES, 1);
    CHECK(sw_site_pick(&site) == 2);
    sw_site_learn(&site, 2, BYTES, 0.9);
    CHECK(sw_site_pick(&site) == 2 && site.settled);
}

static void test_what_is_predicted_too_slow_is_no_candidate(void) {
    struct sw_site site = {.name = "/x"};
    CHECK(sw_site_add(&site, "", 0) == 0);
    CHECK(sw_site_add(&site, "hint a 1", -log(1.3)) == -1);
    CHECK(sw_site_add(&site, "hint a 1", -log(1.2)) == 1);
    CHECK(sw_site_add(&site, "hint a 1", 0) == 1);
    CHECK(sw_site_add(&site, "hint a 2", 0) == 2 && sw_site_add(&site, "hint a 3", 0) == 3);
    CHECK(sw_site_add(&site, "hint a 4", 0) == -1);
}

static void test_drift_reopens(void) {
    struct sw_site site = new_site(2);
    double before[] = {1, 0.5}, after[] = {1, 2};
    int switched = -1;
    for (int phase = 0; phase < PHASES; phase++) {
        uint32_t choice = sw_site_pick(&site);
        sw_site_learn(&site, choice, BYTES, (phase < 30 ? before : after)[choice]);
        if (phase == 29)
            CHECK(choice == 1 && !site.reopened);
        if (phase >= 30 && choice == 0 && site.settled && switched < 0)
            switched = phase;
    }
    CHECK(site.reopened == 1);
    CHECK(switched > 30 && switched <= 38);
}

/* Of 60 phases, how many take the default from the 30th on, when the truth changes. */
static int defaults_after(const double *before, const double *after, struct sw_site *site) {
    int taken = 0;
    for (int phase = 0; phase < PHASES; phase++) {
        uint32_t choice = sw_site_pick(site);
        sw_site_learn(site, choice, BYTES, (phase < 30 ? before : after)[choice]);
        taken += phase >= 30 && choice == 0;
    }
    return taken;
}

/* A default that is far behind costs one phase, not one more at each look: a busy storage slows all. */
static void test_a_poor_default_is_not_tried_again(void) {
    static const double before[] = {20, 1, 1.1, 1.2}, slower[] = {40, 2, 2.2, 2.4},
                        worse[] = {20, 30, 30, 30};
    struct sw_site site = new_site(SW_CANDIDATES);
    uint32_t explored;
    CHECK(run(&site, before, 0, &explored) <= 1.15 * PHASES + before[0]);
    CHECK(site.candidates[0].count == 1 && site.candidates[0].dropped && site.choice == 1);
    struct sw_site second = new_site(SW_CANDIDATES);
    CHECK(defaults_after(before, slower, &second) == 0 && second.reopened == 1 && second.choice == 1);
    struct sw_site third = new_site(SW_CANDIDATES);
    CHECK(defaults_after(before, worse, &third) > 20 && third.choice == 0);
}

static void test_other_sizes_do_not_count(void) {
    struct sw_site site = new_site(2);
    sw_site_learn(&site, 0, BYTES, 1);
    sw_site_learn(&site, 0, BYTES / 100, 1);
    sw_site_learn(&site, 0, 0, 1);
    sw_site_learn(&site, 0, BYTES, 0);
    sw_site_learn(&site, 7, BYTES, 1);
    CHECK(site.phases == 1 && site.candidates[0].count == 1);
    sw_site_learn(&site, 0, BYTES / 100, 1);
    CHECK(site.phases == 1);
    sw_site_learn(&site, 0, BYTES / 100, 1); /* the third in a row: the program does something else now */
    CHECK(site.phases == 1 && site.bytes == BYTES / 100 && site.candidates[0].count == 1 &&
          site.reopened == 1);
}

static void test_earlier_jobs_spare_exploring(void) {
    struct sw_site site = new_site(3);
    sw_site_seed(&site, 0, 9, log(1 / BYTES));
    sw_site_seed(&site, 1, 9, log(0.5 / BYTES));
    sw_site_seed(&site, 2, 9, log(3 / BYTES));
    CHECK(site.candidates[0].count == 2 && site.candidates[2].dropped);
    CHECK(sw_site_pick(&site) == 1 && site.settled);
}

int main(void) {
    test_bounds_without_noise();
    test_bounds_with_noise();
    test_excess_drops_at_once();
    test_what_is_predicted_too_slow_is_no_candidate();
    test_drift_reopens();
    test_a_poor_default_is_not_tried_again();
    test_other_sizes_do_not_count();
    test_earlier_jobs_spare_exploring();
    return failures != 0;
}
