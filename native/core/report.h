/* SPDX-License-Identifier: BSD-3-Clause
 * The report of stripewise_format.h, written from merged records. */
#ifndef STRIPEWISE_REPORT_H
#define STRIPEWISE_REPORT_H

#include <stdio.h>

#include "files.h"
#include "json.h"
#include "online.h"
#include "wire.h"

struct sw_report {
    const char *mode, *plan, *plan_id, *plan_error; /* NULL: null */
    const char *mpi_library, *mpi_abi;              /* NULL: null */
    const char *default_io;                         /* of the MPI library, where no file tells */
    const char *executable;
    uint64_t ranks;
    int64_t start; /* nanoseconds since 1970 */
    struct sw_job job;
    struct sw_files *files;
    const struct sw_family *families; /* of the mode online; NULL in all others */
    size_t family_count;
    bool each;    /* a report that exists stays, and the path is extended by a number */
    bool hurried; /* the process may be killed at any moment: the disk is not waited for */
};

/* Writes the report to a stream. Errors are the stream's (ferror). */
void sw_report_print(const struct sw_report *report, FILE *stream);

/* Writes it to path: a whole report or none appears there (a temporary file beside it, renamed; straight into
 * what is not a regular file, such as /dev/stderr). False with the reason in error. */
bool sw_report_write(const struct sw_report *report, const char *path, char *error, size_t error_size);

#endif
