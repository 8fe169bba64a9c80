/* SPDX-License-Identifier: BSD-3-Clause
 * What a datatype that describes a file says of it. */
#ifndef STRIPEWISE_DATATYPES_H
#define STRIPEWISE_DATATYPES_H

#include <stdint.h>

#include "mpi_symbols.h"
#include "stripewise_format.h"

#define SW_DEEPEST_TYPE 8 /* constructors within one another that are followed */

/* A datatype's constructor and what it was called with. */
struct sw_constructor {
    int combiner, integers, addresses, datatypes;
    int *integer; /* one allocation with the two below */
    MPI_Aint *address;
    MPI_Datatype *datatype;
};

/* The pieces in which one copy of a datatype lies in the file; neighbours count as several where only reading
 * a long list of blocks would show that they touch. 0: the datatype does not tell. */
int64_t sw_type_runs(MPI_Datatype datatype);

/* ---- flattened ----
 * The bytes that a datatype shows, as blocks that are repeated at regular distances: a subarray or vector of
 * any size is one block. */

struct sw_block {
    int64_t offset, length;
    int dims; /* the fastest first */
    int64_t count[SW_RECORD_DEPTH], stride[SW_RECORD_DEPTH];
};

struct sw_flat {
    int64_t lower, extent;
    uint32_t count;
    struct sw_block blocks[SW_MAX_RECORD_BLOCKS];
};

/* False where the datatype does not tell, or has too many blocks. */
bool sw_flatten(MPI_Datatype datatype, struct sw_flat *shape);

#endif
