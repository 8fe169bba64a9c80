/* SPDX-License-Identifier: BSD-3-Clause
 * The layout of a file on Lustre: its components. */
#ifndef STRIPEWISE_LAYOUT_COMPONENTS_H
#define STRIPEWISE_LAYOUT_COMPONENTS_H

#include <stdbool.h>
#include <stdint.h>

/* A part of a file with stripes of its own; a file that is not composite has one. A number that is 0 is the
 * file system's default. A component that grows is one with the room that it grows into. */
#define TO_THE_END INT64_MAX
struct component {
    int64_t start, end, count, size, extension;
    bool on_mdt, overstriped;
    char pool[16];
};

#define MOST_COMPONENTS 16 /* a folder that has more is left alone */
struct components {
    int count;
    bool composite, odd; /* odd: mirrored, or not understood */
    struct component all[MOST_COMPONENTS];
};

/* Adds the next component; extension: the room that the one before it may grow into. */
void sw_components_add(struct components *layout, const struct component *next, bool extension);

#endif
