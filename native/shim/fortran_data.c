/* SPDX-License-Identifier: BSD-3-Clause
 * The Fortran calls that move data. MPICH's Fortran calls the C functions, which are wrapped anyway; Open
 * MPI's calls PMPI, past any C wrapper. So the Fortran entry points are wrapped too, and the thread's mark
 * makes each call count once. All arguments are addresses in every binding, so one parameter list serves
 * mpif.h, mpi and mpi_f08. */
#include "fortran_names.h"

#ifndef SW_STANDARD_ABI

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

#define FILE_CALL(OP, SHAPE) SW_FORTRAN_NAMES(file_##OP, SHAPE, OP)

FILE_CALL(read, POINTER)
FILE_CALL(read_all, POINTER)
FILE_CALL(read_shared, POINTER)
FILE_CALL(read_ordered, POINTER)
FILE_CALL(write, POINTER)
FILE_CALL(write_all, POINTER)
FILE_CALL(write_shared, POINTER)
FILE_CALL(write_ordered, POINTER)
FILE_CALL(iread, POINTER)
FILE_CALL(iread_all, POINTER)
FILE_CALL(iread_shared, POINTER)
FILE_CALL(iwrite, POINTER)
FILE_CALL(iwrite_all, POINTER)
FILE_CALL(iwrite_shared, POINTER)

FILE_CALL(read_at, EXPLICIT)
FILE_CALL(read_at_all, EXPLICIT)
FILE_CALL(write_at, EXPLICIT)
FILE_CALL(write_at_all, EXPLICIT)
FILE_CALL(iread_at, EXPLICIT)
FILE_CALL(iread_at_all, EXPLICIT)
FILE_CALL(iwrite_at, EXPLICIT)
FILE_CALL(iwrite_at_all, EXPLICIT)

FILE_CALL(read_all_begin, POINTER_BEGIN)
FILE_CALL(read_ordered_begin, POINTER_BEGIN)
FILE_CALL(write_all_begin, POINTER_BEGIN)
FILE_CALL(write_ordered_begin, POINTER_BEGIN)
FILE_CALL(read_at_all_begin, EXPLICIT_BEGIN)
FILE_CALL(write_at_all_begin, EXPLICIT_BEGIN)

FILE_CALL(read_all_end, END)
FILE_CALL(read_at_all_end, END)
FILE_CALL(read_ordered_end, END)
FILE_CALL(write_all_end, END)
FILE_CALL(write_at_all_end, END)
FILE_CALL(write_ordered_end, END)

#endif
