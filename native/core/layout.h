/* SPDX-License-Identifier: BSD-3-Clause
 * File systems and the layout of files on them. Nothing here ever truncates or overwrites a file with data;
 * an empty one is replaced where the plan allows it. */
#ifndef STRIPEWISE_LAYOUT_H
#define STRIPEWISE_LAYOUT_H

#include "file_system.h"

struct sw_layout_setting {
    const char *key, *value;
};

/* The name of the file system that holds path, or would hold it ("fuse.cephfs" for CephFS through FUSE); the
 * magic number where it is not known. Writes to name. */
void sw_file_system_name(const char *path, char *name, size_t size);

/* The file system with layouts where a file is, or would be; NULL: none. */
const struct sw_file_system *sw_layout_place(const char *path);

/* The file system that a plan names (the first `length` bytes of name); NULL: none. */
const struct sw_file_system *sw_file_system_named(const char *name, size_t length);

/* The key of a layout setting "FILESYSTEM KEY", or NULL. */
const struct sw_layout_key *sw_layout_key(const char *setting);

/* The file system of a layout; NULL: it has none. */
const struct sw_file_system *sw_layout_system(const struct sw_layout *layout);

/* The number of a key of the layout's file system; -1: not told. */
int64_t sw_layout_number(const struct sw_layout *layout, const char *key);

/* Reads the layout of an existing file; false if there is none to tell. */
bool sw_layout_read(const char *path, struct sw_layout *layout);

/* Reads what the folder of path gives to new files. */
void sw_layout_parent(const struct sw_file_system *system, const char *path, struct sw_parent *parent);

/* Creates the file at path with this layout and no more permissions than mode, if there is none; on CephFS an
 * empty file is laid out too, and elsewhere made anew if allow says so. A folder whose own layout is
 * composite or pooled stays in force unless allow (bits of enum sw_allowance) says otherwise. note receives
 * why it did not work, or is "". */
enum sw_layout_outcome sw_layout_apply(const struct sw_file_system *system, const char *path, mode_t mode,
                                       unsigned allow, const struct sw_layout_setting *settings, size_t count,
                                       char *note, size_t note_size);

/* May a file be laid out that MPI opens so (MPI_MODE_CREATE, MPI_MODE_EXCL)? Else why names the reason. */
bool sw_layout_possible(const struct sw_file_system *system, const char *path, bool create, bool exclusive,
                        unsigned allow, char *why, size_t size);

#endif
