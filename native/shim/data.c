/* SPDX-License-Identifier: BSD-3-Clause
 * The C calls that move data. Seven shapes of parameter lists; each makes the call with an int count and the
 * one with MPI_Count. */
#include "call.h"

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

#define WRAP_BOTH(OP, SHAPE, BUFFER)                                                                         \
    SHAPE(MPI_File_##OP, OP, int, BUFFER) SHAPE(MPI_File_##OP##_c, OP, MPI_Count, BUFFER)

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

WRAP_BOTH(read, POINTER, READ)
WRAP_BOTH(read_all, POINTER, READ)
WRAP_BOTH(read_shared, POINTER, READ)
WRAP_BOTH(read_ordered, POINTER, READ)
WRAP_BOTH(write, POINTER, WRITE)
WRAP_BOTH(write_all, POINTER, WRITE)
WRAP_BOTH(write_shared, POINTER, WRITE)
WRAP_BOTH(write_ordered, POINTER, WRITE)

WRAP_BOTH(read_at, EXPLICIT, READ)
WRAP_BOTH(read_at_all, EXPLICIT, READ)
WRAP_BOTH(write_at, EXPLICIT, WRITE)
WRAP_BOTH(write_at_all, EXPLICIT, WRITE)

WRAP_BOTH(iread, POINTER_REQUEST, READ)
WRAP_BOTH(iread_all, POINTER_REQUEST, READ)
WRAP_BOTH(iread_shared, POINTER_REQUEST, READ)
WRAP_BOTH(iwrite, POINTER_REQUEST, WRITE)
WRAP_BOTH(iwrite_all, POINTER_REQUEST, WRITE)
WRAP_BOTH(iwrite_shared, POINTER_REQUEST, WRITE)

WRAP_BOTH(iread_at, EXPLICIT_REQUEST, READ)
WRAP_BOTH(iread_at_all, EXPLICIT_REQUEST, READ)
WRAP_BOTH(iwrite_at, EXPLICIT_REQUEST, WRITE)
WRAP_BOTH(iwrite_at_all, EXPLICIT_REQUEST, WRITE)

WRAP_BOTH(read_all_begin, POINTER_BEGIN, READ)
WRAP_BOTH(read_ordered_begin, POINTER_BEGIN, READ)
WRAP_BOTH(write_all_begin, POINTER_BEGIN, WRITE)
WRAP_BOTH(write_ordered_begin, POINTER_BEGIN, WRITE)

WRAP_BOTH(read_at_all_begin, EXPLICIT_BEGIN, READ)
WRAP_BOTH(write_at_all_begin, EXPLICIT_BEGIN, WRITE)

/* The second halves carry no count; zero elements need no type. */
#define END(OP, BUFFER)                                                                                      \
    WRAP(MPI_File_##OP, OP, 0, (MPI_Datatype)0, 0, (MPI_File fh, BUFFER buf, MPI_Status * status), fh, buf,  \
         status)

END(read_all_end, READ)
END(read_at_all_end, READ)
END(read_ordered_end, READ)
END(write_all_end, WRITE)
END(write_at_all_end, WRITE)
END(write_ordered_end, WRITE)
