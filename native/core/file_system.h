/* SPDX-License-Identifier: BSD-3-Clause
 * What a file system with layouts is: one struct of callbacks each. layout.h asks them. */
#ifndef STRIPEWISE_FILE_SYSTEM_H
#define STRIPEWISE_FILE_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "stripewise_format.h"

#define SW_LAYOUT_NUMBERS 6 /* keys that a file system may tell */
#define SW_LAYOUT_KEYS 9

/* A file's layout as the file system tells it. Sent from rank to rank as it is. */
struct sw_layout {
    uint32_t place;                     /* of its file system in sw_file_systems, plus one; 0: no layout */
    int64_t numbers[SW_LAYOUT_NUMBERS]; /* of the file system's first keys; -1: not told */
};
#define SW_NO_LAYOUT ((struct sw_layout){0, {-1, -1, -1, -1, -1, -1}})

/* What a folder gives to the files that are created in it. */
struct sw_parent {
    struct sw_layout layout; /* place 0: not told */
    bool composite, pooled;  /* setting stripes would replace a layout of this kind */
};

enum sw_layout_outcome {
    SW_LAID_OUT,
    SW_LAYOUT_IMPOSSIBLE, /* it does not apply here */
    SW_LAYOUT_BY_HINTS,   /* the file system's tools are missing, but hints can ask for it */
    SW_LAYOUT_FAILED
};

/* A file system whose files have layouts: all that differs between them. */
struct sw_file_system {
    const char *name; /* in plans and reports */
    struct sw_layout_key {
        const char *name, *role; /* role: of a model's column, or NULL */
        const char *hints[2];    /* of ROMIO that ask for the same */
        bool text;               /* else the value is an integer */
    } keys[SW_LAYOUT_KEYS];      /* first those that layout.numbers holds */
    /* Is path there? name: its kind, as statfs tells it; folder: that holds path. */
    bool (*holds)(const char *path, const char *name, const char *folder);
    /* Can it be there, as far as the name tells? NULL: if the names are equal. */
    bool (*may_hold)(const char *name);
    /* Fills the numbers of an existing file's layout; false if there is none to tell. */
    bool (*read)(const char *path, struct sw_layout *layout);
    void (*parent)(const char *folder, struct sw_parent *parent);
    /* Why an existing file keeps its layout, or NULL. */
    const char *(*fixed)(const struct stat *status);
    /* Creates the file with values[i] of keys[i] (NULL: not asked for) in its folder, with no more
     * permissions than mode. NULL: the runtime cannot do it, and `instead` says what to do. note receives why
     * it did not work. */
    enum sw_layout_outcome (*apply)(const char *path, mode_t mode, const struct sw_parent *parent,
                                    const char *const values[SW_LAYOUT_KEYS], char *note, size_t note_size);
    const char *instead;
};

/* Commands alone lay out and read: no library is loaded and nothing is allocated, so that handlers of signals
 * may create files. */
extern bool sw_layout_by_commands;

extern const struct sw_file_system sw_lustre, sw_cephfs, sw_beegfs;
extern const struct sw_file_system *const sw_file_systems[SW_FILE_SYSTEMS];

#endif
