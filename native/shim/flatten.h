/* SPDX-License-Identifier: BSD-3-Clause
 * The bytes that a datatype shows, as blocks that are repeated at regular distances: a subarray or vector of
 * any size is one block. */
#ifndef STRIPEWISE_FLATTEN_H
#define STRIPEWISE_FLATTEN_H

#include "mpi_symbols.h"
#include "stripewise_format.h"

#include <stdint.h>

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
