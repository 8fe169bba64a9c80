/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "lifecycle.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "families.h"
#include "posix.h"
#include "recording.h"
#include "report.h"
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
