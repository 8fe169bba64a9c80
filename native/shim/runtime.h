/* SPDX-License-Identifier: BSD-3-Clause
 * The state of the runtime in one process. */
#ifndef STRIPEWISE_RUNTIME_H
#define STRIPEWISE_RUNTIME_H

#include <stdatomic.h>

#include "files.h"
#include "mpi_symbols.h"

/* How the ordered calls on an open file are kept in order. */
struct sw_rank_order {
    int number;    /* of the file, on all its ranks; 0: it has one rank, or ranks without this library */
    bool in_world; /* opened between MPI_Init and MPI_Finalize, not in a session */
    bool joined;   /* comm is set */
    MPI_Comm comm; /* of the file's ranks; MPI_COMM_NULL: MPI could not make it */
    bool known;    /* waits is set */
    int waits;     /* bits 1 << enum sw_kind: their calls need a barrier */
};

/* An open MPI_File. Its key is the handle itself, which MPI does not move. */
struct sw_handle {
    MPI_File file;
    struct sw_handle *next;
    struct sw_file *record; /* held */
    int64_t opened;
    bool root; /* rank 0 of the file's communicator */
    atomic_bool wrote, read;
    /* The view, in bytes, and where the individual file pointer stands in it. */
    int64_t displacement, etype_size;
    /* Of the view's file type, in bytes: where its first byte lies, how far its copies are apart, what one
     * shows, and how many of these lie in one piece of the file (SW_UNKNOWN_PIECE: not known). */
    int64_t lower, extent, filetype_size, run;
    int slot;          /* its number in the record */
    bool pieces;       /* the view has gaps */
    const char *given; /* the last hints that the program gave after the open, interned; on the root */
    _Atomic(int64_t) pointer;
    struct sw_rank_order order;
    struct sw_tracking *tracking; /* of a phase that is measured; NULL: it is not */
};

extern const char *const sw_run_mode_names[SW_RUN_MODES];

struct sw_runtime {
    atomic_bool active;    /* false: every wrapper only forwards */
    bool apply;            /* the plan is applied, not only reported */
    enum sw_run_mode mode; /* the same on all ranks */
    bool silent;           /* another process (rank 0, a parent) speaks for this one */
    bool hints;            /* the plan has hint lines */
    bool lays_out;         /* the plan has layout lines */
    bool threaded;         /* between MPI_Init and MPI_Finalize: on some rank several threads may call MPI */
    struct sw_plan plan;
    struct sw_files files;
    int64_t zero;  /* monotonic nanoseconds at the end of MPI_Init */
    int64_t start; /* nanoseconds since 1970, at the same moment */
};

extern struct sw_runtime sw_runtime;

int64_t sw_now(void);      /* monotonic, nanoseconds */
int64_t sw_tick(void);     /* the same to a part in ten thousand, and cheap: for durations of calls */
void sw_clock_start(void); /* once, after MPI_Init */

/* Says one line on stderr, the first time in a process, and only where the process is not silent. */
void sw_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Collective over the communicator of a file: the first one of several ranks becomes the way the report
 * takes. */
void sw_session_opened(MPI_Comm comm);

/* HDF5 has loaded this library as a connector, and it was not preloaded: from here on, if MPI runs, calls are
 * counted, to the end that MPI_Finalize tells MPI_COMM_SELF of. Whether that is how things are. */
bool sw_session_connected(void);

struct sw_handle *sw_handle_find(MPI_File file);
/* Memory for the handle of a file, before it is opened, and its end where it never is; NULL where memory is
 * out.
 */
struct sw_handle *sw_handle_reserve(void);
void sw_handle_give(struct sw_handle *handle);
/* Takes over the caller's hold of record. */
void sw_handle_add(struct sw_handle *handle, MPI_File file, struct sw_file *record, int64_t opened,
                   bool root);
/* Takes the handle out of the table, when its file is about to be closed. */
void sw_handle_detach(struct sw_handle *handle);
/* Adds the spans of a detached handle to its record, and lets go of both. */
void sw_handle_end(struct sw_handle *handle, int64_t closed);
/* Ends the spans of the files still open now. Their handles stay: at exit other threads may be within calls.
 */
void sw_handles_flush(int64_t now);

/* ---- POSIX calls beneath MPI-IO ----
 * POSIX calls beneath MPI-IO. */

/* Forgets the file descriptors of a record whose memory is about to be reused. */
void sw_posix_forget(struct sw_file *file);

#endif
