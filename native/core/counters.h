/* SPDX-License-Identifier: BSD-3-Clause
 * What is counted of a file: plain numbers that add up over calls, ranks and files. Times are nanoseconds. */
#ifndef STRIPEWISE_COUNTERS_H
#define STRIPEWISE_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "stripewise_format.h"

/* How the calls of one direction go over a file or a dataset: their sizes, whether each starts where the last
 * one ended. */

struct sw_size_count {
    uint64_t size, count;
};

#define SW_TOP 6 /* sizes followed; SW_REPORT_TOP of them are reported */

/* How the bytes of one call lie. */
enum sw_shape { SW_RUN /* in one piece */, SW_PIECES /* at regular distances */, SW_SCATTERED };

#define SW_UNKNOWN_PLACE (-1)

struct sw_pattern {
    struct sw_size_count top[SW_TOP];
    uint64_t bins[SW_BINS];
    uint64_t contiguous, strided, random;
    int64_t start, distance, end; /* of this process's last call: where it began, its distance to the one
                                     before, where the next would be contiguous */
};

/* Through which views the bytes of a file went. */
#define SW_VIEW_USES 6
struct sw_view_use {
    int64_t filetype_size, piece; /* piece as in sw_view_count */
    uint64_t bytes;
};
struct sw_view {
    bool set;                   /* a view was set */
    uint64_t in_one, in_pieces; /* bytes of calls whose data lie in one piece of the file, or in several */
    struct sw_view_use uses[SW_VIEW_USES];
};

/* Counts a call by the view that it went through. piece: 0 if its data lie in one piece of the file, else the
 * bytes of one of them, or SW_UNKNOWN_PIECE. */
#define SW_UNKNOWN_PIECE (-1)
void sw_view_count(struct sw_view *view, int64_t filetype_size, int64_t piece, uint64_t bytes);
void sw_view_merge(struct sw_view *into, const struct sw_view *from);

/* Of the views with pieces, or of those without, whichever moved more bytes: the one that moved most. Its
 * bytes are 0 if no call moved any. */
struct sw_view_use sw_view_main(const struct sw_view *view);

/* Counts a call. place: where it starts, in bytes of the file or dataset, or SW_UNKNOWN_PLACE for a call of
 * unknown order. */
void sw_pattern_add(struct sw_pattern *pattern, uint64_t size, enum sw_shape shape, int64_t place);

/* Adds the pattern of another rank or file. */
void sw_pattern_merge(struct sw_pattern *into, const struct sw_pattern *from);

/* The MPI-IO operations, numbered, with what kind of call each is. */

enum sw_kind { SW_META, SW_READ, SW_WRITE };
enum sw_mode { SW_COLLECTIVE, SW_INDEPENDENT, SW_END, SW_NO_MODE };

enum sw_place { SW_AT_OFFSET, SW_AT_POINTER, SW_NOWHERE };

enum sw_op {
#define OPERATION(name, kind, mode, place, shape) SW_OP_##name,
#include "operations.def"
#undef OPERATION
    SW_OPERATIONS
};

struct sw_operation {
    const char *name;
    enum sw_kind kind;
    enum sw_mode mode;
    enum sw_place place;
};

extern const struct sw_operation sw_operations[SW_OPERATIONS];

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
