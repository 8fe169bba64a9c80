/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "mpi_symbols.h"

#include <stddef.h>

#include "library.h"

struct sw_pmpi sw_pmpi;
struct sw_known_type sw_known_types[SW_KNOWN_TYPES];

static struct sw_library mpi = {.mark = "PMPI_Init"};

void *sw_next(const char *name) {
    return sw_library_function(&mpi, name);
}

void *sw_predefined(const char *name) {
    return sw_library_object(&mpi, name);
}

bool sw_pmpi_load(void) {
    bool whole = true;
#define X(name)                                                                                              \
    sw_pmpi.name = (__typeof__(sw_pmpi.name))sw_next("PMPI_" #name);                                         \
    whole &= sw_pmpi.name != NULL;
    SW_PMPI_FUNCTIONS(X)
    SW_PMPI_CONVERSIONS(X)
#undef X
    MPI_Datatype known[SW_KNOWN_TYPES] = {MPI_BYTE, MPI_CHAR, MPI_DOUBLE, MPI_FLOAT, MPI_INT, MPI_LONG};
    for (int i = 0; whole && i < SW_KNOWN_TYPES; i++) {
        sw_known_types[i].datatype = known[i];
        sw_pmpi.Type_size_x(known[i], &sw_known_types[i].size);
    }
    return whole;
}
