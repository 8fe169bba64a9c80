/* SPDX-License-Identifier: BSD-3-Clause
 * The accelerator of small reads: answers read and pread from read-ahead windows (windows.h).
 *
 * What is read is what the call itself would have read. Before each answer the file is asked for its times
 * and size; a window is used only while they are those that the file had when the window was fetched, and is
 * fetched only once the file has not changed for REST seconds, so that no change can hide in a coarse clock.
 * A change that ended before the read began is therefore seen, as long as the file system tells all nodes of
 * changes: on any other, nothing is answered from memory. A write sets the times as it begins. Those of this
 * process are known, and nothing is fetched beside them; a single one of another process that takes longer
 * than REST seconds may be missed. Stores through a mapping do not change a file's times each time: files
 * that this process maps for stores are left alone, those of other processes are not seen.
 *
 * A write of the program itself changes the times, too, and so empties the file's windows. Where the
 * environment says that no other process writes what this one writes (STRIPEWISE_SOLE_WRITER=1), its writes
 * are brought into them instead.
 *
 * Who finds the windows taken makes the plain call, so that handlers of signals may read; only who has
 * fetched waits, for the moment in which another has them. Nothing is allocated but one mapping, at the first
 * fetch. After fork, a child begins with no windows; a child of vfork uses none. */
#ifndef STRIPEWISE_ACCELERATOR_H
#define STRIPEWISE_ACCELERATOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#pragma GCC visibility push(hidden)

extern _Atomic(bool) accelerates; /* else nothing below is called */
extern bool sole_writer;          /* the program's writes are brought into the windows */

#define HERE INT64_MIN /* a place: the file's own position */

/* Reads what is asked for, when the process begins. */
void begin_accelerator(void);

/* In a child. */
void leave_windows(void);

/* The bytes that were read, or -1: the caller makes the call. */
ssize_t answer_read(int fd, void *data, size_t size, int64_t place);
ssize_t answer_pieces(int fd, const struct iovec *pieces, int count, int64_t place);

/* Around a call of the program that changes a file. data: NULL where it is not one piece. */
struct own_write {
    uint64_t number;
    int64_t place, size_before;
    void *file; /* NULL: not followed */
    bool sound, appends;
};

void before_write(struct own_write *own, int fd, int64_t place);
void after_write(struct own_write *own, int fd, const void *data, ssize_t bytes, int64_t place);

/* The program mapped a file. */
void mapped(int fd, int flags);

#pragma GCC visibility pop

#endif
