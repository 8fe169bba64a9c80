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

static struct sw_family new_family(uint32_t count) {
    struct sw_family family = {.name = "/x", .write = true, .asked = true};
    for (uint32_t i = 0; i < count; i++)
        CHECK(sw_family_add(&family, names[i], i ? 0.5 : 0) == (int)i);
    return family;
}

/* The time of all phases; truth: seconds of each candidate. */
static double run(struct sw_family *family, const double *truth, double noise, uint32_t *explored) {
    double total = 0;
    *explored = 0;
    for (int phase = 0; phase < PHASES; phase++) {
        uint32_t choice = sw_family_pick(family);
        double seconds = truth[choice] * exp(noise * normal());
        *explored += !family->settled;
        sw_family_learn(family, choice, BYTES, seconds);
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
        struct sw_family family = new_family(SW_CANDIDATES);
        uint32_t explored;
        double best = INFINITY, total = run(&family, truths[i], 0, &explored);
        for (int k = 0; k < SW_CANDIDATES; k++)
            best = fmin(best, truths[i][k]);
        CHECK(explored <= 2 * SW_CANDIDATES);
        CHECK(family.settled && truths[i][family.choice] == best);
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
        struct sw_family first = new_family(SW_CANDIDATES), second = new_family(SW_CANDIDATES);
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
    struct sw_family family = new_family(3);
    static const double seconds[] = {1, 1.3, 0.9};
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(sw_family_pick(&family) == i);
        sw_family_learn(&family, i, BYTES, seconds[i]);
    }
    CHECK(family.candidates[1].dropped && !family.candidates[2].dropped);
    CHECK(sw_family_pick(&family) == 2); /* the second round leaves it out, and begins with the cheapest */
    sw_family_learn(&family, 2, BYTES, 0.9);
    CHECK(sw_family_pick(&family) == 0);
    sw_family_learn(&family, 0, BYTES, 1);
    CHECK(sw_family_pick(&family) == 2 && family.settled);
}

/* The first phase may have warmed up: the second round measures what it ran with before the default again. */
static void test_the_cheapest_is_tried_again_first(void) {
    struct sw_family family = new_family(2);
    family.asked = false;
    sw_family_learn(&family, sw_family_pick(&family), BYTES, 0.5);
    family.asked = true;
    sw_family_learn(&family, sw_family_pick(&family), BYTES, 1);
    CHECK(sw_family_pick(&family) == 1);
    sw_family_learn(&family, 1, BYTES, 0.1);
    CHECK(family.candidates[0].dropped && sw_family_pick(&family) == 1 && family.settled);
}

static void test_a_lucky_first_phase_drops_nothing(void) {
    static const double seconds[] = {0.1, 1, 0.2}; /* of the candidate, the default, the candidate */
    struct sw_family family = new_family(2);
    for (uint32_t i = 0; i < 3; i++) {
        family.asked = i > 0;
        sw_family_learn(&family, i != 1, BYTES, seconds[i]);
    }
    CHECK(!family.candidates[1].dropped && sw_family_pick(&family) == 1);
}

/* A candidate before the first phase is tried at once, and given up as soon as the default shows what it
 * costs. */
static void test_what_is_vouched_for_comes_first(void) {
    struct sw_family family = new_family(2);
    family.asked = false;
    CHECK(sw_family_pick(&family) == 1);
    sw_family_learn(&family, 1, BYTES, 1.3);
    family.asked = true;
    CHECK(sw_family_pick(&family) == 0);
    sw_family_learn(&family, 0, BYTES, 1);
    CHECK(family.candidates[1].dropped && sw_family_pick(&family) == 0);
    sw_family_learn(&family, 0, BYTES, 1);
    CHECK(sw_family_pick(&family) == 0 && family.settled);
}

static void test_what_is_predicted_too_slow_is_no_candidate(void) {
    struct sw_family family = {.name = "/x"};
    CHECK(sw_family_add(&family, "", 0) == 0);
    CHECK(sw_family_add(&family, "hint a 1", -log(1.3)) == -1);
    CHECK(sw_family_add(&family, "hint a 1", -log(1.2)) == 1);
    CHECK(sw_family_add(&family, "hint a 1", 0) == 1);
    CHECK(sw_family_add(&family, "hint a 2", 0) == 2 && sw_family_add(&family, "hint a 3", 0) == 3);
    CHECK(sw_family_add(&family, "hint a 4", 0) == -1);
}

static void test_drift_reopens(void) {
    struct sw_family family = new_family(2);
    double before[] = {1, 0.5}, after[] = {1, 2};
    int switched = -1;
    for (int phase = 0; phase < PHASES; phase++) {
        uint32_t choice = sw_family_pick(&family);
        sw_family_learn(&family, choice, BYTES, (phase < 30 ? before : after)[choice]);
        if (phase == 29)
            CHECK(choice == 1 && !family.reopened);
        if (phase >= 30 && choice == 0 && family.settled && switched < 0)
            switched = phase;
    }
    CHECK(family.reopened == 1);
    CHECK(switched > 30 && switched <= 38);
}

/* Of 60 phases, how many take the default from the 30th on, when the truth changes. */
static int defaults_after(const double *before, const double *after, struct sw_family *family) {
    int taken = 0;
    for (int phase = 0; phase < PHASES; phase++) {
        uint32_t choice = sw_family_pick(family);
        sw_family_learn(family, choice, BYTES, (phase < 30 ? before : after)[choice]);
        taken += phase >= 30 && choice == 0;
    }
    return taken;
}

/* A default that is far behind costs one phase, not one more at each look: a busy storage slows all. */
static void test_a_poor_default_is_not_tried_again(void) {
    static const double before[] = {20, 1, 1.1, 1.2}, slower[] = {40, 2, 2.2, 2.4},
                        worse[] = {20, 30, 30, 30};
    struct sw_family family = new_family(SW_CANDIDATES);
    uint32_t explored;
    CHECK(run(&family, before, 0, &explored) <= 1.15 * PHASES + before[0]);
    CHECK(family.candidates[0].count == 1 && family.candidates[0].dropped && family.choice == 1);
    struct sw_family second = new_family(SW_CANDIDATES);
    CHECK(defaults_after(before, slower, &second) == 0 && second.reopened == 1 && second.choice == 1);
    struct sw_family third = new_family(SW_CANDIDATES);
    CHECK(defaults_after(before, worse, &third) > 20 && third.choice == 0);
}

static void test_other_sizes_do_not_count(void) {
    struct sw_family family = new_family(2);
    sw_family_learn(&family, 0, BYTES, 1);
    sw_family_learn(&family, 0, BYTES / 100, 1);
    sw_family_learn(&family, 0, 0, 1);
    sw_family_learn(&family, 0, BYTES, 0);
    sw_family_learn(&family, 7, BYTES, 1);
    CHECK(family.phases == 1 && family.candidates[0].count == 1);
    sw_family_learn(&family, 0, BYTES / 100, 1);
    CHECK(family.phases == 1);
    sw_family_learn(&family, 0, BYTES / 100, 1); /* the third in a row: the program does something else now */
    CHECK(family.phases == 1 && family.bytes == BYTES / 100 && family.candidates[0].count == 1 &&
          family.reopened == 1);
}

static void test_earlier_jobs_spare_exploring(void) {
    struct sw_family family = new_family(3);
    sw_family_seed(&family, 0, 9, log(1 / BYTES));
    sw_family_seed(&family, 1, 9, log(0.5 / BYTES));
    sw_family_seed(&family, 2, 9, log(3 / BYTES));
    CHECK(family.candidates[0].count == 2 && family.candidates[2].dropped);
    CHECK(sw_family_pick(&family) == 1 && family.settled);
}

int main(void) {
    test_bounds_without_noise();
    test_bounds_with_noise();
    test_excess_drops_at_once();
    test_a_lucky_first_phase_drops_nothing();
    test_what_is_vouched_for_comes_first();
    test_the_cheapest_is_tried_again_first();
    test_what_is_predicted_too_slow_is_no_candidate();
    test_drift_reopens();
    test_a_poor_default_is_not_tried_again();
    test_other_sizes_do_not_count();
    test_earlier_jobs_spare_exploring();
    return failures != 0;
}
