/* SPDX-License-Identifier: BSD-3-Clause
 * What the runtime tells the observer where both are preloaded, into a program with MPI. */
#ifndef STRIPEWISE_BESIDE_H
#define STRIPEWISE_BESIDE_H

/* Who called open, while the runtime passes on its call; else NULL. Calls of the MPI library and of HDF5 are
 * not the program's own. */
#define SW_OPEN_CALLER "stripewise_open_caller"
typedef const void *sw_open_caller(void);

#endif
