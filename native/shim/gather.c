/* SPDX-License-Identifier: BSD-3-Clause */
#include "gather.h"

#include <stdlib.h>

#define MESSAGE (1u << 20)        /* bytes at a time: there is always room to receive so many */
#define MERGE_MEMORY (256u << 20) /* address space, of which only what is used becomes memory */

bool sw_route_open(struct sw_route *route, MPI_Comm comm) {
    *route = (struct sw_route){MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL, 0, 1, false};
    if (sw_pmpi.Comm_dup(comm, &route->all) != MPI_SUCCESS)
        return false;
    sw_pmpi.Comm_set_errhandler(route->all, MPI_ERRORS_RETURN);
    sw_pmpi.Comm_rank(route->all, &route->rank);
    sw_pmpi.Comm_size(route->all, &route->size);
    int node_rank = 0;
    route->ready = sw_pmpi.Comm_split_type(route->all, MPI_COMM_TYPE_SHARED, route->rank, MPI_INFO_NULL,
                                           &route->node) == MPI_SUCCESS &&
                   sw_pmpi.Comm_rank(route->node, &node_rank) == MPI_SUCCESS &&
                   sw_pmpi.Comm_split(route->all, node_rank == 0 ? 0 : MPI_UNDEFINED, route->rank,
                                      &route->leaders) == MPI_SUCCESS;
    if (!route->ready)
        sw_route_close(route);
    return route->ready;
}

void sw_route_close(struct sw_route *route) {
    MPI_Comm *comms[] = {&route->leaders, &route->node, &route->all};
    for (int i = 0; i < 3; i++)
        if (*comms[i] != MPI_COMM_NULL)
            sw_pmpi.Comm_free(comms[i]);
    route->ready = false;
}

bool sw_send(MPI_Comm comm, int to, const void *data, uint64_t size) {
    bool good = true;
    for (uint64_t done = 0; good && done < size; done += MESSAGE) {
        uint64_t left = size - done;
        good = sw_pmpi.Send((const char *)data + done, (int)(left < MESSAGE ? left : MESSAGE), MPI_BYTE, to,
                            0, comm) == MPI_SUCCESS;
    }
    return good;
}

bool sw_receive(MPI_Comm comm, int from, void *data, uint64_t size) {
    static char spare[MESSAGE];
    bool good = true;
    for (uint64_t done = 0; done < size; done += MESSAGE) {
        uint64_t left = size - done;
        good &= sw_pmpi.Recv(data ? (char *)data + done : spare, (int)(left < MESSAGE ? left : MESSAGE),
                             MPI_BYTE, from, 0, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    }
    return good;
}

static void send(MPI_Comm comm, int to, const struct sw_bytes *bytes) {
    uint64_t size = bytes->failed ? 0 : bytes->size;
    if (sw_send(comm, to, &size, sizeof size))
        sw_send(comm, to, bytes->data, size);
}

/* Receives from a child and merges. */
static void receive(MPI_Comm comm, int from, struct sw_job *job, struct sw_files *merged,
                    enum sw_distance distance) {
    uint64_t size = 0;
    if (!sw_receive(comm, from, &size, sizeof size) || !size)
        return;
    char *data = malloc(size);
    bool good = sw_receive(comm, from, data, size);
    if (data && good && merged->arena.base)
        sw_wire_merge(data, size, job, merged, distance);
    free(data);
}

/* Returns true on the root of comm, where job and merged then hold all. */
static bool reduce(MPI_Comm comm, struct sw_job *job, struct sw_files *own, struct sw_files *merged,
                   enum sw_distance distance) {
    int rank, size;
    sw_pmpi.Comm_rank(comm, &rank);
    sw_pmpi.Comm_size(comm, &size);
    for (int step = 1; step < size; step *= 2) {
        if (rank & step) {
            struct sw_bytes bytes = {0};
            sw_wire_pack(&bytes, job, merged->arena.base ? merged : own);
            send(comm, rank - step, &bytes);
            free(bytes.data);
            return false;
        }
        if (rank + step < size) {
            if (!merged->arena.base &&
                sw_files_open(merged, MERGE_MEMORY, SW_MAX_MERGED_FILES, SW_MAX_MERGED_DATASETS))
                sw_files_include(merged, own, SW_SAME_NODE);
            receive(comm, rank + step, job, merged, distance);
        }
    }
    return true;
}

bool sw_gather(const struct sw_route *route, struct sw_job *job, struct sw_files *own,
               struct sw_files *merged) {
    *merged = (struct sw_files){.limit = 0};
    bool root = !route || (reduce(route->node, job, own, merged, SW_SAME_NODE) &&
                           reduce(route->leaders, job, own, merged, SW_OTHER_NODE));
    if (root && !merged->arena.base &&
        sw_files_open(merged, MERGE_MEMORY, SW_MAX_MERGED_FILES, SW_MAX_MERGED_DATASETS))
        sw_files_include(merged, own, SW_SAME_NODE);
    if (!root || !merged->arena.base)
        sw_files_close(merged);
    return root && merged->arena.base;
}
