/* SPDX-License-Identifier: BSD-3-Clause
 * When each read and write of data began and ended, only where STRIPEWISE_TRACE asks for it. Python reads the
 * file (src/stripewise/observe/own_trace.py) and writes a trace. */
#ifndef STRIPEWISE_REQUESTS_H
#define STRIPEWISE_REQUESTS_H

#include "part.h"

#pragma GCC visibility push(hidden)

#define REQUESTS_MAGIC "SWREQS1" /* changes with anything below */
#define REQUESTS 65536           /* of these, later ones are left out */

struct request {
    counter ended; /* 0: not all of it is written yet */
    uint64_t began, bytes;
    int64_t place;
    int32_t pid; /* a child goes on in its parent's file */
    uint32_t writes, hash;
    uint32_t unused;
};

struct requests {
    char magic[8];
    uint64_t size;
    counter count; /* of all, also of those left out */
    struct request of[REQUESTS];
};

void begin_requests(void);

extern atomic_bool requests_wanted;

/* Leaves errno alone. hash: of the file's record. */
void note_request(uint32_t hash, bool writes, uint64_t bytes, int64_t place, uint64_t began, uint64_t ended);

#pragma GCC visibility pop

#endif
