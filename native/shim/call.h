/* SPDX-License-Identifier: BSD-3-Clause
 * One MPI-IO call: counted once however many entry points it passes (Fortran, C, another layer), and the
 * thread marked while it lasts, so that the POSIX calls beneath are known to be the file's. */
#ifndef STRIPEWISE_CALL_H
#define STRIPEWISE_CALL_H

#include "runtime.h"

#define SW_COLLECTED 8

/* What this thread is doing. */
struct sw_thread {
    struct sw_file *file; /* not NULL: inside an MPI-IO call on it */
    const char *path;     /* while opening: the name MPI was given, without the driver's prefix */
    const char *opener;   /* the library that opened the file's descriptor, once it did */
    unsigned during;      /* bits 1 << enum sw_during */
    unsigned calls;       /* POSIX calls not counted yet: they are with the call that made them */
    uint64_t messages;    /* MPI calls that the MPI library made within this one */
    bool collects;        /* more may be added */
    struct sw_beneath_call beneath[SW_COLLECTED];
};

extern __thread struct sw_thread sw_thread __attribute__((tls_model("initial-exec")));

struct sw_call {
    struct sw_handle *handle;
    int64_t start;
    int64_t size; /* that the call gives the file; set by calls that do */
    enum sw_op op;
};

/* False: only forward (not active, inside another call, or a file not followed). */
bool sw_call_begin(struct sw_call *call, enum sw_op op, MPI_File file);

/* For calls that move count elements; after the call, since only then datatype is known to be valid. offset:
 * what the call was given, in elements of the view; of no meaning where it has none. */
void sw_call_end_transfer(struct sw_call *call, int code, MPI_Count count, MPI_Datatype datatype,
                          MPI_Offset offset);

/* For calls that move nothing. */
void sw_call_end(struct sw_call *call);

/* ---- views ----
 * The view of a file, for the report. */

/* Records the view, through which the calls that follow go; the types are valid. external: the
 * data are in the representation external32. began: a sw_tick. */
void sw_view_record(struct sw_handle *handle, MPI_Offset displacement, MPI_Datatype etype,
                    MPI_Datatype filetype, bool external, int64_t began);

/* The individual file pointer was moved: where calls begin that use it. */
void sw_view_sought(MPI_File file);

/* So was the shared one. */
void sw_view_sought_shared(MPI_File file, MPI_Offset offset, int whence);

#endif
