/* SPDX-License-Identifier: BSD-3-Clause
 * What is counted of a file: plain numbers that add up over calls, ranks and files. Times are nanoseconds. */
#ifndef STRIPEWISE_COUNTERS_H
#define STRIPEWISE_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "pattern.h"

/* An interval of time; empty while end < start. */
struct sw_span {
    int64_t start, end;
};

#define SW_EMPTY_SPAN ((struct sw_span){INT64_MAX, INT64_MIN})

/* Calls of one MPI-IO operation. */
struct sw_calls {
    uint64_t count, bytes, min_size, max_size;
    uint64_t lately_largest;    /* max_size since sw_evidence_from */
    uint64_t messages;          /* MPI calls that the MPI library made within them */
    int64_t time_sum, time_max; /* on one rank both are its total; see the header on time_max */
};

/* How far apart the two records of a path were made: what is a rank or a node must not count twice. */
enum sw_distance { SW_SAME_RANK, SW_SAME_NODE, SW_OTHER_NODE };

/* POSIX calls beneath one class of MPI-IO calls. */
struct sw_beneath {
    uint64_t count, bytes, max_size, ranks, lately_largest;
    int64_t time; /* summed over ranks */
};

enum sw_during { SW_DURING_COLLECTIVE, SW_DURING_INDEPENDENT, SW_DURING_WRITE, SW_DURINGS };

#define SW_SIZES 16 /* distinct sizes followed; twice what is reported, so that the frequent ones survive */

/* POSIX reads or writes of one file. */
struct sw_posix {
    uint64_t count, bytes, min_size, max_size, ranks, lately_largest;
    struct sw_beneath during[SW_DURINGS];
    struct sw_size_count sizes[SW_SIZES];
};

static inline bool sw_span_is_empty(struct sw_span span) {
    return span.end < span.start;
}
void sw_span_include(struct sw_span *span, struct sw_span other);

void sw_calls_add(struct sw_calls *calls, uint64_t bytes, int64_t time);
void sw_calls_merge(struct sw_calls *into, const struct sw_calls *from);
void sw_calls_merge_same_rank(struct sw_calls *into, const struct sw_calls *from);

/* A POSIX call beneath MPI-IO. during: bits 1 << enum sw_during. */
struct sw_beneath_call {
    uint64_t size;
    unsigned during;
    bool write;
    int64_t time;
};

/* Counts one POSIX call of this process. */
void sw_posix_add(struct sw_posix *posix, const struct sw_beneath_call *call);
void sw_posix_merge(struct sw_posix *into, const struct sw_posix *from);

/* The same where both were counted by one rank: it must not count as two. */
void sw_posix_merge_same_rank(struct sw_posix *into, const struct sw_posix *from);

#endif
