/* SPDX-License-Identifier: BSD-3-Clause
 * The script that this process interprets, so that two scripts of one interpreter are two programs. */
#ifndef STRIPEWISE_SCRIPT_H
#define STRIPEWISE_SCRIPT_H

#include <stddef.h>

#pragma GCC visibility push(hidden)

/* The base name of the script of the interpreter `executable`, or of the module for `-m` (of what that runs,
 * for modules such as mpi4py); empty if it interprets none (commands from an option or from its input), or if
 * it is no interpreter. Nothing else of the arguments is kept: they may hold secrets. */
void script_of(const char *executable, char *name, size_t size);

/* The same by a command line: words that each end in a zero byte, and one behind all. */
void script_in(const char *executable, const char *line, size_t length, char *name, size_t size);

#pragma GCC visibility pop

#endif
