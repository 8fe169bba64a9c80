/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off: the layout of the descriptions is theirs */
/* The files that Stripewise's Python and C sides exchange. This header is the whole contract between them:
 * nothing else is shared.
 *
 * THE PLAN (Python writes, the runtime reads): what to apply. Text, one setting a line.
 *
 *     plan    = header line*
 *     header  = "stripewise-plan 1" NEWLINE    exactly, and first
 *     line    = blank | comment | setting
 *     comment = "#" anything                   "#" is the first character of the line
 *     setting = "id" TEXT                      opaque, echoed in the report; at most SW_MAX_ID bytes
 *             | "override" ("yes" | "no")      yes: the plan wins over the application's own hints
 *             | "file" GLOB                    the settings below apply to files whose absolute path or base
 *                                              name matches (fnmatch, where "*" also matches "/")
 *             | "hint" KEY VALUE               an MPI_Info key at MPI_File_open
 *             | "layout" FILESYSTEM KEY VALUE  the layout of a file that is about to be created
 *             | "hdf5" KEY VALUE               recorded as requested
 *             | "env" NAME VALUE               exported by the launcher; the runtime checks that it arrived
 *             | "mca" NAME VALUE               the same, as OMPI_MCA_NAME
 *             | "argument" NAME VALUE          put into the command by the launcher; recorded as requested
 *
 * Words are separated by one or more blanks or tabs; a VALUE, GLOB or TEXT runs to the end of the line,
 * without the blanks around it. Before any "file" line the glob is "*". Of two settings of one key that both
 * match a file the later counts. Control characters (other than tab and newline; a carriage return before the
 * newline is dropped) are refused. Whatever breaks the grammar or a limit makes the whole plan unreadable:
 * half a plan is never applied.
 *
 * THE REPORT (the runtime writes at MPI_Finalize, Python reads): what was seen. One JSON object; see below.
 */
/* clang-format on */
#ifndef STRIPEWISE_FORMAT_H
#define STRIPEWISE_FORMAT_H

#define SW_VERSION "0.1.0"

/* ---- environment of the runtime; without the first three the library only forwards calls ---- */
#define SW_ENV_MODE "STRIPEWISE_MODE"     /* observe | apply; unset: apply if a plan is given */
#define SW_ENV_PLAN "STRIPEWISE_PLAN"     /* path of the plan; rank 0 reads it */
#define SW_ENV_REPORT "STRIPEWISE_REPORT" /* path of the report; without it none is written */
#define SW_MODE_OBSERVE "observe"
#define SW_MODE_APPLY "apply"

/* ---- the plan ---- */
#define SW_PLAN_HEADER "stripewise-plan 1"
#define SW_PLAN_ID "id"
#define SW_PLAN_OVERRIDE "override"
#define SW_PLAN_FILE "file"
#define SW_PLAN_HINT "hint"
#define SW_PLAN_LAYOUT "layout"
#define SW_PLAN_HDF5 "hdf5"
#define SW_PLAN_ENV "env"
#define SW_PLAN_MCA "mca"
#define SW_PLAN_ARGUMENT "argument"

#define SW_MAX_PLAN_BYTES 1048576
#define SW_MAX_SETTINGS 4096
#define SW_MAX_ID 128
#define SW_MAX_KEY 255
#define SW_MAX_VALUE 1023

/* File systems a layout line may name. Keys of cephfs: stripe_count, stripe_unit, object_size. Keys of
 * lustre: stripe_count, stripe_size, overstripe_count, start_ost, pool. All values but a pool's name are
 * integers. */
#define SW_LAYOUT_CEPHFS "cephfs"
#define SW_LAYOUT_LUSTRE "lustre"
#define SW_KEY_STRIPE_COUNT "stripe_count"
#define SW_KEY_STRIPE_UNIT "stripe_unit"
#define SW_KEY_OBJECT_SIZE "object_size"
#define SW_KEY_STRIPE_SIZE "stripe_size"
#define SW_KEY_OVERSTRIPE_COUNT "overstripe_count"
#define SW_KEY_START_OST "start_ost"
#define SW_KEY_POOL "pool"

/* clang-format off */
/* ---- the report ----
 *
 * {"format", "version",
 *  "runtime": {"version", "mode", "plan", "plan_id", "plan_error"},
 *  "mpi": {"library", "abi": mpich|openmpi|other, "io": romio|ompio|unknown, "thread_level", "library_path"},
 *  "job": {"executable", "ranks", "nodes", "start", "elapsed", "io_time", "complete", "ranks_reported"},
 *  "totals": {"bytes_read", "bytes_written", "read_time", "write_time", "meta_time", "read_bandwidth",
 *             "write_bandwidth"},
 *  "files": [FILE, ...]}
 *
 * Seconds are numbers with nanoseconds; sizes are bytes; bandwidths are MiB/s.
 *
 * job.start       seconds since 1970 at the end of MPI_Init on rank 0
 * job.elapsed     from the end of MPI_Init to the start of MPI_Finalize, the maximum over ranks
 * job.io_time     time inside MPI-IO calls, the maximum over ranks; calls of several threads of a rank add up.
 *                 Nonblocking operations count with the call that starts them, not with the wait.
 * job.complete    true if every rank of the job reported
 * totals.*_time   the same for data calls that read, that write, and for all others (open, close, sync, ...)
 * totals.bytes_*  bytes that successful MPI-IO calls asked to move (a read beyond the end of a file counts as asked)
 * totals.write_bandwidth
 *                 bytes_written / MiB / the length of the union over files of [start, end], where start is the
 *                 earliest start of the open of a handle that wrote and end the latest end of the close of such a
 *                 handle, over ranks. So it includes open and close, and time in which files overlap counts once.
 *                 null where nothing was written. read_bandwidth alike. A barrier at the end of MPI_Init aligns
 *                 the clocks of the ranks.
 *
 * FILE = {"path", "opens", "ranks", "nodes", "amode", "driver", "file_system", "size",
 *         "span", "write_span", "read_span",
 *         "operations": {NAME: {"count", "bytes", "time_max", "time_sum", "min_size", "max_size"}},
 *         "collective": {"calls", "bytes"}, "independent": {"calls", "bytes"}, "view",
 *         "posix": {"write": POSIX, "read": POSIX}, "layout", "info": {KEY: VALUE}, "settings": [SETTING, ...]}
 *
 * opens           successful collective opens (one on a communicator of many ranks is one)
 * ranks, nodes    of the largest communicator that opened the file, and the nodes of all ranks that opened it
 * driver          what the file's info calls romio_filesystem_type, else "romio" or "ompio", null if nothing tells.
 *                 OMPIO keeps any hint in the file's info, so its echo proves nothing.
 * operations      NAME is the MPI function without "MPI_File_", in lower case; a large-count call counts under the
 *                 name without _c. count, bytes, time_sum are sums over ranks; time_max is the maximum over ranks
 *                 of the time a rank spent in it altogether. min_size and max_size are the bytes of one call of one
 *                 rank, only for calls that move data.
 * collective, independent
 *                 calls and bytes of data calls, summed over ranks; a split collective counts once, at its begin
 * span            from the first start of an open to the last end of a close, over ranks
 * write_span      the same of the handles that wrote; null where none did. read_span alike.
 * view            the last MPI_File_set_view on the communicator's rank 0, null if none:
 *                 {"etype_size", "filetype_size", "filetype_extent", "contiguous"}
 * POSIX           {"count", "bytes", "ranks", "min_size", "max_size", "sizes": [[size, count], ...],
 *                  "during_collective": PART, "during_independent": PART}, for reads also "during_write": PART
 *                 (reads inside a write call: read-modify-write). Calls of write, pwrite, pwritev, aio_write ... on
 *                 this very file from within MPI-IO, in bytes really moved; ranks is the number of ranks with at
 *                 least one. sizes holds the most frequent, at most SW_REPORT_SIZES. Calls that a nonblocking
 *                 operation causes later count with the kind of the latest such operation.
 *                 PART = {"count", "bytes", "ranks", "max_size"}
 * layout          {"file_system", KEY: integer, ...} or null where the file system has none or does not tell
 * info            all of MPI_File_get_info after the last open
 * SETTING         {"layer", "key", "requested", "application", "given", "echoed", "outcome", "note"}; the key of a
 *                 layout is "FILESYSTEM KEY"; given is for env and mca what the process's environment holds
 * outcome         applied             passed on (given); says nothing about its effect
 *                 application_wins    the application sets this key itself, and the plan does not override
 *                 refused             it was tried and failed; note says why
 *                 not_applicable      it was not tried; note says why
 *                 Of several opens of a file the one in this order first is reported.
 *
 * Files beyond SW_MAX_FILES a process or SW_MAX_MERGED_FILES a job are summed, the oldest closed first, into
 * SW_OTHER_FILES. Bytes of a path or value that are not UTF-8 appear as \udcXX (Python's surrogateescape).
 */
/* clang-format on */
#define SW_REPORT_FORMAT "stripewise-report"
#define SW_REPORT_VERSION 1
#define SW_REPORT_SIZES 8
#define SW_OTHER_FILES "(other files)"
#define SW_MAX_FILES 1000
#define SW_MAX_MERGED_FILES 20000

/* Bytes of records a process may keep. */
#define SW_MEMORY_BUDGET 4194304

/* A path longer than this is not followed: calls on the file pass through uncounted. */
#define SW_MAX_PATH 4096

#endif
