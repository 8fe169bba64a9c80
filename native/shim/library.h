/* SPDX-License-Identifier: BSD-3-Clause
 * The program's libraries, which the runtime is not linked to: where their functions and objects are. */
#ifndef STRIPEWISE_LIBRARY_H
#define STRIPEWISE_LIBRARY_H

#include <stdatomic.h>

/* A library, known by a function that no other has. */
struct sw_library {
    const char *mark;
    _Atomic(void *) handle; /* of one that came by dlopen; filled in when it is needed */
};

/* The function behind ours; NULL if there is none. */
void *sw_library_function(struct sw_library *library, const char *name);

/* A variable or constant. These are sought from the program downward: where the program refers to one itself,
 * a copy relocation has moved it into the program, and the library's own is never used. */
void *sw_library_object(struct sw_library *library, const char *name);

#endif
