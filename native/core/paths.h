/* SPDX-License-Identifier: BSD-3-Clause
 * The names MPI_File_open is given. */
#ifndef STRIPEWISE_PATHS_H
#define STRIPEWISE_PATHS_H

#include <stdbool.h>
#include <stddef.h>

/* The name without a driver's prefix ("ufs:", "lustre:"): two or more letters or digits and a colon. Points
 * into name. */
const char *sw_path_without_prefix(const char *name);

/* The absolute path of name (without its prefix), links unresolved. False if it does not fit. */
bool sw_path_absolute(const char *name, char *path, size_t size);

#endif
