/* SPDX-License-Identifier: BSD-3-Clause */
#include "layout_components.h"

#include <stddef.h>

void sw_components_add(struct components *layout, const struct component *next, bool extension) {
    struct component *last = layout->count ? &layout->all[layout->count - 1] : NULL;
    bool next_mirror = last && next->start != last->end;
    if (last && extension && !next_mirror) {
        last->end = next->end;
        last->extension = next->extension;
    } else if (!next_mirror && layout->count < MOST_COMPONENTS) {
        layout->all[layout->count++] = *next;
    } else {
        layout->odd = true;
    }
}
