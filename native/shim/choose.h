/* SPDX-License-Identifier: BSD-3-Clause
 * The modes predict and online at one open: rank 0 of the file's communicator decides, all ranks carry it
 * out. */
#ifndef STRIPEWISE_CHOOSE_H
#define STRIPEWISE_CHOOSE_H

#include "known.h"

/* Decides on rank 0, and lays the file out; matches then holds what is asked for. In mode online the plan's
 * hints and layouts are taken out of matches: they are a candidate. */
void sw_choose(const struct sw_opening *opening, struct sw_matches *matches, struct sw_orders *orders);

/* Keeps what was decided for a file, for stripewise_explain. */
void sw_explain(const char *path, const struct sw_decided_set *set, const char *why);

#endif
