/* SPDX-License-Identifier: BSD-3-Clause
 * The runtime needs the preload on every rank of MPI_COMM_WORLD or on none, as every library that talks at
 * MPI_Init does. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "families.h"
#include "fortran_names.h"
#include "helper.h"
#include "mpi_comm.h"
#include "mpi_init.h"
#include "recording.h"
#include "report.h"
#include "runtime.h"
#include "setup.h"

struct sw_runtime sw_runtime;

/* A forked child holds copies of the records and perhaps of taken locks: it must touch neither. */
static void in_child(void) {
    sw_runtime.active = false;
    sw_runtime.silent = true;
}

bool sw_lifecycle_prepare(void) {
    if (!sw_files_open(&sw_runtime.files, SW_MEMORY_BUDGET, SW_MAX_FILES, SW_MAX_DATASETS)) {
        sw_complain("no memory for records; running without them");
        return false;
    }
    sw_runtime.files.evict = sw_posix_forget;
    pthread_atfork(NULL, NULL, in_child);
    return true;
}

void sw_lifecycle_begin(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    sw_runtime.start = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
    sw_clock_start();
    sw_runtime.zero = sw_now();
    sw_runtime.active = true;
}

static void write_report(uint64_t ranks, const struct sw_job *job, struct sw_files *files) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "", executable[SW_MAX_PATH], error[200];
    int length = 0;
    sw_pmpi.Get_library_version(library, &length);
    library[strcspn(library, "\n")] = '\0';
    ssize_t size = readlink("/proc/self/exe", executable, sizeof executable - 1);
    executable[size > 0 ? size : 0] = '\0';
    struct sw_report report = {
        .mode = sw_run_mode_names[sw_runtime.mode],
        .plan = sw_setup.plan,
        .plan_id = *sw_runtime.plan.id ? sw_runtime.plan.id : NULL,
        .plan_error = *sw_setup.plan_error ? sw_setup.plan_error : NULL,
        .mpi_library = library,
        .mpi_abi = SW_MPI_ABI,
        .default_io = SW_DEFAULT_IO(library),
        .executable = executable,
        .ranks = ranks,
        .start = sw_runtime.start,
        .job = *job,
        .files = files,
        .each = sw_setup.each_report,
        .hurried = sw_lock_is_impatient(),
    };
    if (sw_runtime.mode == SW_RUN_ONLINE)
        report.families = sw_families_learned(&report.family_count);
    if (!sw_report_write(&report, sw_setup.report, error, sizeof error))
        sw_complain("report %.300s cannot be written: %s", sw_setup.report, error);
}

void sw_lifecycle_report(const struct sw_route *route, uint64_t ranks, bool speaks) {
    int64_t now = sw_now();
    sw_runtime.active = false;
    sw_helper_end();
    sw_handles_flush(now);
    struct sw_job job = {.ranks_reported = 1, .nodes = 1, .elapsed = now - sw_runtime.zero};
    sw_job_times(&job, &sw_runtime.files);
    struct sw_files merged;
    if (sw_gather(route, &job, &sw_runtime.files, &merged)) {
        if (speaks && sw_setup.report)
            write_report(ranks, &job, &merged);
        sw_files_close(&merged);
    } else if (!route || route->rank == 0) {
        sw_complain("no memory for the report");
    }
    sw_record_end(route, ranks, &job, speaks);
}

static struct sw_route route;
static atomic_bool started, finished, up;
static pid_t process;

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

/* Of a child that was made by a system call alone, in_child was not called. */
static void at_exit(void) {
    if (!sw_runtime.silent && getpid() == process)
        interrupted();
}

void sw_world_started(void) {
    if (atomic_exchange(&started, true) || !sw_setup_read())
        return;
    if (!sw_pmpi_load()) {
        sw_complain("this MPI library lacks functions the runtime needs; running without it");
        return;
    }
    int rank = 0, level = MPI_THREAD_MULTIPLE;
    MPI_Comm parent = MPI_COMM_NULL;
    sw_pmpi.Comm_rank(MPI_COMM_WORLD, &rank);
    sw_pmpi.Comm_get_parent(&parent);
    /* The processes that MPI_Comm_spawn starts inherit the environment, but the report is their parents'. */
    if (parent != MPI_COMM_NULL)
        return;
    sw_runtime.silent = rank != 0;
    if (!sw_route_open(&route, MPI_COMM_WORLD))
        return;
    sw_pmpi.Query_thread(&level);
    int here[2] = {sw_lifecycle_prepare(), level != MPI_THREAD_MULTIPLE}, everywhere[2] = {0, 0};
    sw_pmpi.Allreduce(here, everywhere, 2, MPI_INT, MPI_LAND, route.all);
    sw_runtime.threaded = !everywhere[1];
    if (!everywhere[0]) {
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
    process = getpid();
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
