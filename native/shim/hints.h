/* SPDX-License-Identifier: BSD-3-Clause
 * What the plan asks of one file, and what became of it. */
#ifndef STRIPEWISE_HINTS_H
#define STRIPEWISE_HINTS_H

#include "runtime.h"
#include "wire.h"

/* The settings that match a file, while it is being opened. On the heap: opening is not the per-call path. */
struct sw_matches {
    size_t count;
    struct sw_result *results; /* strings belong to the plan or are interned */
};

/* Collects the plan's settings for the file at path, the later one of a key. An empty list if memory is
 * short. */
void sw_matches_open(struct sw_matches *matches, const char *path);
void sw_matches_close(struct sw_matches *matches);

/* Makes in tuned a copy of the application's info with the plan's hints in it, and notes who wins each key.
 * False if there is nothing to change; tuned is then not made. */
bool sw_hints_merge(struct sw_matches *matches, MPI_Info application, MPI_Info *tuned);

/* Lays the file out where it is absent. amode as MPI was given it. */
void sw_layouts_apply(struct sw_matches *matches, const char *path, int amode);

/* Settings that the launcher applied: did the environment reach this process? */
void sw_launcher_check(struct sw_matches *matches);

/* No hint was passed on after all, for this reason. */
void sw_hints_withdrawn(struct sw_matches *matches, const char *reason);

/* Records what the open file says of its hints, its driver, and the outcome of the settings. Called on the
 * communicator's rank 0. */
void sw_hints_record(struct sw_matches *matches, MPI_File file, struct sw_file *record);

/* What drives an open file: ROMIO's driver as its info (interned text of sw_file) names it, else what the
 * library that opened the file tells: "romio" or "ompio"; NULL if nothing does. */
const char *sw_driver_name(const char *info, const char *opener);

#endif
