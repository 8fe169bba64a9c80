/* SPDX-License-Identifier: BSD-3-Clause
 * Datatypes of a record: of views, and of data in memory. */
#ifndef STRIPEWISE_RECORDING_TYPES_H
#define STRIPEWISE_RECORDING_TYPES_H

#include "mpi_symbols.h"
#include "recording.h"

/* A file was given a view. */
void sw_record_viewed(const struct sw_handle *handle, MPI_Datatype filetype, int64_t began);

/* The number of the type of data in memory, or SW_RECORD_ONE_PIECE. */
int64_t sw_record_memory(const struct sw_handle *handle, MPI_Datatype datatype);

#endif
