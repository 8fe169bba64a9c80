/* SPDX-License-Identifier: BSD-3-Clause
 * The mode orders: a phase (from open to close) carries out the next order of its family, if one has come,
 * and its answer is a record of the journal. Rank 0 of the job alone reads orders and answers them. */
#ifndef STRIPEWISE_MODE_ORDERS_H
#define STRIPEWISE_MODE_ORDERS_H

#include "journal.h"
#include "known.h"

/* On rank 0 of a file's communicator: the order for this open, into orders. A helper thread reads the file of
 * orders; the first open waits until it has done so once. */
void sw_order_choose(const struct sw_opening *opening, struct sw_orders *orders);

/* Appends a phase to the journal; says so on stderr where that fails. */
void sw_phase_note(const struct sw_phase *phase);

/* A phase that is measured has ended and was answered. */
void sw_order_phase_ended(void);

/* Writes an answer to the journal, soon: at the latest when the helper thread ends. Takes over the phase, of
 * malloc. */
void sw_order_answer(struct sw_phase *phase);

/* How many hints and layout keys of an order the open did not pass on; 0 for no order. */
uint32_t sw_order_missed(uint32_t number, struct sw_matches *matches);

/* How many of its settings of HDF5 did not act on the file, as its record tells at the close. */
uint32_t sw_order_missed_hdf5(uint32_t number, struct sw_file *record);

/* The open has succeeded, and a phase that carries out an order begins. False if another one does so. */
bool sw_order_begin(uint32_t number);

/* The phase has ended. phase says all but its family, settings and launch, which are filled in; NULL: it
 * cannot be measured, and a later one is to carry out the order. Returns whether it is worth a line in the
 * journal.
 */
bool sw_order_end(uint32_t number, const char *path, struct sw_phase *phase);

#endif
