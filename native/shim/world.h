/* SPDX-License-Identifier: BSD-3-Clause
 * MPI_Init to MPI_Finalize. */
#ifndef STRIPEWISE_WORLD_H
#define STRIPEWISE_WORLD_H

#include <stdbool.h>

/* After a successful MPI_Init or MPI_Init_thread, whichever entry point it came through; once counts. */
void sw_world_started(void);

/* Before MPI_Finalize; once counts. */
void sw_world_finishing(void);

/* Is the program between the two, so that sessions need no report of their own? */
bool sw_world_is_up(void);

#endif
