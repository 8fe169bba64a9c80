/* SPDX-License-Identifier: BSD-3-Clause
 * Room on storage for what a program goes on writing: allocated ahead, beyond the end of a file that was
 * empty when it was opened. The file's size and content stay. What is left of it at the close is given back,
 * if nobody else has the file open then: that is what a lease to write tells, and while it is held, nobody
 * can open the file. */
#ifndef STRIPEWISE_ALLOCATING_H
#define STRIPEWISE_ALLOCATING_H

#include "part.h"

#pragma GCC visibility push(hidden)

/* The program wrote up to here, in order, through a descriptor of a chosen file. */
void allocate_ahead(int fd, struct file_record *record, int64_t end);

/* Around the program's close: a descriptor of our own for the file, -1 if nothing is to be given back.
 * Both leave errno alone. */
int before_giving_back(int fd);
void give_back(int own);

#pragma GCC visibility pop

#endif
