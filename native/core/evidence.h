/* SPDX-License-Identifier: BSD-3-Clause
 * What was seen of the calls on a file within one phase, over all ranks: the facts by which the tuner tells
 * whether a setting acted, as in the report of a whole run. */
#ifndef STRIPEWISE_EVIDENCE_H
#define STRIPEWISE_EVIDENCE_H

#include "files.h"

/* MPI-IO data calls, and the system calls beneath them: all, and those within one class of MPI-IO calls. */
enum sw_evidence_part {
    SW_SAW_COLLECTIVE,
    SW_SAW_INDEPENDENT,
    SW_SAW_SYSTEM,
    SW_SAW_WITHIN, /* + enum sw_during */
    SW_SAW_PARTS = SW_SAW_WITHIN + SW_DURINGS
};

/* Sums over ranks, and the largest call; numbers of one type, to be sent as they are. */
struct sw_saw {
    double count, bytes, ranks, seconds, messages, largest;
};

struct sw_evidence {
    struct sw_saw parts[2][SW_SAW_PARTS]; /* reads, writes */
    double transfers;                     /* collective ones of HDF5's datasets */
};

/* The counters so far of this process. The caller has locked the record. */
void sw_evidence_until(const struct sw_file *file, struct sw_evidence *facts);

/* The same, where a phase begins: sizes of calls are followed anew from here. */
void sw_evidence_from(struct sw_file *file, struct sw_evidence *facts);

/* What came after before. */
void sw_evidence_since(struct sw_evidence *facts, const struct sw_evidence *before);

/* Adds what another rank saw. */
void sw_evidence_add(struct sw_evidence *into, const struct sw_evidence *from);

/* Writes the facts, and what the file's record holds beside: the hints that the program gave, properties of
 * HDF5, and its first datasets. What does not fit is left out. */
void sw_evidence_print(const struct sw_evidence *facts, const struct sw_file *file, char *text, size_t size);

#endif
