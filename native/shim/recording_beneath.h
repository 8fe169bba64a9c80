/* SPDX-License-Identifier: BSD-3-Clause
 * Opens of MPI-IO beneath those of HDF5, on the thread that makes them. */
#ifndef STRIPEWISE_RECORDING_BENEATH_H
#define STRIPEWISE_RECORDING_BENEATH_H

#include <stdbool.h>
#include <stdint.h>

/* Around HDF5's own open of a file, while calls of HDF5 are recorded. */
void sw_record_beneath_begin(void);
void sw_record_beneath_end(void);

bool sw_record_within_hdf5(void);

/* MPI-IO opens a file with these numbers of the record. False: not beneath HDF5. */
bool sw_record_beneath(int64_t file, int64_t comm);

/* The numbers of the file that MPI-IO opened last between the two; false: none. */
bool sw_record_beneath_was(int64_t *file, int64_t *comm);

#endif
