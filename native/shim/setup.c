/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime.h"
#include "setup.h"

void sw_complain(const char *format, ...) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    char line[600];
    if (sw_runtime.silent || atomic_flag_test_and_set(&said))
        return;
    va_list arguments;
    va_start(arguments, format);
    int length = snprintf(line, sizeof line, "stripewise: ");
    length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof line - 2)
        length = (int)sizeof line - 2;
    line[length++] = '\n';
    /* One write: lines of many processes do not mix. There is nobody to tell if it fails. */
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)length);
    (void)ignored;
}

struct sw_setup sw_setup;

/* A setuid program, into which only the site can load the library, does not let its user choose files. */
static const char *variable(const char *name) {
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

const char *const sw_run_mode_names[SW_RUN_MODES] = {SW_MODE_NAMES};

/* SW_RUN_MODES if the mode is unknown. */
static enum sw_run_mode mode_of(const char *name) {
    int mode = 0;
    while (mode < SW_RUN_MODES && strcmp(name, sw_run_mode_names[mode]) != 0)
        mode++;
    return (enum sw_run_mode)mode;
}

/* What the mode lacks, or NULL. */
static const char *lacking(enum sw_run_mode mode) {
    if (mode == SW_RUN_APPLY && !sw_setup.plan)
        return SW_ENV_PLAN;
    if (mode == SW_RUN_PREDICT && !sw_setup.model)
        return SW_ENV_MODEL;
    if (mode == SW_RUN_ORDERS && !sw_setup.orders)
        return SW_ENV_ORDERS;
    return mode == SW_RUN_ONLINE && !sw_setup.model && !sw_setup.plan ? SW_ENV_MODEL " or " SW_ENV_PLAN
                                                                      : NULL;
}

bool sw_setup_read(void) {
    sw_setup.mode = variable(SW_ENV_MODE);
    sw_setup.plan = variable(SW_ENV_PLAN);
    sw_setup.report = variable(SW_ENV_REPORT);
    const char *reports = variable(SW_ENV_REPORTS);
    sw_setup.each_report = reports && strcmp(reports, "each") == 0;
    sw_setup.model = variable(SW_ENV_MODEL);
    sw_setup.journal = variable(SW_ENV_JOURNAL);
    sw_setup.orders = variable(SW_ENV_ORDERS);
    sw_setup.record = variable(SW_ENV_RECORD);
    const char *level = variable(SW_ENV_RECORD_LEVEL);
    sw_setup.record_mpiio = level && strcmp(level, "mpi-io") == 0;
    const char *settle = variable(SW_ENV_SETTLE);
    sw_setup.settle = settle && strcmp(settle, "1") == 0;
    if (variable(SW_ENV_WHERE))
        *(void **)&sw_setup.moved_from = dlsym(RTLD_DEFAULT, SW_MOVED_FROM);
    sw_setup.workload = variable(SW_ENV_WORKLOAD);
    sw_setup.asked = sw_setup.mode ? mode_of(sw_setup.mode) : sw_setup.plan ? SW_RUN_APPLY : SW_RUN_OBSERVE;
    if (sw_setup.asked == SW_RUN_MODES || lacking(sw_setup.asked))
        sw_setup.asked = SW_RUN_OBSERVE;
    return sw_setup.mode || sw_setup.plan || sw_setup.report || sw_setup.record;
}

void sw_setup_check(void) {
    enum sw_run_mode mode = sw_setup.mode ? mode_of(sw_setup.mode) : SW_RUN_OBSERVE;
    if (mode == SW_RUN_MODES)
        sw_complain(SW_ENV_MODE "=%.60s is unknown (use " SW_MODE_LIST "); observing only", sw_setup.mode);
    else if (lacking(mode))
        sw_complain(SW_ENV_MODE "=%s without %s; observing only", sw_setup.mode, lacking(mode));
}

static bool parse(const char *text, size_t size) {
    return sw_plan_parse(text, size, &sw_runtime.plan, sw_setup.plan_error, sizeof sw_setup.plan_error);
}

/* Reads and parses the plan; true if it is good. *text is to be freed in any case. */
static bool read_plan(char **text, size_t *size) {
    if (!sw_setup.plan)
        return false;
    bool good = sw_plan_read(sw_setup.plan, text, size, sw_setup.plan_error, sizeof sw_setup.plan_error) &&
                parse(*text, *size);
    if (!good)
        sw_complain(
            "plan %.300s %s%s; running without it", sw_setup.plan,
            strncmp(sw_setup.plan_error, "line ", 5) == 0 ? "" : "cannot be read: ", sw_setup.plan_error);
    return good;
}

static void use(enum sw_run_mode mode) {
    const struct sw_plan *plan = &sw_runtime.plan;
    sw_runtime.mode = mode;
    sw_runtime.apply = mode != SW_RUN_OBSERVE;
    for (size_t i = 0; i < plan->count; i++) {
        sw_runtime.hints |= plan->settings[i].carrier == SW_HINT;
        sw_runtime.lays_out |= plan->settings[i].carrier == SW_LAYOUT;
    }
}

/* A plan that cannot be read might have held back what a model would do: nothing is done at all then. */
static enum sw_run_mode allowed(bool plan_is_good) {
    return sw_setup.plan && !plan_is_good ? SW_RUN_OBSERVE : sw_setup.asked;
}

static bool on_all_ranks(const struct sw_route *route, int here) {
    int everywhere = 0;
    sw_pmpi.Allreduce(&here, &everywhere, 1, MPI_INT, MPI_LAND, route->all);
    return everywhere;
}

void sw_setup_share_plan(const struct sw_route *route) {
    struct {
        uint64_t size;
        int good, mode, records, mpiio;
    } plan = {0};
    char *text = NULL;
    size_t size = 0;
    if (route->rank == 0) {
        plan.good = read_plan(&text, &size);
        plan.mode = (int)allowed(plan.good);
        plan.size = size;
        plan.records = sw_setup.record != NULL;
        plan.mpiio = sw_setup.record_mpiio;
    }
    sw_pmpi.Bcast(&plan, (int)sizeof plan, MPI_BYTE, 0, route->all);
    sw_setup.record_mpiio = plan.mpiio;
    if (!plan.records)
        sw_setup.record = NULL;
    else if (!sw_setup.record)
        sw_setup.record = ""; /* rank 0 knows where to write */
    if (!plan.good) {
        use((enum sw_run_mode)plan.mode);
    } else {
        if (route->rank != 0)
            text = malloc(plan.size + 1);
        bool good = on_all_ranks(route, text != NULL);
        if (good) {
            sw_pmpi.Bcast(text, (int)plan.size, MPI_BYTE, 0, route->all);
            good = on_all_ranks(route, route->rank == 0 || parse(text, plan.size));
        }
        if (!good) {
            sw_complain("no memory for the plan on some rank; running without it");
            sw_plan_free(&sw_runtime.plan);
        }
        use(good ? (enum sw_run_mode)plan.mode : SW_RUN_OBSERVE);
    }
    free(text);
}

void sw_setup_read_plan(void) {
    char *text = NULL;
    size_t size = 0;
    use(allowed(read_plan(&text, &size)));
    free(text);
}
