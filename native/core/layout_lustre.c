/* SPDX-License-Identifier: BSD-3-Clause
 * Lustre's layout is fixed when a file is created. liblustreapi does it where it can be loaded, else the lfs
 * command does. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "file_system.h"
#include "layout_lustre_api.h"
#include "layout_lustre_command.h"

static bool read_components(const char *path, bool folder, struct components *layout) {
    *layout = (struct components){0};
    return sw_lustre_api() ? sw_lustre_api_read(path, folder, layout)
                           : sw_lustre_command_read(path, folder, layout);
}

/* The keys of a layout. What the file begins with is of one form: mdt_size bytes on the metadata server, then
 * one stripe up to a sixteenth of head_size, then a few up to head_size. All other keys are of the last
 * component. */
enum { COUNT, SIZE, OVERSTRIPE, MDT, HEAD, EXTENSION, START, POOL, TEMPLATE, KEYS }; /* of sw_lustre.keys */
enum { HEAD_SHARE = 16, HEAD_STRIPES = 4 };

static void tell(const struct components *layout, int64_t numbers[SW_LAYOUT_NUMBERS]) {
    if (layout->count < 1)
        return;
    const struct component *first = &layout->all[0], *last = &layout->all[layout->count - 1];
    numbers[COUNT] = last->count ? last->count : -1;
    numbers[SIZE] = last->size ? last->size : -1;
    numbers[OVERSTRIPE] = last->overstriped ? last->count : 0;
    numbers[MDT] = first->on_mdt ? first->end : 0;
    numbers[HEAD] = last->start > numbers[MDT] ? last->start : 0;
    numbers[EXTENSION] = last->extension;
}

static void lustre_parent(const char *folder, struct sw_parent *parent) {
    struct components layout;
    if (!read_components(folder, true, &layout))
        return;
    parent->composite = layout.composite;
    for (int c = 0; c < layout.count; c++)
        parent->pooled |= *layout.all[c].pool;
    tell(&layout, parent->layout.numbers);
}

static bool lustre_read(const char *path, struct sw_layout *layout) {
    struct components found;
    if (!read_components(path, false, &found))
        return false;
    tell(&found, layout->numbers);
    return true;
}

/* What the values make of a folder's layout. A head that is asked for replaces the folder's, which else
 * stays. */
static void change(struct components *layout, const char *const values[SW_LAYOUT_KEYS]) {
    int64_t now[SW_LAYOUT_NUMBERS] = {0}, wanted[KEYS];
    tell(layout, now);
    for (int k = 0; k < KEYS; k++)
        wanted[k] = values[k] ? strtoll(values[k], NULL, 10) : k < SW_LAYOUT_NUMBERS ? now[k] : 0;
    bool new_head = values[MDT] || values[HEAD], was_composite = layout->composite;
    if (new_head) {
        struct component last = layout->count ? layout->all[layout->count - 1] : (struct component){0};
        const struct component head[] = {
            {.end = wanted[MDT], .on_mdt = true},
            {.end = wanted[HEAD] / HEAD_SHARE, .count = 1, .size = last.size},
            {.end = wanted[HEAD], .count = HEAD_STRIPES, .size = last.size},
        };
        layout->count = 0;
        last.start = 0;
        for (size_t c = 0; c < sizeof head / sizeof *head; c++)
            if (head[c].end > last.start) {
                layout->all[layout->count] = head[c];
                layout->all[layout->count++].start = last.start;
                last.start = head[c].end;
            }
        last.end = TO_THE_END;
        layout->all[layout->count++] = last;
        layout->composite = layout->count > 1;
    }
    if (!layout->composite && !was_composite) {
        /* What is not asked for is left to the file system. */
        *layout = (struct components){.count = 1, .all = {{.end = TO_THE_END}}};
        layout->composite = wanted[EXTENSION] > 0;
    }
    for (int c = new_head ? 0 : layout->count - 1; c < layout->count; c++) {
        if (values[SIZE])
            layout->all[c].size = wanted[SIZE];
        if (values[POOL])
            snprintf(layout->all[c].pool, sizeof layout->all[c].pool, "%s", values[POOL]);
    }
    struct component *last = &layout->all[layout->count - 1];
    if (values[OVERSTRIPE]) {
        last->count = wanted[OVERSTRIPE];
        last->overstriped = last->count != 0;
    } else if (values[COUNT]) {
        last->count = wanted[COUNT];
        last->overstriped = false;
    }
    if (values[EXTENSION])
        last->extension = wanted[EXTENSION];
}

/* Two things have no stable form in the library, but in lfs: stripes by the number of all targets (-2 to -32)
 * and components that grow. */
static bool only_lfs_can(const struct components *layout, const char *const values[SW_LAYOUT_KEYS]) {
    bool only = values[TEMPLATE];
    for (int c = 0; c < layout->count; c++)
        only |= layout->all[c].count < -1 || layout->all[c].extension;
    return only;
}

/* Why values cannot be a layout, or NULL. */
static const char *refusal(const struct components *folder, const char *const values[SW_LAYOUT_KEYS]) {
    int64_t mdt = values[MDT] ? strtoll(values[MDT], NULL, 10) : 0,
            head = values[HEAD] ? strtoll(values[HEAD], NULL, 10) : 0;
    bool others = false;
    for (int k = 0; k < TEMPLATE; k++)
        others |= values[k] != NULL;
    if (values[TEMPLATE])
        return others ? "template excludes all other keys" : NULL;
    if (folder->odd)
        return "the folder's layout is mirrored, or has more components than can be changed";
    if (mdt < 0 || mdt % 65536 || head < 0 || head % (INT64_C(65536) * HEAD_SHARE))
        return "mdt_size is not a multiple of 64 KiB, or head_size not one of 1 MiB";
    return head && head / HEAD_SHARE <= mdt ? "head_size is not more than 16 times mdt_size" : NULL;
}

static enum sw_layout_outcome lustre_apply(const char *path, mode_t mode, const struct sw_parent *parent,
                                           const char *const values[SW_LAYOUT_KEYS], char *note,
                                           size_t note_size) {
    char folder[SW_MAX_PATH], output[200];
    struct components layout = {0};
    struct stat status;
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    /* Else nothing of the folder's is needed. What was read of a layout in part is of no use. */
    if ((parent->composite || values[MDT] || values[HEAD]) && !read_components(folder, true, &layout))
        layout = (struct components){0};
    const char *wrong = refusal(&layout, values);
    if (wrong) {
        snprintf(note, note_size, "%s", wrong);
        return SW_LAYOUT_FAILED;
    }
    change(&layout, values);
    if (sw_lustre_api() && !only_lfs_can(&layout, values)) {
        if (sw_lustre_api_create(path, mode, &layout, values[START]) == 0)
            return SW_LAID_OUT;
        snprintf(note, note_size, "liblustreapi: %s", strerror(errno));
        return SW_LAYOUT_FAILED;
    }
    int code =
        sw_lustre_command_create(path, mode, &layout, values[START], values[TEMPLATE], output, sizeof output);
    if (code == 0 && stat(path, &status) == 0)
        return SW_LAID_OUT;
    output[strcspn(output, "\n")] = '\0';
    if (code < 0) {
        snprintf(note, note_size, "%s",
                 sw_lustre_api() ? "only the lfs command can lay out files so, and it was not found"
                                 : "neither liblustreapi nor the lfs command was found");
        for (int k = 0; k < KEYS; k++)
            if (sw_lustre_api() || (values[k] && !sw_lustre.keys[k].hints[0]))
                return SW_LAYOUT_FAILED;
        return SW_LAYOUT_BY_HINTS;
    }
    snprintf(note, note_size, "lfs setstripe failed with exit code %d: %s", code, output);
    return SW_LAYOUT_FAILED;
}

static bool lustre_holds(const char *path, const char *name, const char *folder) {
    (void)path, (void)folder;
    return strcmp(name, SW_LAYOUT_LUSTRE) == 0;
}

static const char *lustre_fixed(const struct stat *status) {
    (void)status;
    return "the file exists; on Lustre the layout is fixed at creation";
}

/* The hint of the first target had another name before MPICH 4.2. */
const struct sw_file_system sw_lustre = {
    .name = SW_LAYOUT_LUSTRE,
    .keys = {{SW_KEY_STRIPE_COUNT, "stripe_count", {"striping_factor"}, false},
             {SW_KEY_STRIPE_SIZE, "stripe_size", {"striping_unit"}, false},
             {.name = SW_KEY_OVERSTRIPE_COUNT},
             {.name = SW_KEY_MDT_SIZE},
             {.name = SW_KEY_HEAD_SIZE},
             {.name = SW_KEY_EXTENSION_SIZE},
             {SW_KEY_START_OST, NULL, {"start_iodevice", "romio_lustre_start_iodevice"}, false},
             {.name = SW_KEY_POOL, .text = true},
             {.name = SW_KEY_TEMPLATE, .text = true}},
    .holds = lustre_holds,
    .read = lustre_read,
    .parent = lustre_parent,
    .fixed = lustre_fixed,
    .apply = lustre_apply,
};
