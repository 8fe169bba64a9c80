/* SPDX-License-Identifier: BSD-3-Clause */
#include "counters.h"
#include "stripewise_format.h"

static uint64_t min_of(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
static uint64_t max_of(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

void sw_span_include(struct sw_span *span, struct sw_span other) {
    if (other.start < span->start)
        span->start = other.start;
    if (other.end > span->end)
        span->end = other.end;
}

void sw_calls_add(struct sw_calls *calls, uint64_t bytes, int64_t time) {
    calls->min_size = calls->count ? min_of(calls->min_size, bytes) : bytes;
    calls->max_size = max_of(calls->max_size, bytes);
    calls->lately_largest = max_of(calls->lately_largest, bytes);
    calls->count++;
    calls->bytes += bytes;
    calls->time_sum += time;
    calls->time_max += time;
}

void sw_calls_merge(struct sw_calls *into, const struct sw_calls *from) {
    if (!from->count)
        return;
    into->min_size = into->count ? min_of(into->min_size, from->min_size) : from->min_size;
    into->max_size = max_of(into->max_size, from->max_size);
    into->count += from->count;
    into->bytes += from->bytes;
    into->messages += from->messages;
    into->time_sum += from->time_sum;
    if (from->time_max > into->time_max)
        into->time_max = from->time_max;
}

void sw_calls_merge_same_rank(struct sw_calls *into, const struct sw_calls *from) {
    sw_calls_merge(into, from);
    into->time_max = into->time_sum;
}

/* Counts a size among the most frequent ones: room entries, the commonest first. Space-saving counting
 * (Metwally, Agrawal, El Abbadi 2005): exact while there are at most room sizes; beyond, a new size takes
 * over the rarest entry and its count. */
static void add_to_top(struct sw_size_count *top, int room, uint64_t size, uint64_t count) {
    int i = 0;
    while (i < room - 1 && top[i].count && top[i].size != size)
        i++;
    top[i].size = size;
    top[i].count += count;
    /* Moved up as it grows, so that the common size is found first. */
    for (; i > 0 && top[i].count > top[i - 1].count; i--) {
        struct sw_size_count other = top[i - 1];
        top[i - 1] = top[i];
        top[i] = other;
    }
}

void sw_posix_add(struct sw_posix *posix, const struct sw_beneath_call *call) {
    uint64_t size = call->size;
    posix->min_size = posix->count ? min_of(posix->min_size, size) : size;
    posix->max_size = max_of(posix->max_size, size);
    posix->lately_largest = max_of(posix->lately_largest, size);
    posix->count++;
    posix->bytes += size;
    posix->ranks = 1;
    for (int i = 0; i < SW_DURINGS; i++)
        if (call->during & (1u << i)) {
            struct sw_beneath *beneath = &posix->during[i];
            beneath->count++;
            beneath->bytes += size;
            beneath->max_size = max_of(beneath->max_size, size);
            beneath->lately_largest = max_of(beneath->lately_largest, size);
            beneath->ranks = 1;
            beneath->time += call->time;
        }
    add_to_top(posix->sizes, SW_SIZES, size, 1);
}

void sw_posix_merge(struct sw_posix *into, const struct sw_posix *from) {
    if (!from->count)
        return;
    into->min_size = into->count ? min_of(into->min_size, from->min_size) : from->min_size;
    into->max_size = max_of(into->max_size, from->max_size);
    into->count += from->count;
    into->bytes += from->bytes;
    into->ranks += from->ranks;
    for (int i = 0; i < SW_DURINGS; i++) {
        into->during[i].count += from->during[i].count;
        into->during[i].bytes += from->during[i].bytes;
        into->during[i].ranks += from->during[i].ranks;
        into->during[i].time += from->during[i].time;
        into->during[i].max_size = max_of(into->during[i].max_size, from->during[i].max_size);
    }
    for (int i = 0; i < SW_SIZES && from->sizes[i].count; i++)
        add_to_top(into->sizes, SW_SIZES, from->sizes[i].size, from->sizes[i].count);
}

void sw_posix_merge_same_rank(struct sw_posix *into, const struct sw_posix *from) {
    sw_posix_merge(into, from);
    into->ranks = into->count > 0;
    for (int i = 0; i < SW_DURINGS; i++)
        into->during[i].ranks = into->during[i].count > 0;
}

/* ---- the operations of MPI-IO ---- */

const struct sw_operation sw_operations[SW_OPERATIONS] = {
#define OPERATION(name, kind, mode, place, shape) {#name, SW_##kind, SW_##mode, SW_##place},
#include "operations.def"
#undef OPERATION
};

/* ---- patterns ---- */

static const uint64_t limits[SW_BINS - 1] = {SW_BIN_LIMITS};

static int bin_of(uint64_t size) {
    int bin = 0;
    while (bin < SW_BINS - 1 && size > limits[bin])
        bin++;
    return bin;
}

static void add_order(struct sw_pattern *pattern, uint64_t size, enum sw_shape shape, int64_t place,
                      bool first) {
    if (shape == SW_SCATTERED || place == SW_UNKNOWN_PLACE) {
        pattern->random++;
        return;
    }
    int64_t distance = place - pattern->start;
    bool follows = first || place == pattern->end;
    /* The first jump has none to compare with. */
    bool regular = !pattern->distance || distance == pattern->distance;
    if (shape != SW_PIECES && follows)
        pattern->contiguous++;
    else if (shape == SW_PIECES || regular)
        pattern->strided++;
    else
        pattern->random++;
    pattern->distance = first ? 0 : distance;
    pattern->start = place;
    pattern->end = place + (int64_t)size;
}

void sw_pattern_add(struct sw_pattern *pattern, uint64_t size, enum sw_shape shape, int64_t place) {
    bool first = !pattern->top[0].count;
    pattern->bins[bin_of(size)]++;
    add_to_top(pattern->top, SW_TOP, size, 1);
    add_order(pattern, size, shape, place, first);
}

void sw_pattern_merge(struct sw_pattern *into, const struct sw_pattern *from) {
    for (int i = 0; i < SW_TOP && from->top[i].count; i++)
        add_to_top(into->top, SW_TOP, from->top[i].size, from->top[i].count);
    for (int i = 0; i < SW_BINS; i++)
        into->bins[i] += from->bins[i];
    into->contiguous += from->contiguous;
    into->strided += from->strided;
    into->random += from->random;
}

static void add_use(struct sw_view *view, int64_t filetype_size, int64_t piece, uint64_t bytes) {
    int i = 0;
    while (i < SW_VIEW_USES - 1 && view->uses[i].bytes &&
           (view->uses[i].filetype_size != filetype_size || view->uses[i].piece != piece))
        i++;
    view->uses[i].filetype_size = filetype_size;
    view->uses[i].piece = piece;
    view->uses[i].bytes += bytes;
    for (; i > 0 && view->uses[i].bytes > view->uses[i - 1].bytes; i--) {
        struct sw_view_use other = view->uses[i - 1];
        view->uses[i - 1] = view->uses[i];
        view->uses[i] = other;
    }
}

void sw_view_count(struct sw_view *view, int64_t filetype_size, int64_t piece, uint64_t bytes) {
    *(piece ? &view->in_pieces : &view->in_one) += bytes;
    add_use(view, filetype_size, piece, bytes);
}

void sw_view_merge(struct sw_view *into, const struct sw_view *from) {
    into->set |= from->set;
    into->in_one += from->in_one;
    into->in_pieces += from->in_pieces;
    for (int i = 0; i < SW_VIEW_USES && from->uses[i].bytes; i++)
        add_use(into, from->uses[i].filetype_size, from->uses[i].piece, from->uses[i].bytes);
}

struct sw_view_use sw_view_main(const struct sw_view *view) {
    bool pieces = view->in_pieces > view->in_one;
    for (int i = 0; i < SW_VIEW_USES; i++)
        if (view->uses[i].bytes && (view->uses[i].piece != 0) == pieces)
            return view->uses[i];
    return (struct sw_view_use){0, 0, 0};
}
