/* SPDX-License-Identifier: BSD-3-Clause */
#include "types.h"

#include <stdbool.h>
#include <stdlib.h>

#define LONGEST                                                                                              \
    4096 /* numbers of a constructor that are read: longer lists are taken to be of blocks apart */

bool sw_type_envelope(MPI_Datatype datatype, struct sw_constructor *made) {
#if MPI_VERSION >= 4
    static int (*_Atomic found)(MPI_Datatype, MPI_Count *, MPI_Count *, MPI_Count *, MPI_Count *, int *);
    MPI_Count integers = 0, addresses = 0, large = 0, datatypes = 0;
    SW_RESOLVE(envelope, found, "PMPI_Type_get_envelope_c");
    if (envelope) {
        if (envelope(datatype, &integers, &addresses, &large, &datatypes, &made->combiner) != MPI_SUCCESS ||
            large > 0)
            return false;
        made->integers = (int)integers;
        made->addresses = (int)addresses;
        made->datatypes = (int)datatypes;
        return true;
    }
#endif
    return sw_pmpi.Type_get_envelope(datatype, &made->integers, &made->addresses, &made->datatypes,
                                     &made->combiner) == MPI_SUCCESS;
}

bool sw_type_contents(MPI_Datatype datatype, struct sw_constructor *made) {
    size_t integers = (size_t)made->integers, addresses = (size_t)made->addresses,
           datatypes = (size_t)made->datatypes;
    char *memory = malloc(addresses * sizeof *made->address + datatypes * sizeof *made->datatype +
                          integers * sizeof *made->integer + 1);
    if (!memory)
        return false;
    made->address = (MPI_Aint *)memory;
    made->datatype = (MPI_Datatype *)(memory + addresses * sizeof *made->address);
    made->integer = (int *)(memory + addresses * sizeof *made->address + datatypes * sizeof *made->datatype);
    if (sw_pmpi.Type_get_contents(datatype, made->integers, made->addresses, made->datatypes, made->integer,
                                  made->address, made->datatype) == MPI_SUCCESS)
        return true;
    free(memory);
    return false;
}

void sw_type_let_go(struct sw_constructor *made) {
    for (int i = 0; i < made->datatypes; i++) {
        struct sw_constructor inner;
        if (sw_type_envelope(made->datatype[i], &inner) && inner.combiner != MPI_COMBINER_NAMED)
            sw_pmpi.Type_free(&made->datatype[i]);
    }
    free(made->address);
}

static int64_t runs_within(MPI_Datatype datatype, int depth);

/* A datatype that others are made of: its pieces, and whether copies of it touch. */
struct part {
    int64_t runs;
    MPI_Count size, extent;
    bool dense;
};

static struct part part_of(MPI_Datatype datatype, int depth) {
    struct part part = {.runs = runs_within(datatype, depth + 1)};
    MPI_Count lower = 0;
    sw_pmpi.Type_size_x(datatype, &part.size);
    sw_pmpi.Type_get_extent_x(datatype, &lower, &part.extent);
    part.dense = part.runs == 1 && lower == 0 && part.size == part.extent;
    return part;
}

/* Pieces of copies of a part that follow on each other. */
static int64_t block(const struct part *part, int64_t copies) {
    if (copies <= 0 || part->size == 0)
        return 0;
    return part->dense ? 1 : copies * part->runs;
}

static int64_t runs_of_subarray(const struct sw_constructor *made, const struct part *part) {
    int dimensions = made->integer[0];
    const int *sizes = made->integer + 1, *subsizes = sizes + dimensions;
    bool c_order = made->integer[1 + 3 * dimensions] == MPI_ORDER_C, whole = part->dense;
    int64_t runs = part->dense ? 1 : part->runs;
    for (int i = 0; i < dimensions; i++) {
        int d = c_order ? dimensions - 1 - i : i; /* the fastest dimension first */
        if (!whole)
            runs *= subsizes[d];
        whole = whole && subsizes[d] == sizes[d];
    }
    return runs;
}

/* Pieces of blocks with these numbers of copies, all of one part or each of its own. */
static int64_t runs_of_blocks(const struct sw_constructor *made, int depth) {
    int64_t runs = 0;
    struct part part = part_of(made->datatype[0], depth);
    for (int i = 0; i < made->integer[0]; i++) {
        if (i > 0 && i < made->datatypes)
            part = part_of(made->datatype[i], depth);
        runs += block(&part, made->integer[1 + i]);
    }
    return runs;
}

static int64_t runs_of_constructor(const struct sw_constructor *made, int depth) {
    const int *integer = made->integer;
    struct part part = part_of(made->datatype[0], depth);
    if (part.runs == 0)
        return 0;
    switch (made->combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
        return part.runs;
    case MPI_COMBINER_CONTIGUOUS:
        return block(&part, integer[0]);
    case MPI_COMBINER_VECTOR:
        if (part.dense && integer[1] == integer[2])
            return 1;
        return integer[0] * block(&part, integer[1]);
    case MPI_COMBINER_HVECTOR:
        if (part.dense && integer[1] * part.extent == made->address[0])
            return 1;
        return integer[0] * block(&part, integer[1]);
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK:
        return integer[0] * block(&part, integer[1]);
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_STRUCT:
        return runs_of_blocks(made, depth);
    case MPI_COMBINER_SUBARRAY:
        return runs_of_subarray(made, &part);
    default:
        return 0;
    }
}

/* The blocks of a list that is too long to be read. */
static int64_t length_of_list(const struct sw_constructor *made) {
    switch (made->combiner) {
    case MPI_COMBINER_INDEXED:
        return (made->integers - 1) / 2;
    case MPI_COMBINER_HINDEXED:
        return made->integers - 1;
    case MPI_COMBINER_INDEXED_BLOCK:
        return made->integers - 2;
    case MPI_COMBINER_HINDEXED_BLOCK:
        return made->addresses;
    case MPI_COMBINER_STRUCT:
        return made->integers - 1;
    default:
        return 0;
    }
}

static int64_t runs_within(MPI_Datatype datatype, int depth) {
    struct sw_constructor made = {.integers = 0};
    if (depth > SW_DEEPEST_TYPE || !sw_type_envelope(datatype, &made))
        return 0;
    if (made.combiner == MPI_COMBINER_NAMED)
        return 1;
    if (made.integers + made.addresses > LONGEST)
        return length_of_list(&made);
    if (made.datatypes < 1 || !sw_type_contents(datatype, &made))
        return 0;
    int64_t runs = runs_of_constructor(&made, depth);
    sw_type_let_go(&made);
    return runs;
}

int64_t sw_type_runs(MPI_Datatype datatype) {
    return runs_within(datatype, 0);
}
