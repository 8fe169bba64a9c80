/* SPDX-License-Identifier: BSD-3-Clause
 * Records of HDF5: its files that MPI-IO carries, their datasets, and what is moved. */
#ifndef STRIPEWISE_RECORDING_H5_H
#define STRIPEWISE_RECORDING_H5_H

#include "h5.h"

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
