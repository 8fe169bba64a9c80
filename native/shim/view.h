/* SPDX-License-Identifier: BSD-3-Clause
 * The view of a file, for the report. */
#ifndef STRIPEWISE_VIEW_H
#define STRIPEWISE_VIEW_H

#include "runtime.h"

/* Records the view, through which the calls that follow go; the types are valid. began: a sw_tick. */
void sw_view_record(struct sw_handle *handle, MPI_Offset displacement, MPI_Datatype etype,
                    MPI_Datatype filetype, int64_t began);

/* The individual file pointer was moved: where calls begin that use it. */
void sw_view_sought(MPI_File file);

#endif
