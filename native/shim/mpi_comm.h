/* SPDX-License-Identifier: BSD-3-Clause
 * Which ranks a communicator joins, and on how many nodes they are. */
#ifndef STRIPEWISE_MPI_COMM_H
#define STRIPEWISE_MPI_COMM_H

#include "runtime.h"

/* Do all ranks of the communicator run this library? Those that MPI_Comm_spawn started, or another job's, may
 * not: with them nothing can be agreed on. The same answer on all ranks that do. */
bool sw_comm_is_ours(MPI_Comm comm, int size);

/* What the ranks of a communicator are in the group below, to be freed; NULL where one is not in it. */
int *sw_comm_world_ranks(MPI_Comm comm, int size);

/* The group within which every rank runs this library; it is kept. */
void sw_comm_set_world(MPI_Group world);

/* A copy of MPI_COMM_WORLD for what the runtime itself sends, kept until MPI_COMM_NULL is set. Collective
 * over it. */
void sw_comm_share(MPI_Comm world);

/* The nodes of a communicator that is ours, on its rank 0 (0 elsewhere, and where memory is out). Collective;
 * of all ranks of MPI_COMM_WORLD they are known. */
int sw_comm_nodes(MPI_Comm comm, int rank, int size);

/* A communicator of the same ranks for what the runtime itself sends, and in root the rank there of rank 0
 * here. The one copy of MPI_COMM_WORLD serves all files of all ranks, as long as no two threads may talk on
 * it at a time; otherwise one is made, collectively. MPI_COMM_NULL if that fails. */
MPI_Comm sw_comm_own(MPI_Comm comm, int size, int *root);
bool sw_comm_has_own(int size); /* nothing is made: the copy serves */
void sw_comm_disown(MPI_Comm *own);

/* A communicator of the ranks of an open file for what the runtime itself sends. Collective over the file,
 * all of whose ranks run this library; number is the same on all of them and of this file alone, below 32768.
 * In a session (not in_world) it is made by a function of MPI 4. MPI_COMM_NULL where MPI cannot make one. */
MPI_Comm sw_comm_of_file(MPI_File file, int number, bool in_world);

/* From begin to end this thread's MPI_Comm_dup lends the communicator itself and MPI_Comm_free forgets it:
 * for property lists of HDF5 that are read and closed, each copy of which would be agreed on by all ranks.
 * end: was anything lent? What was must also be let go of between the two. */
void sw_comm_lend_begin(void);
bool sw_comm_lend_end(void);

#endif
