/* SPDX-License-Identifier: BSD-3-Clause
 * The Fortran calls that begin, end and describe. Opening, closing and deleting go through the C wrappers,
 * which apply the plan; the others are handed on to the Fortran library. The length of a string comes after
 * all arguments; it is an int or a size_t, of which the low half is enough. */
#include "fortran_names.h"

#ifndef SW_STANDARD_ABI

#include <string.h>

#include "call.h"
#include "hints.h"
#include "mpi_init.h"

/* Copies a blank-padded name. False if it does not fit. */
static bool c_string(char *to, size_t size, const char *from, int length) {
    while (length > 0 && from[length - 1] == ' ')
        length--;
    if (length < 0 || (size_t)length >= size)
        return false;
    memcpy(to, from, (size_t)length);
    to[length] = '\0';
    return true;
}

static bool follows(void) {
    return sw_runtime.active && !sw_thread.file;
}

static void report_error(MPI_Fint *ierr, int code) {
    if (ierr)
        *ierr = code;
}

#define NEXT(NAME, PARAMETERS)                                                                               \
    static void(*_Atomic found) PARAMETERS; /* NOLINT(bugprone-macro-parentheses) */                         \
    SW_RESOLVE(next, found, #NAME);                                                                          \
    if (!next) {                                                                                             \
        report_error(ierr, MPI_ERR_INTERN);                                                                  \
        return;                                                                                              \
    }

#define INIT(NAME, OP)                                                                                       \
    SW_EXPORT void NAME(MPI_Fint *ierr) {                                                                    \
        NEXT(NAME, (MPI_Fint *))                                                                             \
        MPI_Fint spare = MPI_SUCCESS, *error = ierr ? ierr : &spare;                                         \
        next(error);                                                                                         \
        if (*error == MPI_SUCCESS)                                                                           \
            sw_world_started();                                                                              \
    }

#define INIT_THREAD(NAME, OP)                                                                                \
    SW_EXPORT void NAME(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierr) {                            \
        NEXT(NAME, (MPI_Fint *, MPI_Fint *, MPI_Fint *))                                                     \
        MPI_Fint spare = MPI_SUCCESS, *error = ierr ? ierr : &spare;                                         \
        next(required, provided, error);                                                                     \
        if (*error == MPI_SUCCESS)                                                                           \
            sw_world_started();                                                                              \
    }

#define FINALIZE(NAME, OP)                                                                                   \
    SW_EXPORT void NAME(MPI_Fint *ierr) {                                                                    \
        NEXT(NAME, (MPI_Fint *))                                                                             \
        sw_world_finishing();                                                                                \
        next(ierr);                                                                                          \
    }

SW_FORTRAN_NAMES(init, INIT, )
SW_FORTRAN_NAMES(init_thread, INIT_THREAD, )
SW_FORTRAN_NAMES(finalize, FINALIZE, )

#define OPEN(NAME, OP)                                                                                       \
    SW_EXPORT void NAME(MPI_Fint *comm, const char *name, MPI_Fint *amode, MPI_Fint *info, MPI_Fint *fh,     \
                        MPI_Fint *ierr, int length) {                                                        \
        NEXT(NAME, (MPI_Fint *, const char *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, int))          \
        char path[SW_MAX_PATH];                                                                              \
        if (!follows() || !c_string(path, sizeof path, name, length)) {                                      \
            next(comm, name, amode, info, fh, ierr, length);                                                 \
            return;                                                                                          \
        }                                                                                                    \
        MPI_File file;                                                                                       \
        int code = MPI_File_open(SW_COMM_F2C(*comm), path, *amode, SW_INFO_F2C(*info), &file);               \
        if (code == MPI_SUCCESS)                                                                             \
            *fh = sw_pmpi.File_c2f(file);                                                                    \
        report_error(ierr, code);                                                                            \
    }

#define CLOSE(NAME, OP)                                                                                      \
    SW_EXPORT void NAME(MPI_Fint *fh, MPI_Fint *ierr) {                                                      \
        NEXT(NAME, (MPI_Fint *, MPI_Fint *))                                                                 \
        if (!follows()) {                                                                                    \
            next(fh, ierr);                                                                                  \
            return;                                                                                          \
        }                                                                                                    \
        MPI_File file = sw_pmpi.File_f2c(*fh);                                                               \
        int code = MPI_File_close(&file);                                                                    \
        if (code == MPI_SUCCESS)                                                                             \
            *fh = sw_pmpi.File_c2f(file);                                                                    \
        report_error(ierr, code);                                                                            \
    }

#define DELETE(NAME, OP)                                                                                     \
    SW_EXPORT void NAME(const char *name, MPI_Fint *info, MPI_Fint *ierr, int length) {                      \
        NEXT(NAME, (const char *, MPI_Fint *, MPI_Fint *, int))                                              \
        char path[SW_MAX_PATH];                                                                              \
        if (follows() && c_string(path, sizeof path, name, length))                                          \
            report_error(ierr, MPI_File_delete(path, SW_INFO_F2C(*info)));                                   \
        else                                                                                                 \
            next(name, info, ierr, length);                                                                  \
    }

SW_FORTRAN_NAMES(file_open, OPEN, )
SW_FORTRAN_NAMES(file_close, CLOSE, )
SW_FORTRAN_NAMES(file_delete, DELETE, )

#define SET_VIEW(NAME, OP)                                                                                   \
    SW_EXPORT void NAME(MPI_Fint *fh, MPI_Offset *offset, MPI_Fint *etype, MPI_Fint *filetype,               \
                        const char *form, MPI_Fint *info, MPI_Fint *ierr, int length) {                      \
        NEXT(NAME,                                                                                           \
             (MPI_Fint *, MPI_Offset *, MPI_Fint *, MPI_Fint *, const char *, MPI_Fint *, MPI_Fint *, int))  \
        MPI_Fint spare = MPI_SUCCESS, *error = ierr ? ierr : &spare;                                         \
        struct sw_call call;                                                                                 \
        if (!follows() || !sw_call_begin(&call, SW_OP_set_view, sw_pmpi.File_f2c(*fh))) {                    \
            next(fh, offset, etype, filetype, form, info, error, length);                                    \
            return;                                                                                          \
        }                                                                                                    \
        MPI_Info given = SW_INFO_F2C(*info), passed = sw_hints_given(call.handle, given);                    \
        MPI_Fint number = passed == given ? *info : SW_INFO_C2F(passed);                                     \
        next(fh, offset, etype, filetype, form, &number, error, length);                                     \
        sw_call_end(&call);                                                                                  \
        sw_hints_taken(call.handle, given, passed, *error == MPI_SUCCESS);                                   \
        if (*error == MPI_SUCCESS)                                                                           \
            sw_view_record(call.handle, *offset, SW_TYPE_F2C(*etype), SW_TYPE_F2C(*filetype),                \
                           length >= 10 && memcmp(form, "external32", 10) == 0, call.start);                 \
    }

SW_FORTRAN_NAMES(file_set_view, SET_VIEW, )

/* fh, one more argument, ierr */
#define WITH_ONE(NAME, OP)                                                                                   \
    SW_EXPORT void NAME(MPI_Fint *fh, void *argument, MPI_Fint *ierr) {                                      \
        NEXT(NAME, (MPI_Fint *, void *, MPI_Fint *))                                                         \
        struct sw_call call;                                                                                 \
        bool counts = follows() && sw_call_begin(&call, SW_OP_##OP, sw_pmpi.File_f2c(*fh));                  \
        next(fh, argument, ierr);                                                                            \
        if (counts) {                                                                                        \
            call.size = *(const MPI_Offset *)argument;                                                       \
            sw_call_end(&call);                                                                              \
        }                                                                                                    \
    }

#define SET_INFO(NAME, OP)                                                                                   \
    SW_EXPORT void NAME(MPI_Fint *fh, MPI_Fint *info, MPI_Fint *ierr) {                                      \
        NEXT(NAME, (MPI_Fint *, MPI_Fint *, MPI_Fint *))                                                     \
        MPI_Fint spare = MPI_SUCCESS, *error = ierr ? ierr : &spare;                                         \
        struct sw_call call;                                                                                 \
        if (!follows() || !sw_call_begin(&call, SW_OP_set_info, sw_pmpi.File_f2c(*fh))) {                    \
            next(fh, info, error);                                                                           \
            return;                                                                                          \
        }                                                                                                    \
        MPI_Info given = SW_INFO_F2C(*info), passed = sw_hints_given(call.handle, given);                    \
        MPI_Fint number = passed == given ? *info : SW_INFO_C2F(passed);                                     \
        next(fh, &number, error);                                                                            \
        sw_call_end(&call);                                                                                  \
        sw_hints_taken(call.handle, given, passed, *error == MPI_SUCCESS);                                   \
    }

#define SEEK(NAME, OP)                                                                                       \
    SW_EXPORT void NAME(MPI_Fint *fh, MPI_Offset *offset, MPI_Fint *whence, MPI_Fint *ierr) {                \
        NEXT(NAME, (MPI_Fint *, MPI_Offset *, MPI_Fint *, MPI_Fint *))                                       \
        MPI_Fint spare = MPI_SUCCESS, *error = ierr ? ierr : &spare;                                         \
        next(fh, offset, whence, error);                                                                     \
        if (*error == MPI_SUCCESS && follows())                                                              \
            sw_view_sought(sw_pmpi.File_f2c(*fh));                                                           \
    }

SW_FORTRAN_NAMES(file_seek, SEEK, )

#define SEEK_SHARED(NAME, OP)                                                                                \
    SW_EXPORT void NAME(MPI_Fint *fh, MPI_Offset *offset, MPI_Fint *whence, MPI_Fint *ierr) {                \
        NEXT(NAME, (MPI_Fint *, MPI_Offset *, MPI_Fint *, MPI_Fint *))                                       \
        MPI_Fint spare = MPI_SUCCESS, *error = ierr ? ierr : &spare;                                         \
        next(fh, offset, whence, error);                                                                     \
        if (*error == MPI_SUCCESS && follows())                                                              \
            sw_view_sought_shared(sw_pmpi.File_f2c(*fh), *offset, *whence);                                  \
    }

SW_FORTRAN_NAMES(file_seek_shared, SEEK_SHARED, )

#define SYNC(NAME, OP)                                                                                       \
    SW_EXPORT void NAME(MPI_Fint *fh, MPI_Fint *ierr) {                                                      \
        NEXT(NAME, (MPI_Fint *, MPI_Fint *))                                                                 \
        struct sw_call call;                                                                                 \
        bool counts = follows() && sw_call_begin(&call, SW_OP_sync, sw_pmpi.File_f2c(*fh));                  \
        next(fh, ierr);                                                                                      \
        if (counts)                                                                                          \
            sw_call_end(&call);                                                                              \
    }

SW_FORTRAN_NAMES(file_set_info, SET_INFO, )
SW_FORTRAN_NAMES(file_set_size, WITH_ONE, set_size)
SW_FORTRAN_NAMES(file_preallocate, WITH_ONE, preallocate)
SW_FORTRAN_NAMES(file_sync, SYNC, )

/* ---- calls that move data ----
 * MPICH's Fortran calls the C functions, which are wrapped anyway; Open
 * MPI's calls PMPI, past any C wrapper. So the Fortran entry points are wrapped too, and the thread's mark
 * makes each call count once. All arguments are addresses in every binding, so one parameter list serves
 * mpif.h, mpi and mpi_f08. */

static bool begin(struct sw_call *call, enum sw_op op, const MPI_Fint *file) {
    return sw_runtime.active && !sw_thread.file && sw_call_begin(call, op, sw_pmpi.File_f2c(*file));
}

static void end(struct sw_call *call, const MPI_Fint *error, const MPI_Fint *count, const MPI_Fint *datatype,
                const MPI_Offset *offset) {
    sw_call_end_transfer(call, *error, count ? *count : 0,
                         datatype ? SW_TYPE_F2C(*datatype) : (MPI_Datatype)0, offset ? *offset : 0);
}

#define WRAP(NAME, OP, COUNT, DATATYPE, OFFSET, PARAMETERS, ...)                                             \
    SW_EXPORT void NAME PARAMETERS {                                                                         \
        static void(*_Atomic found) PARAMETERS;                                                              \
        struct sw_call call;                                                                                 \
        MPI_Fint spare = MPI_SUCCESS, *error = ierr ? ierr : &spare; /* ierror is optional in mpi_f08 */     \
        SW_RESOLVE(next, found, #NAME);                                                                      \
        if (!next)                                                                                           \
            *error = MPI_ERR_INTERN;                                                                         \
        else if (!begin(&call, SW_OP_##OP, fh))                                                              \
            next(__VA_ARGS__, error);                                                                        \
        else {                                                                                               \
            next(__VA_ARGS__, error);                                                                        \
            end(&call, error, COUNT, DATATYPE, OFFSET);                                                      \
        }                                                                                                    \
    }

/* status or request: an address to hand on */
#define POINTER(NAME, OP)                                                                                    \
    WRAP(NAME, OP, count, datatype, NULL,                                                                    \
         (MPI_Fint * fh, void *buf, MPI_Fint *count, MPI_Fint *datatype, void *status, MPI_Fint *ierr), fh,  \
         buf, count, datatype, status)
#define EXPLICIT(NAME, OP)                                                                                   \
    WRAP(NAME, OP, count, datatype, offset,                                                                  \
         (MPI_Fint * fh, MPI_Offset * offset, void *buf, MPI_Fint *count, MPI_Fint *datatype, void *status,  \
          MPI_Fint *ierr),                                                                                   \
         fh, offset, buf, count, datatype, status)
#define POINTER_BEGIN(NAME, OP)                                                                              \
    WRAP(NAME, OP, count, datatype, NULL,                                                                    \
         (MPI_Fint * fh, void *buf, MPI_Fint *count, MPI_Fint *datatype, MPI_Fint *ierr), fh, buf, count,    \
         datatype)
#define EXPLICIT_BEGIN(NAME, OP)                                                                             \
    WRAP(NAME, OP, count, datatype, offset,                                                                  \
         (MPI_Fint * fh, MPI_Offset * offset, void *buf, MPI_Fint *count, MPI_Fint *datatype,                \
          MPI_Fint *ierr),                                                                                   \
         fh, offset, buf, count, datatype)
#define END(NAME, OP)                                                                                        \
    WRAP(NAME, OP, NULL, NULL, NULL, (MPI_Fint * fh, void *buf, void *status, MPI_Fint *ierr), fh, buf,      \
         status)

#define POINTER_REQUEST POINTER
#define EXPLICIT_REQUEST EXPLICIT
#define NONE(NAME, OP)
#define OPERATION(name, kind, mode, place, shape) SW_FORTRAN_NAMES(file_##name, shape, name)
#include "operations.def"
#endif
