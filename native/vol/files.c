/* SPDX-License-Identifier: BSD-3-Clause
 * Files: opened with the plan's settings, as functions of HDF5 are that the shim takes the place of. */
#include <string.h>
#include <sys/stat.h>

#include "h5_settings.h"
#include "hints.h"
#include "phases.h"
#include "vol.h"

struct call {
    struct sw_h5_opening opening; /* first */
    hid_t list;
    void **request;
    int rank, size; /* of the communicator of a file that several may use, where nobody else tells; or 0 */
};

/* A file as sw_h5_open has it. */
static sw_hid number(struct sw_vol *file) {
    return file ? (sw_hid)(intptr_t)file : -1;
}

static struct sw_vol *file_of(sw_hid number) {
    return number < 0 ? NULL : (struct sw_vol *)(intptr_t)number; /* NOLINT(performance-no-int-to-ptr) */
}

static sw_hid make(struct sw_h5_opening *opening, sw_hid creation, sw_hid access) {
    struct call *call = (struct call *)opening;
    bool tuned = access != opening->access || creation != opening->creation;
    struct sw_vol_info *info = sw_vol_info_of(access);
    hid_t below = info ? sw_vol_list_below(access, info) : -1;
    void *made = NULL;
    if (below >= 0) {
        /* What may fail for the plan's sake is waited for. */
        void **request = tuned ? NULL : call->request;
        struct sw_vol_printing printing = sw_vol_print_nothing();
        made =
            opening->creates
                ? sw_vol.H5VLfile_create(opening->name, opening->flags, creation, below, call->list, request)
                : sw_vol.H5VLfile_open(opening->name, opening->flags, below, call->list, request);
        sw_vol_print_again(printing);
        hid_t errors = made ? -1 : sw_vol_errors_aside();
        sw_vol.H5Pclose(below);
        if (errors >= 0)
            sw_vol_errors_back(errors);
    }
    struct sw_vol *file = made ? sw_vol_new(made, sw_vol_keep(info->connector)) : NULL;
    if (file && !tuned) {
        file->later = call->request && *call->request;
        sw_vol_wrap_request(file, call->request);
    }
    if (info)
        sw_vol_info_free(info);
    return number(file);
}

static sw_hid list_of(sw_hid number, H5VL_file_get_t which) {
    const struct sw_vol *file = file_of(number);
    H5VL_file_get_args_t args = {.op_type = which};
    if (file->later || sw_vol.H5VLfile_get(file->under, file->connector, &args, H5P_DEFAULT, NULL) < 0)
        return -1;
    return which == H5VL_FILE_GET_FAPL ? args.args.get_fapl.fapl_id : args.args.get_fcpl.fcpl_id;
}

static sw_hid access_of(sw_hid file) {
    return list_of(file, H5VL_FILE_GET_FAPL);
}

static sw_hid creation_of(sw_hid file) {
    return list_of(file, H5VL_FILE_GET_FCPL);
}

static void follow(struct sw_h5_opening *opening, sw_hid number, struct sw_file *record) {
    struct sw_vol *file = file_of(number);
    file->seen.record = record;
    file->tracking = opening->tracking;
    file->root = ((const struct call *)opening)->rank == 0;
}

/* What the plan asks for besides properties of HDF5 is said not to be done. */
static void record_unseen(struct sw_file *record) {
    struct sw_matches matches;
    sw_matches_open(&matches, record->path);
    sw_launcher_check(&matches);
    for (size_t i = 0; i < matches.count; i++)
        if (matches.results[i].carrier == SW_HINT || matches.results[i].carrier == SW_LAYOUT)
            matches.results[i].note =
                "the runtime is not preloaded: as a connector it only sets what is HDF5's";
    sw_lock_take(&record->lock);
    struct sw_result *results =
        record->results ? NULL : sw_file_results(&sw_runtime.files, record, matches.count);
    if (results)
        memcpy(results, matches.results, matches.count * sizeof *results);
    sw_lock_release(&record->lock);
    sw_matches_close(&matches);
}

static void found(struct sw_h5_opening *opening, struct sw_file *record) {
    const struct call *call = (const struct call *)opening;
    if (call->rank == 0 && sw_runtime.plan.count)
        record_unseen(record);
    if (!call->size)
        return;
    sw_lock_take(&record->lock);
    record->facts.opens += call->rank == 0;
    record->facts.nodes = 1;
    if ((uint32_t)call->size > record->facts.ranks)
        record->facts.ranks = (uint32_t)call->size;
    sw_lock_release(&record->lock);
}

/* Without the preload, MPI_File_open is not seen: what it would tell. Collective where the open is. */
static void ask_ranks(struct call *call) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Info info = MPI_INFO_NULL;
    if (!sw_h5_is_parallel(call->opening.access) || !sw_h5.H5Pget_fapl_mpio ||
        sw_h5.H5Pget_fapl_mpio(call->opening.access, &comm, &info) < 0)
        return;
    sw_session_opened(comm);
    sw_pmpi.Comm_rank(comm, &call->rank);
    sw_pmpi.Comm_size(comm, &call->size);
    sw_pmpi.Comm_free(&comm);
    if (info != MPI_INFO_NULL)
        sw_pmpi.Info_free(&info);
}

static void *opened(struct call *call) {
    bool alone = sw_session_connected();
    call->opening.make = make;
    call->opening.access_of = access_of;
    call->opening.creation_of = creation_of;
    call->opening.follow = follow;
    if (!sw_h5_usable())
        return file_of(make(&call->opening, call->opening.creation, call->opening.access));
    call->opening.blind = alone;
    if (alone) {
        ask_ranks(call);
        call->opening.found = found;
    }
    return file_of(sw_h5_open(&call->opening));
}

void *sw_vol_file_create(const char *name, unsigned flags, hid_t creation, hid_t access, hid_t list,
                         void **request) {
    struct call call = {
        .opening = {.name = name, .flags = flags, .creates = true, .creation = creation, .access = access},
        .list = list,
        .request = request};
    return opened(&call);
}

void *sw_vol_file_open(const char *name, unsigned flags, hid_t access, hid_t list, void **request) {
    struct call call = {
        .opening = {.name = name, .flags = flags, .access = access}, .list = list, .request = request};
    return opened(&call);
}

/* Of a file that is not open: the list says to whom the question goes. */
static herr_t ask_closed(H5VL_file_specific_args_t *args, hid_t access, hid_t *place, hid_t list,
                         void **request) {
    struct sw_vol_info *info = sw_vol_info_of(access);
    hid_t below = info ? sw_vol_list_below(access, info) : -1;
    herr_t done = -1;
    if (below >= 0) {
        struct sw_vol asked = {.connector = info->connector};
        *place = below;
        done = sw_vol.H5VLfile_specific(NULL, info->connector, args, list, request);
        if (request && *request) {
            sw_vol_keep(info->connector);
            sw_vol_wrap_request(&asked, request);
        }
        hid_t errors = done < 0 ? sw_vol_errors_aside() : -1;
        sw_vol.H5Pclose(below);
        if (errors >= 0)
            sw_vol_errors_back(errors);
    }
    if (info)
        sw_vol_info_free(info);
    return done;
}

herr_t sw_vol_file_specific(void *object, H5VL_file_specific_args_t *args, hid_t list, void **request) {
    struct sw_vol *o = object;
    H5VL_file_specific_args_t below = {.op_type = args->op_type}, *given = args;
    if (args->op_type == H5VL_FILE_IS_ACCESSIBLE) {
        below.args.is_accessible = args->args.is_accessible;
        return ask_closed(&below, args->args.is_accessible.fapl_id, &below.args.is_accessible.fapl_id, list,
                          request);
    }
    if (args->op_type == H5VL_FILE_DELETE) {
        below.args.del = args->args.del;
        return ask_closed(&below, args->args.del.fapl_id, &below.args.del.fapl_id, list, request);
    }
    if (args->op_type == H5VL_FILE_IS_EQUAL) {
        below.args.is_equal = args->args.is_equal;
        if (args->args.is_equal.obj2)
            below.args.is_equal.obj2 = ((struct sw_vol *)args->args.is_equal.obj2)->under;
        given = &below;
    }
    int64_t began = sw_vol_begin(o);
    herr_t done = sw_vol.H5VLfile_specific(o->under, o->connector, given, list, request);
    if (done >= 0 && args->op_type == H5VL_FILE_REOPEN && *args->args.reopen.file) {
        struct sw_vol *again = sw_vol_new(*args->args.reopen.file, o->connector);
        if (again)
            sw_vol_follow(again, o);
        *args->args.reopen.file = again;
    }
    sw_vol_wrap_request(o, request);
    if (began && done >= 0 && args->op_type == H5VL_FILE_FLUSH)
        sw_vol_count(o, SW_H5_file_flush, began);
    return done;
}

/* Where MPI_File_close is not seen, which does this else. Collective over the file's ranks. */
static void end_phase(struct sw_vol *file) {
    struct sw_file *record = file->seen.record;
    struct stat status;
    if (file->root && stat(record->path, &status) == 0) {
        sw_lock_take(&record->lock);
        record->facts.size = (int64_t)status.st_size;
        sw_lock_release(&record->lock);
    }
    sw_phase_end(file->tracking, file->root);
    file->tracking = NULL;
}

herr_t sw_vol_counted_file_close(void *object, hid_t list, void **request) {
    struct sw_vol *o = object;
    sw_vol_settle();
    int64_t began = sw_vol_begin(o);
    sw_phase_within(began);
    herr_t done = sw_vol_file_close(object, list, request);
    if (done >= 0 && o->tracking)
        end_phase(o);
    sw_phase_within(0);
    if (done < 0)
        return done;
    if (began)
        sw_vol_count(o, SW_H5_file_close, began);
    sw_vol_free(o);
    return done;
}
