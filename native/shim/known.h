/* SPDX-License-Identifier: BSD-3-Clause
 * What is known of a file that is about to be opened, of its model and of its layout. */
#ifndef STRIPEWISE_KNOWN_H
#define STRIPEWISE_KNOWN_H

#include "decide.h"
#include "hints.h"

/* A file that is about to be opened, as the application asked for it. */
struct sw_opening {
    MPI_Comm comm;
    int rank, size, nodes; /* nodes on rank 0 only */
    enum sw_run_mode mode; /* as all ranks of the communicator have agreed on */
    const char *path;      /* absolute, or as given where that cannot be told */
    int amode;
    MPI_Info info;
    bool hdf5;  /* through HDF5 */
    bool blind; /* MPI_File_open below is not seen: only properties of HDF5 can be chosen */
    bool led;   /* a layer above agrees with the other ranks on the phase: sw_phase_agree */
    /* What a property of HDF5 has that cannot be chosen here, or NULL; lists: the program's. */
    const char *(*fixed)(const void *lists, const char *key);
    const char *(*usual)(const char *key); /* what it has where nobody sets it, or NULL */
    const void *lists;
};

/* What rank 0 tells the others. */
struct sw_orders {
    bool decided, tracked;       /* tracked: the phase is measured */
    bool settled;                /* MPI_File_open cannot add a layout: nobody need be told again */
    int nodes;                   /* of the communicator */
    struct sw_decision decision; /* chosen: without layouts, which are done, when other ranks are told */
    int64_t seconds, broadcast;  /* nanoseconds that rank 0 took to decide, and each rank to hear of it */
    uint32_t family, candidate;  /* of the learner, for rank 0 */
    uint32_t order;              /* number of the order that the phase is to carry out, for rank 0; 0: none */
    bool settle;                 /* the file is synchronised before it is closed */
    bool agreed;                 /* all ranks have memory to follow the phase, or it is not tracked */
    bool unready;                /* while they agree: some rank has none */
};

/* The words that are known of a file before it is opened. With model: the model of this process, loaded on
 * first use; NULL if there is none. */
void sw_known_workload(const struct sw_opening *opening, struct sw_workload *workload);
const struct sw_model *sw_process_model(void);
const char *sw_process_model_error(void); /* "" while there is none */

/* The scene of an open; valid as long as opening and matches are. */
struct sw_choice_context {
    const struct sw_opening *opening;
    const struct sw_matches *matches;
    char why_not[SW_WHY]; /* the file cannot be laid out; "" */
};
void sw_choice_scene(const struct sw_opening *opening, const struct sw_matches *matches,
                     struct sw_choice_context *context, struct sw_scene *scene);

/* Words that the program itself has said of a path (through stripewise.h). */
void sw_declare(const char *path, const struct sw_workload *words);

/* Remembers how the file was used, at its close on rank 0 of its communicator. */
struct sw_use {
    bool write, strided, shapeless; /* shapeless: whether it is strided says nothing of the layout */
    signed char collective;         /* -1: neither or both */
    double bytes, transfer_size, file_size, stored; /* stored: of the file, as the file system has it */
};
void sw_choice_learn(const char *path, const struct sw_use *use);

#endif
