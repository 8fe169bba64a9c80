/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "record.h"

#include <string.h>
#include <sys/mman.h>

#define WINDOW 48       /* nodes of a loop's body, at most */
#define WIDE_WINDOW 480 /* where HDF5 is called, which takes longer than to look so far back */
#define TURNS 3         /* that must be seen before there is a loop: two alike may be chance */

const struct sw_line_form sw_line_forms[SW_LINES] = {
#define X(name, numbers, call) {#name, numbers, call},
    SW_RECORD_LINES(X)
#undef X
};

static size_t memory_size(void) {
    return SW_MAX_RECORD_ITEMS * (sizeof(struct sw_item) + 3 * sizeof(uint32_t));
}

bool sw_items_open(struct sw_items *items) {
    void *memory =
        mmap(NULL, memory_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    *items = (struct sw_items){.items = memory};
    items->first = (uint32_t *)(items->items + SW_MAX_RECORD_ITEMS);
    items->inside = items->first + SW_MAX_RECORD_ITEMS;
    items->shape = items->inside + SW_MAX_RECORD_ITEMS;
    return true;
}

void sw_items_close(struct sw_items *items) {
    if (items->items)
        munmap(items->items, memory_size());
    *items = (struct sw_items){.items = NULL};
}

/* Differences may pass the limits of what is signed: they come back the same way. */
static int64_t plus(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t minus(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t times(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static bool is_call(const struct sw_item *item) {
    return item->line != SW_LINE_loop && item->line != SW_LINE_end;
}

static uint32_t mix(uint32_t hash, uint64_t value) {
    return (hash ^ (uint32_t)(value ^ value >> 32)) * 0x9e3779b1u + 0x85ebca6bu;
}

/* Alike for what may become turns of one loop. */
static uint32_t shape_of(const struct sw_items *items, uint32_t first, uint32_t end) {
    uint32_t hash = 0;
    for (uint32_t i = first; i < end; i++) {
        const struct sw_item *item = &items->items[i];
        hash = mix(hash, (uint64_t)item->line);
        if (item->line == SW_LINE_loop)
            hash = mix(hash, (uint64_t)item->numbers[0]);
    }
    return hash;
}

/* Would a and b, depth loops deep inside, be turns of one loop, for their steps within? */
static bool alike(const struct sw_item *a, const struct sw_item *b, uint32_t depth) {
    if (a->line != b->line)
        return false;
    if (!is_call(a))
        return a->numbers[0] == b->numbers[0];
    return memcmp(a->steps, b->steps, depth * sizeof *a->steps) == 0;
}

/* Are the items from next on the next turn of the loop that begins at loop, whose end is before next? */
static bool continues(const struct sw_items *items, uint32_t loop, uint32_t next) {
    int64_t turns = items->items[loop].numbers[0];
    for (uint32_t i = loop + 1; i < next - 1; i++) {
        const struct sw_item *body = &items->items[i], *turn = &items->items[next + i - loop - 1];
        if (!alike(body, turn, body->depth - 1))
            return false;
        if (!is_call(body))
            continue;
        const int64_t *steps = body->steps[body->depth - 1];
        for (int n = 0; n < SW_RECORD_NUMBERS; n++)
            if (turn->numbers[n] != plus(body->numbers[n], times(turns, steps[n])))
                return false;
    }
    return true;
}

/* Are the last TURNS spans of length items turns of one loop that begins at first? */
static bool repeats(const struct sw_items *items, uint32_t first, uint32_t length) {
    for (uint32_t i = first; i < first + length; i++) {
        const struct sw_item *a = &items->items[i];
        if (is_call(a) && a->depth == SW_RECORD_DEPTH)
            return false;
        for (uint32_t turn = 1; turn < TURNS; turn++) {
            const struct sw_item *before = &a[(size_t)(turn - 1) * length], *b = &a[(size_t)turn * length];
            if (!alike(a, b, a->depth))
                return false;
            for (int n = 0; is_call(a) && n < SW_RECORD_NUMBERS; n++)
                if (minus(b->numbers[n], before->numbers[n]) != minus(a[length].numbers[n], a->numbers[n]))
                    return false;
        }
    }
    return true;
}

/* Takes the items from next on away; their pauses count where they repeat what is at like. */
static void drop(struct sw_items *items, uint32_t like, uint32_t next) {
    for (uint32_t i = next; i < items->count; i++)
        items->items[like + i - next].pause += items->items[i].pause;
    items->count = next;
}

static void renew_shape(struct sw_items *items) {
    uint32_t node = items->nodes - 1;
    items->shape[node] = shape_of(items, items->first[node], items->count);
}

static bool extend(struct sw_items *items, uint32_t width) {
    uint32_t node = items->nodes - width - 1, loop = items->first[node], next = items->first[node + 1];
    if (items->inside[node] != items->count - next || !continues(items, loop, next))
        return false;
    drop(items, loop + 1, next);
    items->items[loop].numbers[0]++;
    items->nodes -= width;
    renew_shape(items);
    return true;
}

static bool wrap(struct sw_items *items, uint32_t width) {
    uint32_t node = items->nodes - TURNS * width, first = items->first[node],
             length = items->first[node + width] - first;
    if (items->count - first != TURNS * length || items->first[node + 2 * width] != first + 2 * length ||
        !repeats(items, first, length))
        return false;
    struct sw_item *body = &items->items[first];
    for (uint32_t i = 0; i < length; i++)
        if (is_call(&body[i])) {
            for (int n = 0; n < SW_RECORD_NUMBERS; n++)
                body[i].steps[body[i].depth][n] = minus(body[length + i].numbers[n], body[i].numbers[n]);
            body[i].depth++;
        }
    for (uint32_t turn = 1; turn < TURNS; turn++)
        drop(items, first, items->count - length);
    memmove(body + 1, body, length * sizeof *body);
    body[0] = (struct sw_item){.line = SW_LINE_loop, .numbers = {TURNS}};
    body[length + 1] = (struct sw_item){.line = SW_LINE_end, .numbers = {length}};
    items->count += 2;
    items->nodes = node + 1;
    items->inside[node] = length;
    renew_shape(items);
    return true;
}

/* Lines of what is told with the call that follows. */
static bool belongs_to_next(enum sw_line line) {
    switch (line) {
    case SW_LINE_memory:
    case SW_LINE_h5select:
    case SW_LINE_h5memory:
    case SW_LINE_h5size:
        return true;
    default:
        return false;
    }
}

static uint32_t window_of(enum sw_line line) {
    return strncmp(sw_line_forms[line].name, "h5", 2) == 0 ? WIDE_WINDOW : WINDOW;
}

static bool fold(struct sw_items *items, uint32_t window) {
    uint32_t last = items->nodes - 1;
    for (uint32_t width = 1; width <= window && width < items->nodes; width++) {
        uint32_t before = last - width;
        if (items->inside[before] && extend(items, width))
            return true;
        if (last + 1 >= TURNS * width && items->shape[before] == items->shape[last] &&
            items->shape[before - width] == items->shape[last] && wrap(items, width))
            return true;
    }
    return false;
}

bool sw_items_add(struct sw_items *items, enum sw_line line, const int64_t numbers[SW_RECORD_NUMBERS],
                  int64_t pause) {
    if (items->count + 1 >= SW_MAX_RECORD_ITEMS)
        return false;
    struct sw_item *item = &items->items[items->count];
    *item = (struct sw_item){.line = line, .pause = pause};
    memcpy(item->numbers, numbers, sizeof item->numbers);
    uint32_t node = items->nodes++;
    items->first[node] = items->count++;
    items->inside[node] = 0;
    items->shape[node] = mix(0, (uint64_t)line);
    if (belongs_to_next(line))
        return true;
    const uint32_t window = window_of(line);
    while (fold(items, window))
        ;
    return true;
}

const struct sw_item *sw_walk_next(struct sw_walk *walk, int64_t numbers[SW_RECORD_NUMBERS]) {
    while (walk->at < walk->count) {
        const struct sw_item *item = &walk->items[walk->at++];
        if (item->line == SW_LINE_loop) {
            walk->body[walk->depth] = walk->at;
            walk->times[walk->depth] = item->numbers[0];
            walk->turn[walk->depth++] = 0;
        } else if (item->line == SW_LINE_end) {
            uint32_t top = walk->depth - 1;
            if (++walk->turn[top] < walk->times[top])
                walk->at = walk->body[top];
            else
                walk->depth--;
        } else {
            for (int n = 0; n < SW_RECORD_NUMBERS; n++) {
                numbers[n] = item->numbers[n];
                for (uint32_t loop = 0; loop < walk->depth; loop++)
                    numbers[n] =
                        plus(numbers[n], times(walk->turn[walk->depth - 1 - loop], item->steps[loop][n]));
            }
            return item;
        }
    }
    return NULL;
}
