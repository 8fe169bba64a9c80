/* SPDX-License-Identifier: BSD-3-Clause
 * Learning over a program's own I/O phases. A file family (a file name with its digits folded, an operation,
 * a pattern) tries a few candidate settings, phase by phase, and settles on one. No clock and no MPI here:
 * the caller measures.
 *
 * A family explores in two rounds over its candidates, the default first. A candidate that is there before
 * the first phase has somebody who vouches for it: that phase tries it. One that costs more than
 * SW_ONLINE_EXCESS times the cheapest so far is dropped at once; the default is, if it costs SW_ONLINE_FAR
 * times as much. So after at most two phases a candidate the family is settled. From then on each phase takes
 * the candidate whose performance is best by its lower bound, and updates it: a lucky winner gives way when
 * its luck ends. Three phases in a row that are all SW_ONLINE_DRIFT off on one side reopen the family, except
 * for what was far behind and still would be. */
#ifndef STRIPEWISE_ONLINE_H
#define STRIPEWISE_ONLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SW_CANDIDATES 4 /* the default among them */
#define SW_ONLINE_EXCESS                                                                                     \
    1.25                    /* of predictions over the default's, and of measurements over the cheapest's    \
                             */
#define SW_ONLINE_FAR 3.0   /* times the cheapest: a second phase of it is not worth its time */
#define SW_ONLINE_DRIFT 0.3 /* in ln(cost) */
#define SW_ONLINE_STEADY 12 /* phases between two reopenings, doubled each time */

struct sw_candidate {
    const char *settings; /* as sw_settings_print writes them; "" is the default. Owned by the caller. */
    double gain;          /* predicted ln of how many times better than the default; 0 if nobody predicts */
    uint32_t count;       /* measured phases */
    double mean, squares; /* of ln(cost): mean, and sum of squared deviations from it */
    bool dropped;         /* tried no more; the default still comes back if all others become worse */
};

struct sw_family {
    const char *name; /* folded; owned by the caller. NULL: free */
    uint64_t used;    /* order of use, of the caller */
    double bytes;     /* of a phase */
    struct sw_candidate candidates[SW_CANDIDATES];
    uint32_t count;    /* candidates */
    uint32_t phases;   /* measured since the family began or was reopened */
    uint32_t reopened; /* times */
    uint32_t choice;   /* of the last pick */
    uint32_t strange;  /* phases in a row of another size */
    int32_t off;       /* phases in a row off on one side; negative: cheaper than expected */
    const char *why;   /* the model named nothing to try; owned by the caller */
    bool write;
    bool settled, asked, recalled; /* asked: all candidates are there; recalled: earlier jobs' are */
    char pattern;                  /* of SW_PATTERNS; '?' until the first phase tells */
};

/* Adds a candidate unless it is there or full, or is predicted to cost more than SW_ONLINE_EXCESS times the
 * default's. The first one added must be the default. Returns its place, or -1. */
int sw_family_add(struct sw_family *family, const char *settings, double gain);

/* The candidate of the next phase. */
uint32_t sw_family_pick(struct sw_family *family);

/* Takes the measurement of a phase: seconds of I/O for so many bytes. Phases of nothing, and of another size,
 * do not count. */
void sw_family_learn(struct sw_family *family, uint32_t candidate, double bytes, double seconds);

/* Seeds a candidate with what an earlier job measured, as if it had been now; a family in which the default
 * and another candidate are known begins settled. */
void sw_family_seed(struct sw_family *family, uint32_t candidate, uint32_t count, double mean);

#endif
