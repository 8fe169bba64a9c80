/* SPDX-License-Identifier: BSD-3-Clause
 * The part of a process: a file of fixed size that the process maps and counts in, so that what is there when
 * it is killed is what it had done. Python reads it (src/stripewise/observe/process_part.py); numbers are
 * those of this machine. Times are nanoseconds of CLOCK_MONOTONIC. */
#ifndef STRIPEWISE_PART_H
#define STRIPEWISE_PART_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../core/file_system.h"
#include "clock.h"

#define PART_MAGIC "SWPROC7" /* changes with anything below */
#define PART_FILES 512       /* the first one holds what has no room elsewhere */
#define PART_PATH 512        /* of a longer path the end is kept */

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
    counter low,
        high; /* one beyond the first byte touched, and beyond the last; 0: no call's place is known */
    struct {
        counter size, count;
    } top[TOP]; /* the first sizes met */
};

#define MOST_SETTINGS 24
#define MOST_NAME 24
#define MOST_NOTE 96

enum { SETTING_GIVEN = 1, SETTING_REFUSED };

struct asked_setting {
    char name[MOST_NAME], value[64]; /* of a longer value the beginning */
    uint64_t state;                  /* 0: not asked for */
};

struct file_record {
    _Atomic(uint32_t) state, hash; /* 0: free, 1: being made, 2: ready */
    _Atomic(uint32_t) told;        /* whether its layout was asked for */
    uint32_t place;                /* of its file system in the part's layouts, plus one; 0: no layout */
    int64_t layout[SW_LAYOUT_NUMBERS];
    char path[PART_PATH];
    struct calls calls[OPERATIONS];
    struct direction way[2]; /* reads, writes */
    struct {
        counter acted, missed, failed;
    } effects[MOST_SETTINGS]; /* calls in which a setting acted, or could not; failed: of these, was tried */
    char note[MOST_NOTE];     /* why it was not laid out, the first time; rather why it failed */
};

struct part {
    char magic[8];
    uint32_t record_size, records;
    int32_t pid, parent, rank, ranks; /* rank: -1 if unknown */
    uint64_t real, start;             /* the same moment by CLOCK_REALTIME and CLOCK_MONOTONIC */
    counter end;                      /* 0: killed, or replaced by another program */
    char host[64], executable[PART_PATH];
    char script[128]; /* that the executable interprets, without its folder; empty if none is known */
    struct {
        counter count, time;
    } metadata[METADATA];
    struct asked_setting settings[MOST_SETTINGS];
    uint64_t misread; /* entries of STRIPEWISE_POSIX and STRIPEWISE_LAYOUT that name no setting */
    struct {
        counter fetches, fetched, used, memory; /* bytes; used: of those fetched, what was read */
    } windows;                                  /* of the accelerator of small reads */
    struct {
        char system[MOST_NAME], keys[SW_LAYOUT_NUMBERS][MOST_NAME];
    } layouts[SW_FILE_SYSTEMS]; /* what the numbers of a file's layout are */
    struct file_record files[PART_FILES];
};

/* Only the calls of the C library are seen from outside. */
#pragma GCC visibility push(hidden)

extern char prefix[PATH_MAX]; /* of the parts' names; empty: nothing is counted */
extern pid_t self;            /* differs in a child of vfork, which shares this memory */
extern int rank, ranks;       /* -1: unknown */
extern struct asked_setting asked_settings[MOST_SETTINGS]; /* what a new part says of them */
extern uint64_t misread;
extern _Atomic(struct part *) part;
extern atomic_bool broken; /* the part cannot be made */

/* This thread is within the library: what it calls of the C library is not the program's. */
extern _Thread_local bool inside __attribute__((tls_model("initial-exec")));

/* This process begins: its time counts from here, not from its first call on a file. */
void begin_process(void);

/* The decimal digits of an amount, without a zero byte at the end. */
size_t decimal(char *to, uint64_t amount);

/* mmap by its system call: allocators map memory before dlsym may be called. */
void *map(void *at, size_t size, int protection, int flags, int fd, off_t offset);

/* A file of this process that is mapped; the end of its name tells its kind. NULL if there is no room for the
 * bytes that are needed at once, or it cannot be made. */
void *make_mapped(const char *kind, size_t size, size_t needed);

/* Whether there is room for what is mapped there. */
bool has_room(void *at, size_t size);

/* The part of this process, made if there is none yet; NULL if it cannot be made. */
struct part *the_part(void);

/* The record of a path, or the first one, which holds what has no room elsewhere. Changes the path where
 * several files share a record. */
struct file_record *record_of_path(struct part *in, char *path);

/* In a child: the part is its parent's. */
void leave_part(void);

#pragma GCC visibility pop

#endif
