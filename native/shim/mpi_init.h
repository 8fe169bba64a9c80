/* SPDX-License-Identifier: BSD-3-Clause
 * MPI_Init to MPI_Finalize. */
#ifndef STRIPEWISE_MPI_INIT_H
#define STRIPEWISE_MPI_INIT_H

#include <stdbool.h>

#include "gather.h"

/* ---- a process's life ----
 * The two ways through a process's life, MPI_Init to MPI_Finalize and session to session, share these steps.
 */

/* Memory for records and a guard for forked children. False (and a complaint) if there is none. */
bool sw_lifecycle_prepare(void);

/* From here on calls are counted. */
void sw_lifecycle_begin(void);

/* Gathers over the route, or from this process alone if route is NULL, and writes the report on rank 0.
 * ranks: of the job. speaks: this process writes if the result is its own. */
void sw_lifecycle_report(const struct sw_route *route, uint64_t ranks, bool speaks);

/* After a successful MPI_Init or MPI_Init_thread, whichever entry point it came through; once counts. */
void sw_world_started(void);

/* Before MPI_Finalize; once counts. */
void sw_world_finishing(void);

/* Is the program between the two, so that sessions need no report of their own? */
bool sw_world_is_up(void);

#endif
