/* SPDX-License-Identifier: BSD-3-Clause
 * Whether a call is made inside MPI-IO or HDF5. In a program with MPI the runtime reports what these do, and
 * sets what they use: the observer leaves the descriptors alone that they open, and whatever is done to
 * them. Without the runtime they count as parts of the program. */
#ifndef STRIPEWISE_WITHIN_H
#define STRIPEWISE_WITHIN_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* Finds out whether the runtime is there. */
void find_runtime(void);

/* Whether the function that returns to this address opens for one of them. Leaves errno alone. */
bool within(const void *caller);

#pragma GCC visibility pop

#endif
