/* SPDX-License-Identifier: BSD-3-Clause
 * Read-ahead windows: what the accelerator of small reads remembers and decides.
 *
 * A file is divided into bins. Small reads that fall close together are noticed by counting, among the last
 * reads of the file, those in the same bin; when a bin has seen enough of them, one large read fetches it and
 * what follows, and later reads are answered from memory. What is fetched is kept in blocks of one size from
 * one pool for all files; the blocks that were not read for longest go first.
 *
 * Nothing here does I/O, takes a lock, knows a clock or allocates. The caller keeps others out
 * (small_reads.c). Tests need no pool. */
#ifndef STRIPEWISE_WINDOWS_H
#define STRIPEWISE_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#define WINDOW_BLOCK (INT64_C(256) << 10)
#define WINDOW_BLOCKS 240 /* 60 MiB: with all tables, a process stays below 64 MiB */
#define WINDOW_FILES 128
#define WINDOW_SEQUENCE 200 /* most reads of a file that are remembered */
#define WINDOW_HASHES 512

struct window_settings {
    int64_t cluster_threshold; /* reads of a bin, among the last ones, that make it worth fetching */
    int64_t binsize;           /* bytes of a bin; a larger read is not small and passes by */
    int64_t sequence_length;   /* how many of the last reads are remembered */
    int64_t prefetch_size;     /* bytes fetched at once, from the bin's beginning */
};

struct window_block {
    int16_t file; /* -1: free */
    int16_t next; /* of the same hash; -1: the last */
    bool filling; /* somebody reads into it */
    int64_t index;
    int64_t length; /* bytes of the file in it */
    int64_t used;   /* bytes that were read from it, at most its length */
    uint64_t touched;
};

struct window_file {
    uint64_t device, inode; /* inode 0: a free place */
    uint64_t touched;
    int64_t bins[WINDOW_SEQUENCE]; /* of the last reads, a ring; -1 where there was none */
    int32_t place;
    int32_t blocks;
    bool filling;      /* one fetch at a time */
    bool stale;        /* what is being fetched is old already */
    bool alone;        /* never answered from memory, and never given up */
    uint64_t stamp[5]; /* the caller's: how the file was when its blocks were read */
    int state;         /* the caller's */
    uint64_t loose;    /* the caller's */
};

struct windows {
    struct window_settings settings;
    unsigned char *pool; /* WINDOW_BLOCKS * WINDOW_BLOCK bytes, or NULL: nothing is copied */
    uint64_t clock;
    uint64_t fetches, fetched, used; /* used: of the bytes fetched, those that were read */
    int32_t most;                    /* blocks that were ever in use at once */
    int16_t heads[WINDOW_HASHES];
    struct window_block blocks[WINDOW_BLOCKS];
    struct window_file files[WINDOW_FILES];
};

/* A fetch that was begun: bytes [start, start + length) of the file, one part per block. */
struct window_fetch {
    int64_t start, length;
    int count;
    int16_t blocks[WINDOW_BLOCKS];
};

#pragma GCC visibility push(hidden)

/* Settings are cut to what can be done: at least 1, at most WINDOW_SEQUENCE reads and half the pool at once.
 */
void windows_begin(struct windows *all, const struct window_settings *settings, unsigned char *pool);

/* The file if it is known already, else NULL. */
struct window_file *windows_known(struct windows *all, uint64_t device, uint64_t inode);

/* The place of a file, made if there is none; NULL if all places it may have are taken by files that are
 * being fetched or left alone. */
struct window_file *windows_file(struct windows *all, uint64_t device, uint64_t inode);

/* Forgets what was fetched of a file; the reads remembered stay. */
void windows_drop(struct windows *all, struct window_file *file);

/* Forgets fetches that were begun, too: those who began them are not there any more. */
void windows_abandon(struct windows *all);

/* Whether size bytes at offset are in memory; then they are copied to data, unless that is NULL. */
bool windows_get(struct windows *all, struct window_file *file, int64_t offset, int64_t size, void *data);

/* Remembers a read, and says whether [*start, *start + *length) should be fetched now. */
bool windows_note(const struct windows *all, struct window_file *file, int64_t offset, int64_t size,
                  int64_t *start, int64_t *length);

/* Begins to fetch that range of a file of end bytes, widened to whole blocks, without what is in memory at
 * either end. False: nothing to fetch, or no room. */
bool windows_reserve(struct windows *all, struct window_file *file, int64_t start, int64_t length,
                     int64_t end, struct window_fetch *fetch);

/* Ends it: got bytes are there from the fetch's beginning, 0 if it failed. */
void windows_filled(struct windows *all, struct window_file *file, const struct window_fetch *fetch,
                    int64_t got);

/* Brings a write of the program into what is in memory. */
void windows_wrote(struct windows *all, struct window_file *file, int64_t offset, int64_t size,
                   const void *data);

static inline unsigned char *windows_memory(const struct windows *all, int block) {
    return all->pool ? all->pool + block * WINDOW_BLOCK : 0;
}

#pragma GCC visibility pop

#endif
