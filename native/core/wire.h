/* SPDX-License-Identifier: BSD-3-Clause
 * A process's records as bytes, for the way to rank 0: all ranks run one build of the library, so numbers
 * travel as they lie in memory. Reading is still bounded. */
#ifndef STRIPEWISE_WIRE_H
#define STRIPEWISE_WIRE_H

#include "files.h"

/* What is known of the job apart from its files. Times in nanoseconds, maxima over ranks. */
struct sw_job {
    uint64_t ranks_reported, nodes;
    int64_t elapsed, io_time, read_time, write_time;
};

/* The times of one rank, summed from its records. */
void sw_job_times(struct sw_job *job, struct sw_files *files);

struct sw_bytes {
    char *data;
    size_t size, room;
    bool failed; /* out of memory: what follows is not appended */
};

void sw_bytes_add(struct sw_bytes *bytes, const void *data, size_t size);

/* Appends job and files to bytes (initially zeroed; data to be freed). */
void sw_wire_pack(struct sw_bytes *bytes, const struct sw_job *job, const struct sw_files *files);

/* Merges packed bytes into job and files. False if they are not whole; what came before the fault has been
 * merged. */
bool sw_wire_merge(const char *data, size_t size, struct sw_job *job, struct sw_files *files,
                   enum sw_distance distance);

#endif
