/* SPDX-License-Identifier: BSD-3-Clause
 * The two ways through a process's life, MPI_Init to MPI_Finalize and session to session, share these steps.
 */
#ifndef STRIPEWISE_LIFECYCLE_H
#define STRIPEWISE_LIFECYCLE_H

#include "gather.h"

/* Memory for records and a guard for forked children. False (and a complaint) if there is none. */
bool sw_lifecycle_prepare(void);

/* From here on calls are counted. */
void sw_lifecycle_begin(void);

/* Gathers over the route, or from this process alone if route is NULL, and writes the report on rank 0.
 * ranks: of the job. speaks: this process writes if the result is its own. */
void sw_lifecycle_report(const struct sw_route *route, uint64_t ranks, bool speaks);

#endif
