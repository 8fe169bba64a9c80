/* SPDX-License-Identifier: BSD-3-Clause
 * The journal of stripewise_format.h: what phases cost with which settings, kept from job to job. A record is
 * one line with its own checksum, appended by one write, so that whatever dies in between costs at most that
 * line. */
#ifndef STRIPEWISE_JOURNAL_H
#define STRIPEWISE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stripewise_format.h"

struct sw_phase {
    char site[SW_JOURNAL_TEXT]; /* file name, digits folded */
    char pattern;
    bool write;
    uint32_t ranks, nodes;
    double bytes, seconds, time;    /* time: seconds since 1970 at its end */
    char settings[SW_JOURNAL_TEXT]; /* as sw_settings_print writes them; "" for the default */
    char workload[SW_JOURNAL_TEXT]; /* as sw_workload_print writes it */
    char program[SW_JOURNAL_WORD];
    char layout[SW_JOURNAL_WORD];       /* that the file had: "stripe_count=4 ..."; "" if it is not told */
    char driver[SW_JOURNAL_WORD];       /* as the report says it; "" if it is not told */
    uint32_t order, missed;             /* the order's number, or 0; its settings that were not passed on */
    double launch;                      /* seconds since 1970, when the program began */
    char evidence[SW_JOURNAL_EVIDENCE]; /* as sw_evidence_print writes it */
};

/* Writes a record as a line with its newline. Returns its length, or 0 if it does not fit. */
size_t sw_journal_line(const struct sw_phase *phase, char *line, size_t size);

/* Write the checksum of what follows them over the first eight characters of a line; length is without its
 * newline. */
void sw_journal_seal(char *line, size_t length);

/* Reads one line without its newline: its checksum and its fields, of which some may be missing. False if it
 * is damaged. */
bool sw_journal_fields(const char *line, size_t length, struct sw_phase *phase);

/* Reads one line without its newline. False if it is not a whole record. */
bool sw_journal_parse(const char *line, size_t length, struct sw_phase *phase);

/* Calls take for each whole record in text, in order; returns the number of lines that were none (the header
 * and empty lines do not count). */
size_t sw_journal_each(const char *text, size_t size, void (*take)(const struct sw_phase *, void *),
                       void *context);

/* Appends a record to the file at path, which is made if need be. False with errno. */
bool sw_journal_append(const char *path, const struct sw_phase *phase);

/* Reads the last SW_MAX_JOURNAL_READ bytes of the file, whole lines only. *text is to be freed. False with a
 * reason; a file that is not there is empty. */
bool sw_journal_read(const char *path, char **text, size_t *size, char *error, size_t error_size);

#endif
