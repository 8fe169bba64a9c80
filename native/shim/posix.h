/* SPDX-License-Identifier: BSD-3-Clause
 * POSIX calls beneath MPI-IO. */
#ifndef STRIPEWISE_POSIX_H
#define STRIPEWISE_POSIX_H

#include "files.h"

/* Forgets the file descriptors of a record whose memory is about to be reused. */
void sw_posix_forget(struct sw_file *file);

#endif
