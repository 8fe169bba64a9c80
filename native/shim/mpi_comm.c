/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi_comm.h"

#include <stdio.h>
#include <stdlib.h>

#define FEW 512 /* ranks whose nodes are gathered without asking for memory */

static MPI_Group world;
static bool world_known;

static struct {
    MPI_Comm comm;
    int size, nodes; /* 0: not shared */
} shared;

static __thread struct {
    bool on, used;
} lending __attribute__((tls_model("initial-exec")));

void sw_comm_set_world(MPI_Group group) {
    world = group;
    world_known = true;
}

int *sw_comm_world_ranks(MPI_Comm comm, int size) {
    MPI_Group group;
    if (sw_pmpi.Comm_group(comm, &group) != MPI_SUCCESS)
        return NULL;
    int *ranks = malloc(2 * (size_t)size * sizeof *ranks), *own = ranks + size;
    for (int i = 0; ranks && i < size; i++)
        own[i] = i;
    bool known = ranks && sw_pmpi.Group_translate_ranks(group, size, own, world, ranks) == MPI_SUCCESS;
    for (int i = 0; known && i < size; i++)
        known = ranks[i] != MPI_UNDEFINED;
    sw_pmpi.Group_free(&group);
    if (known)
        return ranks;
    free(ranks);
    return NULL;
}

bool sw_comm_is_ours(MPI_Comm comm, int size) {
    if (size == 1 || !world_known)
        return true;
    int *ranks = sw_comm_world_ranks(comm, size);
    free(ranks);
    return ranks != NULL;
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
    if (size == shared.size && shared.nodes)
        return shared.nodes;
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

void sw_comm_share(MPI_Comm comm) {
    int rank = 0, size = 0;
    shared.size = shared.nodes = 0;
    if (comm == MPI_COMM_NULL)
        return;
    sw_pmpi.Comm_rank(comm, &rank);
    sw_pmpi.Comm_size(comm, &size);
    int nodes = sw_comm_nodes(comm, rank, size);
    if (sw_pmpi.Bcast(&nodes, 1, MPI_INT, 0, comm) != MPI_SUCCESS)
        return;
    shared.comm = comm;
    shared.nodes = nodes;
    shared.size = size;
}

bool sw_comm_has_own(int size) {
    return size == shared.size && !sw_runtime.threaded;
}

MPI_Comm sw_comm_own(MPI_Comm comm, int size, int *root) {
    MPI_Comm own;
    MPI_Group group;
    int first = 0;
    *root = 0;
    if (!sw_comm_has_own(size))
        return sw_pmpi.Comm_dup(comm, &own) == MPI_SUCCESS ? own : MPI_COMM_NULL;
    if (sw_pmpi.Comm_group(comm, &group) != MPI_SUCCESS)
        return MPI_COMM_NULL;
    bool known = sw_pmpi.Group_translate_ranks(group, 1, &first, world, root) == MPI_SUCCESS;
    sw_pmpi.Group_free(&group);
    return known ? shared.comm : MPI_COMM_NULL;
}

void sw_comm_disown(MPI_Comm *own) {
    if (*own != MPI_COMM_NULL && !(shared.size && *own == shared.comm))
        sw_pmpi.Comm_free(own);
    *own = MPI_COMM_NULL;
}

MPI_Comm sw_comm_of_file(MPI_File file, int number, bool in_world) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group group;
    int code = MPI_ERR_INTERN;
    if (sw_pmpi.File_get_group(file, &group) != MPI_SUCCESS)
        return MPI_COMM_NULL;
    if (in_world) {
        code = sw_pmpi.Comm_create_group(MPI_COMM_WORLD, group, number, &comm);
    } else { /* by a function of MPI 4, as sessions are */
        int (*create)(MPI_Group, const char *, MPI_Info, MPI_Errhandler, MPI_Comm *) = NULL;
        char name[40];
        *(void **)&create = sw_next("PMPI_Comm_create_from_group");
        snprintf(name, sizeof name, "stripewise %d", number);
        if (create)
            code = create(group, name, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    }
    sw_pmpi.Group_free(&group);
    return code == MPI_SUCCESS ? comm : MPI_COMM_NULL;
}

void sw_comm_lend_begin(void) {
    lending.on = true;
    lending.used = false;
}

bool sw_comm_lend_end(void) {
    lending.on = false;
    return lending.used;
}

SW_EXPORT int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy) {
    static int (*_Atomic found)(MPI_Comm, MPI_Comm *);
    if (lending.on) {
        lending.used = true;
        *copy = comm;
        return MPI_SUCCESS;
    }
    SW_RESOLVE_OR_FAIL(next, found, "MPI_Comm_dup");
    return next(comm, copy);
}

SW_EXPORT int MPI_Comm_free(MPI_Comm *comm) {
    static int (*_Atomic found)(MPI_Comm *);
    if (lending.on) {
        *comm = MPI_COMM_NULL;
        return MPI_SUCCESS;
    }
    SW_RESOLVE_OR_FAIL(next, found, "MPI_Comm_free");
    return next(comm);
}
