/* SPDX-License-Identifier: BSD-3-Clause
 * The C calls on open files that move no data. */
#include "call.h"
#include "hints.h"
#include "recording.h"
#include "types.h"
#include "view.h"

#define WRAP(OP, FILE, SIZE, PARAMETERS, ...)                                                                \
    SW_EXPORT int MPI_File_##OP PARAMETERS {                                                                 \
        static int(*_Atomic found) PARAMETERS;                                                               \
        struct sw_call call;                                                                                 \
        SW_RESOLVE_OR_FAIL(next, found, "MPI_File_" #OP);                                                    \
        if (!sw_call_begin(&call, SW_OP_##OP, FILE))                                                         \
            return next(__VA_ARGS__);                                                                        \
        call.size = SIZE;                                                                                    \
        int code = next(__VA_ARGS__);                                                                        \
        sw_call_end(&call);                                                                                  \
        return code;                                                                                         \
    }

WRAP(sync, fh, 0, (MPI_File fh), fh)
WRAP(set_size, fh, size, (MPI_File fh, MPI_Offset size), fh, size)
WRAP(preallocate, fh, size, (MPI_File fh, MPI_Offset size), fh, size)

SW_EXPORT int MPI_File_set_info(MPI_File fh, MPI_Info info) {
    static int (*_Atomic found)(MPI_File, MPI_Info);
    struct sw_call call;
    SW_RESOLVE_OR_FAIL(next, found, "MPI_File_set_info");
    if (!sw_call_begin(&call, SW_OP_set_info, fh))
        return next(fh, info);
    MPI_Info passed = sw_hints_given(call.handle, info);
    int code = next(fh, passed);
    sw_call_end(&call);
    sw_hints_taken(call.handle, info, passed, code == MPI_SUCCESS);
    return code;
}

void sw_view_record(struct sw_handle *handle, MPI_Offset displacement, MPI_Datatype etype,
                    MPI_Datatype filetype, int64_t began) {
    MPI_Count etype_size = 0, size = 0, lower = 0, extent = 0, true_lower = 0, true_extent = 0;
    sw_pmpi.Type_size_x(etype, &etype_size);
    sw_pmpi.Type_size_x(filetype, &size);
    sw_pmpi.Type_get_extent_x(filetype, &lower, &extent);
    handle->displacement = displacement;
    handle->etype_size = etype_size;
    handle->filetype_size = size;
    handle->extent = extent;
    handle->pieces = lower != 0 || size != extent;
    if (handle->pieces) {
        int64_t runs = sw_type_runs(filetype);
        sw_pmpi.Type_get_true_extent_x(filetype, &true_lower, &true_extent);
        handle->lower = true_lower;
        handle->run = runs > 0 ? size / runs : SW_UNKNOWN_PIECE;
    }
    atomic_store_explicit(&handle->pointer, 0, memory_order_relaxed);
    sw_lock_take(&handle->record->lock);
    handle->record->facts.view.set = true;
    sw_lock_release(&handle->record->lock);
    if (sw_recording)
        sw_record_viewed(handle, filetype, began);
}

SW_EXPORT int MPI_File_set_view(MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype,
                                const char *datarep, MPI_Info info) {
    static int (*_Atomic found)(MPI_File, MPI_Offset, MPI_Datatype, MPI_Datatype, const char *, MPI_Info);
    struct sw_call call;
    SW_RESOLVE_OR_FAIL(next, found, "MPI_File_set_view");
    if (!sw_call_begin(&call, SW_OP_set_view, fh))
        return next(fh, disp, etype, filetype, datarep, info);
    MPI_Info passed = sw_hints_given(call.handle, info);
    int code = next(fh, disp, etype, filetype, datarep, passed);
    sw_call_end(&call);
    sw_hints_taken(call.handle, info, passed, code == MPI_SUCCESS);
    if (code == MPI_SUCCESS)
        sw_view_record(call.handle, disp, etype, filetype, call.start);
    return code;
}

void sw_view_sought(MPI_File file) {
    if (!sw_runtime.active || sw_thread.file)
        return;
    struct sw_handle *handle = sw_handle_find(file);
    MPI_Offset position = 0;
    if (!handle || sw_pmpi.File_get_position(file, &position) != MPI_SUCCESS)
        return;
    atomic_store_explicit(&handle->pointer, position * handle->etype_size, memory_order_relaxed);
    if (sw_recording)
        sw_record_sought(handle, position);
}

SW_EXPORT int MPI_File_seek(MPI_File fh, MPI_Offset offset, int whence) {
    static int (*_Atomic found)(MPI_File, MPI_Offset, int);
    SW_RESOLVE_OR_FAIL(next, found, "MPI_File_seek");
    int code = next(fh, offset, whence);
    if (code == MPI_SUCCESS)
        sw_view_sought(fh);
    return code;
}
