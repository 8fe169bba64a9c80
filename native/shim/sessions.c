/* SPDX-License-Identifier: BSD-3-Clause
 * MPI sessions: a process may do MPI-IO without ever calling MPI_Init. Nothing is collective when a session
 * begins, so records go to the report along the first communicator of several ranks that opens a file, and
 * none is written for the others. */
#include "lifecycle.h"
#include "setup.h"
#include "world.h"

void sw_session_opened(MPI_Comm comm) {
    (void)comm;
}
