/* SPDX-License-Identifier: BSD-3-Clause
 * The C calls on open files that move no data. */
#include <string.h>

#include "call.h"
#include "datatypes.h"
#include "hints.h"
#include "recording.h"

#define WRAP_META(OP, FILE, SIZE, PARAMETERS, ...)                                                           \
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

WRAP_META(sync, fh, 0, (MPI_File fh), fh)
WRAP_META(set_size, fh, size, (MPI_File fh, MPI_Offset size), fh, size)
WRAP_META(preallocate, fh, size, (MPI_File fh, MPI_Offset size), fh, size)

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
                    MPI_Datatype filetype, bool external, int64_t began) {
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
        sw_record_viewed(handle, filetype, external, began);
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
        sw_view_record(call.handle, disp, etype, filetype, strcmp(datarep, "external32") == 0, call.start);
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
        sw_record_sought(handle, SW_LINE_seek, position);
}

void sw_view_sought_shared(MPI_File file, MPI_Offset offset, int whence) {
    if (!sw_recording || sw_thread.file)
        return;
    const struct sw_handle *handle = sw_handle_find(file);
    if (handle && (whence == MPI_SEEK_SET || sw_pmpi.File_get_position_shared(file, &offset) == MPI_SUCCESS))
        sw_record_sought(handle, SW_LINE_seek_shared, offset);
}

SW_EXPORT int MPI_File_seek(MPI_File fh, MPI_Offset offset, int whence) {
    static int (*_Atomic found)(MPI_File, MPI_Offset, int);
    SW_RESOLVE_OR_FAIL(next, found, "MPI_File_seek");
    int code = next(fh, offset, whence);
    if (code == MPI_SUCCESS)
        sw_view_sought(fh);
    return code;
}

SW_EXPORT int MPI_File_seek_shared(MPI_File fh, MPI_Offset offset, int whence) {
    static int (*_Atomic found)(MPI_File, MPI_Offset, int);
    SW_RESOLVE_OR_FAIL(next, found, "MPI_File_seek_shared");
    int code = next(fh, offset, whence);
    if (code == MPI_SUCCESS)
        sw_view_sought_shared(fh, offset, whence);
    return code;
}

/* ---- calls that move data ----
 * The C calls that move data. Seven shapes of parameter lists; each makes the call with an int count and,
 * since MPI 4, the one with MPI_Count. Programs such as mpi4py look whether their library has the latter:
 * where it does not, this one must not have it either. */

#define WRAP(NAME, OP, COUNT, DATATYPE, OFFSET, PARAMETERS, ...)                                             \
    SW_EXPORT int NAME PARAMETERS {                                                                          \
        static int(*_Atomic found) PARAMETERS;                                                               \
        struct sw_call call;                                                                                 \
        SW_RESOLVE_OR_FAIL(next, found, #NAME);                                                              \
        if (!sw_call_begin(&call, SW_OP_##OP, fh))                                                           \
            return next(__VA_ARGS__);                                                                        \
        int code = next(__VA_ARGS__);                                                                        \
        sw_call_end_transfer(&call, code, COUNT, DATATYPE, OFFSET);                                          \
        return code;                                                                                         \
    }

#if MPI_VERSION >= 4
#define BOTH(SHAPE, OP, BUFFER)                                                                              \
    SHAPE(MPI_File_##OP, OP, int, BUFFER) SHAPE(MPI_File_##OP##_c, OP, MPI_Count, BUFFER)
#else
#define BOTH(SHAPE, OP, BUFFER) SHAPE(MPI_File_##OP, OP, int, BUFFER)
#endif

#define POINTER(NAME, OP, INT, BUFFER)                                                                       \
    WRAP(NAME, OP, count, datatype, 0,                                                                       \
         (MPI_File fh, BUFFER buf, INT count, MPI_Datatype datatype, MPI_Status * status), fh, buf, count,   \
         datatype, status)
#define EXPLICIT(NAME, OP, INT, BUFFER)                                                                      \
    WRAP(                                                                                                    \
        NAME, OP, count, datatype, offset,                                                                   \
        (MPI_File fh, MPI_Offset offset, BUFFER buf, INT count, MPI_Datatype datatype, MPI_Status * status), \
        fh, offset, buf, count, datatype, status)
#define POINTER_REQUEST(NAME, OP, INT, BUFFER)                                                               \
    WRAP(NAME, OP, count, datatype, 0,                                                                       \
         (MPI_File fh, BUFFER buf, INT count, MPI_Datatype datatype, MPI_Request * request), fh, buf, count, \
         datatype, request)
#define EXPLICIT_REQUEST(NAME, OP, INT, BUFFER)                                                              \
    WRAP(NAME, OP, count, datatype, offset,                                                                  \
         (MPI_File fh, MPI_Offset offset, BUFFER buf, INT count, MPI_Datatype datatype,                      \
          MPI_Request * request),                                                                            \
         fh, offset, buf, count, datatype, request)
#define POINTER_BEGIN(NAME, OP, INT, BUFFER)                                                                 \
    WRAP(NAME, OP, count, datatype, 0, (MPI_File fh, BUFFER buf, INT count, MPI_Datatype datatype), fh, buf, \
         count, datatype)
#define EXPLICIT_BEGIN(NAME, OP, INT, BUFFER)                                                                \
    WRAP(NAME, OP, count, datatype, offset,                                                                  \
         (MPI_File fh, MPI_Offset offset, BUFFER buf, INT count, MPI_Datatype datatype), fh, offset, buf,    \
         count, datatype)

#define READ void *
#define WRITE const void *

/* The second halves carry no count; zero elements need no type. */
#define WRAP_END(OP, BUFFER)                                                                                 \
    WRAP(MPI_File_##OP, OP, 0, (MPI_Datatype)0, 0, (MPI_File fh, BUFFER buf, MPI_Status * status), fh, buf,  \
         status)

#define WRAP_POINTER(OP, BUFFER) BOTH(POINTER, OP, BUFFER)
#define WRAP_EXPLICIT(OP, BUFFER) BOTH(EXPLICIT, OP, BUFFER)
#define WRAP_POINTER_REQUEST(OP, BUFFER) BOTH(POINTER_REQUEST, OP, BUFFER)
#define WRAP_EXPLICIT_REQUEST(OP, BUFFER) BOTH(EXPLICIT_REQUEST, OP, BUFFER)
#define WRAP_POINTER_BEGIN(OP, BUFFER) BOTH(POINTER_BEGIN, OP, BUFFER)
#define WRAP_EXPLICIT_BEGIN(OP, BUFFER) BOTH(EXPLICIT_BEGIN, OP, BUFFER)
#define WRAP_NONE(OP, BUFFER)
#define OPERATION(name, kind, mode, place, shape) WRAP_##shape(name, kind)
#include "operations.def"
