/* SPDX-License-Identifier: BSD-3-Clause
 * The HDF5 settings of the plan and of decisions: which one acts on a file, how they get into property lists,
 * and what HDF5 says of them afterwards. */
#ifndef STRIPEWISE_H5_SETTINGS_H
#define STRIPEWISE_H5_SETTINGS_H

#include "choose.h"
#include "h5.h"
#include "hdf5_settings.h"

/* One creation or open. A file is whatever the caller has for one: an identifier, or an address; at least 0.
 */
struct sw_h5_opening {
    const char *name;
    unsigned flags;
    bool creates;
    bool blind;                   /* MPI_File_open below is not seen: only properties of HDF5 are decided */
    struct sw_tracking *tracking; /* where blind, once it is open: the phase to be ended after the close */
    sw_hid creation, access;      /* the program's lists */
    /* -1 if it fails. */
    sw_hid (*make)(struct sw_h5_opening *opening, sw_hid creation, sw_hid access);
    /* Lists of the open file, to be closed; negative if there is none. */
    sw_hid (*access_of)(sw_hid file);
    sw_hid (*creation_of)(sw_hid file);
    /* The record, before anything is said of settings in it; may be NULL. */
    void (*found)(struct sw_h5_opening *opening, struct sw_file *record);
    /* Takes over the hold of the record. */
    void (*follow)(struct sw_h5_opening *opening, sw_hid file, struct sw_file *record);
};

/* As MPI_File_open below is called. */
int sw_h5_amode(const struct sw_h5_opening *opening);

/* What the plan, the model or the learner asks of one file, and what became of it. */
struct sw_h5_request {
    const char *path;
    bool any;                             /* anything at all */
    const char *origin[SW_H5_KEYS];       /* a note on who asks, unless it is the plan: NULL then */
    bool parallel;                        /* through MPI-IO */
    int rank, size;                       /* of the file's communicator */
    MPI_Comm comm;                        /* MPI_COMM_NULL unless parallel */
    bool lent;                            /* it is the property list's own: not to be freed */
    struct sw_result results[SW_H5_KEYS]; /* requested is NULL where nobody asks */
};

/* Finds out what is asked of the file; on a file of several ranks rank 0 decides for all, in the modes
 * predict and online also for MPI_File_open below: orders->decided then, on all ranks. Collective where the
 * open is. */
void sw_h5_request_open(struct sw_h5_request *request, const char *path, const struct sw_h5_opening *opening,
                        struct sw_orders *orders);
void sw_h5_request_close(struct sw_h5_request *request);

/* A property list with its communicator lent where that can be done, and its end: a copy of a communicator is
 * agreed on by all ranks. */
sw_hid sw_h5_lend(const struct sw_h5_request *request, sw_hid (*list_of)(sw_hid), sw_hid id);
void sw_h5_close_lent(const struct sw_h5_request *request, sw_hid list);

/* Copies of the application's property lists with the settings in them, for sw_h5_close_lent; the list itself
 * where nothing changes. */
sw_hid sw_h5_tuned_access(struct sw_h5_request *request, const struct sw_h5_opening *opening);
sw_hid sw_h5_tuned_creation(struct sw_h5_request *request, sw_hid creation);

/* Nothing was applied to the file after all, for this reason. */
void sw_h5_withdrawn(struct sw_h5_request *request, const char *reason);

/* What the open file's lists say, for the report; access: its own, or the list it was opened with. Negative
 * where HDF5 tells nothing. */
void sw_h5_echo(struct sw_h5_request *request, sw_hid access, sw_hid creation, struct sw_file *record);

/* The results as part of the record's. */
void sw_h5_record(const struct sw_h5_request *request, struct sw_file *record);

/* Keeps what is asked of datasets that will be created in the file. */
void sw_h5_remember(const struct sw_h5_request *request);

/* While errors are tried out: HDF5 prints none. */
struct sw_h5_silence {
    sw_h5_handler handler;
    void *data;
};
void sw_h5_silence_begin(struct sw_h5_silence *silence);
void sw_h5_silence_end(const struct sw_h5_silence *silence);

/* A dataset that is created with chunks and filters that were asked for. */
struct sw_h5_tuning {
    sw_hid creation, access; /* the lists to use */
    bool copied;             /* is the second one ours? */
    struct sw_h5_silence silence;
    struct sw_h5_request request;
    struct sw_file *record;
    double accuracy; /* to which transfers to the dataset are to be rounded; 0: as they are */
};

/* May there be anything to change for new datasets at all? */
bool sw_h5_dataset_settings(void);

/* Is there anything to change for a dataset of this name in this file? Then the creation is to be tried with
 * the lists of tuning, without a word from HDF5 until sw_h5_dataset_tried, which is to be called in any case
 * and is told whether the dataset could be made, and its own creation list. */
bool sw_h5_dataset_tuned(struct sw_h5_tuning *tuning, struct sw_file *record, const char *name,
                         sw_hid creation, sw_hid access, sw_hid type, sw_hid space);
void sw_h5_dataset_tried(struct sw_h5_tuning *tuning, bool made, sw_hid creation);

/* Also for h5_chunks.c. sw_h5_keep: a text that is kept until the end. */
const char *sw_h5_keep(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sw_h5_outcome(struct sw_h5_request *request, enum sw_h5_key key, enum sw_outcome outcome,
                   const char *note);

/* ---- opening a file ----
 * Opening a file of HDF5 with settings, whichever way the call comes: as a function that is taken the place
 * of, or through the connector (native/vol). */

/* The file, with the settings of the plan or a decision if they can be had; -1 if it fails as the program
 * asked for it. Counted only if HDF5 is of a version the runtime knows. Collective where the open is. */
sw_hid sw_h5_open(struct sw_h5_opening *opening);

#endif
