/* SPDX-License-Identifier: BSD-3-Clause
 * The part of a process: a file of fixed size that the process maps and counts in, so that what is there when
 * it is killed is what it had done. Python reads it (src/stripewise/measure/processes.py); numbers are those
 * of this machine. Times are nanoseconds of CLOCK_MONOTONIC. */
#ifndef STRIPEWISE_PART_H
#define STRIPEWISE_PART_H

#include <stdatomic.h>
#include <stdint.h>

#define PART_MAGIC "SWPROC1" /* changes with anything below */
#define PART_FILES 512       /* the first one holds what has no room elsewhere */
#define PART_PATH 512        /* of a longer path the end is kept */

typedef _Atomic(uint64_t) counter;

enum operation {
    OPEN,
    CLOSE,
    READ,
    PREAD,
    WRITE,
    PWRITE,
    FREAD,
    FWRITE,
    AIO_READ,
    AIO_WRITE,
    COPY_IN,
    COPY_OUT,
    SEEK,
    SYNC,
    TRUNCATE,
    MMAP,
    ADVISE,
    OPERATIONS
};

enum metadata { FAILED_OPEN, STAT, CHANGE, LIST, METADATA };

struct calls {
    counter count, bytes, time, least, most; /* least: smallest size and 1; 0: none */
};

#define SIZE_BINS 10
#define TOP 4

struct direction {
    counter first, last; /* of its calls; last also of the close after them */
    counter bins[SIZE_BINS];
    counter contiguous, strided, random;
    struct {
        counter size, count;
    } top[TOP]; /* the first sizes met */
};

struct file_record {
    _Atomic(uint32_t) state, hash; /* 0: free, 1: being made, 2: ready */
    char path[PART_PATH];
    struct calls calls[OPERATIONS];
    struct direction way[2]; /* reads, writes */
};

struct part {
    char magic[8];
    uint32_t record_size, records;
    int32_t pid, parent, rank, ranks; /* rank: -1 if unknown */
    uint64_t real, start;             /* the same moment by CLOCK_REALTIME and CLOCK_MONOTONIC */
    counter end;                      /* 0: killed, or replaced by another program */
    char host[64], executable[PART_PATH];
    struct {
        counter count, time;
    } metadata[METADATA];
    struct file_record files[PART_FILES];
};

#endif
