/* SPDX-License-Identifier: BSD-3-Clause */
#include "comms.h"

#include <stdlib.h>

#define FEW 512 /* ranks whose nodes are gathered without asking for memory */

static MPI_Group world;
static bool world_known;

void sw_comm_set_world(MPI_Group group) {
    world = group;
    world_known = true;
}

bool sw_comm_is_ours(MPI_Comm comm, int size) {
    if (size == 1 || !world_known)
        return true;
    MPI_Group group;
    if (sw_pmpi.Comm_group(comm, &group) != MPI_SUCCESS)
        return false;
    int *ranks = malloc(2 * (size_t)size * sizeof *ranks);
    bool ours = ranks != NULL;
    for (int i = 0; ranks && i < size; i++)
        ranks[i] = i;
    if (ranks && sw_pmpi.Group_translate_ranks(group, size, ranks, world, ranks + size) != MPI_SUCCESS)
        ours = false;
    for (int i = 0; ours && i < size; i++)
        ours = ranks[size + i] != MPI_UNDEFINED;
    free(ranks);
    sw_pmpi.Group_free(&group);
    return ours;
}

/* A number for this node: FNV-1a of its name, as MPI tells it. */
static uint64_t node_number(void) {
    static uint64_t number;
    uint64_t known = __atomic_load_n(&number, __ATOMIC_RELAXED);
    if (!known) {
        char name[MPI_MAX_PROCESSOR_NAME + 1] = "";
        int length = 0;
        sw_pmpi.Get_processor_name(name, &length);
        known = 14695981039346656037ull;
        for (const char *c = name; *c; c++)
            known = (known ^ (unsigned char)*c) * 1099511628211ull;
        known |= 1;
        __atomic_store_n(&number, known, __ATOMIC_RELAXED);
    }
    return known;
}

static int by_number(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

int sw_comm_nodes(MPI_Comm comm, int rank, int size) {
    uint64_t own = node_number();
    if (size == 1)
        return 1;
    uint64_t few[FEW], *all = size <= FEW ? few : rank == 0 ? malloc((size_t)size * sizeof *all) : NULL;
    int whole = size <= FEW || rank != 0 || all != NULL, nodes = 0;
    /* A root without memory tells the others so: nobody may be left waiting. */
    if (size > FEW)
        sw_pmpi.Bcast(&whole, 1, MPI_INT, 0, comm);
    if (whole)
        sw_pmpi.Gather(&own, (int)sizeof own, MPI_BYTE, all, (int)sizeof own, MPI_BYTE, 0, comm);
    if (rank == 0 && whole && all) {
        qsort(all, (size_t)size, sizeof *all, by_number);
        for (int i = 0; i < size; i++)
            nodes += i == 0 || all[i] != all[i - 1];
    }
    if (all != few)
        free(all);
    return nodes;
}
