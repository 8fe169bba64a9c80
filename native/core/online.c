/* SPDX-License-Identifier: BSD-3-Clause */
#include "online.h"

#include <math.h>
#include <string.h>

#define ROUNDS 2
#define NOISE 0.05     /* deviation of ln(cost) that is assumed as if one phase more had shown it */
#define CONFIDENCE 1.0 /* deviations of the mean that the bound lies above it */
#define SEED 2         /* phases that earlier jobs count for at most */
#define IN_A_ROW 3

int sw_site_add(struct sw_site *site, const char *settings, double gain) {
    for (uint32_t i = 0; i < site->count; i++)
        if (strcmp(site->candidates[i].settings, settings) == 0)
            return (int)i;
    if (site->count == SW_CANDIDATES || (site->count && gain < -log(SW_ONLINE_EXCESS)))
        return -1;
    site->candidates[site->count] = (struct sw_candidate){.settings = settings, .gain = gain};
    return (int)site->count++;
}

/* What one phase deviates from its candidate's mean, of all candidates together: a handful of phases says too
 * little of each alone. */
static double noise(const struct sw_site *site) {
    double squares = NOISE * NOISE, freedom = 1;
    for (uint32_t i = 0; i < site->count; i++)
        if (site->candidates[i].count > 1) {
            squares += site->candidates[i].squares;
            freedom += site->candidates[i].count - 1;
        }
    return sqrt(squares / freedom);
}

double sw_site_bound(const struct sw_site *site, uint32_t candidate) {
    const struct sw_candidate *own = &site->candidates[candidate];
    return own->count ? own->mean + CONFIDENCE * noise(site) / sqrt(own->count) : INFINITY;
}

static uint32_t best_bound(const struct sw_site *site) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < site->count; i++)
        if (!site->candidates[i].dropped && sw_site_bound(site, i) < sw_site_bound(site, best))
            best = i;
    return best;
}

/* The first candidate that has been measured least, if it is not through its rounds. */
static bool next_to_try(const struct sw_site *site, uint32_t *next) {
    uint32_t fewest = ROUNDS;
    for (uint32_t i = 0; i < site->count; i++)
        if (!site->candidates[i].dropped && site->candidates[i].count < fewest) {
            fewest = site->candidates[i].count;
            *next = i;
        }
    return fewest < ROUNDS;
}

uint32_t sw_site_pick(struct sw_site *site) {
    uint32_t next = 0;
    if (!site->settled && !next_to_try(site, &next))
        site->settled = site->asked;
    if (site->settled)
        next = best_bound(site);
    return site->choice = next;
}

static double cheapest(const struct sw_site *site) {
    double least = INFINITY;
    for (uint32_t i = 0; i < site->count; i++)
        if (site->candidates[i].count && site->candidates[i].mean < least)
            least = site->candidates[i].mean;
    return least;
}

/* Begins anew, without the candidates that cost more than hopeless: what made the others slower or faster
 * made these so too. */
static void reopen(struct sw_site *site, double hopeless) {
    for (uint32_t i = 0; i < site->count; i++) {
        struct sw_candidate *own = &site->candidates[i];
        if (own->count && own->mean > hopeless)
            own->dropped = true;
        else
            *own = (struct sw_candidate){.settings = own->settings, .gain = own->gain};
    }
    site->settled = false;
    site->phases = 0;
    site->off = 0;
    site->reopened++;
}

/* Is the phase of the usual size? One that changes for good begins anew. */
static bool is_usual(struct sw_site *site, double bytes) {
    if (site->bytes > 0 && (bytes > 2 * site->bytes || 2 * bytes < site->bytes)) {
        if (++site->strange < IN_A_ROW)
            return false;
        reopen(site, INFINITY);
    }
    site->strange = 0;
    site->bytes = bytes;
    return true;
}

static bool has_drifted(struct sw_site *site, const struct sw_candidate *own, double cost) {
    double off = own->count ? cost - own->mean : 0;
    int32_t side = off > SW_ONLINE_DRIFT ? 1 : off < -SW_ONLINE_DRIFT ? -1 : 0;
    site->off = side == 0 ? 0 : (site->off > 0) == (side > 0) ? site->off + side : side;
    uint32_t steady = SW_ONLINE_STEADY << (site->reopened < 16 ? site->reopened : 16);
    return (site->off >= IN_A_ROW || site->off <= -IN_A_ROW) && site->phases >= steady;
}

void sw_site_learn(struct sw_site *site, uint32_t candidate, double bytes, double seconds) {
    if (candidate >= site->count || !(bytes > 0) || !(seconds > 0) || !isfinite(bytes) ||
        !isfinite(seconds) || !is_usual(site, bytes))
        return;
    struct sw_candidate *own = &site->candidates[candidate];
    double cost = log(seconds) - log(bytes);
    site->phases++;
    if (site->settled && has_drifted(site, own, cost)) {
        reopen(site, fmax(cheapest(site) + log(SW_ONLINE_FAR), cost + log(SW_ONLINE_EXCESS)));
        site->phases = 1;
    }
    double least = cheapest(site), step = cost - own->mean;
    own->count++;
    own->mean += step / own->count;
    own->squares += step * (cost - own->mean);
    if (candidate && !site->settled && cost > least + log(SW_ONLINE_EXCESS))
        own->dropped = true;
    /* The default, which is known to work, is dropped for much more: the first phase may have warmed up. */
    struct sw_candidate *plain = &site->candidates[0];
    if (!site->settled && plain->count && plain->mean > cheapest(site) + log(SW_ONLINE_FAR))
        plain->dropped = true;
}

void sw_site_seed(struct sw_site *site, uint32_t candidate, uint32_t count, double mean) {
    if (candidate >= site->count || !count || !isfinite(mean))
        return;
    struct sw_candidate *own = &site->candidates[candidate];
    own->count = count < SEED ? count : SEED;
    own->mean = mean;
    own->squares = 0;
    own->dropped = false;
    double least = cheapest(site);
    for (uint32_t i = 1; i < site->count; i++)
        site->candidates[i].dropped =
            site->candidates[i].count && site->candidates[i].mean > least + log(SW_ONLINE_EXCESS);
}
