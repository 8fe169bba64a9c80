/* SPDX-License-Identifier: BSD-3-Clause
 * The way of the records to rank 0: first within each node, then from node to node, along binomial trees,
 * merging on the way; so no rank receives more than log2 messages, and a file shared by all ranks stays one
 * record. */
#ifndef STRIPEWISE_GATHER_H
#define STRIPEWISE_GATHER_H

#include "runtime.h"
#include "wire.h"

struct sw_route {
    MPI_Comm all, node, leaders; /* leaders: MPI_COMM_NULL except on the first rank of a node */
    int rank, size;
    bool ready;
};

/* Collective over comm. False (and no route) if MPI fails. */
bool sw_route_open(struct sw_route *route, MPI_Comm comm);
void sw_route_close(struct sw_route *route);

/* Sends bytes of any number, and receives them; data: NULL where there is no memory for them: they are
 * received all the same, so that nobody waits. False if MPI fails. */
bool sw_send(MPI_Comm comm, int to, const void *data, uint64_t size);
bool sw_receive(MPI_Comm comm, int from, void *data, uint64_t size);

/* Collective over the route; without one (NULL) each process is a rank 0 alone. On rank 0, merged and job
 * then hold what all ranks had; elsewhere they are of no use. merged is opened by this function and to be
 * closed by the caller if it returns true, which it does only on rank 0. Other threads may still count in
 * own. */
bool sw_gather(const struct sw_route *route, struct sw_job *job, struct sw_files *own,
               struct sw_files *merged);

#endif
