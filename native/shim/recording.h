/* SPDX-License-Identifier: BSD-3-Clause
 * The record: what this rank does in MPI-IO, kept in bounded memory and written at the end by rank 0. */
#ifndef STRIPEWISE_RECORDING_H
#define STRIPEWISE_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "gather.h"
#include "h5.h"
#include "mpi_symbols.h"
#include "record.h"
#include "runtime.h"

/* The way of the records of all ranks into one file. */

/* Why a record does not hold everything. */
enum sw_gap {
    SW_GAP_MEMORY,
    SW_GAP_COMM,
    SW_GAP_FAILED,
    SW_GAP_INTERRUPTED,
    SW_GAP_SENT,
    SW_GAP_H5_TYPE,
    SW_GAP_H5_SELECTION,
    SW_GAP_H5_STORAGE,
    SW_GAP_H5_NAME,
    SW_GAP_H5_OPEN,
    SW_GAPS
};

/* What one process recorded. */
struct sw_record {
    struct sw_items calls;
    const struct sw_item *named;
    uint32_t named_count;
    const char *texts, *inputs; /* inputs: each its size (int64_t) and its path with the NUL */
    size_t text_size, input_size;
    unsigned gaps; /* bits 1 << enum sw_gap */
};

/* Datatypes of a record: of views, and of data in memory. */

/* A file was given a view. external: its data are in the representation external32. */
void sw_record_viewed(const struct sw_handle *handle, MPI_Datatype filetype, bool external, int64_t began);

/* The number of the type of data in memory, or SW_RECORD_ONE_PIECE. */
int64_t sw_record_memory(const struct sw_handle *handle, MPI_Datatype datatype);

/* What the levels of a record share: recording.c keeps it, for MPI-IO there and for HDF5 in recording_h5.c.
 */

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

/* Opens of MPI-IO beneath those of HDF5, on the thread that makes them. */

/* Around HDF5's own open of a file, while calls of HDF5 are recorded. */
void sw_record_beneath_begin(void);
void sw_record_beneath_end(void);

/* The numbers of the file that MPI-IO opened last between the two; false: none. */
bool sw_record_beneath_was(int64_t *file, int64_t *comm);

extern bool sw_recording; /* set once, before calls are counted */

/* Begins if a record is asked for, once MPI_COMM_WORLD's ranks have agreed on that. */
void sw_record_begin(void);

/* Before an open, on rank 0 of the communicator: bytes of the file that is there, or -1. */
int64_t sw_record_before(const char *path);

/* A file was opened. handle: NULL where it is not followed. before: of sw_record_before, or -1. */
void sw_record_opened(struct sw_handle *handle, MPI_Comm comm, int size, const char *path, int amode,
                      MPI_Info info, int64_t before, int64_t began);

/* An open or a delete failed. */
void sw_record_open_failed(MPI_Comm comm, int size, const char *path, int amode, MPI_Info info,
                           int64_t began);
void sw_record_delete_failed(const char *path, int64_t began);

void sw_record_deleted(const char *path, int64_t began);

/* The rank's file pointer (SW_LINE_seek) or the shared one was moved, in etypes. */
void sw_record_sought(const struct sw_handle *handle, enum sw_line line, int64_t position);

#define SW_RECORD_ONE_PIECE (-1) /* in place of a type's number: data in one piece */

/* A call that was counted, with its numbers: the type of its data in memory, an offset in etypes where the
 * call has one, and bytes. */
void sw_record_counted(struct sw_handle *handle, enum sw_op op, int64_t memory, int64_t offset, int64_t bytes,
                       int64_t began, int64_t ended, bool failed);

/* Writes the record, on rank 0 of the route. Collective over it; without one (NULL) a process tells what it
 * knows alone, if it speaks. */
void sw_record_end(const struct sw_route *route, uint64_t ranks, const struct sw_job *job, bool speaks);

/* ---- HDF5 ----
 * Records of HDF5: its files that MPI-IO carries, their datasets, and what is moved. */

/* How a file was opened. creation: negative where the program gives none. */
struct sw_h5_opened {
    sw_hid file, creation, access;
    bool creates;
    unsigned flags;
    int64_t began, ended;
};

/* Each gives the number by which the calls on it are recorded, or -1: it is not, as a file of another driver
 * than MPI-IO. */
int sw_record_h5_file(const struct sw_h5_opened *opened);
int sw_record_h5_dataset(sw_hid dataset, bool created, int64_t began, int64_t ended);

/* A transfer of H5Dwrite or H5Dread. */
struct sw_h5_moved {
    sw_hid dataset, type, memory, place; /* place: the dataspace of the file */
    bool writes, collective, failed;
    int64_t began, ended;
};
void sw_record_h5_moved(const struct sw_h5_object *object, const struct sw_h5_moved *moved);

/* One of a dataset that has no number, as its open was not recorded. */
void sw_record_h5_moved_other(sw_hid dataset);

void sw_record_h5_extended(int slot, sw_hid space, const sw_hsize *size, int64_t began, int64_t ended);
void sw_record_h5_flushed(int slot, int scope, int64_t began, int64_t ended);
/* The file got another identifier; its end is recorded with that of the last one. */
void sw_record_h5_reopened(int slot);

void sw_record_h5_closed(int slot, bool file, int64_t began, int64_t ended);

/* What has this number is not followed: memory is out. */
void sw_record_h5_lost(int slot);

#endif
