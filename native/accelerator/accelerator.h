/* SPDX-License-Identifier: BSD-3-Clause
 * What the library is asked to do beside counting, as the environment said when the process began. Nothing is
 * done to a file that is not counted: each act has its counter. */
#ifndef STRIPEWISE_ACCELERATOR_H
#define STRIPEWISE_ACCELERATOR_H

#include "../observer/acts.h"
#include "../observer/part.h"

#pragma GCC visibility push(hidden)

enum setting {
#define SETTING(NAME, ...) SET_##NAME,
#include "settings.def"
#undef SETTING
    SETTINGS
};

/* ---- settings.c ---- */

extern bool any_asked; /* whether any is; else nothing below is looked at */

/* The value of a setting; 0: it is not asked for, or its value cannot be. */
extern int64_t asked[SETTINGS];

/* Reads STRIPEWISE_POSIX and STRIPEWISE_POSIX_FILES. */
void read_settings(void);

/* Whether the settings are for the file of this path. */
bool is_chosen(const char *path);

/* Whether a setting has a value that cannot be. */
bool is_refused(enum setting which);

/* Counts a call in which a setting acted, or could not. */
void count_setting(struct file_record *record, enum setting which, bool acted);

/* ---- direct.c: large reads and writes past the page cache (O_DIRECT) ----
 * Where place, size and memory of a call are multiples of a page. All others of the same file are made as
 * ever, and the kernel keeps both the same: it writes back what the cache holds of a place before such a
 * call, and drops it after such a write. It cannot do so while somebody stores into the same page through a
 * mapping, so a process that maps a file for stores makes no such calls from then on. Nor does one that sets
 * record locks. */

/* As acts.read and acts.write. */
ssize_t go_direct(int fd, bool writes, void *data, size_t size, int64_t place);

void mapped_beside_direct(int fd, int flags);
void lock_beside_direct(void);
void leave_direct(void); /* in a child */

/* ---- stream_buffer.c: larger buffers for streams ----
 * A program that gives a stream a buffer of its own later gets it. The memory is bounded, and held until the
 * stream is closed. */

void buffer_stream(FILE *stream, const char *mode);

/* The number of a stream's buffer, or -1: taken before the stream is closed, and freed after. */
int take_buffer(FILE *stream);
void free_buffer(int which);

/* ---- layouts.c: layouts of the files that the program creates, by the rules of native/core/layout.h ----
 * A file that exists is never changed, and who creates a file exclusively learns the truth. Where a file that
 * is still empty can be laid out (CephFS), the program's own call creates it: exclusively at first, so that
 * it is known to be new, and as it asked if that finds the file there. Elsewhere (Lustre) a command of the
 * file system creates it before, with the permissions that the program asks for; where these cannot be known,
 * the file is left alone. */

/* Reads STRIPEWISE_LAYOUT and STRIPEWISE_LAYOUT_ALLOW; whether any layout is asked for. */
bool read_layouts(void);

/* As in acts. */
void lay_before(struct creation *one, int folder, const char *path, mode_t mode);
void lay_after(struct creation *one, int fd, struct file_record *record);
void lay_made_up(struct creation *one, int fd);

#pragma GCC visibility pop

#endif
