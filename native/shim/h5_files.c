/* SPDX-License-Identifier: BSD-3-Clause
 * H5Fcreate, H5Fopen, and all ways in which an identifier ends. MPI_File_open below them does its own part:
 * hints and layouts. */
#define _GNU_SOURCE
#include "h5_settings.h"

#include <string.h>

#include "files.h"
#include "h5_datasets.h"
#include "phases.h"
#include "recording.h"

/* Where MPI_File_open is not seen, which does this else. Collective over the file's ranks. */
static struct sw_tracking *begin_phase(const struct sw_h5_opening *opening,
                                       const struct sw_h5_request *request, const struct sw_orders *orders,
                                       struct sw_file *record) {
    const struct sw_opening below = {.comm = request->comm,
                                     .rank = request->rank,
                                     .size = request->size,
                                     .nodes = orders->nodes,
                                     .mode = sw_runtime.mode,
                                     .path = request->path,
                                     .amode = sw_h5_amode(opening),
                                     .hdf5 = true};
    const struct sw_seen nothing = {0};
    if (record && request->rank == 0)
        sw_choice_record(orders, record);
    sw_explain(request->path, &orders->decision.chosen, orders->decision.why);
    struct sw_tracking *tracking = record ? sw_phase_reserve() : NULL;
    sw_phase_begin(tracking, &below, orders, record ? sw_seen_of(record) : nothing, record, 0);
    return tracking;
}

/* The record of the file that was opened. orders: of a decision that all ranks carried out, or NULL. */
static void follow(struct sw_h5_opening *opening, struct sw_h5_request *request, sw_hid file, sw_hid access,
                   int64_t start, const struct sw_orders *orders) {
    int64_t time = sw_tick() - start;
    struct sw_file *record = sw_files_get(&sw_runtime.files, request->path);
    if (opening->blind && orders && orders->decided)
        opening->tracking = begin_phase(opening, request, orders, record);
    if (!record)
        return;
    sw_file_count_hdf5(&sw_runtime.files, record, opening->creates ? SW_H5_file_create : SW_H5_file_open,
                       time);
    if (strcmp(record->path, SW_OTHER_FILES) != 0) {
        if (opening->found)
            opening->found(opening, record);
        sw_hid creation = opening->creation_of(file);
        sw_h5_echo(request, access, creation, record);
        if (creation >= 0)
            sw_h5.H5Pclose(creation);
        sw_h5_record(request, record);
    }
    opening->follow(opening, file, record);
}

/* How the open went on all ranks: none, some or all of them failed. */
enum { FAILED_NOWHERE, FAILED_SOMEWHERE, FAILED_EVERYWHERE };

/* Also decides whether the phase is measured: all ranks follow it, or none. */
static int agree(const struct sw_h5_request *request, bool failed) {
    int here[3] = {failed, !failed, !sw_phase_waits()}, anywhere[3] = {here[0], here[1], here[2]};
    if (request->size > 1)
        sw_pmpi.Allreduce(here, anywhere, 3, MPI_INT, MPI_MAX, request->comm);
    sw_phase_agree(!anywhere[2], request->comm, request->size);
    return !anywhere[0] ? FAILED_NOWHERE : anywhere[1] ? FAILED_SOMEWHERE : FAILED_EVERYWHERE;
}

static void leave_creation(struct sw_h5_request *request, const char *why) {
    for (int key = SW_H5_FILE_SPACE_STRATEGY; key < SW_H5_FILE_KEYS; key++)
        if (request->results[key].requested)
            sw_h5_outcome(request, (enum sw_h5_key)key, SW_NOT_APPLICABLE, why);
}

static sw_hid make_plainly(struct sw_h5_opening *opening, struct sw_h5_request *request,
                           const struct sw_orders *orders, int64_t start) {
    sw_hid file = opening->make(opening, opening->creation, opening->access);
    bool everywhere = !orders->tracked || agree(request, file < 0) == FAILED_NOWHERE;
    if (file >= 0)
        follow(opening, request, file, opening->access, start, everywhere ? orders : NULL);
    return file;
}

/* With settings, and as the application asked for it if that fails. */
static sw_hid make_tuned(struct sw_h5_opening *opening, struct sw_h5_request *request,
                         const struct sw_orders *orders, int64_t start) {
    struct sw_h5_silence silence;
    sw_h5_silence_begin(&silence);
    sw_hid access = sw_h5_tuned_access(request, opening), creation = opening->creation;
    if (opening->creates)
        creation = sw_h5_tuned_creation(request, creation);
    else
        leave_creation(request, "the file exists");
    sw_hid file = opening->make(opening, creation, access);
    int failed = agree(request, file < 0);
    if (failed == FAILED_NOWHERE) {
        sw_hid own = sw_h5_lend(request, opening->access_of, file);
        follow(opening, request, file, own, start, orders);
        sw_h5_remember(request);
        if (own >= 0)
            sw_h5_close_lent(request, own);
    }
    sw_h5_silence_end(&silence);
    if (access != opening->access)
        sw_h5_close_lent(request, access);
    if (creation != opening->creation)
        sw_h5.H5Pclose(creation);
    if (failed != FAILED_EVERYWHERE)
        return file;
    sw_h5_withdrawn(request, "the open failed with the plan's settings; the application's own were used");
    return make_plainly(opening, request, orders, start);
}

sw_hid sw_h5_open(struct sw_h5_opening *opening) {
    char path[SW_MAX_PATH];
    if (!opening->name || !sw_path_absolute(opening->name, path, sizeof path))
        return opening->make(opening, opening->creation, opening->access);
    struct sw_h5_request request;
    struct sw_orders orders = {.decided = false};
    sw_h5_request_open(&request, path, opening, &orders);
    int64_t start = sw_tick(); /* what the decision took is no part of what a setting costs */
    if (orders.decided)
        sw_foresee(path, &orders);
    sw_hid file;
    /* Exclusively, a first try that fails may have made the file, and a second one would fail for that. */
    if (request.any && !(opening->flags & SW_H5_EXCLUSIVE)) {
        file = make_tuned(opening, &request, &orders, start);
    } else {
        for (int key = 0; request.any && key < SW_H5_KEYS; key++)
            if (request.results[key].requested)
                sw_h5_outcome(&request, (enum sw_h5_key)key, SW_NOT_APPLICABLE,
                              "the application creates the file exclusively");
        file = make_plainly(opening, &request, &orders, start);
        if (!request.any) /* what an earlier open of the file asked is over */
            sw_h5_remember(&request);
    }
    sw_foresee(NULL, NULL);
    sw_h5_request_close(&request);
    return file;
}

/* ---- H5Fcreate and H5Fopen ---- */

struct call {
    struct sw_h5_opening opening;                             /* first */
    sw_hid (*create)(const char *, unsigned, sw_hid, sw_hid); /* one of the two */
    sw_hid (*open)(const char *, unsigned, sw_hid);
    struct sw_h5_object *object; /* NULL if it is not followed */
};

static sw_hid make(struct sw_h5_opening *opening, sw_hid creation, sw_hid access) {
    const struct call *call = (const struct call *)opening;
    if (sw_recording)
        sw_record_beneath_begin();
    sw_hid file = call->create ? call->create(opening->name, opening->flags, creation, access)
                               : call->open(opening->name, opening->flags, access);
    if (sw_recording)
        sw_record_beneath_end();
    return file;
}

static sw_hid access_of(sw_hid file) {
    return sw_h5.H5Fget_access_plist(file);
}

static sw_hid creation_of(sw_hid file) {
    return sw_h5.H5Fget_create_plist(file);
}

static void add(struct sw_h5_opening *opening, sw_hid file, struct sw_file *record) {
    struct call *call = (struct call *)opening;
    call->object = sw_h5_add(file, record, NULL);
}

/* In the record. */
static void note(const struct call *call, sw_hid file, int64_t began) {
    const struct sw_h5_opened opened = {.file = file,
                                        .creation = call->opening.creation,
                                        .access = call->opening.access,
                                        .creates = call->opening.creates,
                                        .flags = call->opening.flags,
                                        .began = began,
                                        .ended = sw_tick()};
    const int slot = sw_record_h5_file(&opened);
    if (call->object)
        call->object->slot = slot;
    else
        sw_record_h5_lost(slot);
}

static sw_hid called(struct call *call) {
    call->opening.creates = call->create != NULL;
    call->opening.make = make;
    call->opening.access_of = access_of;
    call->opening.creation_of = creation_of;
    call->opening.follow = add;
    if (!sw_h5_ready())
        return call->create ? call->create(call->opening.name, call->opening.flags, call->opening.creation,
                                           call->opening.access)
                            : call->open(call->opening.name, call->opening.flags, call->opening.access);
    int64_t began = sw_tick();
    sw_hid file = sw_h5_open(&call->opening);
    if (sw_recording && file >= 0)
        note(call, file, began);
    return file;
}

SW_EXPORT sw_hid H5Fcreate(const char *name, unsigned flags, sw_hid creation, sw_hid access) {
    static sw_hid (*_Atomic found)(const char *, unsigned, sw_hid, sw_hid);
    SW_H5_RESOLVE(next, found, "H5Fcreate");
    struct call call = {.opening = {.name = name, .flags = flags, .creation = creation, .access = access},
                        .create = next};
    return next ? called(&call) : -1;
}

SW_EXPORT sw_hid H5Fopen(const char *name, unsigned flags, sw_hid access) {
    static sw_hid (*_Atomic found)(const char *, unsigned, sw_hid);
    SW_H5_RESOLVE(next, found, "H5Fopen");
    struct call call = {.opening = {.name = name, .flags = flags, .access = access}, .open = next};
    return next ? called(&call) : -1;
}

/* Another identifier of a file that is open, which may outlive the first. */
SW_EXPORT sw_hid H5Freopen(sw_hid file) {
    static sw_hid (*_Atomic found)(sw_hid);
    SW_H5_RESOLVE_OR_FAIL(next, found, "H5Freopen");
    sw_hid again = next(file);
    const struct sw_h5_object *first = again >= 0 && sw_recording && sw_h5_ready() ? sw_h5_find(file) : NULL;
    if (!first || first->dataset || first->slot < 0)
        return again;
    struct sw_file *record = sw_h5_file_of(again);
    struct sw_h5_object *object = record ? sw_h5_add(again, record, NULL) : NULL;
    if (object) {
        object->again = true;
        object->slot = first->slot;
        sw_record_h5_reopened(object->slot);
    }
    return again;
}

/* Ends an identifier by one of HDF5's functions; object: what it stood for, or NULL. */
static int ended(int (*next)(sw_hid), sw_hid id, struct sw_h5_object *object, enum sw_h5_op op) {
    struct sw_file *record = object->record;
    const bool is_file = !object->dataset;
    const int slot = sw_recording ? object->slot : -1;
    if (sw_h5_dataset_asks_place(object))
        sw_h5_dataset_place(object, sw_h5.H5Dget_offset(id));
    atomic_fetch_add(&record->handles, 1); /* until it is counted */
    int64_t start = sw_tick();
    sw_phase_within(start);
    int left = next(id);
    sw_phase_within(0);
    int64_t time = sw_tick() - start;
    if (left == 0) {
        if (slot >= 0)
            sw_record_h5_closed(slot, is_file, start, start + time);
        if (!object->again)
            sw_file_count_hdf5(&sw_runtime.files, record, op, time);
        sw_h5_drop(id);
    }
    sw_files_put(record);
    return left;
}

#define ENDS(NAME)                                                                                           \
    SW_EXPORT int NAME(sw_hid id) {                                                                          \
        static int (*_Atomic found)(sw_hid);                                                                 \
        SW_H5_RESOLVE_OR_FAIL(next, found, #NAME);                                                           \
        struct sw_h5_object *object = sw_h5_ready() ? sw_h5_find(id) : NULL;                                 \
        if (!object)                                                                                         \
            return next(id);                                                                                 \
        return ended(next, id, object, object->dataset ? SW_H5_dataset_close : SW_H5_file_close);            \
    }

ENDS(H5Fclose)
ENDS(H5Dclose)
ENDS(H5Oclose)

/* As h5py does it; what is left is the number of references. */
SW_EXPORT int H5Idec_ref(sw_hid id) {
    static int (*_Atomic found)(sw_hid);
    SW_H5_RESOLVE_OR_FAIL(next, found, "H5Idec_ref");
    struct sw_h5_object *object = sw_h5_ready() ? sw_h5_find(id) : NULL;
    return object ? ended(next, id, object, object->dataset ? SW_H5_dataset_close : SW_H5_file_close)
                  : next(id);
}

SW_EXPORT int H5Fflush(sw_hid id, int scope) {
    static int (*_Atomic found)(sw_hid, int);
    SW_H5_RESOLVE_OR_FAIL(next, found, "H5Fflush");
    int64_t start = sw_h5_ready() ? sw_tick() : 0;
    int code = next(id, scope);
    const struct sw_h5_object *object = start && sw_recording ? sw_h5_find(id) : NULL;
    if (object && !object->dataset && object->slot >= 0 && code >= 0)
        sw_record_h5_flushed(object->slot, scope, start, sw_tick());
    if (start && code >= 0)
        sw_h5_count(id, SW_H5_file_flush, start);
    return code;
}
