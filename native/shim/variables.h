/* SPDX-License-Identifier: BSD-3-Clause
 * What the MPI library says that its own variables hold, by the tools interface: the value that it took from
 * the environment, or another one. */
#ifndef STRIPEWISE_VARIABLES_H
#define STRIPEWISE_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the library's tools interface answers about a variable of this name; it lists none of it if *listed
 * is false. text is empty where the value is of a kind that has no plain text. Only after MPI_Init. */
bool sw_variable_read(const char *name, bool *listed, char *text, size_t size);

#endif
