/* SPDX-License-Identifier: BSD-3-Clause
 * Small reads: read and pread answered from read-ahead windows (windows.h). It knows nothing of who calls it:
 * the accelerator's library does (acts.c), and so does that of examples/accelerator.
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
 * A write of the program itself changes the times, too, and so empties the file's windows. Where no
 * other process writes what this one writes (STRIPEWISE_SOLE_WRITER=1), its writes are brought into them
 * instead.
 *
 * Who finds the windows taken makes the plain call, so that handlers of signals may read; only who has
 * fetched waits, for the moment in which another has them. Nothing is allocated but one mapping, at the first
 * fetch. After fork, a child begins with no windows; a child of vfork uses none. */
#ifndef STRIPEWISE_SMALL_READS_H
#define STRIPEWISE_SMALL_READS_H

#include "../observer/acts.h"
#include "windows.h"

#pragma GCC visibility push(hidden)

extern _Atomic(bool) accelerates; /* else nothing below is called */

/* What the windows did so far; used: of the bytes fetched, those that were read. */
extern struct small_reads {
    _Atomic(uint64_t) fetches, fetched, used, memory;
} small_reads;

/* Begins in this process; sole_writer: the program's writes are brought into the windows. */
void begin_small_reads(const struct window_settings *settings, bool sole_writer);

void leave_small_reads(void); /* in a child */

/* Whether a file lies on a file system of one of these magic numbers. */
bool lies_on(int fd, const uint32_t *magic, size_t count);

/* Whether a read of so many bytes may be answered in this process. */
bool is_small_read(size_t size);

/* The bytes that were read, or -1: the caller makes the call. Only of what is_small_read. */
ssize_t answer_read(int fd, void *data, size_t size, int64_t place);
ssize_t answer_pieces(int fd, const struct iovec *pieces, int count, size_t size, int64_t place);

/* The bytes of all pieces; 0 where there are more than are answered, or they cannot be looked at. */
size_t size_of_pieces(const struct iovec *pieces, int count);

/* Around a call of the program that changes a file that may be regular. data: NULL where it is not one piece.
 */
void begin_write(struct own_write *own, int fd, int64_t place);
void end_write(struct own_write *own, int fd, const void *data, ssize_t bytes, int64_t place);

/* The program mapped a file. */
void mapped(int fd, int flags);

#pragma GCC visibility pop

#endif
