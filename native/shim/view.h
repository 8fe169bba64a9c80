/* SPDX-License-Identifier: BSD-3-Clause
 * The view of a file, for the report. */
#ifndef STRIPEWISE_VIEW_H
#define STRIPEWISE_VIEW_H

#include "runtime.h"

/* Records the view on the communicator's rank 0; the types are valid. */
void sw_view_record(struct sw_handle *handle, MPI_Datatype etype, MPI_Datatype filetype);

#endif
