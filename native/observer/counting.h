/* SPDX-License-Identifier: BSD-3-Clause
 * What is counted of each call. It holds no lock, allocates nothing and keeps no descriptor, so that it may
 * be entered from signal handlers, after fork and vfork, and in programs that close whatever is open. A
 * process that opens no regular file leaves no part. */
#ifndef STRIPEWISE_COUNTING_H
#define STRIPEWISE_COUNTING_H

#include "descriptors.h"

#pragma GCC visibility push(hidden)

/* Bytes that a call moved; place: -1 where the file's own position counts. */
void moved(int fd, enum operation op, bool writes, ssize_t bytes, int64_t place, uint64_t began);

/* A call on a descriptor that moved none. */
void did(int fd, enum operation op, uint64_t bytes, uint64_t began);

/* A call on a path. */
void met(enum metadata kind, uint64_t began);

/* A call that gave a descriptor, or failed (-1); caller: of the program, or of who else made it. */
void opened(int fd, uint64_t began, const void *caller);

/* What a descriptor that is about to be closed stands for; NULL if nothing is counted. */
struct file_record *closing(int fd);
void closed(struct file_record *record, uint64_t began);

/* Writes down when the process ended. */
void finish(void);

/* Counts nothing from now on, and acts on nothing. */
void stop(void);

#pragma GCC visibility pop

#endif
