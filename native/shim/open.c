/* SPDX-License-Identifier: BSD-3-Clause
 * MPI_File_open, MPI_File_close and MPI_File_delete: where the plan is applied and records begin and end. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/stat.h>

#include "call.h"
#include "hints.h"
#include "paths.h"

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
};

static uint32_t amode_bits(int amode) {
    static const struct {
        int mpi;
        uint32_t bit;
    } modes[] = {
        {MPI_MODE_CREATE, SW_AMODE_CREATE},
        {MPI_MODE_EXCL, SW_AMODE_EXCL},
        {MPI_MODE_RDONLY, SW_AMODE_RDONLY},
        {MPI_MODE_WRONLY, SW_AMODE_WRONLY},
        {MPI_MODE_RDWR, SW_AMODE_RDWR},
        {MPI_MODE_APPEND, SW_AMODE_APPEND},
        {MPI_MODE_SEQUENTIAL, SW_AMODE_SEQUENTIAL},
        {MPI_MODE_UNIQUE_OPEN, SW_AMODE_UNIQUE_OPEN},
        {MPI_MODE_DELETE_ON_CLOSE, SW_AMODE_DELETE_ON_CLOSE},
    };
    uint32_t bits = 0;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (amode & modes[i].mpi)
            bits |= modes[i].bit;
    return bits;
}

static int open_with(const struct request *request, MPI_Info info) {
    return request->next(request->comm, request->name, request->amode, info, request->file);
}

/* Did the open fail on every rank? Only then may it be tried again: an open is collective. */
static bool failed_everywhere(const struct request *request, int code) {
    int failed = code != MPI_SUCCESS, everywhere = failed;
    if (request->size > 1)
        sw_pmpi.Allreduce(&failed, &everywhere, 1, MPI_INT, MPI_LAND, request->comm);
    return everywhere;
}

/* The open with the plan's hints, and the application's own if that fails. An error must not reach the
 * application's handler while there is still a second try. */
static int open_tuned(const struct request *request, struct sw_matches *matches, MPI_Info tuned) {
    MPI_Errhandler handler;
    bool replaced = sw_pmpi.File_get_errhandler(MPI_FILE_NULL, &handler) == MPI_SUCCESS;
    if (replaced)
        sw_pmpi.File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    int code = open_with(request, tuned);
    if (replaced) {
        sw_pmpi.File_set_errhandler(MPI_FILE_NULL, handler);
        sw_pmpi.Errhandler_free(&handler);
    }
    if (!failed_everywhere(request, code))
        return code;
    sw_hints_withdrawn(matches, "the open failed with the plan's hints; the application's own were used");
    return open_with(request, request->info);
}

static int open_planned(const struct request *request, struct sw_matches *matches) {
    MPI_Info tuned;
    if (sw_runtime.lays_out && (request->amode & MPI_MODE_CREATE)) {
        int done = 1;
        if (request->rank == 0)
            sw_layouts_apply(matches, request->path, request->amode);
        if (request->size > 1)
            sw_pmpi.Bcast(&done, 1, MPI_INT, 0, request->comm);
    } else if (request->rank == 0) {
        sw_layouts_apply(matches, request->path, request->amode);
    }
    if (!sw_runtime.hints)
        return open_with(request, request->info);
    /* The application's own hints may differ from rank to rank, and so may whether ours change them; all
     * ranks take this way. */
    bool changed = sw_hints_merge(matches, request->info, &tuned);
    int code = open_tuned(request, matches, changed ? tuned : request->info);
    if (changed)
        sw_pmpi.Info_free(&tuned);
    return code;
}

/* What only one rank needs to find out. */
static void record_surroundings(struct sw_matches *matches, MPI_File file, struct sw_file *record) {
    char name[32];
    struct sw_layout layout;
    sw_launcher_check(matches);
    sw_hints_record(matches, file, record);
    sw_file_system_name(record->path, name, sizeof name);
    record->file_system = sw_arena_intern(&sw_runtime.files.arena, name);
    record->driver = sw_driver_name(record->info, sw_thread.opener);
    if (!record->facts.layout.kind && sw_layout_read(record->path, &layout))
        record->facts.layout = layout;
}

static void record_open(const struct request *request, struct sw_file *record) {
    sw_lock_take(&record->lock);
    struct sw_facts *facts = &record->facts;
    facts->opens += request->rank == 0;
    facts->nodes = 1;
    facts->amode |= amode_bits(request->amode);
    if ((uint32_t)request->size > facts->ranks)
        facts->ranks = (uint32_t)request->size;
    sw_lock_release(&record->lock);
}

static int open_recorded(struct request *request, struct sw_file *record) {
    struct sw_matches matches;
    sw_matches_open(&matches, request->path);
    sw_thread = (struct sw_thread){.file = record, .path = sw_path_without_prefix(request->name)};
    int64_t start = sw_now();
    int code = sw_runtime.apply ? open_planned(request, &matches) : open_with(request, request->info);
    sw_file_count(&sw_runtime.files, record, SW_OP_open, 0, sw_now() - start);
    if (code == MPI_SUCCESS) {
        record_open(request, record);
        if (request->rank == 0 && strcmp(record->path, SW_OTHER_FILES) != 0)
            record_surroundings(&matches, *request->file, record);
        sw_handle_add(*request->file, record, start, request->rank == 0);
    } else {
        sw_files_put(record);
    }
    sw_thread = (struct sw_thread){.file = NULL};
    sw_matches_close(&matches);
    return code;
}

SW_EXPORT int MPI_File_open(MPI_Comm comm, const char *filename, int amode, MPI_Info info, MPI_File *fh) {
    static open_function *next;
    char path[SW_MAX_PATH];
    SW_RESOLVE(next, "MPI_File_open");
    if (!next)
        return MPI_ERR_INTERN;
    if (!sw_runtime.active || sw_thread.file || !filename || comm == MPI_COMM_NULL)
        return next(comm, filename, amode, info, fh);
    struct request request = {comm, filename, amode, info, fh, next, path, 0, 1};
    int between_groups = 0;
    sw_pmpi.Comm_test_inter(comm, &between_groups);
    if (between_groups) /* MPI will refuse it */
        return next(comm, filename, amode, info, fh);
    sw_pmpi.Comm_rank(comm, &request.rank);
    sw_pmpi.Comm_size(comm, &request.size);
    sw_session_opened(comm);
    struct sw_file *record =
        sw_path_absolute(filename, path, sizeof path) ? sw_files_get(&sw_runtime.files, path) : NULL;
    return record ? open_recorded(&request, record) : next(comm, filename, amode, info, fh);
}

SW_EXPORT int MPI_File_close(MPI_File *fh) {
    static int (*next)(MPI_File *);
    struct sw_call call;
    SW_RESOLVE(next, "MPI_File_close");
    if (!next)
        return MPI_ERR_INTERN;
    if (!fh || !sw_call_begin(&call, SW_OP_close, *fh))
        return next(fh);
    struct sw_file *record = call.handle->record;
    /* Out of the table first: once it is closed, MPI may give its address to a file that another thread
     * opens. */
    sw_handle_detach(call.handle);
    int code = next(fh);
    sw_call_end(&call);
    int64_t closed = sw_now();
    struct stat status;
    if (call.handle->root && strcmp(record->path, SW_OTHER_FILES) != 0)
        record->facts.size = stat(record->path, &status) == 0 ? (int64_t)status.st_size : -1;
    sw_handle_end(call.handle, closed);
    return code;
}

SW_EXPORT int MPI_File_delete(const char *filename, MPI_Info info) {
    static int (*next)(const char *, MPI_Info);
    char path[SW_MAX_PATH];
    SW_RESOLVE(next, "MPI_File_delete");
    if (!next)
        return MPI_ERR_INTERN;
    struct sw_file *record = NULL;
    if (sw_runtime.active && !sw_thread.file && filename && sw_path_absolute(filename, path, sizeof path))
        record = sw_files_get(&sw_runtime.files, path);
    if (!record)
        return next(filename, info);
    sw_thread = (struct sw_thread){.file = record};
    int64_t start = sw_now();
    int code = next(filename, info);
    sw_thread = (struct sw_thread){.file = NULL};
    sw_file_count(&sw_runtime.files, record, SW_OP_delete, 0, sw_now() - start);
    sw_files_put(record);
    return code;
}
