/* SPDX-License-Identifier: BSD-3-Clause
 * Programs that end without MPI_Finalize: by MPI_Abort, of which the calling rank tells what it saw itself,
 * or by exit, where rank 0 does. No other rank is waited for, and the report says that it is not complete. */
#include <stdlib.h>

#include "fortran.h"
#include "world.h"

static void at_exit(void) {
    if (!sw_runtime.silent)
        sw_world_interrupted();
}

void sw_interrupt_watch(void) {
    atexit(at_exit);
}

SW_EXPORT int MPI_Abort(MPI_Comm comm, int code) {
    static int (*next)(MPI_Comm, int);
    SW_RESOLVE(next, "MPI_Abort");
    sw_world_interrupted();
    return next ? next(comm, code) : MPI_ERR_INTERN;
}

#define ABORT(NAME, OP)                                                                                      \
    SW_EXPORT void NAME(MPI_Fint *comm, MPI_Fint *code, MPI_Fint *ierr) {                                    \
        static void (*next)(MPI_Fint *, MPI_Fint *, MPI_Fint *);                                             \
        SW_RESOLVE(next, #NAME);                                                                             \
        sw_world_interrupted();                                                                              \
        if (next)                                                                                            \
            next(comm, code, ierr);                                                                          \
        else if (ierr)                                                                                       \
            *ierr = MPI_ERR_INTERN;                                                                          \
    }

SW_FORTRAN_NAMES(abort, ABORT, )
