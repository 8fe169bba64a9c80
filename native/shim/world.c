/* SPDX-License-Identifier: BSD-3-Clause
 * The runtime needs the preload on every rank of MPI_COMM_WORLD or on none, as every library that talks at
 * MPI_Init does. */
#include "world.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "comms.h"
#include "fortran_names.h"
#include "lifecycle.h"
#include "recording.h"
#include "setup.h"

static struct sw_route route;
static atomic_bool started, finished, up;

/* ---- the end without MPI_Finalize: by MPI_Abort, of which the calling rank tells what it saw itself, or by
 * exit, where rank 0 does. No other rank is waited for, and the report says that it is not complete. ---- */

static void interrupted(void) {
    if (!up || !sw_runtime.active || atomic_exchange(&finished, true))
        return;
    /* A signal may have come while this very thread held a lock. */
    sw_lock_be_impatient();
    sw_lifecycle_report(NULL, (uint64_t)route.size, true);
    up = false;
}

static void at_exit(void) {
    if (!sw_runtime.silent)
        interrupted();
}

void sw_world_started(void) {
    if (atomic_exchange(&started, true) || !sw_setup_read())
        return;
    if (!sw_pmpi_load()) {
        sw_complain("this MPI library lacks functions the runtime needs; running without it");
        return;
    }
    int rank = 0, ready = 0;
    MPI_Comm parent = MPI_COMM_NULL;
    sw_pmpi.Comm_rank(MPI_COMM_WORLD, &rank);
    sw_pmpi.Comm_get_parent(&parent);
    /* The processes that MPI_Comm_spawn starts inherit the environment, but the report is their parents'. */
    if (parent != MPI_COMM_NULL)
        return;
    sw_runtime.silent = rank != 0;
    if (!sw_route_open(&route, MPI_COMM_WORLD))
        return;
    int here = sw_lifecycle_prepare();
    sw_pmpi.Allreduce(&here, &ready, 1, MPI_INT, MPI_LAND, route.all);
    if (!ready) {
        sw_route_close(&route);
        return;
    }
    MPI_Group world;
    if (sw_pmpi.Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS)
        sw_comm_set_world(world);
    sw_setup_check();
    sw_setup_share_plan(&route);
    if (sw_runtime.mode > SW_RUN_APPLY)
        sw_comm_share(route.all);
    sw_pmpi.Barrier(route.all);
    up = true;
    atexit(at_exit);
    sw_lifecycle_begin();
    sw_record_begin();
}

void sw_world_finishing(void) {
    if (!up || !sw_runtime.active || atomic_exchange(&finished, true))
        return;
    sw_lifecycle_report(&route, (uint64_t)route.size, true);
    sw_comm_share(MPI_COMM_NULL);
    sw_route_close(&route);
    up = false;
}

bool sw_world_is_up(void) {
    return up;
}

SW_EXPORT int MPI_Init(int *argc, char ***argv) {
    static int (*_Atomic found)(int *, char ***);
    SW_RESOLVE_OR_FAIL(next, found, "MPI_Init");
    int code = next(argc, argv);
    if (code == MPI_SUCCESS)
        sw_world_started();
    return code;
}

SW_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    static int (*_Atomic found)(int *, char ***, int, int *);
    SW_RESOLVE_OR_FAIL(next, found, "MPI_Init_thread");
    int code = next(argc, argv, required, provided);
    if (code == MPI_SUCCESS)
        sw_world_started();
    return code;
}

SW_EXPORT int MPI_Finalize(void) {
    static int (*_Atomic found)(void);
    SW_RESOLVE_OR_FAIL(next, found, "MPI_Finalize");
    sw_world_finishing();
    return next();
}

SW_EXPORT int MPI_Abort(MPI_Comm comm, int code) {
    static int (*_Atomic found)(MPI_Comm, int);
    SW_RESOLVE(next, found, "MPI_Abort");
    interrupted();
    return next ? next(comm, code) : MPI_ERR_INTERN;
}

#define ABORT(NAME, OP)                                                                                      \
    SW_EXPORT void NAME(MPI_Fint *comm, MPI_Fint *code, MPI_Fint *ierr) {                                    \
        static void (*_Atomic found)(MPI_Fint *, MPI_Fint *, MPI_Fint *);                                    \
        SW_RESOLVE(next, found, #NAME);                                                                      \
        interrupted();                                                                                       \
        if (next)                                                                                            \
            next(comm, code, ierr);                                                                          \
        else if (ierr)                                                                                       \
            *ierr = MPI_ERR_INTERN;                                                                          \
    }

SW_FORTRAN_NAMES(abort, ABORT, )
