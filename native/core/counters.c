/* SPDX-License-Identifier: BSD-3-Clause */
#include "counters.h"

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
    sw_top_add(posix->sizes, SW_SIZES, size, 1);
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
        sw_top_add(into->sizes, SW_SIZES, from->sizes[i].size, from->sizes[i].count);
}

void sw_posix_merge_same_rank(struct sw_posix *into, const struct sw_posix *from) {
    sw_posix_merge(into, from);
    into->ranks = into->count > 0;
    for (int i = 0; i < SW_DURINGS; i++)
        into->during[i].ranks = into->during[i].count > 0;
}
