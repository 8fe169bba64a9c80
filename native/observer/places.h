/* SPDX-License-Identifier: BSD-3-Clause
 * Where in the program data moves: return addresses of its calls, only where STRIPEWISE_WHERE asks for them.
 * Python reads the file (src/stripewise/observe/places.py) and finds the source lines. */
#ifndef STRIPEWISE_PLACES_H
#define STRIPEWISE_PLACES_H

#include "part.h"

#pragma GCC visibility push(hidden)

#define PLACES_MAGIC "SWPLAC1" /* changes with anything below */
#define PLACES 1024            /* of these, those that have no room are left out */
#define PLACE_FRAMES 16
#define MODULES 64

struct place {
    _Atomic(uint64_t) key; /* of path, direction and addresses; 0: free */
    counter calls, bytes;
    _Atomic(uint32_t) ready;
    uint32_t writes;
    uint64_t frames[PLACE_FRAMES];  /* the innermost first; 0: no more */
    uint32_t modules[PLACE_FRAMES]; /* of each frame, the number of its module */
    char path[PART_PATH];
};

struct module {
    _Atomic(uint64_t) base;
    char path[PART_PATH];
};

struct places {
    char magic[8];
    uint64_t place_size;
    struct module modules[MODULES];
    struct place places[PLACES];
};

/* Readies the unwinder, which loads a library at its first use; does nothing unless asked for. */
void begin_places(void);

extern atomic_bool places_wanted;

/* The call that this thread is in moved bytes of the file. Leaves errno alone. */
void note_place(const char *path, bool writes, uint64_t bytes);

#pragma GCC visibility pop

#endif
