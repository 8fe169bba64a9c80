/* SPDX-License-Identifier: BSD-3-Clause
 * The families that the mode online learns about: what earlier jobs knew of one, its candidates, which of
 * them the next phase tries, and what a phase has cost. */
#ifndef STRIPEWISE_FAMILIES_H
#define STRIPEWISE_FAMILIES_H

#include "journal.h"
#include "known.h"
#include "online.h"

/* On rank 0: the candidate for this open, into orders. */
void sw_family_choose(const struct sw_opening *opening, struct sw_matches *matches, struct sw_orders *orders);

/* A phase of a candidate of a family, both as orders numbered them, was measured: phase says all but its
 * family and settings, which are filled in. Returns whether it is worth a line in the journal. */
bool sw_family_measured(uint32_t family, uint32_t candidate, const char *path, struct sw_phase *phase);

/* All families, those not used among them, each with what its next phase would use. For the end of a program.
 */
const struct sw_family *sw_families_learned(size_t *count);

#endif
