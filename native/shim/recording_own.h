/* SPDX-License-Identifier: BSD-3-Clause
 * What the levels of a record share: recording.c keeps it, for MPI-IO there and for HDF5 in recording_h5.c.
 */
#ifndef STRIPEWISE_RECORDING_OWN_H
#define STRIPEWISE_RECORDING_OWN_H

#include "record.h"
#include "recording_file.h"

/* In place of a file handle's slot: HDF5 opened it, whose calls are recorded in place of what it does. */
#define SW_BENEATH_HDF5 (-2)

/* The record does not hold everything. */
void sw_record_gap(enum sw_gap gap);

/* Around all that follows. */
void sw_record_take(void);
void sw_record_release(void);

/* Adds a line that calls refer to; NULL where there is no room. */
struct sw_item *sw_record_name(enum sw_line line, int64_t a, int64_t b);

/* How many there are: the place of the next one. */
uint32_t sw_record_named(void);

/* The number, among those that begin alike, of the lines from this place on, which are taken away where they
 * are there already. */
int64_t sw_record_number_of(uint32_t first);

/* A number for what is opened, or -1 where there is none left. */
int sw_record_slot(void);
void sw_record_give_slot(int slot);

/* Adds a call that began and ended at these sw_ticks. */
void sw_record_add(enum sw_line line, const int64_t numbers[SW_RECORD_NUMBERS], int64_t began, int64_t ended);

#endif
