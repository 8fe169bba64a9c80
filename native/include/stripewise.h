/* SPDX-License-Identifier: BSD-3-Clause
 * For programs that prefer to ask: settings for a file that is about to be opened, advice on what no hint can
 * set, and what was decided and why. The functions are those of the preloaded runtime (libstripewise.so). A
 * program needs to link nothing: where the runtime is not there they do nothing, and say so.
 *
 *     MPI_Info info;
 *     MPI_Info_create(&info);
 *     stripewise_expect("checkpoint.dat", "file_size", "64 GiB");
 *     stripewise_fill(comm, "checkpoint.dat", MPI_MODE_CREATE | MPI_MODE_WRONLY, info);
 *     MPI_File_open(comm, "checkpoint.dat", MPI_MODE_CREATE | MPI_MODE_WRONLY, info, &file);
 *
 * All return one of enum stripewise_status. With glibc older than 2.34 link with -ldl. */
#ifndef STRIPEWISE_H
#define STRIPEWISE_H

#include <dlfcn.h>
#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum stripewise_status {
    STRIPEWISE_OK = 0,
    STRIPEWISE_ABSENT = 1, /* the runtime is not preloaded, or only observes, or MPI has not begun */
    STRIPEWISE_UNDECIDED =
        2, /* it is there, but has nothing to say: no model, or a workload the model never saw */
    STRIPEWISE_WRONG = 3 /* an argument means nothing */
};

/* What the program itself should do. */
struct stripewise_advice {
    MPI_Offset transfer_size; /* bytes that one call of a rank should move; 0: no advice */
    int collective;           /* 1: collective calls, 0: independent ones, -1: no advice */
    double speedup; /* predicted, over the program as it is with the best settings; 1 without advice */
};

/* Says what this file's I/O will be like, before it is opened: a word of the workload ("file_size",
 * "transfer_size", "piece_size", "layout", "collective", "operation", ...) or a column of the model, and its
 * value ("4 GiB", "strided", "true"). Local; only what rank 0 of the file's communicator says counts. */
typedef int stripewise_expect_function(const char *filename, const char *word, const char *value);

/* Puts what is decided for the file into info, which then serves MPI_File_open; keys that info has already
 * stay. A layout is applied as MPI_File_open itself would have it applied. Collective over comm. */
typedef int stripewise_fill_function(MPI_Comm comm, const char *filename, int amode, MPI_Info info);

/* Advises on what hints cannot set, from the model. Collective over comm; all ranks receive the same. */
typedef int stripewise_advise_function(MPI_Comm comm, const char *filename, int amode,
                                       struct stripewise_advice *advice);

/* Writes what was last decided for the file and why, as "settings: why" (at most size bytes with the NUL).
 * Local. */
typedef int stripewise_explain_function(const char *filename, char *text, size_t size);

#ifndef STRIPEWISE_RUNTIME
#define STRIPEWISE_CALL(NAME, ARGUMENTS)                                                                     \
    stripewise_##NAME##_function *call =                                                                     \
        (stripewise_##NAME##_function *)dlsym((void *)0, "stripewise_" #NAME);                               \
    return call ? call ARGUMENTS : STRIPEWISE_ABSENT

static inline int stripewise_ask_expect(const char *filename, const char *word, const char *value) {
    STRIPEWISE_CALL(expect, (filename, word, value));
}

static inline int stripewise_ask_fill(MPI_Comm comm, const char *filename, int amode, MPI_Info info) {
    STRIPEWISE_CALL(fill, (comm, filename, amode, info));
}

static inline int stripewise_ask_advise(MPI_Comm comm, const char *filename, int amode,
                                        struct stripewise_advice *advice) {
    advice->transfer_size = 0;
    advice->collective = -1;
    advice->speedup = 1;
    STRIPEWISE_CALL(advise, (comm, filename, amode, advice));
}

static inline int stripewise_ask_explain(const char *filename, char *text, size_t size) {
    if (size)
        *text = '\0';
    STRIPEWISE_CALL(explain, (filename, text, size));
}

#undef STRIPEWISE_CALL
#define stripewise_expect stripewise_ask_expect
#define stripewise_fill stripewise_ask_fill
#define stripewise_advise stripewise_ask_advise
#define stripewise_explain stripewise_ask_explain
#endif

#ifdef __cplusplus
}
#endif

#endif
