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
 *             | "hdf5" KEY VALUE               a property of HDF5 at H5Fcreate, H5Fopen or H5Dcreate
 *             | "env" NAME VALUE               exported by the launcher; the runtime checks that it arrived
 *             | "mca" NAME VALUE               the same, as OMPI_MCA_NAME
 *             | "argument" NAME VALUE          put into the command by the launcher; recorded as requested
 *             | "workload" NAME VALUE          what is known of these files: a word of the workload
 * (file_size 4 GiB, operation write, ...) or a column of the model; predict and online decide by it | "allow"
 * ("composite" | "pool") layouts also where the parent folder's own layout is composite or in a pool, which
 * otherwise stays in force
 *
 * Words are separated by one or more blanks or tabs; a VALUE, GLOB or TEXT runs to the end of the line,
 * without the blanks around it. Before any "file" line the glob is "*". Of two settings of one key that both
 * match a file the later counts. Control characters (other than tab and newline; a carriage return before the
 * newline is dropped) are refused. Whatever breaks the grammar or a limit makes the whole plan unreadable:
 * half a plan is never applied.
 *
 * THE REPORT (the runtime writes at MPI_Finalize, Python reads): what was seen. One JSON object; see below.
 *
 * THE ARTIFACT (Python writes, the runtime reads): a performance model with its encoder, the settings it may
 * choose from and the rules between them. Binary; see the end.
 */
/* clang-format on */
#ifndef STRIPEWISE_FORMAT_H
#define STRIPEWISE_FORMAT_H

#define SW_VERSION "0.1.0"

/* ---- environment of the runtime; without any of these the library only forwards calls ---- */
#define SW_ENV_MODE                                                                                          \
    "STRIPEWISE_MODE" /* observe | apply | predict | online; unset: apply if a plan is given */
#define SW_ENV_PLAN "STRIPEWISE_PLAN"         /* path of the plan; rank 0 reads it */
#define SW_ENV_REPORT "STRIPEWISE_REPORT"     /* path of the report; without it none is written */
#define SW_ENV_MODEL "STRIPEWISE_MODEL"       /* path of the artifact; for predict and online */
#define SW_ENV_JOURNAL "STRIPEWISE_JOURNAL"   /* path of the journal; for online */
#define SW_ENV_WORKLOAD "STRIPEWISE_WORKLOAD" /* words of all files: "file_size=4GiB operation=write" */
#define SW_MODE_OBSERVE "observe"
#define SW_MODE_APPLY "apply"
#define SW_MODE_PREDICT "predict"
#define SW_MODE_ONLINE "online"

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
#define SW_PLAN_WORKLOAD "workload"
#define SW_PLAN_ALLOW "allow"
#define SW_PLAN_COMPOSITE "composite"

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
 *         "pattern": {"write": PATTERN, "read": PATTERN}, "posix": {"write": POSIX, "read": POSIX}, "layout",
 *         "info": {KEY: VALUE}, "settings": [SETTING, ...], "hdf5": HDF5}
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
 * PATTERN         {"histogram": [count, ...], "top": [[size, count], ...], "contiguous", "strided", "random",
 *                  "phases", "gap_sum", "gap_max"} of the data calls that moved bytes, null where there were none.
 *                 histogram counts calls by size: up to 100, 1000, 10^4, 10^5, 10^6, 4 10^6, 10^7, 10^8, 10^9 bytes,
 *                 and more. top holds the SW_REPORT_TOP most frequent sizes. A call is contiguous if it starts where
 *                 the rank's last call of this direction on the file ended, strided if it goes through a view with
 *                 gaps or starts as far from the last one's start as that did from the one before, else random
 *                 (also where the order is not known: shared file pointers). A phase is a series of calls with
 *                 pauses of at most SW_PHASE_GAP between them; gap_sum and gap_max are the longer pauses, in
 *                 seconds. phases and gap_sum are those of the rank with most phases.
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
 * HDF5            {"driver", "properties": {KEY: VALUE}, "operations": {NAME: {"count", "time_max", "time_sum"}},
 *                  "datasets": [DATASET, ...]} or null where the file was not used through HDF5 of 1.10 or newer.
 *                 driver: mpio, sec2 or other. properties: as HDF5 tells of the open file, under the keys of the
 *                 plan. operations: file_create, file_open, file_close, file_flush, dataset_create, ... as in
 *                 native/core/h5_operations.def; counts and times of calls of HDF5, summed over ranks.
 * DATASET         {"name", "creates", "opens", "ranks", "nodes", "storage", "element_size", "size", "chunk",
 *                  "filters", "address", "write": TRANSFERS, "read": TRANSFERS}. name is the path in the file.
 *                 storage: contiguous, chunked, compact or virtual. size and chunk are dimensions, at most
 *                 SW_DIMENSIONS of them, the slowest first. address is where the data of a contiguous dataset start
 *                 in the file, else null.
 * TRANSFERS       {"calls", "bytes", "collective", "independent", "broken_collective", "broken_by", "time_max",
 *                  "time_sum", "selections": {all|block|strided|irregular|points: count}, and the keys of PATTERN}
 *                 or null. collective: calls with H5FD_MPIO_COLLECTIVE; broken_collective: those of them that HDF5
 *                 carried out independently, for the reasons in broken_by. selections: of the file's dataspace; block
 *                 is one run of bytes, strided a regular hyperslab of several. Patterns are those of bytes within the
 *                 dataset: a strided selection counts as strided, irregular ones and points as random.
 *
 * Files beyond SW_MAX_FILES a process or SW_MAX_MERGED_FILES a job are summed, the oldest closed first, into
 * SW_OTHER_FILES; datasets beyond SW_MAX_DATASETS of a file and process, or SW_MAX_MERGED_DATASETS of a file, into
 * SW_OTHER_DATASETS of the file. Bytes of a path or value that are not UTF-8 appear as \udcXX (Python's surrogateescape).
 */
/* clang-format on */
#define SW_REPORT_FORMAT "stripewise-report"
#define SW_REPORT_VERSION 1
#define SW_REPORT_SIZES 8
#define SW_REPORT_TOP 4
#define SW_PHASE_GAP 100000000 /* nanoseconds without a call that end a phase */
#define SW_OTHER_FILES "(other files)"
#define SW_MAX_FILES 1000
#define SW_MAX_MERGED_FILES 20000
#define SW_OTHER_DATASETS "(other datasets)"
#define SW_MAX_DATASETS 256 /* of one file */
#define SW_MAX_MERGED_DATASETS 2048

/* Bytes of records a process may keep. */
#define SW_MEMORY_BUDGET 4194304

/* A path longer than this is not followed: calls on the file pass through uncounted. */
#define SW_MAX_PATH 4096

/* clang-format off */
/* ---- the journal ----
 *
 * What phases of I/O cost with which settings; the runtime in mode online appends, any later job and Python read. Text,
 * a record a line:
 *
 *     journal = (header | record | "") NEWLINE ...
 *     header  = "stripewise-journal 1"
 *     record  = CHECKSUM (TAB KEY "=" VALUE)*
 *
 * CHECKSUM is the CRC-32 (IEEE 802.3) of the rest of the line from its first TAB on, eight lower-case hexadecimal digits.
 * In a VALUE control characters, DEL and "%" are written as %XX. Lines that are no record, or whose checksum is wrong (a
 * write that was cut off), are passed over; so are keys that are not known. A record is appended by one write.
 *
 * site       the file's absolute path with every run of digits as "#"
 * operation  write or read: what the phase did more of
 * pattern    one letter: c or i (collective or independent calls), upper case where the calls are strided
 * ranks, nodes  of the file's communicator
 * bytes      that the phase moved, summed over ranks
 * seconds    inside MPI-IO calls on the file from its open to its close, the maximum over ranks
 * time       seconds since 1970, at the close
 * settings   what was applied: "LAYER KEY VALUE" joined by ";", as in a plan; empty for the default
 * workload   "WORD=VALUE" joined by blanks: all that was known of the phase after its end
 * program    base name of the executable
 * layout     "KEY=VALUE" joined by blanks, where the file system told
 */
/* clang-format on */
#define SW_JOURNAL_HEADER "stripewise-journal 1"
#define SW_JOURNAL_TEXT 1024
#define SW_JOURNAL_WORD 128
#define SW_MAX_JOURNAL_LINE 16384
#define SW_MAX_JOURNAL_READ 4194304 /* bytes at its end that the runtime reads */

/* clang-format off */
/* ---- the artifact ----
 *
 * Little-endian; one header, then fourteen sections in the order of enum sw_section, each an array of the counted
 * entries, starting at a multiple of 8 bytes, with zeros between. A reader refuses a file that breaks any rule
 * below, so that evaluation needs no further checks.
 *
 *  0  8  magic      SW_ARTIFACT_MAGIC
 *  8  4  version    SW_ARTIFACT_VERSION
 * 12  4  flags      SW_ARTIFACT_* bits
 * 16  8  size       of the file in bytes, a multiple of 8, at most SW_MAX_ARTIFACT_BYTES
 * 24  8  checksum   over the 8-byte words w[0], w[1] ... from byte 32 to the end: sum of (2 i + 1) w[i] modulo 2^64
 * 32 56  counts     14 numbers of 4 bytes: the entries of each section
 * 88  4  name, 92 4 identifier, 96 4 objective, 100 4 unit      TEXTs
 * 104 4  result     PROGRAM from the blended members (OUTPUT) to the predicted objective
 * 108 4  zeros
 * 112 8  margin     a gain is taken for one if its natural logarithm exceeds this; at least 0
 *
 * TEXT       offset of a NUL-terminated UTF-8 string in the section strings. Equal strings have equal offsets, and the
 *            value of a text in all arithmetic is its offset; a text that the artifact lacks has the value -1.
 * PROGRAM    index into programs, or SW_ARTIFACT_NONE where that is allowed
 *
 * strings    bytes; the last one is NUL
 * constants  8-byte IEEE 754 numbers, finite
 * code       4 bytes an instruction: enum sw_opcode in the highest byte, its operand in the lower three
 * programs   {first, length}: instructions of a machine with a stack of SW_ARTIFACT_STACK numbers (doubles). It starts
 *            empty and ends with exactly one number. There are no jumps.
 * inputs     {kind, name, role, unit, categorical, first value, values, default, apply, layer, key, free, active, same,
 *            constraint order, 0; factor, cost}, fifteen of 4 bytes, 4 zeros, two of 8. kind: enum sw_input_kind.
 *            name, role, unit, layer, key are TEXTs; factor is what turns the unit into bytes (1 where it is no size).
 *            values and default: entries of the section values, those of a tunable are what may be chosen. apply:
 *            SW_APPLY_*. free: PROGRAM that says whether a tunable may be chosen for this workload, else it keeps its
 *            current value; active: PROGRAM that says whether it means anything; same: whether it acts as its default.
 *            Tunables are listed so that active and same use earlier ones only (same may use its own).
 * values     {number 8 bytes, spelling TEXT, 4 zeros}: the number is the text's offset where the input is categorical
 * constraints PROGRAMs; all must give other than 0
 * derived    {apply, layer, key, template, value PROGRAM, active PROGRAM, needs (a bit mask over tunables), 0}: a setting
 *            that follows from others; in template "{value}" stands for the number
 * members    {kind, gate PROGRAM or none, post PROGRAM, first feature, features, first block, blocks, first cut, cuts,
 *            flags; weight, base, scale}, ten of 4 bytes, three of 8. The members' values are added, each times its weight (and
 *            times what gate gives: which member answers for which operation), after post (raw value = OUTPUT).
 *            trees: raw = base + scale * sum of the trees; network: base + scale * its one output.
 * features   PROGRAMs over inputs: the encoder of a member; what is no number counts as infinite in a tree
 * blocks     {first, count, inputs, outputs}: of trees first and count of nodes; of a network a layer with its weights
 *            (outputs rows of inputs, then the biases) starting at the first; count 1 means that negative outputs become
 *            zero (ReLU)
 * cuts       {threshold, feature}, a 4-byte number and one of 4 bytes: a row is on the left of a cut where its feature
 *            is at most the threshold. Trees share them: each cut is judged once a decision, however many
 *            have it.
 * nodes      {what, right} of 4 bytes each: a tree in preorder. Inner nodes: what is a cut, counted from the member's
 *            first one; the left child follows directly; right is the place of the right child, counted from the tree's
 *            first node. Leaves have right 0, and what is the leaf's value, a 4-byte IEEE 754 number. No path has more
 *            nodes than SW_ARTIFACT_DEPTH.
 * weights    4-byte IEEE 754 numbers, finite; all sums are made of doubles
 *
 * Programs and features up to the member's inputs are the same bits in C and Python: additions, subtractions,
 * multiplications and divisions of IEEE doubles, never contracted, and a logarithm made of them
 * (stripewise/model/artifact/arithmetic.py, model_program.c). EXP is the library's.
 */
/* clang-format on */
#define SW_ARTIFACT_MAGIC "SWMODEL\n"
#define SW_ARTIFACT_VERSION 2
#define SW_ARTIFACT_MAXIMIZE 1u  /* larger values of the objective are better */
#define SW_ARTIFACT_SIMULATED 2u /* learned from simulated runs */
#define SW_ARTIFACT_FLOAT32                                                                                  \
    1u /* flag of a member: features are rounded to 4 bytes before they are compared */
#define SW_ARTIFACT_NONE 0xffffffffu
#define SW_ARTIFACT_STACK 32
#define SW_ARTIFACT_DEPTH 256
#define SW_ARTIFACT_HEADER 120
#define SW_MAX_ARTIFACT_BYTES 33554432
#define SW_MAX_INPUTS 64
#define SW_MAX_TUNABLES 32
#define SW_MAX_FEATURES 512
#define SW_MAX_LAYER 4096
#define SW_MAX_COMBINATIONS 1048576

enum sw_section {
    SW_STRINGS,
    SW_CONSTANTS,
    SW_CODE,
    SW_PROGRAMS,
    SW_INPUTS,
    SW_VALUES,
    SW_CONSTRAINTS,
    SW_DERIVED,
    SW_MEMBERS,
    SW_FEATURES,
    SW_BLOCKS,
    SW_CUTS,
    SW_NODES,
    SW_WEIGHTS,
    SW_SECTIONS
};

/* A context describes the workload and was trained on; a word is used by rules alone; a tunable is chosen. */
enum sw_input_kind { SW_INPUT_CONTEXT, SW_INPUT_WORD, SW_INPUT_TUNABLE, SW_INPUT_KINDS };
enum sw_member_kind { SW_MEMBER_TREES, SW_MEMBER_NETWORK, SW_MEMBER_KINDS };

/* How a tunable is set: the layers of a plan in the order of their lines above, or by the program's author
 * alone. */
#define SW_APPLY_HINT 0u
#define SW_APPLY_LAYOUT 1u
#define SW_APPLY_HDF5 2u
#define SW_APPLY_ENV 3u
#define SW_APPLY_MCA 4u
#define SW_APPLY_ARGUMENT 5u
#define SW_APPLY_ADVICE 6u

/* b is the top of the stack, a below it, t below that. Truth is 1 and 0; anything but 0 counts as true. */
enum sw_opcode {
    SW_OP_INPUT,    /* push the input of this number */
    SW_OP_CONSTANT, /* push the constant of this number */
    SW_OP_OUTPUT,   /* push the model's output; only in post and result */
    SW_OP_LOG2,
    SW_OP_EXP,    /* only in post and result */
    SW_OP_SINGLE, /* rounded to 4 bytes and back */
    SW_OP_ABS,
    SW_OP_NEGATE,
    SW_OP_NOT,
    SW_OP_ADD,
    SW_OP_SUBTRACT,
    SW_OP_MULTIPLY,
    SW_OP_DIVIDE,
    SW_OP_FLOOR_DIVIDE, /* towards minus infinity, as Python does it */
    SW_OP_MODULO,       /* with the sign of b */
    SW_OP_MINIMUM,      /* a if a < b or a is no number, else b */
    SW_OP_MAXIMUM,      /* a if a > b or a is no number, else b */
    SW_OP_EQUAL,
    SW_OP_NOT_EQUAL,
    SW_OP_LESS,
    SW_OP_LESS_EQUAL,
    SW_OP_GREATER,
    SW_OP_GREATER_EQUAL,
    SW_OP_AND,
    SW_OP_OR,
    SW_OP_SELECT, /* a if t, else b */
    SW_OPCODES
};

#endif
