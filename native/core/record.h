/* SPDX-License-Identifier: BSD-3-Clause
 * What a rank did in MPI-IO, as lines of the record of stripewise_format.h. Calls that repeat are folded into
 * loops as they come: the numbers of a line inside change by a constant step from turn to turn. So regular
 * calls take a few lines however many they are, and the memory that a rank uses is bounded. */
#ifndef STRIPEWISE_RECORD_H
#define STRIPEWISE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "stripewise_format.h"

enum sw_line {
#define X(name, numbers, call) SW_LINE_##name,
    SW_RECORD_LINES(X)
#undef X
        SW_LINES
};

struct sw_line_form {
    const char *name;
    int numbers;
    bool call;
};
extern const struct sw_line_form sw_line_forms[SW_LINES];

struct sw_item {
    enum sw_line line;
    uint32_t depth;                                    /* of a call: the loops around it */
    int64_t numbers[SW_RECORD_NUMBERS];                /* loop: times; end: the items inside the loop */
    int64_t steps[SW_RECORD_DEPTH][SW_RECORD_NUMBERS]; /* per turn; the innermost loop first */
    int64_t pause;                                     /* nanoseconds before the call, over all turns */
};

/* Items in their order. nodes: calls and loops that are in no loop. */
struct sw_items {
    struct sw_item *items;
    uint32_t count, nodes;
    uint32_t *first, *inside, *shape; /* of a node: its first item, items in its loop or 0, a hash */
};

/* Bytes for SW_MAX_RECORD_ITEMS items, and where they are to lie, zeroed. */
size_t sw_items_size(void);
void sw_items_lay(struct sw_items *items, void *memory);

/* Room for SW_MAX_RECORD_ITEMS, of which only what is used becomes memory. False if the system refuses. */
bool sw_items_open(struct sw_items *items);
void sw_items_close(struct sw_items *items);

/* Adds a call, and folds what repeats at the end. False if there is no room. */
bool sw_items_add(struct sw_items *items, enum sw_line line, const int64_t numbers[SW_RECORD_NUMBERS],
                  int64_t pause);

/* Goes through the calls as they were made. Begins zeroed but for items and count. */
struct sw_walk {
    const struct sw_item *items;
    uint32_t count, at, depth;
    uint32_t body[SW_RECORD_DEPTH];
    int64_t turn[SW_RECORD_DEPTH], times[SW_RECORD_DEPTH];
};

/* The next call with its numbers, or NULL at the end. */
const struct sw_item *sw_walk_next(struct sw_walk *walk, int64_t numbers[SW_RECORD_NUMBERS]);

/* What one rank recorded: what its calls refer to (comm, file, hint, type, block, dim), its calls, the texts
 * of its files and hints one after the other, each with its NUL. */
struct sw_part {
    const struct sw_item *named, *calls;
    uint32_t named_count, call_count;
    const char *texts;
    size_t text_size;
};

/* Consecutive ranks that did the same but for steps from rank to rank. */
struct sw_group {
    int64_t first, count;
    struct sw_part part;                 /* of the first one, owned */
    int64_t (*ranks)[SW_RECORD_NUMBERS]; /* steps of the named items, then of the calls */
    int64_t *digits;                     /* steps of the runs of digits in the texts of files */
    size_t runs;
};

/* Begins a group with a copy of a rank's part. False if memory is out. */
bool sw_group_begin(struct sw_group *group, int64_t rank, const struct sw_part *part);

/* Adds the next rank, if it fits. */
bool sw_group_take(struct sw_group *group, const struct sw_part *part);

/* Writes the lines of a group, and empties it. crc goes on over what is written. */
void sw_group_end(struct sw_group *group, FILE *file, uint32_t *crc);

void sw_record_write(FILE *file, uint32_t *crc, const char *text, size_t size);

/* Writes one line, whose format has no newline. */
void sw_record_print(FILE *file, uint32_t *crc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes a line that ends in a text; control characters, DEL and % become %XX. */
void sw_record_print_text(FILE *file, uint32_t *crc, const char *head, const char *text);

#endif
