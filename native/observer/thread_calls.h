/* SPDX-License-Identifier: BSD-3-Clause
 * What each thread does to its files, call by call, for a record; only where STRIPEWISE_CALLS asks for it.
 * Each thread folds its calls into loops as it goes, in a file of its own that it maps, so that what is there
 * when it is killed is what it had done. No thread waits for another. Python reads the files and joins them
 * (src/stripewise/observe/record_joining.py). */
#ifndef STRIPEWISE_THREAD_CALLS_H
#define STRIPEWISE_THREAD_CALLS_H

#include "../core/record.h"
#include <errno.h>
#include <stdio.h>

#include "descriptors.h"

#pragma GCC visibility push(hidden)

#define CALLS_MAGIC "SWCALL1" /* changes with anything below */
#define CALLS_FILES 4096
#define CALLS_CUTS 512
#define CALLS_TEXT 262144
#define CALLS_THREADS 256 /* of a process */

/* Why they are not all. */
enum { CALLS_NO_MEMORY = 1, CALLS_MANY_FILES = 2, CALLS_INTERRUPTED = 4, CALLS_MANY_THREADS = 8 };

struct calls_file {
    uint64_t hash, text; /* text: where its path begins */
    uint64_t first;      /* when it was met */
    int64_t size;        /* bytes that it had then; -1: it was not there, or is not asked for */
};

/* A pause in which what waits for others may have waited. */
struct calls_cut {
    uint64_t calls, ended, began; /* calls before it */
};

struct thread_calls {
    char magic[8];
    uint64_t item_size, items, pid, thread, real, start, began, ended, spent, gaps, files, cuts, text_size;
    struct calls_cut cut[CALLS_CUTS];
    struct calls_file file[CALLS_FILES];
    char text[CALLS_TEXT];
};

extern atomic_bool calls_wanted;

static inline bool keeps_calls(void) {
    return atomic_load_explicit(&calls_wanted, memory_order_relaxed);
}

void begin_calls(void);
void leave_calls(void); /* in a child */

/* All leave errno alone. The times: began before the call; what is asked without calls_wanted does nothing.
 */

/* Before a call that may create a file: its bytes, or -1. */
int64_t size_before(int folder, const char *path, int flags);

/* Behind an open; size: of size_before. */
void note_open(int fd, int folder, const char *path, int flags, int64_t size, uint64_t began);

/* Behind a call on paths; other: NULL but for a rename. */
void note_path(enum sw_line line, int folder, const char *path, int other_folder, const char *other,
               int result, uint64_t began);

void note_moved(int fd, bool writes, int64_t bytes, int64_t place, uint64_t began, uint64_t ended);

/* Another call on a descriptor, with its number. */
void note_call(int fd, enum sw_line line, int64_t number, uint64_t began);

/* Before a copy takes the place of what the second one was. */
void note_copy(int from, int to);

/* Around a close. */
bool note_closing(int fd);
void note_closed(int fd, uint64_t began);

/* ---- streams: what the C library does beneath them, by what it keeps ---- */

struct stream_state {
    int64_t pending, ahead, held; /* bytes to be written; read ahead; in the buffer */
    int64_t room;                 /* of the buffer */
    bool puts;
};

struct stream_state state_of(FILE *stream);
/* fileno, but a stream in memory, which has no number, leaves errno to the program. */
static inline int number_of(FILE *stream) {
    const int kept = errno, fd = fileno(stream);
    errno = kept;
    return fd;
}
void note_stream_opened(int fd);
/* bytes: that the call moved. */
void note_streamed(FILE *stream, const struct stream_state *before, bool writes, int64_t bytes,
                   uint64_t began);
void note_stream_sought(FILE *stream, const struct stream_state *before, uint64_t began);
/* Before it is closed, or put elsewhere. */
void note_stream_leaves(FILE *stream, bool closes);

#pragma GCC visibility pop

#endif
