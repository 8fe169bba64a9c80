/* SPDX-License-Identifier: BSD-3-Clause
 * How much room the stack has: paths and what commands print take some of it, and the program's threads and
 * handlers of signals may have little. These leave errno alone. */
#ifndef STRIPEWISE_STACK_H
#define STRIPEWISE_STACK_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* Whether a handler of signals runs here on a small stack of its own, as those do that write down why a
 * program crashed. There, files are not looked at. */
bool on_small_stack(void);

/* Whether there is room to lay out a file. */
bool has_stack(void);

#pragma GCC visibility pop

#endif
