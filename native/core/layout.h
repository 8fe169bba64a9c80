/* SPDX-License-Identifier: BSD-3-Clause
 * File systems and the layout of files on them. Nothing here ever unlinks, truncates or overwrites a file. */
#ifndef STRIPEWISE_LAYOUT_H
#define STRIPEWISE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sw_layout_kind { SW_NO_LAYOUT, SW_IN_CEPHFS, SW_IN_LUSTRE };

/* A file's layout as the file system tells it; -1: not told. On Lustre stripe_unit is the stripe size. */
struct sw_layout {
    enum sw_layout_kind kind;
    int64_t stripe_count, stripe_unit, object_size;
};

struct sw_layout_setting {
    const char *key, *value;
};

enum sw_layout_outcome { SW_LAID_OUT, SW_LAYOUT_IMPOSSIBLE /* it does not apply here */, SW_LAYOUT_FAILED };

/* The name of the file system that holds path, or would hold it; the magic number where it is not known.
 * Writes to name. */
void sw_file_system_name(const char *path, char *name, size_t size);

/* Reads the layout of an existing file; false if there is none to tell. */
bool sw_layout_read(const char *path, struct sw_layout *layout);

/* Creates the file at path with this layout if there is none; on CephFS an empty file is laid out too. note
 * receives why it did not work, or is "". */
enum sw_layout_outcome sw_layout_apply(enum sw_layout_kind kind, const char *path,
                                       const struct sw_layout_setting *settings, size_t count, char *note,
                                       size_t note_size);

/* The parts of it that each file system brings. */
bool sw_cephfs_read(const char *path, struct sw_layout *layout);
enum sw_layout_outcome sw_cephfs_apply(const char *path, const struct sw_layout_setting *settings,
                                       size_t count, char *note, size_t note_size);
bool sw_lustre_read(const char *path, struct sw_layout *layout);
enum sw_layout_outcome sw_lustre_apply(const char *path, const struct sw_layout_setting *settings,
                                       size_t count, char *note, size_t note_size);

#endif
