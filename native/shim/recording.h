/* SPDX-License-Identifier: BSD-3-Clause
 * The record: what this rank does in MPI-IO, kept in bounded memory and written at the end by rank 0. */
#ifndef STRIPEWISE_RECORDING_H
#define STRIPEWISE_RECORDING_H

#include "gather.h"
#include "record.h"
#include "runtime.h"

extern bool sw_recording; /* set once, before calls are counted */

/* Begins if a record is asked for, once MPI_COMM_WORLD's ranks have agreed on that. */
void sw_record_begin(void);

/* Before an open, on rank 0 of the communicator: bytes of the file that is there, or -1. */
int64_t sw_record_before(const char *path);

/* A file was opened. handle: NULL where it is not followed. before: of sw_record_before, or -1. */
void sw_record_opened(struct sw_handle *handle, MPI_Comm comm, int size, const char *path, int amode,
                      MPI_Info info, int64_t before, int64_t began);

void sw_record_deleted(const char *path, int64_t began);

/* The file pointer was moved, in etypes. */
void sw_record_sought(const struct sw_handle *handle, int64_t position);

#define SW_RECORD_ONE_PIECE (-1) /* in place of a type's number: data in one piece */

/* A call that was counted, with its numbers: the type of its data in memory, an offset in etypes where the
 * call has one, and bytes. */
void sw_record_counted(struct sw_handle *handle, enum sw_op op, int64_t memory, int64_t offset, int64_t bytes,
                       int64_t began, int64_t ended, bool failed);

/* Writes the record, on rank 0 of the route. Collective over it; without one (NULL) a process tells what it
 * knows alone, if it speaks. */
void sw_record_end(const struct sw_route *route, uint64_t ranks, const struct sw_job *job, bool speaks);

#endif
