/* SPDX-License-Identifier: BSD-3-Clause
 * MPI_File_open, MPI_File_close and MPI_File_delete: where the plan is applied and records begin and end. */
#define _GNU_SOURCE
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "call.h"
#include "choose.h"
#include "files.h"
#include "hints.h"
#include "mode_orders.h"
#include "mpi_comm.h"
#include "mpi_init.h"
#include "phases.h"
#include "rank_order.h"
#include "recording.h"

typedef int open_function(MPI_Comm, const char *, int, MPI_Info, MPI_File *);

/* One open as the application asked for it. */
struct request {
    MPI_Comm comm;
    const char *name;
    int amode;
    MPI_Info info;
    MPI_File *file;
    open_function *next;
    const char *path;
    int rank, size;
    int number; /* of sw_rank_order */
    /* The same on all ranks of the communicator: what they do together hangs on it. */
    enum sw_run_mode mode;
    bool hints, lays_out; /* the plan has such lines */
};

static int open_with(const struct request *request, int amode, MPI_Info info) {
    *request->file = MPI_FILE_NULL; /* not every MPI sets it where the open fails */
    return request->next(request->comm, request->name, amode, info, request->file);
}

static int open_plainly(const struct request *request) {
    return open_with(request, request->amode, request->info);
}

/* Did the open fail on any rank? It is collective, so if it is tried again it is on all. */
static bool failed_anywhere(const struct request *request, int code) {
    int failed = code != MPI_SUCCESS, anywhere = failed;
    if (request->size > 1)
        sw_pmpi.Allreduce(&failed, &anywhere, 1, MPI_INT, MPI_LOR, request->comm);
    return anywhere;
}

static bool exists(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0;
}

/* The mode of the second try. A first one that had to create the file exclusively may have done so before it
 * failed: then the file is this job's own, and to ask once more that it be absent would fail for nothing. */
static int second_amode(const struct request *request, bool was_absent, int code) {
    int amode = request->amode, class = MPI_SUCCESS;
    if (!(amode & MPI_MODE_EXCL))
        return amode;
    sw_pmpi.Error_class(code, &class);
    if (request->rank == 0 && was_absent && class != MPI_ERR_FILE_EXISTS && exists(request->path))
        amode &= ~MPI_MODE_EXCL;
    if (request->size > 1)
        sw_pmpi.Bcast(&amode, 1, MPI_INT, 0, request->comm);
    return amode;
}

/* May other threads be opening files now? The handler of errors of opens is of the process. */
static bool has_other_threads(void) {
    int level = MPI_THREAD_MULTIPLE;
    sw_pmpi.Query_thread(&level);
    return level == MPI_THREAD_MULTIPLE;
}

/* The open with hints of the plan or the model, and with the application's own if that fails on any rank. An
 * error must not reach the application's handler while there is still a second try. Where the first succeeded
 * its handle is let go without being closed, which only all ranks together could do. */
static int open_tuned(const struct request *request, struct sw_matches *matches, MPI_Info tuned) {
    MPI_Errhandler handler = MPI_ERRORS_RETURN;
    bool was_absent = request->rank == 0 && (request->amode & MPI_MODE_EXCL) && !exists(request->path);
    bool is_held = sw_pmpi.File_get_errhandler(MPI_FILE_NULL, &handler) == MPI_SUCCESS;
    bool replaced = is_held && handler != MPI_ERRORS_RETURN;
    if (replaced && has_other_threads()) { /* MPICH may free a handler that is replaced during another open */
        sw_hints_withdrawn(matches,
                           "the program handles errors of opens itself, and its threads may open files");
        sw_pmpi.Errhandler_free(&handler);
        return open_plainly(request); /* a second try would tell the handler twice */
    }
    if (replaced)
        sw_pmpi.File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    int code = open_with(request, request->amode, tuned);
    if (replaced)
        sw_pmpi.File_set_errhandler(MPI_FILE_NULL, handler);
    if (is_held)
        sw_pmpi.Errhandler_free(&handler);
    if (!failed_anywhere(request, code)) {
        sw_hints_repeat(matches, *request->file);
        return code;
    }
    sw_hints_withdrawn(matches, "the open failed with the runtime's hints; the application's own were used");
    return open_with(request, second_amode(request, was_absent, code), request->info);
}

/* What rank 0 has decided reaches all ranks, and they agree on whether all of them have memory to follow the
 * phase: in one call, to which the others bring nothing but zeros. */
static void tell(const struct request *request, struct sw_orders *orders, bool ready) {
    if (request->rank != 0)
        memset(orders, 0, sizeof *orders);
    orders->unready = !ready;
    if (request->size > 1) {
        const struct sw_orders own = *orders;
        sw_pmpi.Allreduce(&own, orders, (int)sizeof *orders, MPI_BYTE, MPI_BOR, request->comm);
    }
    orders->tracked &= !orders->unready;
    orders->agreed = true;
}

/* What this open gets besides the plan's hints, agreed on by all ranks. ready: this rank can follow it. */
static void choose(const struct request *request, const struct sw_opening *opening,
                   struct sw_matches *matches, struct sw_orders *orders, bool ready) {
    struct sw_decided_set dropped = {.count = 0};
    if (request->mode <= SW_RUN_APPLY && !(request->lays_out && (request->amode & MPI_MODE_CREATE))) {
        if (request->rank == 0) /* for the notes: nothing is laid out */
            sw_layouts_apply(matches, request->path, request->amode, &dropped);
        return;
    }
    const struct sw_orders *before = sw_foreseen(request->path);
    if (before)
        *orders = *before;
    if (request->rank == 0)
        sw_choose(opening, matches, orders);
    if (!orders->settled) {
        int64_t start = sw_now();
        tell(request, orders, ready);
        orders->broadcast = sw_now() - start;
    }
    if (request->rank != 0)
        sw_choose_as_told(opening, matches, orders);
}

static bool has_hints(const struct sw_decided_set *set) {
    for (uint32_t i = 0; i < set->count; i++)
        if (set->settings[i].carrier == SW_HINT)
            return true;
    return false;
}

static int open_chosen(const struct request *request, const struct sw_opening *opening,
                       struct sw_matches *matches, struct sw_orders *orders, bool ready) {
    MPI_Info tuned;
    choose(request, opening, matches, orders, ready);
    if (!has_hints(&orders->decision.chosen) && (!request->hints || request->mode == SW_RUN_ONLINE))
        return open_plainly(request);
    /* The application's own hints may differ from rank to rank, and so may whether ours change them; all
     * ranks take this way. */
    bool changed = sw_hints_merge(matches, request->path, request->info, &tuned);
    int code = open_tuned(request, matches, changed ? tuned : request->info);
    if (changed)
        sw_pmpi.Info_free(&tuned);
    return code;
}

/* What only one rank needs to find out. */
static void record_surroundings(struct sw_matches *matches, MPI_Info application, MPI_File file,
                                struct sw_file *record) {
    char name[32];
    struct sw_layout layout;
    sw_launcher_check(matches);
    const char *driver =
        sw_driver_name(sw_hints_record(matches, application, file, record), sw_thread.opener);
    sw_file_system_name(record->path, name, sizeof name);
    const char *file_system = sw_arena_intern(&sw_runtime.files.arena, name);
    sw_lock_take(&record->lock);
    record->file_system = file_system;
    record->driver = driver;
    bool known = record->facts.layout.place;
    sw_lock_release(&record->lock);
    if (known || !sw_layout_read(record->path, &layout))
        return;
    sw_lock_take(&record->lock);
    record->facts.layout = layout;
    sw_lock_release(&record->lock);
}

static void record_open(const struct request *request, struct sw_file *record) {
    sw_lock_take(&record->lock);
    struct sw_facts *facts = &record->facts;
    facts->opens += request->rank == 0;
    facts->nodes = 1;
    if ((uint32_t)request->size > facts->ranks)
        facts->ranks = (uint32_t)request->size;
    sw_lock_release(&record->lock);
}

/* A file without a record (memory is out) is still opened, as the other ranks do it. */
static int open_recorded(const struct request *request, struct sw_file *record) {
    struct sw_matches matches;
    struct sw_orders orders = {.decided = false};
    struct sw_seen before = {0};
    struct sw_opening opening = {.comm = request->comm,
                                 .rank = request->rank,
                                 .size = request->size,
                                 .mode = request->mode,
                                 .path = request->path,
                                 .amode = request->amode,
                                 .info = request->info};
    sw_matches_open(&matches, request->path);
    if (record)
        before = sw_seen_of(record);
    sw_thread = (struct sw_thread){.file = record, .path = sw_path_without_prefix(request->name)};
    int64_t start = sw_now(), began = sw_tick();
    int64_t size_before = sw_recording && request->rank == 0 ? sw_record_before(request->path) : -1;
    const struct sw_orders *foreseen = request->mode > SW_RUN_APPLY ? sw_foreseen(request->path) : NULL;
    opening.led = foreseen != NULL;
    if (request->mode > SW_RUN_APPLY)
        opening.nodes =
            foreseen ? foreseen->nodes : sw_comm_nodes(request->comm, request->rank, request->size);
    struct sw_handle *handle = record ? sw_handle_reserve() : NULL;
    struct sw_tracking *tracking = handle && request->mode > SW_RUN_APPLY ? sw_phase_reserve() : NULL;
    int code = request->mode > SW_RUN_OBSERVE
                   ? open_chosen(request, &opening, &matches, &orders, tracking != NULL)
                   : open_plainly(request);
    if (record)
        sw_file_count(&sw_runtime.files, record, SW_OP_open, 0, sw_now() - start);
    /* If the program's handler of errors returns, MPICH calls an open that failed a success. */
    bool is_open = code == MPI_SUCCESS && *request->file != MPI_FILE_NULL;
    if (handle && !is_open) {
        sw_handle_give(handle);
        handle = NULL;
    }
    if (is_open && record) {
        bool other = strcmp(record->path, SW_OTHER_FILES) == 0;
        record_open(request, record);
        if (request->rank == 0 && !other) {
            record_surroundings(&matches, request->info, *request->file, record);
            sw_choice_record(&orders, record);
        }
    }
    if (handle) {
        sw_handle_add(handle, *request->file, record, start, request->rank == 0);
        handle->order = (struct sw_rank_order){.number = request->number, .in_world = sw_world_is_up()};
    } else if (record) { /* not opened, or without memory: the file then passes through uncounted */
        sw_files_put(record);
    }
    if (sw_recording && is_open)
        sw_record_opened(handle, request->comm, request->size, request->path, request->amode, request->info,
                         size_before, began);
    else if (sw_recording)
        sw_record_open_failed(request->comm, request->size, request->path, request->amode, request->info,
                              began);
    if (orders.decided) {
        sw_explain(request->path, &orders.decision.chosen, orders.decision.why);
        sw_phase_begin(handle ? tracking : NULL, &opening, &orders, before, record,
                       sw_order_missed(orders.order, &matches));
        if (handle)
            handle->tracking = tracking;
    }
    if (tracking && !(handle && orders.decided))
        sw_phase_give(tracking);
    sw_thread = (struct sw_thread){.file = NULL};
    sw_matches_close(&matches);
    return code;
}

/* What the ranks of a file do alike, in at most one call. Modes and plans come from one rank, except where
 * there is no MPI_Init: then each process has read its own. A number, by which threads that open several
 * files at a time tell them apart, comes from rank 0; it is a tag, and every MPI has those below 32768. */
static void agree(struct request *request) {
    static atomic_uint opened;
    int number = 1 + (int)(atomic_fetch_add(&opened, 1) % 32767);
    int own[4] = {(int)sw_runtime.mode, sw_runtime.hints, sw_runtime.lays_out,
                  request->rank == 0 ? number : INT_MAX},
        least[4] = {own[0], own[1], own[2], 1};
    if ((!sw_world_is_up() || sw_runtime.threaded) && request->size > 1)
        sw_pmpi.Allreduce(own, least, 4, MPI_INT, MPI_MIN, request->comm);
    request->mode = (enum sw_run_mode)least[0];
    request->hints = least[1];
    request->lays_out = least[2];
    request->number = request->size > 1 ? least[3] : 0;
}

SW_EXPORT int MPI_File_open(MPI_Comm comm, const char *filename, int amode, MPI_Info info, MPI_File *fh) {
    static open_function *_Atomic found;
    char path[SW_MAX_PATH];
    SW_RESOLVE_OR_FAIL(next, found, "MPI_File_open");
    if (!sw_runtime.active || sw_thread.file || !filename || !fh || comm == MPI_COMM_NULL)
        return next(comm, filename, amode, info, fh);
    struct request request = {.comm = comm,
                              .name = filename,
                              .amode = amode,
                              .info = info,
                              .file = fh,
                              .next = next,
                              .path = path,
                              .size = 1};
    int between_groups = 0;
    sw_pmpi.Comm_test_inter(comm, &between_groups);
    if (between_groups) /* MPI will refuse it */
        return next(comm, filename, amode, info, fh);
    sw_pmpi.Comm_rank(comm, &request.rank);
    sw_pmpi.Comm_size(comm, &request.size);
    if (sw_comm_is_ours(comm, request.size)) {
        sw_session_opened(comm);
        agree(&request);
    }
    struct sw_file *record = NULL;
    if (sw_path_absolute(filename, path, sizeof path))
        record = sw_files_get(&sw_runtime.files, path);
    else
        request.path = filename;
    return open_recorded(&request, record);
}

SW_EXPORT int MPI_File_close(MPI_File *fh) {
    static int (*_Atomic found)(MPI_File *);
    struct sw_call call;
    SW_RESOLVE_OR_FAIL(next, found, "MPI_File_close");
    if (!fh || !sw_call_begin(&call, SW_OP_close, *fh))
        return next(fh);
    struct sw_file *record = call.handle->record;
    /* Out of the table first: once it is closed, MPI may give its address to a file that another thread
     * opens. */
    sw_handle_detach(call.handle);
    if (sw_phase_settles(call.handle->tracking)) /* within the close: the phase pays for its own write-back */
        sw_pmpi.File_sync(*fh);
    int code = next(fh);
    sw_rank_order_end(call.handle);
    sw_call_end(&call);
    int64_t closed = sw_now();
    struct stat status;
    if (call.handle->root && strcmp(record->path, SW_OTHER_FILES) != 0) {
        int64_t size = stat(record->path, &status) == 0 ? (int64_t)status.st_size : -1;
        sw_lock_take(&record->lock);
        record->facts.size = size;
        sw_lock_release(&record->lock);
    }
    if (call.handle->tracking)
        sw_phase_end(call.handle->tracking, call.handle->root);
    sw_handle_end(call.handle, closed);
    return code;
}

SW_EXPORT int MPI_File_delete(const char *filename, MPI_Info info) {
    static int (*_Atomic found)(const char *, MPI_Info);
    char path[SW_MAX_PATH];
    SW_RESOLVE_OR_FAIL(next, found, "MPI_File_delete");
    struct sw_file *record = NULL;
    if (sw_runtime.active && !sw_thread.file && filename && sw_path_absolute(filename, path, sizeof path))
        record = sw_files_get(&sw_runtime.files, path);
    if (!record)
        return next(filename, info);
    sw_thread = (struct sw_thread){.file = record};
    int64_t start = sw_now(), began = sw_tick();
    int code = next(filename, info);
    sw_thread = (struct sw_thread){.file = NULL};
    if (sw_recording && code == MPI_SUCCESS)
        sw_record_deleted(path, began);
    else if (sw_recording)
        sw_record_delete_failed(path, began);
    sw_file_count(&sw_runtime.files, record, SW_OP_delete, 0, sw_now() - start);
    sw_files_put(record);
    return code;
}
