/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "datatypes.h"

#define LONGEST                                                                                              \
    4096 /* numbers of a constructor that are read: longer lists are taken to be of blocks apart */

/* MPI-4 has functions of its own for constructors that took large counts. */
static bool envelope_of(MPI_Datatype datatype, struct sw_constructor *made) {
#if MPI_VERSION >= 4
    static int (*_Atomic found)(MPI_Datatype, MPI_Count *, MPI_Count *, MPI_Count *, MPI_Count *, int *);
    MPI_Count integers = 0, addresses = 0, large = 0, datatypes = 0;
    SW_RESOLVE(envelope, found, "PMPI_Type_get_envelope_c");
    if (envelope) {
        if (envelope(datatype, &integers, &addresses, &large, &datatypes, &made->combiner) != MPI_SUCCESS)
            return false;
        made->integers = integers;
        made->addresses = addresses;
        made->large = large;
        made->datatypes = datatypes;
        return true;
    }
#endif
    int counts[3] = {0};
    if (sw_pmpi.Type_get_envelope(datatype, &counts[0], &counts[1], &counts[2], &made->combiner) !=
        MPI_SUCCESS)
        return false;
    made->integers = counts[0];
    made->addresses = counts[1];
    made->datatypes = counts[2];
    return true;
}

/* What the calls of MPI give before it is brought into one form. */
struct contents {
    int *integer;
    MPI_Aint *address;
    MPI_Count *large;
};

static bool ask_contents(MPI_Datatype datatype, const struct sw_constructor *made,
                         const struct contents *given) {
#if MPI_VERSION >= 4
    static int (*_Atomic found)(MPI_Datatype, MPI_Count, MPI_Count, MPI_Count, MPI_Count, int *, MPI_Aint *,
                                MPI_Count *, MPI_Datatype *);
    if (made->large > 0) {
        SW_RESOLVE(contents, found, "PMPI_Type_get_contents_c");
        return contents &&
               contents(datatype, made->integers, made->addresses, made->large, made->datatypes,
                        given->integer, given->address, given->large, made->datatype) == MPI_SUCCESS;
    }
#endif
    return sw_pmpi.Type_get_contents(datatype, (int)made->integers, (int)made->addresses,
                                     (int)made->datatypes, given->integer, given->address,
                                     made->datatype) == MPI_SUCCESS;
}

/* Numbers in the order of constructors with small counts: large ones stand among the integers, and the last
 * of them are addresses. */
static void put_in_order(struct sw_constructor *made, const struct contents *given) {
    const bool array = made->combiner == MPI_COMBINER_SUBARRAY || made->combiner == MPI_COMBINER_DARRAY;
    const int64_t before = !array ? 0 : made->combiner == MPI_COMBINER_DARRAY ? 3 : 1;
    int64_t used = 0;
    for (int64_t i = 0; i < made->integers && (made->large == 0 || i < before); i++)
        made->integer[used++] = given->integer[i];
    for (int64_t i = 0; i < made->large; i++)
        made->integer[used++] = given->large[i];
    for (int64_t i = before; made->large > 0 && i < made->integers; i++)
        made->integer[used++] = given->integer[i];
    for (int64_t i = 0; i < made->addresses; i++)
        made->address[i] = given->address[i];
    if (made->large == 0)
        return;
    if (made->combiner == MPI_COMBINER_HVECTOR || made->combiner == MPI_COMBINER_HINDEXED_BLOCK)
        made->address = made->integer + 2;
    else if (made->combiner == MPI_COMBINER_HINDEXED || made->combiner == MPI_COMBINER_STRUCT)
        made->address = made->integer + 1 + made->integer[0];
}

/* Longest list of a constructor that is asked for: the calls for small counts take an int. */
static bool fits(int64_t count) {
    return count >= 0 && count <= INT_MAX;
}

static bool contents_of(MPI_Datatype datatype, struct sw_constructor *made) {
    if (!fits(made->integers) || !fits(made->addresses) || !fits(made->large) || !fits(made->datatypes))
        return false;
    const size_t integers = (size_t)made->integers, addresses = (size_t)made->addresses,
                 large = (size_t)made->large, datatypes = (size_t)made->datatypes;
    struct contents given = {calloc(integers + 1, sizeof(int)), calloc(addresses + 1, sizeof(MPI_Aint)),
                             calloc(large + 1, sizeof(MPI_Count))};
    /* A vector has three numbers, whatever a library says. */
    made->integer = calloc(integers + large + addresses + 3, sizeof *made->integer);
    made->address = made->integer + integers + large;
    made->datatype = malloc(datatypes * sizeof *made->datatype + 1);
    const bool good = given.integer && given.address && given.large && made->integer && made->datatype &&
                      ask_contents(datatype, made, &given);
    if (good) {
        put_in_order(made, &given);
    } else {
        free(made->integer);
        free(made->datatype);
    }
    free(given.integer);
    free(given.address);
    free(given.large);
    return good;
}

/* For a constructor whose contents were asked for; what these returned is to be let go of. */
static void let_go(struct sw_constructor *made) {
    for (int64_t i = 0; i < made->datatypes; i++) {
        struct sw_constructor inner = {.integers = 0};
        if (envelope_of(made->datatype[i], &inner) && inner.datatypes > 0)
            sw_pmpi.Type_free(&made->datatype[i]);
    }
    free(made->integer);
    free(made->datatype);
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
    const int64_t dimensions = made->integer[0], *sizes = made->integer + 1, *subsizes = sizes + dimensions;
    bool c_order = made->integer[1 + 3 * dimensions] == MPI_ORDER_C, whole = part->dense;
    int64_t runs = part->dense ? 1 : part->runs;
    for (int64_t i = 0; i < dimensions; i++) {
        const int64_t d = c_order ? dimensions - 1 - i : i; /* the fastest dimension first */
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
    for (int64_t i = 0; i < made->integer[0]; i++) {
        if (i > 0 && i < made->datatypes)
            part = part_of(made->datatype[i], depth);
        runs += block(&part, made->integer[1 + i]);
    }
    return runs;
}

static int64_t runs_of_constructor(const struct sw_constructor *made, int depth) {
    const int64_t *integer = made->integer;
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
    const int64_t all = made->integers + made->addresses + made->large;
    switch (made->combiner) {
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_STRUCT:
        return (all - 1) / 2;
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK:
        return all - 2;
    default:
        return 0;
    }
}

static int64_t runs_within(MPI_Datatype datatype, int depth) {
    struct sw_constructor made = {.integers = 0};
    if (depth > SW_DEEPEST_TYPE || !envelope_of(datatype, &made))
        return 0;
    if (made.datatypes == 0)
        return 1;
    if (made.integers + made.addresses + made.large > LONGEST)
        return length_of_list(&made);
    if (!contents_of(datatype, &made))
        return 0;
    int64_t runs = runs_of_constructor(&made, depth);
    let_go(&made);
    return runs;
}

int64_t sw_type_runs(MPI_Datatype datatype) {
    return runs_within(datatype, 0);
}

/* ---- flattened ---- */

#define UNROLLED (1 << 20) /* blocks that are looked at one by one, at most */

/* Where blocks begin and end, their bytes, in how many pieces these lie, and what divides all sizes and
 * places: pieces of whole elements stay so. */
struct reach {
    int64_t low, high, bytes, pieces, unit;
};

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

static struct reach reach_of(const struct sw_block *block) {
    struct reach reach = {block->offset, block->offset + block->length, 0, 1,
                          common_divisor(block->length, block->offset)};
    for (int d = 0; d < block->dims; d++) {
        const int64_t span = (block->count[d] - 1) * block->stride[d];
        *(span < 0 ? &reach.low : &reach.high) += span;
        reach.pieces *= block->count[d];
        reach.unit = common_divisor(reach.unit, block->stride[d]);
    }
    reach.bytes = block->length * reach.pieces;
    return reach;
}

static struct reach reach_of_all(const struct sw_block *blocks, uint32_t count) {
    struct reach all = reach_of(&blocks[0]);
    for (uint32_t i = 1; i < count; i++) {
        const struct reach one = reach_of(&blocks[i]);
        all.low = one.low < all.low ? one.low : all.low;
        all.high = one.high > all.high ? one.high : all.high;
        all.bytes += one.bytes;
        all.pieces += one.pieces;
        all.unit = common_divisor(all.unit, one.unit);
    }
    return all;
}

/* As many pieces and bytes, from where they begin to where they end, but all of one size and at one distance;
 * the last one holds what is left. Gives the number of blocks, 1 or 2. */
static uint32_t make_even(struct reach reach, struct sw_block *blocks) {
    if (reach.high - reach.low < reach.bytes)
        reach.high = reach.low + reach.bytes;
    const int64_t others = reach.pieces - 1, length = reach.bytes / reach.pieces / reach.unit * reach.unit;
    struct sw_block even = {.offset = reach.low, .length = length};
    const struct sw_block last = {.length = reach.bytes - length * others};
    const int64_t stride =
        others ? (reach.high - reach.low - last.length) / others / reach.unit * reach.unit : 0;
    blocks[0] = even;
    if (others == 0 || stride == length) {
        blocks[0].length = reach.bytes;
        return 1;
    }
    even.dims = 1;
    even.stride[0] = stride;
    even.count[0] = last.length == length ? reach.pieces : others;
    blocks[0] = even;
    if (last.length == length)
        return 1;
    blocks[1] = last;
    blocks[1].offset = reach.low + others * stride;
    return 2;
}

/* Makes room: neighbours become even blocks. */
static void thin(struct sw_flat *shape) {
    uint32_t used = 0;
    shape->inexact = 0;
    for (uint32_t i = 0; i < shape->count; i += 4) {
        const uint32_t together = shape->count - i < 4 ? shape->count - i : 4;
        const struct reach reach = reach_of_all(&shape->blocks[i], together);
        used += make_even(reach, &shape->blocks[used]);
        shape->inexact += reach.bytes;
        if (reach.high - reach.low > shape->distance)
            shape->distance = reach.high - reach.low;
    }
    shape->count = used;
}

static void make_all_even(struct sw_flat *shape, struct reach reach) {
    shape->count = make_even(reach, shape->blocks);
    shape->inexact = reach.bytes;
    shape->distance = reach.high - reach.low;
}

/* Adds a block; those that follow on the one before, or at the distance of those before, join it. */
static void add(struct sw_flat *shape, const struct sw_block *block, int64_t shift) {
    struct sw_block next = *block, *last = shape->count ? &shape->blocks[shape->count - 1] : NULL;
    next.offset += shift;
    if (next.length == 0)
        return;
    if (last && !next.dims) {
        int64_t distance = next.offset - last->offset;
        if (!last->dims && distance == last->length) {
            last->length += next.length;
            return;
        }
        if (last->length == next.length && last->dims == 1 && distance == last->count[0] * last->stride[0]) {
            last->count[0]++;
            return;
        }
        if (last->length == next.length && !last->dims && distance > 0) {
            last->dims = 1;
            last->count[0] = 2;
            last->stride[0] = distance;
            return;
        }
    }
    if (shape->count == SW_MAX_RECORD_BLOCKS)
        thin(shape);
    shape->blocks[shape->count++] = next;
}

static void add_all(struct sw_flat *shape, const struct sw_flat *other, int64_t shift) {
    for (uint32_t i = 0; i < other->count; i++)
        add(shape, &other->blocks[i], shift);
    shape->inexact += other->inexact;
    if (other->distance > shape->distance)
        shape->distance = other->distance;
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
    to->inexact = from->inexact;
    to->distance = from->distance;
    memcpy(to->blocks, from->blocks, from->count * sizeof *from->blocks);
}

/* False where memory is out. */
static bool repeat(struct sw_flat *shape, int64_t copies, int64_t stride) {
    if (copies <= 0 || shape->count == 0) {
        shape->count = 0;
        shape->inexact = 0;
        return true;
    }
    if (copies == 1)
        return true;
    if (shape->count == 1 && repeat_block(&shape->blocks[0], copies, stride)) {
        shape->inexact *= copies;
        return true;
    }
    if (copies > UNROLLED / shape->count) {
        struct reach all = reach_of_all(shape->blocks, shape->count);
        const int64_t span = (copies - 1) * stride;
        *(span < 0 ? &all.low : &all.high) += span;
        all.bytes *= copies;
        all.pieces *= copies;
        make_all_even(shape, all);
        return true;
    }
    struct sw_flat *one = malloc(sizeof *one); /* the last block may grow as copies follow */
    if (!one)
        return false;
    copy_blocks(one, shape);
    for (int64_t copy = 1; copy < copies; copy++)
        add_all(shape, one, copy * stride);
    free(one);
    return true;
}

static void flatten(MPI_Datatype datatype, int depth, struct sw_flat *shape);

static void move(struct sw_flat *shape, int64_t shift) {
    for (uint32_t i = 0; i < shape->count; i++)
        shape->blocks[i].offset += shift;
}

static bool flatten_subarray(const struct sw_constructor *made, int64_t unit, struct sw_flat *shape) {
    const int64_t dimensions = made->integer[0], *sizes = made->integer + 1, *subsizes = sizes + dimensions,
                  *starts = subsizes + dimensions;
    bool c_order = made->integer[1 + 3 * dimensions] == MPI_ORDER_C;
    int64_t start = 0;
    for (int64_t i = 0; i < dimensions; i++) {
        const int64_t d = c_order ? dimensions - 1 - i : i; /* the fastest dimension first */
        if (!repeat(shape, subsizes[d], unit))
            return false;
        start += starts[d] * unit;
        unit *= sizes[d];
    }
    move(shape, start);
    return true;
}

/* One dimension of a distributed array: blocks of a size that go round the processes. */
struct distribution {
    int64_t size, block, processes, place;
};

static bool distribute(const struct distribution *over, int64_t unit, struct sw_flat *shape) {
    const int64_t start = over->place * over->block, round = over->block * over->processes;
    const int64_t whole =
        over->size - start < over->block ? 0 : 1 + (over->size - start - over->block) / round;
    const int64_t rest = over->size - start - whole * round;
    struct sw_flat *last = malloc(sizeof *last);
    bool good = last != NULL;
    if (good)
        copy_blocks(last, shape);
    good = good && repeat(shape, over->block, unit) && repeat(shape, whole, round * unit) &&
           repeat(last, rest < over->block ? rest : over->block, unit);
    if (good)
        add_all(shape, last, whole * round * unit);
    free(last);
    move(shape, start * unit);
    return good;
}

static bool flatten_darray(const struct sw_constructor *made, int64_t unit, struct sw_flat *shape) {
    const int64_t *integer = made->integer, dimensions = integer[2], *sizes = integer + 3,
                  *ways = sizes + dimensions, *arguments = ways + dimensions,
                  *processes = arguments + dimensions;
    const bool c_order = integer[3 + 4 * dimensions] == MPI_ORDER_C;
    for (int64_t i = 0; i < dimensions; i++) {
        const int64_t d = c_order ? dimensions - 1 - i : i; /* the fastest dimension first */
        int64_t behind = 1;                                 /* processes are numbered in C's order always */
        for (int64_t k = d + 1; k < dimensions; k++)
            behind *= processes[k];
        struct distribution over = {.size = sizes[d],
                                    .block = arguments[d],
                                    .processes = processes[d],
                                    .place = integer[1] / behind % processes[d]};
        if (ways[d] == MPI_DISTRIBUTE_NONE)
            over = (struct distribution){sizes[d], sizes[d], 1, 0};
        else if (arguments[d] == MPI_DISTRIBUTE_DFLT_DARG)
            over.block =
                ways[d] == MPI_DISTRIBUTE_CYCLIC ? 1 : (over.size + over.processes - 1) / over.processes;
        if (over.block < 1 || !distribute(&over, unit, shape))
            return false;
        unit *= sizes[d];
    }
    return true;
}

/* Where block i of a constructor's list lies, in bytes, and its copies of the inner datatype. */
static int64_t place_in_list(const struct sw_constructor *made, int64_t i, int64_t unit, int64_t *copies) {
    const int64_t *integer = made->integer;
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
    shape->inexact = 0;
    for (int64_t i = 0; good && i < made->integer[0]; i++) {
        if (i > 0 && i < made->datatypes) {
            flatten(made->datatype[i], depth + 1, inner);
            unit = inner->extent;
        }
        int64_t copies, place = place_in_list(made, i, unit, &copies);
        copy_blocks(copied, inner);
        good = repeat(copied, copies, unit);
        add_all(shape, copied, place);
    }
    free(inner);
    return good;
}

static bool flatten_made(const struct sw_constructor *made, int depth, struct sw_flat *shape) {
    const int64_t *integer = made->integer;
    flatten(made->datatype[0], depth + 1, shape);
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
    case MPI_COMBINER_DARRAY:
        return flatten_darray(made, unit, shape);
    default:
        return false;
    }
}

/* A datatype that does not tell what it is made of is taken to be in one piece. */
static void flatten(MPI_Datatype datatype, int depth, struct sw_flat *shape) {
    struct sw_constructor made = {.integers = 0};
    MPI_Count size = 0, lower = 0, extent = 0, true_lower = 0, true_extent = 0;
    const bool told = envelope_of(datatype, &made);
    sw_pmpi.Type_size_x(datatype, &size);
    sw_pmpi.Type_get_extent_x(datatype, &lower, &extent);
    shape->count = 0;
    shape->inexact = shape->distance = 0;
    bool known = told && depth <= SW_DEEPEST_TYPE && made.datatypes > 0 && contents_of(datatype, &made);
    if (known) {
        known = flatten_made(&made, depth, shape);
        let_go(&made);
    }
    if (!known) {
        sw_pmpi.Type_get_true_extent_x(datatype, &true_lower, &true_extent);
        shape->count = size > 0;
        shape->blocks[0] = (struct sw_block){.offset = true_lower, .length = size};
        shape->inexact = told && made.datatypes == 0 ? 0 : size;
        shape->distance = shape->inexact ? true_extent : 0;
    }
    shape->lower = lower;
    shape->extent = extent;
}

void sw_flatten(MPI_Datatype datatype, struct sw_flat *shape) {
    flatten(datatype, 0, shape);
}

void sw_flat_narrow(struct sw_flat *shape) {
    struct reach reach = reach_of_all(shape->blocks, shape->count);
    const int64_t distance = reach.high - reach.low;
    reach.low = 0;
    reach.high = 2 * reach.bytes;
    make_all_even(shape, reach);
    shape->lower = 0;
    shape->extent = reach.high;
    shape->distance = distance;
}
