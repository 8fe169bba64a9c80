/* SPDX-License-Identifier: BSD-3-Clause
 * What may be done beside the program's own calls. The observer does none of it: it counts. The accelerator's
 * library (native/accelerator) has the same calls and counters, and carries these out. */
#ifndef STRIPEWISE_ACTS_H
#define STRIPEWISE_ACTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/uio.h>

struct creation;
struct file_record;

#pragma GCC visibility push(hidden)

#define HERE INT64_MIN /* a place: the file's own position */

/* Around a call of the program that changes a file. */
struct own_write {
    uint64_t number;
    int64_t place, size_before;
    void *file; /* NULL: not followed */
    bool sound, appends;
};

/* An act that nobody asked for is NULL. All but those that move bytes leave errno alone. */
struct acts {
    bool (*is_chosen)(const char *path); /* whether anything is done to the file of this path */
    void (*opened)(int fd, struct file_record *record);
    /* The program read a chosen file up to this end; sequential: from where the call before ended. */
    void (*read_on)(int fd, struct file_record *record, bool sequential, int64_t end);
    /* In place of a call: the bytes that were moved, or -1, and the call itself is made. */
    ssize_t (*read)(int fd, void *data, size_t size, int64_t place);
    ssize_t (*read_pieces)(int fd, const struct iovec *pieces, int count, int64_t place);
    ssize_t (*write)(int fd, const void *data, size_t size, int64_t place);
    /* Around a call that changes a file; data: NULL where it is not one piece. */
    void (*before_write)(struct own_write *own, int fd, int64_t place);
    void (*after_write)(struct own_write *own, int fd, const void *data, ssize_t bytes, int64_t place);
    void (*mapped)(int fd, int flags); /* the program has stored nothing there yet */
    void (*before_lock)(void);         /* it is about to set record locks */
    void (*before_create)(struct creation *one, int folder, const char *path, mode_t mode);
    void (*after_create)(struct creation *one, int fd, struct file_record *record);
    void (*made_up)(struct creation *one, int fd); /* the name of the file that was created */
    void (*opened_stream)(FILE *stream, const char *mode);
    /* Around the close of a stream: what the first one gives is the second one's. */
    int (*before_stream_close)(FILE *stream);
    void (*after_stream_close)(int buffer);
    void (*in_child)(void);
};

/* Reads what is asked for, when the process begins; NULL: nothing is ever done. */
const struct acts *read_acts(void);

extern _Atomic(const struct acts *) acts;

static inline const struct acts *acting(void) {
    return atomic_load_explicit(&acts, memory_order_relaxed);
}

#pragma GCC visibility pop

#endif
