/* SPDX-License-Identifier: BSD-3-Clause
 * What the plan asks of one file, and what became of it. */
#ifndef STRIPEWISE_HINTS_H
#define STRIPEWISE_HINTS_H

#include "plan.h"
#include "runtime.h"
#include "wire.h"

/* The settings that match a file, while it is being opened. On the heap: opening is not the per-call path. */
struct sw_matches {
    size_t count, room;
    struct sw_result *results; /* strings belong to the plan or are interned */
};

/* Collects the plan's settings for the file at path, the later one of a key. An empty list if memory is
 * short. */
void sw_matches_open(struct sw_matches *matches, const char *path);
void sw_matches_close(struct sw_matches *matches);

/* Adds settings that the runtime itself decided on, where the plan has none of that key. */
#define SW_NOTE_PRESCRIBED "prescribed by the model"
#define SW_NOTE_TRIED "a candidate of the learner"
#define SW_NOTE_ORDERED "asked for by an order"
#define SW_NOTE_LAYOUT "asks for the layout in place of Lustre's tools"
void sw_matches_decide(struct sw_matches *matches, const struct sw_decided_set *set, const char *note);

/* Takes the plan's hints and layouts out, with hdf5 also its properties of HDF5, and puts them into set; what
 * does not fit there stays. */
void sw_matches_take(struct sw_matches *matches, bool hdf5, struct sw_decided_set *set);

/* How many hints and layout keys of set do not act: somebody else sets them, they were refused, or the open
 * file's info says another value. */
uint32_t sw_matches_missed(struct sw_matches *matches, const struct sw_decided_set *set);

/* How many settings of HDF5 in the set acted neither on the file nor on a dataset in it, as its record tells.
 */
uint32_t sw_hdf5_missed(struct sw_file *record, const struct sw_decided_set *set);

/* What is asked for this key, or NULL. */
const char *sw_matches_get(const struct sw_matches *matches, enum sw_carrier carrier, const char *key);

/* The value of a key of an info, which may be MPI_INFO_NULL. */
bool sw_info_get(MPI_Info info, const char *key, char value[MPI_MAX_INFO_VAL + 1]);

/* Will Open MPI's OMPIO open the file? It does unless the parameter io chooses ROMIO; before Open MPI 4.1
 * ROMIO opens files on Lustre. */
bool sw_opened_by_ompio(const char *path);

/* Makes in tuned a copy of the application's info with the plan's hints in it, and notes who wins each key.
 * False if there is nothing to change; tuned is then not made. */
bool sw_hints_merge(struct sw_matches *matches, const char *path, MPI_Info application, MPI_Info *tuned);

/* The file was opened with these hints: passes them on once more where the library takes them only now. All
 * ranks of the file call it. */
void sw_hints_repeat(const struct sw_matches *matches, MPI_File file);

/* Lays the file out where it is absent. amode as MPI was given it. hints receives those that are to ask for
 * the layout where nothing else can. */
void sw_layouts_apply(struct sw_matches *matches, const char *path, int amode, struct sw_decided_set *hints);

/* Puts results of the layer of HDF5 (requested is NULL where there is none) among those of the record, which
 * the caller has locked. More than SW_MOST_ADDED in all are not kept. */
#define SW_MOST_ADDED 256
void sw_matches_add(struct sw_file *record, const struct sw_result *results, size_t count);

/* Settings that the launcher applied: did the environment reach this process? */
void sw_launcher_check(struct sw_matches *matches);

/* No hint was passed on after all, for this reason. */
void sw_hints_withdrawn(struct sw_matches *matches, const char *reason);

/* Records the program's own hints, what the open file says of its hints, its driver, and the outcome of the
 * settings. Called on the communicator's rank 0. Returns the text of the open file's hints, or NULL. */
const char *sw_hints_record(struct sw_matches *matches, MPI_Info application, MPI_File file,
                            struct sw_file *record);

/* The program gives hints to an open file: the info to pass on, which is a copy with the plan's values of the
 * keys in it where the plan overrides. After the call sw_hints_taken frees the copy; on rank 0 of the
 * communicator it also notes the program's hints and what they do to the plan's. */
MPI_Info sw_hints_given(const struct sw_handle *handle, MPI_Info given);
void sw_hints_taken(struct sw_handle *handle, MPI_Info given, MPI_Info passed, bool good);

/* An info as "KEY NEWLINE VALUE NEWLINE ...", interned; NULL if memory is short. */
const char *sw_info_text(MPI_Info info);

/* What drives an open file: ROMIO's driver as its info (interned text of sw_file) names it, else what the
 * library that opened the file tells: "romio" or "ompio"; NULL if nothing does. */
const char *sw_driver_name(const char *info, const char *opener);

#endif
