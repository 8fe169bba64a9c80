/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "datatypes.h"

#define LONGEST                                                                                              \
    4096 /* numbers of a constructor that are read: longer lists are taken to be of blocks apart */

/* False where the constructor does not tell. Those that took large counts do not: MPI gives these by other
 * functions. */
static bool envelope_of(MPI_Datatype datatype, struct sw_constructor *made) {
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

static bool contents_of(MPI_Datatype datatype, struct sw_constructor *made) {
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

/* For an envelope that is not of a named datatype; what it returns is to be let go of. */
static void let_go(struct sw_constructor *made) {
    for (int i = 0; i < made->datatypes; i++) {
        struct sw_constructor inner;
        if (envelope_of(made->datatype[i], &inner) && inner.combiner != MPI_COMBINER_NAMED)
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
    if (depth > SW_DEEPEST_TYPE || !envelope_of(datatype, &made))
        return 0;
    if (made.combiner == MPI_COMBINER_NAMED)
        return 1;
    if (made.integers + made.addresses > LONGEST)
        return length_of_list(&made);
    if (made.datatypes < 1 || !contents_of(datatype, &made))
        return 0;
    int64_t runs = runs_of_constructor(&made, depth);
    let_go(&made);
    return runs;
}

int64_t sw_type_runs(MPI_Datatype datatype) {
    return runs_within(datatype, 0);
}

/* Adds a block; those that follow on the one before, or at the distance of those before, join it. */
static bool add(struct sw_flat *shape, const struct sw_block *block, int64_t shift) {
    struct sw_block next = *block, *last = shape->count ? &shape->blocks[shape->count - 1] : NULL;
    next.offset += shift;
    if (next.length == 0)
        return true;
    if (last && !next.dims) {
        int64_t distance = next.offset - last->offset;
        if (!last->dims && distance == last->length) {
            last->length += next.length;
            return true;
        }
        if (last->length == next.length && last->dims == 1 && distance == last->count[0] * last->stride[0]) {
            last->count[0]++;
            return true;
        }
        if (last->length == next.length && !last->dims && distance > 0) {
            last->dims = 1;
            last->count[0] = 2;
            last->stride[0] = distance;
            return true;
        }
    }
    if (shape->count == SW_MAX_RECORD_BLOCKS)
        return false;
    shape->blocks[shape->count++] = next;
    return true;
}

/* Makes one block many copies of itself. */
static bool repeat_block(struct sw_block *block, int64_t copies, int64_t stride) {
    int last = block->dims - 1;
    if (last < 0 && stride == block->length) {
        block->length *= copies;
    } else if (last >= 0 && stride == block->count[last] * block->stride[last]) {
        block->count[last] *= copies;
    } else {
        if (block->dims == SW_RECORD_DEPTH)
            return false;
        block->count[block->dims] = copies;
        block->stride[block->dims++] = stride;
    }
    return true;
}

static void copy_blocks(struct sw_flat *to, const struct sw_flat *from) {
    to->count = from->count;
    memcpy(to->blocks, from->blocks, from->count * sizeof *from->blocks);
}

static bool repeat(struct sw_flat *shape, int64_t copies, int64_t stride) {
    if (copies <= 0 || shape->count == 0) {
        shape->count = 0;
        return true;
    }
    if (copies == 1)
        return true;
    if (shape->count == 1)
        return repeat_block(&shape->blocks[0], copies, stride);
    struct sw_flat *one = malloc(sizeof *one); /* the last block may grow as copies follow */
    bool good = one != NULL;
    if (good)
        copy_blocks(one, shape);
    for (int64_t copy = 1; good && copy < copies; copy++)
        for (uint32_t i = 0; good && i < one->count; i++)
            good = add(shape, &one->blocks[i], copy * stride);
    free(one);
    return good;
}

static bool flatten(MPI_Datatype datatype, int depth, struct sw_flat *shape);

static bool flatten_subarray(const struct sw_constructor *made, int64_t unit, struct sw_flat *shape) {
    int dimensions = made->integer[0];
    const int *sizes = made->integer + 1, *subsizes = sizes + dimensions, *starts = subsizes + dimensions;
    bool c_order = made->integer[1 + 3 * dimensions] == MPI_ORDER_C;
    int64_t start = 0;
    for (int i = 0; i < dimensions; i++) {
        int d = c_order ? dimensions - 1 - i : i; /* the fastest dimension first */
        if (!repeat(shape, subsizes[d], unit))
            return false;
        start += starts[d] * unit;
        unit *= sizes[d];
    }
    for (uint32_t i = 0; i < shape->count; i++)
        shape->blocks[i].offset += start;
    return true;
}

/* Where block i of a constructor's list lies, in bytes, and its copies of the inner datatype. */
static int64_t place_in_list(const struct sw_constructor *made, int i, int64_t unit, int64_t *copies) {
    const int *integer = made->integer;
    bool same = made->combiner == MPI_COMBINER_INDEXED_BLOCK || made->combiner == MPI_COMBINER_HINDEXED_BLOCK;
    *copies = integer[same ? 1 : 1 + i];
    if (made->combiner == MPI_COMBINER_INDEXED)
        return integer[1 + integer[0] + i] * unit;
    return made->combiner == MPI_COMBINER_INDEXED_BLOCK ? integer[2 + i] * unit : made->address[i];
}

/* shape holds the inner datatype, of which unit is the extent. */
static bool flatten_list(const struct sw_constructor *made, int depth, int64_t unit, struct sw_flat *shape) {
    struct sw_flat *inner = malloc(2 * sizeof *inner), *copied = inner + 1;
    bool good = inner != NULL;
    if (good)
        copy_blocks(inner, shape);
    shape->count = 0;
    for (int i = 0; good && i < made->integer[0]; i++) {
        if (i > 0 && i < made->datatypes) {
            good = flatten(made->datatype[i], depth + 1, inner);
            if (!good)
                break;
            unit = inner->extent;
        }
        int64_t copies, place = place_in_list(made, i, unit, &copies);
        if (good)
            copy_blocks(copied, inner);
        good = good && repeat(copied, copies, unit);
        for (uint32_t k = 0; good && k < copied->count; k++)
            good = add(shape, &copied->blocks[k], place);
    }
    free(inner);
    return good;
}

static bool flatten_made(const struct sw_constructor *made, int depth, struct sw_flat *shape) {
    const int *integer = made->integer;
    if (!flatten(made->datatype[0], depth + 1, shape))
        return false;
    int64_t unit = shape->extent;
    switch (made->combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
        return true;
    case MPI_COMBINER_CONTIGUOUS:
        return repeat(shape, integer[0], unit);
    case MPI_COMBINER_VECTOR:
        return repeat(shape, integer[1], unit) && repeat(shape, integer[0], integer[2] * unit);
    case MPI_COMBINER_HVECTOR:
        return repeat(shape, integer[1], unit) && repeat(shape, integer[0], made->address[0]);
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK:
    case MPI_COMBINER_STRUCT:
        return flatten_list(made, depth, unit, shape);
    case MPI_COMBINER_SUBARRAY:
        return flatten_subarray(made, unit, shape);
    default:
        return false;
    }
}

static bool flatten(MPI_Datatype datatype, int depth, struct sw_flat *shape) {
    struct sw_constructor made = {.integers = 0};
    MPI_Count size = 0, lower = 0, extent = 0;
    if (depth > SW_DEEPEST_TYPE || !envelope_of(datatype, &made))
        return false;
    sw_pmpi.Type_size_x(datatype, &size);
    sw_pmpi.Type_get_extent_x(datatype, &lower, &extent);
    if (made.combiner == MPI_COMBINER_NAMED) {
        shape->count = size > 0;
        shape->blocks[0] = (struct sw_block){.length = size};
    } else {
        if (made.datatypes < 1 || !contents_of(datatype, &made))
            return false;
        bool good = flatten_made(&made, depth, shape);
        let_go(&made);
        if (!good)
            return false;
    }
    shape->lower = lower;
    shape->extent = extent;
    return true;
}

bool sw_flatten(MPI_Datatype datatype, struct sw_flat *shape) {
    return flatten(datatype, 0, shape);
}
