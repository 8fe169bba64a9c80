/* SPDX-License-Identifier: BSD-3-Clause
 * What the runtime and the observer tell each other where both are preloaded, into a program with MPI. */
#ifndef STRIPEWISE_BESIDE_H
#define STRIPEWISE_BESIDE_H

#include <stdint.h>

/* Who called open, while the runtime passes on its call; else NULL. Calls of the MPI library and of HDF5 are
 * not the program's own. */
#define SW_OPEN_CALLER "stripewise_open_caller"
typedef const void *sw_open_caller(void);

/* What the runtime tells the observer: the MPI-IO call that it is in moved bytes of a file. */
#define SW_MOVED_FROM "stripewise_moved_from"
typedef void sw_moved_from(const char *path, int writes, uint64_t bytes);

#endif
