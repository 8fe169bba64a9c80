/* SPDX-License-Identifier: BSD-3-Clause
 * What is counted of each call. */
#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>

#include "acts.h"
#include "caller.h"
#include "counting.h"
#include "places.h"
#include "requests.h"
#include "thread_calls.h"

static void count(struct file_record *record, enum operation op, uint64_t bytes, uint64_t began,
                  uint64_t ended) {
    struct calls *calls = &record->calls[op];
    add(&calls->count, 1);
    add(&calls->time, since(began, ended));
    if (bytes) {
        uint64_t least = value(&calls->least);
        add(&calls->bytes, bytes);
        if (!least || bytes + 1 < least)
            put(&calls->least, bytes + 1);
        if (bytes > value(&calls->most))
            put(&calls->most, bytes);
    }
}

static void count_sizes(struct direction *way, uint64_t bytes, uint64_t began, uint64_t ended) {
    static const uint64_t limits[SIZE_BINS - 1] = {100,     1024,     10240,     102400,    1048576,
                                                   4194304, 10485760, 104857600, 1073741824};
    int bin = 0;
    while (bin < SIZE_BINS - 1 && bytes > limits[bin])
        bin++;
    add(&way->bins[bin], 1);
    for (int i = 0; i < TOP; i++) {
        uint64_t size = value(&way->top[i].size);
        if (!size) {
            put(&way->top[i].size, bytes);
            size = bytes;
        }
        if (size == bytes) {
            add(&way->top[i].count, 1);
            break;
        }
    }
    if (!value(&way->first))
        put(&way->first, began);
    put(&way->last, ended);
}

static void count_order(struct direction *way, struct descriptor *one, int writes, int64_t place,
                        uint64_t bytes) {
    int64_t start = one->last[writes].start, step = place - start;
    uint64_t low = value(&way->low), end = (uint64_t)place + bytes;
    if (!low || (uint64_t)place + 1 < low)
        put(&way->low, (uint64_t)place + 1);
    if (end > value(&way->high))
        put(&way->high, end);
    if (place == one->last[writes].end)
        add(&way->contiguous, 1);
    else if (step && step == one->last[writes].step)
        add(&way->strided, 1);
    else
        add(&way->random, 1);
    one->last[writes].start = place;
    one->last[writes].end = place + (int64_t)bytes;
    one->last[writes].step = step;
}

void moved(int fd, enum operation op, bool writes, ssize_t bytes, int64_t place, uint64_t began) {
    struct file_record *record = record_of(fd);
    if (!record)
        return;
    uint64_t ended = now();
    count(record, op, bytes > 0 ? (uint64_t)bytes : 0, began, ended);
    if (keeps_calls() && op != FREAD && op != FWRITE)
        note_moved(fd, writes, bytes, place, began, ended);
    if (bytes <= 0)
        return;
    struct descriptor *one = &descriptors[fd];
    if (place < 0) {
        place = one->position;
        one->position = place + bytes;
    }
    count_sizes(&record->way[writes], (uint64_t)bytes, began, ended);
    if (atomic_load_explicit(&places_wanted, memory_order_relaxed))
        note_place(record->path, writes, (uint64_t)bytes);
    if (atomic_load_explicit(&requests_wanted, memory_order_relaxed))
        note_request(record->hash, writes, (uint64_t)bytes, place, began, ended);
    /* What a stream reads is elsewhere in its file than its descriptor is. */
    const struct acts *by = one->chosen && !writes && op != FREAD ? acting() : NULL;
    if (by && by->read_on)
        by->read_on(fd, record, place == one->last[writes].end, place + (int64_t)bytes);
    count_order(&record->way[writes], one, writes, place, (uint64_t)bytes);
}

void did(int fd, enum operation op, uint64_t bytes, uint64_t began) {
    struct file_record *record = record_of(fd);
    if (record)
        count(record, op, bytes, began, now());
}

void met(enum metadata kind, uint64_t began) {
    struct part *in = *prefix && !inside ? atomic_load_explicit(&part, memory_order_acquire) : NULL;
    if (in) {
        add(&in->metadata[kind].count, 1);
        add(&in->metadata[kind].time, since(began, now()));
    }
}

void opened(int fd, uint64_t began, const void *caller) {
    int kept = errno;
    struct descriptor *one = descriptor_of(fd);
    if (*prefix && within(caller)) {
        if (one)
            own(fd, &nobody);
        return;
    }
    if (*prefix && fd < 0)
        met(FAILED_OPEN, began);
    if (!*prefix || !one || inside || getpid() != self)
        return;
    uint64_t ended = now();
    struct file_record *record = look(fd);
    if (record != &nobody && record != &none)
        count(record, OPEN, 0, began, ended);
    const struct acts *by = acting();
    if (by && record != &nobody && record != &none && one->chosen)
        by->opened(fd, record);
    errno = kept;
}

/* Before the call, because afterwards the number may already be another thread's. */
struct file_record *closing(int fd) {
    struct descriptor *one = descriptor_of(fd);
    if (!one || !*prefix)
        return NULL;
    struct file_record *owner = atomic_load_explicit(&one->owner, memory_order_acquire);
    forget(fd);
    return !owner || owner == &nobody || owner == &none || getpid() != self ? NULL : owner;
}

void closed(struct file_record *record, uint64_t began) {
    if (!record)
        return;
    uint64_t ended = now();
    count(record, CLOSE, 0, began, ended);
    for (int way = 0; way < 2; way++)
        if (value(&record->way[way].first))
            put(&record->way[way].last, ended);
}
