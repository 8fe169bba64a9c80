/* SPDX-License-Identifier: BSD-3-Clause
 * The modes predict, online and orders at one open: rank 0 of the file's communicator decides, all ranks
 * carry it out. */
#ifndef STRIPEWISE_CHOOSE_H
#define STRIPEWISE_CHOOSE_H

#include "known.h"

/* Decides on rank 0. In mode online the plan's settings are taken out of matches: they are a candidate. */
void sw_decide_open(const struct sw_opening *opening, struct sw_matches *matches, struct sw_orders *orders);

/* What is noted of the settings that a mode decides on. */
const char *sw_decided_note(enum sw_run_mode mode);

/* A layer above MPI-IO has decided for the file that all ranks now open, each on this thread; orders is NULL
 * from when it is open. MPI_File_open then carries out the same decision. */
void sw_foresee(const char *path, const struct sw_orders *orders);
const struct sw_orders *sw_foreseen(const char *path);

/* Decides on rank 0 unless it was foreseen, and lays the file out; matches then holds what is asked for, and
 * orders what the other ranks are to be told. */
void sw_choose(const struct sw_opening *opening, struct sw_matches *matches, struct sw_orders *orders);

/* On the other ranks: carries out what rank 0 has told. */
void sw_choose_as_told(const struct sw_opening *opening, struct sw_matches *matches,
                       struct sw_orders *orders);

/* What was decided, if anything was, as part of the record. */
void sw_choice_record(const struct sw_orders *orders, struct sw_file *record);

/* Keeps what was decided for a file, for stripewise_explain. */
void sw_explain(const char *path, const struct sw_decided_set *set, const char *why);

#endif
