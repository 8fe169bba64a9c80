/* SPDX-License-Identifier: BSD-3-Clause
 * Phases (from open to close) in the modes that measure them, online and orders: which candidate of the
 * learner one tries, what it cost, and the journal.
 */
#ifndef STRIPEWISE_PHASES_H
#define STRIPEWISE_PHASES_H

#include "known.h"

/* On rank 0: the candidate of the learner, or the order, for this open, into orders. */
void sw_phase_choose(const struct sw_opening *opening, struct sw_matches *matches, struct sw_orders *orders);

/* A phase that is going on. */
struct sw_tracking;

/* What a record has seen so far: I/O time and bytes of this process, of all calls; and its facts now. The
 * calls of HDF5 are kept apart from those of MPI-IO below them. */
struct sw_seen {
    int64_t time;
    uint64_t bytes[2], calls[2], collective; /* reads, writes; collective: calls of either kind */
    bool strided[2];
    struct sw_hdf5_moved hdf5;
    int64_t size;
    struct sw_layout layout;
    const char *driver; /* interned; NULL: it is not told */
};
struct sw_seen sw_seen_of(struct sw_file *record);

/* Memory for a phase, before the open, and its end where none begins. NULL where memory is out. */
struct sw_tracking *sw_phase_reserve(void);
void sw_phase_give(struct sw_tracking *tracking);

/* Begins to follow a file that was opened: its use is remembered, and its cost if orders say so. tracking:
 * NULL where it cannot be followed here; before: the record's state before the open; missed: settings of an
 * order that were not passed on.
 * Collective over comm if orders->tracked, unless the layer above agrees (it then calls sw_phase_agree), or
 * the ranks have agreed before the open and talk on the copy of MPI_COMM_WORLD. Where the open failed on some
 * of them alone, a close of the others cannot end either. */
void sw_phase_begin(struct sw_tracking *tracking, const struct sw_opening *opening,
                    const struct sw_orders *orders, struct sw_seen before, struct sw_file *record,
                    uint32_t missed);

/* Is there a phase that this thread has begun and that waits for sw_phase_agree? */
bool sw_phase_waits(void);

/* It is measured if it waits on all ranks. Collective over comm then. */
void sw_phase_agree(bool everywhere, MPI_Comm comm, int size);

/* The call of HDF5 that this thread is in, which may close the file, began at this sw_tick; 0: it is in none.
 */
void sw_phase_within(int64_t began);

/* The file of a phase is to be synchronised before it is closed; the same on all its ranks. */
bool sw_phase_settles(const struct sw_tracking *tracking);

/* After the file was closed. Collective over the file's ranks if the phase is tracked. */
void sw_phase_end(struct sw_tracking *tracking, bool root);

#endif
