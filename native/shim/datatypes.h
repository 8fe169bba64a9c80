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
    int combiner;
    int64_t integers, addresses, large, datatypes;
    int64_t *integer; /* large counts are among them */
    int64_t *address; /* within that allocation */
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
    int64_t inexact, distance; /* so many bytes lie up to so far from where they belong */
    uint32_t count;
    struct sw_block blocks[SW_MAX_RECORD_BLOCKS];
};

/* Where there are too many blocks, or the datatype does not tell, the nearest regular form. */
void sw_flatten(MPI_Datatype datatype, struct sw_flat *shape);

/* The same pieces close to one another, for data in memory that reach over more than a replay has. */
void sw_flat_narrow(struct sw_flat *shape);

#endif
