/* SPDX-License-Identifier: BSD-3-Clause
 * MPI sessions: a process may do MPI-IO without ever calling MPI_Init. Nothing is collective when a session
 * begins or ends, so the records travel along the first communicator of several ranks that opens a file, at
 * the end of the process's last session; ranks outside it are missing from the report, which then says that
 * it is not complete. A library that HDF5 loads as a connector begins and ends in the same way. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "fortran_names.h"
#include "mpi_comm.h"
#include "mpi_init.h"
#include "setup.h"

#ifndef MPI_SESSION_NULL
/* This MPI knows no sessions when the library is built; in MPICH's ABI the handle is an int, should the
 * program's MPI know them. */
typedef int MPI_Session;
#endif

#define WORLD_SET "mpi://WORLD"

static struct sw_route route;
static atomic_bool has_route; /* or a thread is finding out whether there is one */
static atomic_int open_sessions;
static atomic_bool started;
static int world_rank = -1, world_size; /* of the process set; -1: unknown */

/* Rank and size of the job, without a collective call. */
static void find_place(MPI_Session session) {
    int (*group_of)(MPI_Session, const char *, MPI_Group *) =
        (int (*)(MPI_Session, const char *, MPI_Group *))sw_next("PMPI_Group_from_session_pset");
    int (*group_rank)(MPI_Group, int *) = (int (*)(MPI_Group, int *))sw_next("PMPI_Group_rank");
    int (*group_size)(MPI_Group, int *) = (int (*)(MPI_Group, int *))sw_next("PMPI_Group_size");
    MPI_Group group;
    if (!group_of || !group_rank || !group_size || group_of(session, WORLD_SET, &group) != MPI_SUCCESS)
        return;
    group_rank(group, &world_rank);
    group_size(group, &world_size);
    sw_comm_set_world(group);
}

static void begin_here(void) {
    sw_runtime.silent = world_rank != 0;
    if (!sw_lifecycle_prepare())
        return;
    sw_setup_check();
    sw_setup_read_plan();
    sw_lifecycle_begin();
}

static void begin(MPI_Session session) {
    atomic_fetch_add(&open_sessions, 1);
    if (sw_world_is_up() || atomic_exchange(&started, true) || !sw_setup_read() || !sw_pmpi_load())
        return;
    find_place(session);
    begin_here();
}

/* Before a session ends: the last one takes the records with it. */
static void end(void) {
    if (atomic_fetch_sub(&open_sessions, 1) != 1 || !sw_runtime.active || sw_world_is_up())
        return;
    /* The root of the route speaks if it is the job's first rank: two reports would replace each other. */
    uint64_t ranks = world_size > 0 ? (uint64_t)world_size : route.ready ? (uint64_t)route.size : 1;
    sw_lifecycle_report(route.ready ? &route : NULL, ranks, world_rank <= 0);
    if (route.ready)
        sw_route_close(&route);
}

void sw_session_opened(MPI_Comm comm) {
    int size = 1;
    if (sw_world_is_up())
        return;
    sw_pmpi.Comm_size(comm, &size);
    if (size == 1)
        return;
    /* Only a communicator all of whose ranks are still without a route, so that each rank has exactly one. */
    int free_here = !atomic_exchange(&has_route, true), free_everywhere = 0;
    sw_pmpi.Allreduce(&free_here, &free_everywhere, 1, MPI_INT, MPI_LAND, comm);
    if (free_here && !(free_everywhere && sw_route_open(&route, comm)))
        atomic_store(&has_route, false);
}

/* ---- as a connector ---- */

/* MPI's own functions for this would bind the library to it. */
static int not_copied(MPI_Comm self, int key, void *extra, void *value, void *copy, int *wanted) {
    (void)self, (void)key, (void)extra, (void)value, (void)copy;
    *wanted = 0;
    return MPI_SUCCESS;
}

static int ending(MPI_Comm self, int key, void *value, void *extra) {
    (void)self, (void)key, (void)value, (void)extra;
    end();
    return MPI_SUCCESS;
}

/* Has the program's MPI the binary interface that this library was built for? */
static bool is_our_abi(void) {
    Dl_info library;
    bool standard = dladdr(sw_next("PMPI_Init"), &library) && strstr(library.dli_fname, "libmpi_abi.");
#ifdef SW_STANDARD_ABI
    return standard;
#elif defined(OPEN_MPI)
    return !standard && sw_predefined("ompi_mpi_comm_world") != NULL;
#else
    return !standard && !sw_predefined("ompi_mpi_comm_world");
#endif
}

static bool mpi_runs(void) {
    int (*initialized)(int *) = (int (*)(int *))sw_next("PMPI_Initialized");
    int (*finalized)(int *) = (int (*)(int *))sw_next("PMPI_Finalized");
    int begun = 0, over = 0;
    return initialized && finalized && is_our_abi() && initialized(&begun) == MPI_SUCCESS &&
           finalized(&over) == MPI_SUCCESS && begun && !over;
}

bool sw_session_connected(void) {
    static atomic_bool connected;
    int (*create)(MPI_Comm_copy_attr_function *, MPI_Comm_delete_attr_function *, int *, void *) = NULL;
    int (*set)(MPI_Comm, int, void *) = NULL;
    int key = 0;
    MPI_Group group;
    MPI_Comm parent = MPI_COMM_NULL;
    /* Where MPI_Init or MPI_Session_init went through this library, they have done it. */
    if (sw_world_is_up() || atomic_load(&open_sessions) || atomic_load(&started) || !mpi_runs())
        return atomic_load(&connected);
    if (atomic_exchange(&started, true) || !sw_setup_read() || !sw_pmpi_load())
        return false;
    sw_pmpi.Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return false;
    *(void **)&create = sw_next("PMPI_Comm_create_keyval");
    *(void **)&set = sw_next("PMPI_Comm_set_attr");
    if (!create || !set || create(not_copied, ending, &key, NULL) != MPI_SUCCESS ||
        set(MPI_COMM_SELF, key, NULL) != MPI_SUCCESS)
        return false;
    sw_pmpi.Comm_rank(MPI_COMM_WORLD, &world_rank);
    sw_pmpi.Comm_size(MPI_COMM_WORLD, &world_size);
    if (sw_pmpi.Comm_group(MPI_COMM_WORLD, &group) == MPI_SUCCESS)
        sw_comm_set_world(group);
    atomic_fetch_add(&open_sessions, 1);
    begin_here();
    atomic_store(&connected, true);
    return true;
}

SW_EXPORT int MPI_Session_init(MPI_Info info, MPI_Errhandler handler, MPI_Session *session) {
    static int (*_Atomic found)(MPI_Info, MPI_Errhandler, MPI_Session *);
    SW_RESOLVE_OR_FAIL(next, found, "MPI_Session_init");
    int code = next(info, handler, session);
    if (code == MPI_SUCCESS)
        begin(*session);
    return code;
}

SW_EXPORT int MPI_Session_finalize(MPI_Session *session) {
    static int (*_Atomic found)(MPI_Session *);
    SW_RESOLVE_OR_FAIL(next, found, "MPI_Session_finalize");
    end();
    return next(session);
}

#if defined(MPI_SESSION_NULL) && !defined(SW_STANDARD_ABI)
#ifdef OPEN_MPI
static MPI_Session from_fortran(MPI_Fint session) {
    MPI_Session (*convert)(MPI_Fint) = (MPI_Session (*)(MPI_Fint))sw_next("PMPI_Session_f2c");
    return convert ? convert(session) : MPI_SESSION_NULL;
}
#else
static MPI_Session from_fortran(MPI_Fint session) {
    return (MPI_Session)session;
}
#endif

/* Where one of these calls another, or a C function, a session counts twice, and its end too: the last end
 * stays the last. */
#define INIT(NAME, OP)                                                                                       \
    SW_EXPORT void NAME(MPI_Fint *info, MPI_Fint *handler, MPI_Fint *session, MPI_Fint *ierr) {              \
        static void (*_Atomic found)(MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);                        \
        MPI_Fint spare = MPI_ERR_INTERN, *error = ierr ? ierr : &spare;                                      \
        SW_RESOLVE(next, found, #NAME);                                                                      \
        *error = MPI_ERR_INTERN;                                                                             \
        if (next)                                                                                            \
            next(info, handler, session, error);                                                             \
        if (*error == MPI_SUCCESS)                                                                           \
            begin(from_fortran(*session));                                                                   \
    }

#define FINALIZE(NAME, OP)                                                                                   \
    SW_EXPORT void NAME(MPI_Fint *session, MPI_Fint *ierr) {                                                 \
        static void (*_Atomic found)(MPI_Fint *, MPI_Fint *);                                                \
        SW_RESOLVE(next, found, #NAME);                                                                      \
        end();                                                                                               \
        if (next)                                                                                            \
            next(session, ierr);                                                                             \
        else if (ierr)                                                                                       \
            *ierr = MPI_ERR_INTERN;                                                                          \
    }

SW_FORTRAN_NAMES(session_init, INIT, )
SW_FORTRAN_NAMES(session_finalize, FINALIZE, )
#endif
