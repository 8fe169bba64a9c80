/* SPDX-License-Identifier: BSD-3-Clause
 * What a datatype that describes a file says of it. */
#ifndef STRIPEWISE_TYPES_H
#define STRIPEWISE_TYPES_H

#include <stdint.h>

#include "mpi_symbols.h"

/* The pieces in which one copy of a datatype lies in the file; neighbours count as several where only reading
 * a long list of blocks would show that they touch. 0: the datatype does not tell. */
int64_t sw_type_runs(MPI_Datatype datatype);

#endif
