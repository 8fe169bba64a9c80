/* SPDX-License-Identifier: BSD-3-Clause
 * Whether a call is made inside MPI-IO or HDF5. In a program with MPI the runtime reports what these do, and
 * sets what they use: the observer leaves the descriptors alone that they open, and whatever is done to
 * them. Without the runtime they count as parts of the program. */
#ifndef STRIPEWISE_CALLER_H
#define STRIPEWISE_CALLER_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* Finds out whether the runtime is there. */
void find_runtime(void);

/* Whether the function that returns to this address opens for one of them. Leaves errno alone. */
bool within(const void *caller);

/* Whether an address lies in one of these libraries, or in Stripewise's own. */
bool is_of_io(const void *address);

/* ---- its stack ----
 * How much room the stack has: paths and what commands print take some of it, and the program's threads and
 * handlers of signals may have little. These leave errno alone. */

/* Whether a handler of signals runs here on a small stack of its own, as those do that write down why a
 * program crashed. There, files are not looked at. */
bool on_small_stack(void);

/* Whether there is room to lay out a file. */
bool has_stack(void);

#pragma GCC visibility pop

#endif
