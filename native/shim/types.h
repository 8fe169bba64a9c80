/* SPDX-License-Identifier: BSD-3-Clause
 * What a datatype that describes a file says of it. */
#ifndef STRIPEWISE_TYPES_H
#define STRIPEWISE_TYPES_H

#include <stdint.h>

#include "mpi_symbols.h"

#define SW_DEEPEST_TYPE 8 /* constructors within one another that are followed */

/* A datatype's constructor and what it was called with. */
struct sw_constructor {
    int combiner, integers, addresses, datatypes;
    int *integer; /* one allocation with the two below */
    MPI_Aint *address;
    MPI_Datatype *datatype;
};

/* False where the constructor does not tell. Those that took large counts do not: MPI gives these by other
 * functions. */
bool sw_type_envelope(MPI_Datatype datatype, struct sw_constructor *made);

/* For an envelope that is not of a named datatype; what it returns is to be let go of. */
bool sw_type_contents(MPI_Datatype datatype, struct sw_constructor *made);
void sw_type_let_go(struct sw_constructor *made);

/* The pieces in which one copy of a datatype lies in the file; neighbours count as several where only reading
 * a long list of blocks would show that they touch. 0: the datatype does not tell. */
int64_t sw_type_runs(MPI_Datatype datatype);

#endif
