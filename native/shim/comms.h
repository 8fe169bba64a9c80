/* SPDX-License-Identifier: BSD-3-Clause
 * Which ranks a communicator joins, and on how many nodes they are. */
#ifndef STRIPEWISE_COMMS_H
#define STRIPEWISE_COMMS_H

#include "runtime.h"

/* Do all ranks of the communicator run this library? Those that MPI_Comm_spawn started, or another job's, may
 * not: with them nothing can be agreed on. The same answer on all ranks that do. */
bool sw_comm_is_ours(MPI_Comm comm, int size);

/* The group within which every rank runs this library; it is kept. */
void sw_comm_set_world(MPI_Group world);

/* The nodes of the communicator, on its rank 0 (0 elsewhere, and where memory is out). Collective. */
int sw_comm_nodes(MPI_Comm comm, int rank, int size);

#endif
