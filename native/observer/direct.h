/* SPDX-License-Identifier: BSD-3-Clause
 * Large reads and writes past the page cache (O_DIRECT), where place, size and memory of a call are multiples
 * of a page. All others of the same file are made as ever, and the kernel keeps both the same: it writes back
 * what the cache holds of a place before such a call, and drops it after such a write. It cannot do so while
 * somebody stores into the same page through a mapping, so a process that maps a file for stores makes no
 * such calls from then on. Nor does one that sets record locks (reopened.h). */
#ifndef STRIPEWISE_DIRECT_H
#define STRIPEWISE_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#pragma GCC visibility push(hidden)

/* The bytes that were moved, or -1: the caller makes the call. place: HERE (accelerator.h) for the file's own
 * position. Leaves errno alone. */
ssize_t go_direct(int fd, bool writes, void *data, size_t size, int64_t place);

/* The program mapped a file, and has stored nothing yet. */
void mapped_beside_direct(int fd, int flags);

/* In a child. */
void leave_direct(void);

#pragma GCC visibility pop

#endif
