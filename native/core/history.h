/* SPDX-License-Identifier: BSD-3-Clause
 * What this program did to files of a name before: a checkpoint looks like the one before it. Names are
 * compared with their digits folded. */
#ifndef STRIPEWISE_HISTORY_H
#define STRIPEWISE_HISTORY_H

#include "arena.h"
#include "workload.h"

/* Writes the name with every run of digits as one "#". False if it does not fit. */
bool sw_fold_digits(const char *name, char *folded, size_t size);

#define SW_HISTORY_FAMILIES 128

struct sw_past {
    const char *name; /* folded, interned; NULL: free */
    bool write;
    uint64_t used; /* when it was last asked for or learned, in calls */
    double file_size, transfer_size;
    double stored; /* bytes of the file on storage; filters make them differ from file_size. 0: unknown */
    signed char collective, strided; /* -1: unknown */
    uint32_t opens;
};

struct sw_history {
    sw_lock lock;
    uint64_t clock;
    struct sw_past families[SW_HISTORY_FAMILIES];
};

/* Remembers one open of a file. past: what it was, its name the file's own. The least recently used family
 * makes room. */
void sw_history_learn(struct sw_history *history, struct sw_arena *arena, const char *path,
                      struct sw_past past);

/* Fills what is unknown of a workload from the last open of this kind. stored: bytes of the file that is
 * about to be read, which holds as much per byte as the last one did; 0: it is written, and as large as the
 * last. */
void sw_history_recall(struct sw_history *history, const char *path, bool write, double stored,
                       struct sw_workload *workload);

#endif
