/* SPDX-License-Identifier: BSD-3-Clause
 * Descriptors of our own for files that the program has open: another open file, with flags and a position
 * of its own, so that nothing changes for whoever shares the program's. They last for one call: a program may
 * close whatever is open, and use the number again. */
#ifndef STRIPEWISE_REOPENED_H
#define STRIPEWISE_REOPENED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Whether a file lies on a file system of one of these magic numbers. */
bool lies_on(int fd, const uint32_t *magic, size_t count);

/* Whether the process has set no record locks. It loses those of a file with any descriptor that it closes.
 */
bool may_reopen(void);

/* A descriptor for the same file, with these flags; -1 if it cannot be. */
int reopen(int fd, int flags);

/* Closes it, if the process has set no record locks since. */
void close_reopened(int fd);

/* The program is about to set record locks. */
void before_lock(void);

/* In a child. */
void leave_reopened(void);

#pragma GCC visibility pop

#endif
