/* SPDX-License-Identifier: BSD-3-Clause
 * The records of files, one a path, in an arena. A process keeps its own while it runs (at most
 * SW_MAX_FILES); at the end the same structure collects those of all ranks. What does not fit is summed into
 * one record called SW_OTHER_FILES. */
#ifndef STRIPEWISE_FILES_H
#define STRIPEWISE_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "arena.h"
#include "counters.h"
#include "hdf5.h"
#include "layout.h"
#include "plan.h"

/* The names MPI_File_open is given. */

/* The name without a driver's prefix ("ufs:", "lustre:"): two or more letters or digits and a colon. Points
 * into name. */
const char *sw_path_without_prefix(const char *name);

/* The absolute path of name (without its prefix), links unresolved. False if it does not fit. */
bool sw_path_absolute(const char *name, char *path, size_t size);

/* What infos and property lists say is kept as words, "KEY NEWLINE VALUE NEWLINE ...", which may be NULL. */
struct sw_words {
    char key[SW_MAX_VALUE + 1], value[SW_MAX_VALUE + 1]; /* of longer ones the beginning */
};

/* Takes the next two from *words; false at their end. */
bool sw_words_next(const char **words, struct sw_words *next);

/* The value of a key; false if they lack it. */
bool sw_words_get(const char *words, const char *key, char value[SW_MAX_VALUE + 1]);

/* What became of one setting at one file. All strings are interned or NULL. */
struct sw_result {
    enum sw_carrier carrier;
    enum sw_outcome outcome;
    const char *key, *requested, *application, *given, *echoed, *note;
};
#define SW_RESULT_TEXTS(X) X(key) X(requested) X(application) X(given) X(echoed) X(note)
#define SW_FILE_TEXTS(X) X(driver) X(file_system) X(why) X(application) X(info)

/* What a model or the learner decided when the file was last opened. */
struct sw_choice_facts {
    uint32_t count, verdict;   /* decisions; enum sw_verdict */
    double current, predicted; /* objective, as predicted */
    uint64_t combinations;
    int64_t seconds, broadcast; /* nanoseconds */
};

/* Facts that are numbers: sent from rank to rank as they are. */
struct sw_facts {
    uint64_t opens;
    uint32_t ranks, nodes;
    int64_t size; /* -1: unknown */
    struct sw_span span, write_span, read_span;
    struct sw_view view;
    struct sw_layout layout;
    struct sw_choice_facts choice;
};

struct sw_file {
    sw_lock lock; /* of everything below that calls change: calls, posix, facts */
    struct sw_file *older, *newer, *same_hash;
    const char *path; /* owned */
    uint32_t hash;
    atomic_uint handles; /* holders of the record: it is not evicted while there is one */
    atomic_uint
        pending; /* enum sw_during bits of the latest nonblocking call: its POSIX calls come at any time */
    struct sw_facts facts;
    struct sw_calls *calls[SW_OPERATIONS];
    struct sw_posix *posix[2];        /* reads, writes */
    struct sw_pattern *patterns[2];   /* the same, of MPI-IO calls */
    struct sw_hdf5 *hdf5;             /* NULL: not used through HDF5 */
    const char *driver, *file_system; /* interned */
    const char *why;                  /* interned: of the last decision */
    const char *application;          /* interned, as info: the hints that the program gave */
    const char *info; /* interned: key NEWLINE value NEWLINE ..., control characters replaced */
    struct sw_result *results;
    uint32_t result_count;
};

#define SW_FILE_BUCKETS 1024

struct sw_files {
    struct sw_arena arena;
    sw_lock lock;
    size_t limit, count;
    uint32_t dataset_limit;          /* of one file, kept apart */
    struct sw_file *oldest, *newest; /* by creation */
    struct sw_file *other;           /* the summed record, or NULL */
    struct sw_file *buckets[SW_FILE_BUCKETS];
    void (*evict)(struct sw_file *file); /* told before a record's memory is reused; may be NULL */
};

/* Returns false if the memory cannot be reserved. limit: records kept apart; dataset_limit: datasets of each.
 */
bool sw_files_open(struct sw_files *files, size_t memory, size_t limit, uint32_t dataset_limit);
void sw_files_close(struct sw_files *files);

/* The record of a path, made if need be, and held until sw_files_put. Where memory is full it makes room by
 * summing the oldest closed record, and as a last resort answers the summed record itself; NULL only if there
 * is not even room for that one. */
struct sw_file *sw_files_get(struct sw_files *files, const char *path);
void sw_files_put(struct sw_file *file);

/* A data call as it is counted. Times in nanoseconds of any one clock. */
struct sw_event {
    enum sw_op op;
    enum sw_shape shape;
    bool moved; /* false: it failed, and says nothing of the pattern */
    uint64_t bytes;
    int64_t place;                /* in bytes of the file, or SW_UNKNOWN_PLACE */
    int64_t filetype_size, piece; /* of the view that it went through, as sw_view_count takes them */
    int64_t began, ended;
    uint64_t messages; /* MPI calls that the MPI library made within it */
};

/* Adds a call to the record, or to the summed record where memory is out. */
void sw_file_count(struct sw_files *files, struct sw_file *file, enum sw_op op, uint64_t bytes, int64_t time);
/* A data call with its pattern, and the POSIX calls beneath it: the record is locked once for all. */
void sw_file_count_event(struct sw_files *files, struct sw_file *file, const struct sw_event *event,
                         const struct sw_beneath_call *beneath, unsigned calls);
void sw_file_count_posix(struct sw_files *files, struct sw_file *file, const struct sw_beneath_call *calls,
                         unsigned count);
/* A call of HDF5; nothing where memory is out. */
void sw_file_count_hdf5(struct sw_files *files, struct sw_file *file, enum sw_h5_op op, int64_t time);

/* The file's record of HDF5, made if need be; NULL if memory is out. The file is locked by the caller. */
struct sw_hdf5 *sw_file_hdf5(struct sw_files *files, struct sw_file *file);

/* Has anything been counted? The summed record exists before it is needed. */
bool sw_file_is_used(const struct sw_file *file);

/* Room for results of count settings, zeroed; NULL if there is none. Replaces what the file had. */
struct sw_result *sw_file_results(struct sw_files *files, struct sw_file *file, size_t count);

/* Adds from, of any arena, to into: a record of the same path or the summed record. */
void sw_file_merge(struct sw_files *files, struct sw_file *into, const struct sw_file *from,
                   enum sw_distance distance);

/* Merges every record of from into files, while other threads may count in from. */
void sw_files_include(struct sw_files *files, struct sw_files *from, enum sw_distance distance);

#endif
