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

enum sw_layout_outcome {
    SW_LAID_OUT,
    SW_LAYOUT_IMPOSSIBLE, /* it does not apply here */
    SW_LAYOUT_BY_HINTS,   /* Lustre's tools are not to be had, but ROMIO's hints can ask for it */
    SW_LAYOUT_FAILED
};

/* What a folder gives to the files that are created in it. */
struct sw_parent {
    struct sw_layout layout; /* kind SW_NO_LAYOUT: not told */
    bool composite, pooled;  /* of Lustre: setting stripes would replace it */
};

/* The name of the file system that holds path, or would hold it; the magic number where it is not known.
 * Writes to name. */
void sw_file_system_name(const char *path, char *name, size_t size);

/* Reads the layout of an existing file; false if there is none to tell. */
bool sw_layout_read(const char *path, struct sw_layout *layout);

/* Where a file is, or would be. */
enum sw_layout_kind sw_layout_place(const char *path);

/* Reads what the folder of path gives to new files. */
void sw_layout_parent(enum sw_layout_kind kind, const char *path, struct sw_parent *parent);

/* Creates the file at path with this layout if there is none; on CephFS an empty file is laid out too. A
 * folder whose own layout is composite or pooled stays in force unless allow (bits of enum sw_allowance) says
 * otherwise. note receives why it did not work, or is "". */
enum sw_layout_outcome sw_layout_apply(enum sw_layout_kind kind, const char *path, unsigned allow,
                                       const struct sw_layout_setting *settings, size_t count, char *note,
                                       size_t note_size);

/* May a file be laid out that MPI opens so (MPI_MODE_CREATE, MPI_MODE_EXCL)? Else why names the reason. */
bool sw_layout_possible(enum sw_layout_kind kind, const char *path, bool create, bool exclusive,
                        unsigned allow, char *why, size_t size);

/* The hint of ROMIO that asks for a layout key of Lustre, or NULL. */
const char *sw_lustre_hint(const char *key);

/* The parts of it that each file system brings. */
bool sw_cephfs_read(const char *path, struct sw_layout *layout);
bool sw_cephfs_is_folder(const char *folder);
void sw_cephfs_parent(const char *folder, struct sw_parent *parent);
enum sw_layout_outcome sw_cephfs_apply(const char *path, const struct sw_layout_setting *settings,
                                       size_t count, char *note, size_t note_size);
bool sw_lustre_read(const char *path, struct sw_layout *layout);
void sw_lustre_parent(const char *folder, struct sw_parent *parent);
enum sw_layout_outcome sw_lustre_apply(const char *path, const struct sw_layout_setting *settings,
                                       size_t count, char *note, size_t note_size);

#endif
