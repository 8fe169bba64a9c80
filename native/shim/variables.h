/* SPDX-License-Identifier: BSD-3-Clause
 * What a library says that its own variables hold: the value that it took from the environment, or another
 * one. MPICH and the collectives of Open MPI answer by the tools interface, UCX and libfabric by functions of
 * their own. */
#ifndef STRIPEWISE_VARIABLES_H
#define STRIPEWISE_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the library of a variable of this name is there and answers; it has no such variable if *listed
 * is false. text is empty where the value is of a kind that has no plain text. Only after MPI_Init. */
bool sw_variable_read(const char *name, bool *listed, char *text, size_t size);

#endif
