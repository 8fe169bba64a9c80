/* SPDX-License-Identifier: BSD-3-Clause */
#include "online.h"
#include "reserved.h"

#include <math.h>
#include <string.h>

#define ROUNDS 2
#define NOISE 0.05     /* deviation of ln(cost) that is assumed as if one phase more had shown it */
#define CONFIDENCE 1.0 /* deviations of the mean that the bound lies above it */
#define SEED 2         /* phases that earlier jobs count for at most */
#define IN_A_ROW 3

int sw_family_add(struct sw_family *family, const char *settings, double gain) {
    for (uint32_t i = 0; i < family->count; i++)
        if (strcmp(family->candidates[i].settings, settings) == 0)
            return (int)i;
    if (family->count == SW_CANDIDATES || (family->count && gain < -sw_log(SW_ONLINE_EXCESS)))
        return -1;
    family->candidates[family->count] = (struct sw_candidate){.settings = settings, .gain = gain};
    return (int)family->count++;
}

/* What one phase deviates from its candidate's mean, of all candidates together: a handful of phases says too
 * little of each alone. */
static double noise(const struct sw_family *family) {
    double squares = NOISE * NOISE, freedom = 1;
    for (uint32_t i = 0; i < family->count; i++)
        if (family->candidates[i].count > 1) {
            squares += family->candidates[i].squares;
            freedom += family->candidates[i].count - 1;
        }
    return sqrt(squares / freedom);
}

/* The bound by which candidates are compared: ln(cost) at worst. */
static double bound_of(const struct sw_family *family, uint32_t candidate) {
    const struct sw_candidate *own = &family->candidates[candidate];
    return own->count ? own->mean + CONFIDENCE * noise(family) / sqrt(own->count) : INFINITY;
}

static uint32_t best_bound(const struct sw_family *family) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < family->count; i++)
        if (!family->candidates[i].dropped && bound_of(family, i) < bound_of(family, best))
            best = i;
    return best;
}

/* The candidate that has been measured least, if it is not through its rounds. The second round begins with
 * the cheapest: it may show that the others are too far behind to be tried again. */
static bool next_to_try(const struct sw_family *family, uint32_t *next) {
    uint32_t fewest = ROUNDS;
    double least = INFINITY;
    for (uint32_t i = 0; i < family->count; i++) {
        const struct sw_candidate *own = &family->candidates[i];
        if (own->dropped || own->count > fewest || own->count >= ROUNDS ||
            (own->count == fewest && !(own->count && own->mean < least)))
            continue;
        fewest = own->count;
        least = own->mean;
        *next = i;
    }
    return fewest < ROUNDS;
}

uint32_t sw_family_pick(struct sw_family *family) {
    uint32_t next = 0;
    if (!family->phases && !family->asked && family->count > 1) /* somebody vouches for it */
        next = 1;
    else if (!family->settled && !next_to_try(family, &next))
        family->settled = family->asked;
    if (family->settled)
        next = best_bound(family);
    return family->choice = next;
}

static double cheapest(const struct sw_family *family, uint32_t except) {
    double least = INFINITY;
    for (uint32_t i = 0; i < family->count; i++)
        if (i != except && family->candidates[i].count && family->candidates[i].mean < least)
            least = family->candidates[i].mean;
    return least;
}

/* Begins anew, without the candidates that cost more than hopeless: what made the others slower or faster
 * made these so too. */
static void reopen(struct sw_family *family, double hopeless) {
    for (uint32_t i = 0; i < family->count; i++) {
        struct sw_candidate *own = &family->candidates[i];
        if (own->count && own->mean > hopeless)
            own->dropped = true;
        else
            *own = (struct sw_candidate){.settings = own->settings, .gain = own->gain};
    }
    family->settled = false;
    family->phases = 0;
    family->off = 0;
    family->reopened++;
}

/* Is the phase of the usual size? One that changes for good begins anew. */
static bool is_usual(struct sw_family *family, double bytes) {
    if (family->bytes > 0 && (bytes > 2 * family->bytes || 2 * bytes < family->bytes)) {
        if (++family->strange < IN_A_ROW)
            return false;
        reopen(family, INFINITY);
    }
    family->strange = 0;
    family->bytes = bytes;
    return true;
}

static bool has_drifted(struct sw_family *family, const struct sw_candidate *own, double cost) {
    double off = own->count ? cost - own->mean : 0;
    int32_t side = off > SW_ONLINE_DRIFT ? 1 : off < -SW_ONLINE_DRIFT ? -1 : 0;
    family->off = side == 0 ? 0 : (family->off > 0) == (side > 0) ? family->off + side : side;
    uint32_t steady = SW_ONLINE_STEADY << (family->reopened < 16 ? family->reopened : 16);
    return (family->off >= IN_A_ROW || family->off <= -IN_A_ROW) && family->phases >= steady;
}

void sw_family_learn(struct sw_family *family, uint32_t candidate, double bytes, double seconds) {
    if (candidate >= family->count || !(bytes > 0) || !(seconds > 0) || !isfinite(bytes) ||
        !isfinite(seconds) || !is_usual(family, bytes))
        return;
    struct sw_candidate *own = &family->candidates[candidate];
    double cost = sw_log(seconds) - sw_log(bytes);
    family->phases++;
    if (family->settled && has_drifted(family, own, cost)) {
        reopen(family, sw_fmax(cheapest(family, SW_CANDIDATES) + sw_log(SW_ONLINE_FAR),
                               cost + sw_log(SW_ONLINE_EXCESS)));
        family->phases = 1;
    }
    /* Not its own: a lucky first phase would drop it. */
    double least = cheapest(family, candidate), step = cost - own->mean;
    own->count++;
    own->mean += step / own->count;
    own->squares += step * (cost - own->mean);
    if (candidate && !family->settled && cost > least + sw_log(SW_ONLINE_EXCESS))
        own->dropped = true;
    /* What ran before the default is judged as soon as the default is known. */
    for (uint32_t i = 1; !candidate && !family->settled && i < family->count; i++)
        family->candidates[i].dropped |=
            family->candidates[i].count && family->candidates[i].mean > cost + sw_log(SW_ONLINE_EXCESS);
    /* The default, which is known to work, is dropped for much more: the first phase may have warmed up. */
    struct sw_candidate *plain = &family->candidates[0];
    if (!family->settled && plain->count &&
        plain->mean > cheapest(family, SW_CANDIDATES) + sw_log(SW_ONLINE_FAR))
        plain->dropped = true;
}

void sw_family_seed(struct sw_family *family, uint32_t candidate, uint32_t count, double mean) {
    if (candidate >= family->count || !count || !isfinite(mean))
        return;
    struct sw_candidate *own = &family->candidates[candidate];
    own->count = count < SEED ? count : SEED;
    own->mean = mean;
    own->squares = 0;
    own->dropped = false;
    double least = cheapest(family, SW_CANDIDATES);
    for (uint32_t i = 1; i < family->count; i++)
        family->candidates[i].dropped =
            family->candidates[i].count && family->candidates[i].mean > least + sw_log(SW_ONLINE_EXCESS);
}
