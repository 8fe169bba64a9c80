/* SPDX-License-Identifier: BSD-3-Clause
 * What is counted of a file at the level of HDF5: its operations, and each dataset's transfers. */
#ifndef STRIPEWISE_HDF5_H
#define STRIPEWISE_HDF5_H

#include "arena.h"
#include "counters.h"

enum sw_h5_op {
#define OPERATION(name) SW_H5_##name,
#include "h5_operations.def"
#undef OPERATION
    SW_H5_OPERATIONS
};

extern const char *const sw_h5_operation_names[SW_H5_OPERATIONS];

/* Calls of one operation; times in nanoseconds, as in sw_calls. */
struct sw_h5_calls {
    uint64_t count;
    int64_t time_sum, time_max;
};

/* H5D_layout_t in its order. */
enum sw_storage { SW_COMPACT, SW_CONTIGUOUS, SW_CHUNKED, SW_VIRTUAL, SW_STORAGES };
extern const char *const sw_storage_names[SW_STORAGES];

enum sw_filter { /* bits, in the order of sw_filter_names */
                 SW_FILTER_DEFLATE = 1,
                 SW_FILTER_SHUFFLE = 2,
                 SW_FILTER_FLETCHER32 = 4,
                 SW_FILTER_SZIP = 8,
                 SW_FILTER_NBIT = 16,
                 SW_FILTER_SCALEOFFSET = 32,
                 SW_FILTER_OTHER = 64,
};
#define SW_FILTERS 7
extern const char *const sw_filter_names[SW_FILTERS];

#define SW_DIMENSIONS 8 /* told; a dataset may have more, of which the slowest are told */
#define SW_BOX_DIMENSIONS                                                                                    \
    6 /* of datasets whose boxes are told: with more, transfers would fill the next size of the arena */

struct sw_dataset_facts {
    bool known; /* the numbers below were asked for */
    uint32_t storage, filters, dimensions, ranks, nodes;
    uint64_t creates, opens, element_size, size[SW_DIMENSIONS], chunk[SW_DIMENSIONS];
    uint64_t cache_bytes, cache_slots; /* of its chunks, as HDF5 says of the open dataset; 0: not known */
    int64_t address;                   /* of its data in the file; -1: none, or in many places */
};

/* Transfers of one direction. */
struct sw_transfers {
    uint64_t calls, bytes, collective, independent;
    uint64_t broken; /* of the collective ones: carried out independently by HDF5 */
    uint64_t cause;  /* why: bits of H5Pget_mpio_no_collective_cause, of any call */
    uint64_t selections[SW_SELECTIONS];
    int64_t time_sum, time_max;
    struct sw_pattern pattern;
    /* Elements of the box that most calls select, where more than half do, and how many calls more do than do
     * not (a vote of Boyer and Moore). */
    uint64_t box[SW_BOX_DIMENSIONS], box_votes;
    uint64_t low[SW_BOX_DIMENSIONS],
        high[SW_BOX_DIMENSIONS]; /* the box around all of them; high: behind the end */
    uint64_t touched;            /* chunks in that box of each rank, summed; 0: of one rank, or not known */
    bool loose;                  /* not all is in such boxes: touched cannot be known */
};

struct sw_dataset {
    struct sw_dataset *newer;
    const char *name; /* owned; within the file, or SW_OTHER_DATASETS */
    uint32_t hash, holders;
    struct sw_dataset_facts facts;
    struct sw_transfers *transfers[2]; /* reads, writes */
};

struct sw_hdf5 {
    struct sw_h5_calls calls[SW_H5_OPERATIONS];
    const char *driver;     /* interned */
    const char *library;    /* interned: the version of HDF5 */
    const char *properties; /* interned: key NEWLINE value NEWLINE ... as of the open file */
    struct sw_dataset *oldest, *newest, *other;
    uint32_t count; /* of datasets without the summed one */
};

/* One call of H5Dread or H5Dwrite. */
struct sw_transfer {
    uint64_t bytes;
    int64_t place, began, ended;
    enum sw_selection selection;
    bool collective;
    bool boxed; /* it selects all that lies from low to behind high; SW_SELECT_ALL does, of the dataset */
    uint64_t low[SW_BOX_DIMENSIONS], high[SW_BOX_DIMENSIONS];
};

/* Counters with the arena's memory; NULL if there is none. */
struct sw_hdf5 *sw_hdf5_new(struct sw_arena *arena);
void sw_hdf5_free(struct sw_arena *arena, struct sw_hdf5 *hdf5);

void sw_hdf5_count(struct sw_hdf5 *hdf5, enum sw_h5_op op, int64_t time);

/* The dataset of that name, made if need be and held; beyond limit the oldest one not held is summed into
 * SW_OTHER_DATASETS, and where all are held, or memory is out, that one itself is answered. NULL only if
 * there is not even memory for it. */
struct sw_dataset *sw_hdf5_dataset(struct sw_arena *arena, struct sw_hdf5 *hdf5, const char *name,
                                   uint32_t limit);
void sw_dataset_put(struct sw_dataset *dataset);

/* Nothing is counted where memory is out. */
void sw_dataset_count(struct sw_arena *arena, struct sw_dataset *dataset, bool write,
                      const struct sw_transfer *transfer);

/* How many ranks, on average, moved data of the same chunk; 0: not known. */
double sw_dataset_sharing(const struct sw_dataset *dataset, bool write);

/* The last collective transfer that was counted was carried out independently; cause: why, as bits. */
void sw_dataset_broken(struct sw_dataset *dataset, bool write, uint32_t cause);

/* The transfers of all datasets together, and the time in all operations. */
struct sw_hdf5_moved {
    int64_t time;
    uint64_t bytes[2], calls[2], strided[2]; /* reads, writes; without calls that only take part */
    uint64_t collective, independent;
    bool flat;       /* all datasets have one dimension */
    bool packed;     /* a dataset that was read has filters that change its size */
    uint64_t extent; /* bytes of the datasets that were read, unpacked */
};
struct sw_hdf5_moved sw_hdf5_sum(const struct sw_hdf5 *hdf5);

/* Adds from, counted at some distance (enum sw_distance), to into. summed: into stands for many.
 */
void sw_hdf5_merge(struct sw_arena *arena, struct sw_hdf5 *into, const struct sw_hdf5 *from, int distance,
                   bool summed, uint32_t limit);

#endif
