/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "crc.h"
#include "record.h"

#define WINDOW 48       /* nodes of a loop's body, at most */
#define WIDE_WINDOW 480 /* where HDF5 is called, which takes longer than to look so far back */
#define TURNS 3         /* that must be seen before there is a loop: two alike may be chance */

const struct sw_line_form sw_line_forms[SW_LINES] = {
#define X(name, numbers, call) {#name, numbers, call},
    SW_RECORD_LINES(X)
#undef X
};

size_t sw_items_size(void) {
    return SW_MAX_RECORD_ITEMS * (sizeof(struct sw_item) + 3 * sizeof(uint32_t));
}

void sw_items_lay(struct sw_items *items, void *memory) {
    *items = (struct sw_items){.items = memory};
    items->first = (uint32_t *)(items->items + SW_MAX_RECORD_ITEMS);
    items->inside = items->first + SW_MAX_RECORD_ITEMS;
    items->shape = items->inside + SW_MAX_RECORD_ITEMS;
}

bool sw_items_open(struct sw_items *items) {
    void *memory = mmap(NULL, sw_items_size(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    sw_items_lay(items, memory);
    return true;
}

void sw_items_close(struct sw_items *items) {
    if (items->items)
        munmap(items->items, sw_items_size());
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
    case SW_LINE_external:
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

/* Whether the first calls of the last TURNS spans change by one step, which costs less to ask than all of
 * them. */
static bool may_repeat(const struct sw_items *items, uint32_t last, uint32_t width) {
    const struct sw_item *c = &items->items[items->first[last]],
                         *b = &items->items[items->first[last - width]],
                         *a = &items->items[items->first[last - 2 * width]];
    if (!is_call(c))
        return true;
    for (int n = 1; n < 3; n++) /* the slot of a call rarely changes */
        if (minus(c->numbers[n], b->numbers[n]) != minus(b->numbers[n], a->numbers[n]))
            return false;
    return true;
}

static bool fold(struct sw_items *items, uint32_t window) {
    uint32_t last = items->nodes - 1;
    for (uint32_t width = 1; width <= window && width < items->nodes; width++) {
        uint32_t before = last - width;
        if (items->inside[before] && extend(items, width))
            return true;
        if (last + 1 >= TURNS * width && items->shape[before] == items->shape[last] &&
            items->shape[before - width] == items->shape[last] && may_repeat(items, last, width) &&
            wrap(items, width))
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

/* ---- as text ----
 * The record as text: ranks next to each other that did the same become one group of lines. */

#define MOST_DIGITS 18 /* of a number in a path that may grow */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static size_t digits_at(const char *text) {
    size_t length = 0;
    while (is_digit(text[length]))
        length++;
    return length;
}

static size_t runs_of_digits(const char *text) {
    size_t runs = 0;
    for (; *text; text++)
        if (is_digit(*text)) {
            runs++;
            text += digits_at(text) - 1;
        }
    return runs;
}

static void *copy(const void *from, size_t size) {
    void *to = malloc(size + 1);
    if (to)
        memcpy(to, from, size);
    return to;
}

static void let_go(struct sw_group *group) {
    free((void *)group->part.named);
    free((void *)group->part.calls);
    free((void *)group->part.texts);
    free(group->ranks);
    free(group->digits);
    *group = (struct sw_group){.count = 0};
}

bool sw_group_begin(struct sw_group *group, int64_t rank, const struct sw_part *part) {
    *group = (struct sw_group){.first = rank, .count = 1, .part = *part};
    group->part.named = copy(part->named, part->named_count * sizeof *part->named);
    group->part.calls = copy(part->calls, part->call_count * sizeof *part->calls);
    group->part.texts = copy(part->texts, part->text_size);
    group->ranks = calloc((size_t)part->named_count + part->call_count + 1, sizeof *group->ranks);
    for (size_t at = 0; at < part->text_size; at += strlen(part->texts + at) + 1)
        group->runs += runs_of_digits(part->texts + at);
    group->digits = calloc(group->runs + 1, sizeof *group->digits);
    bool whole = group->part.named && group->part.calls && group->part.texts && group->ranks && group->digits;
    if (!whole)
        let_go(group);
    return whole;
}

/* Is an item of a rank what the group's first one and the steps so far say? The second rank sets the steps.
 */
static bool fits(const struct sw_item *head, const struct sw_item *item, int64_t *steps, int64_t distance) {
    if (head->line != item->line || head->depth != item->depth ||
        memcmp(head->steps, item->steps, sizeof head->steps) != 0)
        return false;
    for (int n = 0; n < SW_RECORD_NUMBERS; n++) {
        int64_t off = (int64_t)((uint64_t)item->numbers[n] - (uint64_t)head->numbers[n]);
        if (distance == 1)
            steps[n] = off;
        if (off != (int64_t)((uint64_t)steps[n] * (uint64_t)distance))
            return false;
    }
    return head->line != SW_LINE_loop || steps[0] == 0;
}

/* The same of a text with its runs of digits; moves on *at in both the group's steps. */
static bool text_fits(const char *head, const char *text, int64_t *steps, int64_t distance) {
    while (*head || *text) {
        size_t length = digits_at(head), other = digits_at(text);
        if (!length || !other) {
            if (length != other || *head++ != *text++)
                return false;
            continue;
        }
        if (length > MOST_DIGITS || other > MOST_DIGITS) {
            if (length != other || memcmp(head, text, length) != 0)
                return false;
        } else {
            long long from = strtoll(head, NULL, 10), to = strtoll(text, NULL, 10);
            char expected[32];
            if (distance == 1)
                *steps = to - from;
            int printed = snprintf(expected, sizeof expected, "%0*lld", (int)length,
                                   from + (long long)(*steps * distance));
            if (printed != (int)other || memcmp(expected, text, other) != 0)
                return false;
        }
        steps++;
        head += length;
        text += other;
    }
    return true;
}

bool sw_group_take(struct sw_group *group, const struct sw_part *part) {
    const struct sw_part *own = &group->part;
    if (!group->count || own->named_count != part->named_count || own->call_count != part->call_count)
        return false;
    for (uint32_t i = 0; i < part->named_count; i++)
        if (!fits(&own->named[i], &part->named[i], group->ranks[i], group->count))
            return false;
    for (uint32_t i = 0; i < part->call_count; i++)
        if (!fits(&own->calls[i], &part->calls[i], group->ranks[part->named_count + i], group->count))
            return false;
    size_t at = 0, other = 0;
    for (int64_t *steps = group->digits; at < own->text_size; at += strlen(own->texts + at) + 1) {
        if (other >= part->text_size || !text_fits(own->texts + at, part->texts + other, steps, group->count))
            return false;
        steps += runs_of_digits(own->texts + at);
        other += strlen(part->texts + other) + 1;
    }
    if (other != part->text_size)
        return false;
    struct sw_item *calls = (struct sw_item *)own->calls;
    for (uint32_t i = 0; i < part->call_count; i++)
        calls[i].pause += part->calls[i].pause;
    group->count++;
    return true;
}

/* ---- text ---- */

void sw_record_write(FILE *file, uint32_t *crc, const char *text, size_t size) {
    *crc = sw_crc32(*crc, text, size);
    fwrite(text, 1, size, file);
}

void sw_record_print(FILE *file, uint32_t *crc, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (size < 0 || size > (int)sizeof line - 2)
        size = (int)sizeof line - 2;
    line[size++] = '\n';
    sw_record_write(file, crc, line, (size_t)size);
}

void sw_record_print_text(FILE *file, uint32_t *crc, const char *head, const char *text) {
    sw_record_write(file, crc, head, strlen(head));
    for (; *text; text++) {
        char escaped[4];
        unsigned char c = (unsigned char)*text;
        if (c < ' ' || c == '%' || c == 0x7f)
            sw_record_write(file, crc, escaped, (size_t)snprintf(escaped, sizeof escaped, "%%%02x", c));
        else
            sw_record_write(file, crc, text, 1);
    }
    sw_record_write(file, crc, "\n", 1);
}

/* NUMBER[,STEP...][~STEP]: the steps of the loops, the innermost first, and that of the ranks. */
static size_t put_number(char *line, size_t size, const struct sw_item *item, int n, int64_t rank) {
    size_t used = (size_t)snprintf(line, size, " %" PRId64, item->numbers[n]);
    uint32_t steps = item->depth;
    while (steps && !item->steps[steps - 1][n])
        steps--;
    for (uint32_t i = 0; i < steps; i++)
        used += (size_t)snprintf(line + used, size - used, ",%" PRId64, item->steps[i][n]);
    if (rank)
        used += (size_t)snprintf(line + used, size - used, "~%" PRId64, rank);
    return used;
}

static void print_item(FILE *file, uint32_t *crc, const struct sw_item *item, const int64_t *ranks,
                       int64_t turns) {
    const struct sw_line_form *form = &sw_line_forms[item->line];
    char line[1024];
    size_t used = (size_t)snprintf(line, sizeof line, "%s", form->name);
    for (int n = 0; n < form->numbers; n++)
        used += put_number(line + used, sizeof line - used, item, n, ranks[n]);
    if (form->call)
        used += (size_t)snprintf(line + used, sizeof line - used, " %" PRId64, item->pause / turns);
    line[used++] = '\n';
    sw_record_write(file, crc, line, used);
}

static void print_named(const struct sw_group *group, FILE *file, uint32_t *crc) {
    const char *text = group->part.texts;
    const int64_t *digits = group->digits;
    for (uint32_t i = 0; i < group->part.named_count; i++) {
        const struct sw_item *item = &group->part.named[i];
        if (item->line != SW_LINE_file && item->line != SW_LINE_hint) {
            print_item(file, crc, item, group->ranks[i], 1);
            continue;
        }
        char head[512] = "hint ";
        size_t runs = runs_of_digits(text);
        if (item->line == SW_LINE_file) {
            size_t used = (size_t)snprintf(head, sizeof head, "file ");
            for (size_t run = 0; run < runs && used < sizeof head - 32; run++)
                used += (size_t)snprintf(head + used, sizeof head - used, run ? ",%" PRId64 : "%" PRId64,
                                         digits[run]);
            snprintf(head + used, sizeof head - used, runs ? " " : "- ");
        }
        sw_record_print_text(file, crc, head, text);
        digits += runs;
        text += strlen(text) + 1;
    }
}

void sw_group_end(struct sw_group *group, FILE *file, uint32_t *crc) {
    if (!group->count)
        return;
    if (group->count == 1) { /* a second rank that did not fit may have left steps */
        memset(group->ranks, 0,
               ((size_t)group->part.named_count + group->part.call_count) * sizeof *group->ranks);
        memset(group->digits, 0, group->runs * sizeof *group->digits);
    }
    sw_record_print(file, crc, "ranks %" PRId64 " %" PRId64, group->first, group->count);
    print_named(group, file, crc);
    int64_t around[SW_RECORD_DEPTH + 1] = {group->count};
    int depth = 0;
    for (uint32_t i = 0; i < group->part.call_count; i++) {
        const struct sw_item *item = &group->part.calls[i];
        if (item->line == SW_LINE_loop && depth < SW_RECORD_DEPTH) {
            around[depth + 1] = around[depth] * item->numbers[0];
            depth++;
        } else if (item->line == SW_LINE_end && depth > 0) {
            depth--;
        }
        print_item(file, crc, item, group->ranks[group->part.named_count + i], around[depth]);
    }
    let_go(group);
}
