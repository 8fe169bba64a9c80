/* SPDX-License-Identifier: BSD-3-Clause
 * A thread of this process that waits for the file system in the program's place. It calls no MPI, and no
 * signal of the program reaches it. */
#ifndef STRIPEWISE_HELPER_H
#define STRIPEWISE_HELPER_H

#include <stdbool.h>
#include <stdint.h>

/* Does what there is to do, and returns after how many nanoseconds to come again if nobody rings before.
 * last: it is not called again. */
typedef int64_t sw_helper_work(bool last);

/* Starts the thread unless it was started before, always with the same work. False if there is none: the
 * system refused it, or it has ended. */
bool sw_helper_start(sw_helper_work *work);

/* There is something to do now. */
void sw_helper_ring(void);

/* Waits until all is done, and ends the thread. */
void sw_helper_end(void);

#endif
