/* SPDX-License-Identifier: BSD-3-Clause
 * What is done to chosen files beside the program's own calls. The bytes that the program reads and writes
 * stay the same. These leave errno alone. */
#ifndef STRIPEWISE_ACTING_H
#define STRIPEWISE_ACTING_H

#include "part.h"

#pragma GCC visibility push(hidden)

/* The program opened a chosen file. */
void act_at_open(int fd, struct file_record *record);

/* It read or wrote bytes of one; sequential: where the call before ended. */
void act_after(int fd, struct file_record *record, bool writes, bool sequential, int64_t place,
               int64_t bytes);

#pragma GCC visibility pop

#endif
