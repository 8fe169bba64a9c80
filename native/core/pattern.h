/* SPDX-License-Identifier: BSD-3-Clause
 * How the calls of one direction go over a file or a dataset: their sizes, whether each starts where the last
 * one ended. */
#ifndef STRIPEWISE_PATTERN_H
#define STRIPEWISE_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "stripewise_format.h"

struct sw_size_count {
    uint64_t size, count;
};

/* Counts a size among the most frequent ones: room entries, the commonest first. Space-saving counting
 * (Metwally, Agrawal, El Abbadi 2005): exact while there are at most room sizes; beyond, a new size takes
 * over the rarest entry and its count. */
void sw_top_add(struct sw_size_count *top, int room, uint64_t size, uint64_t count);

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

#endif
