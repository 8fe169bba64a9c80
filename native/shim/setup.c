/* SPDX-License-Identifier: BSD-3-Clause */
#include "setup.h"

#include <stdlib.h>
#include <string.h>

struct sw_setup sw_setup;

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

bool sw_setup_read(void) {
    sw_setup.mode = variable(SW_ENV_MODE);
    sw_setup.plan = variable(SW_ENV_PLAN);
    sw_setup.report = variable(SW_ENV_REPORT);
    sw_setup.apply_asked = sw_setup.mode ? strcmp(sw_setup.mode, SW_MODE_APPLY) == 0 : sw_setup.plan != NULL;
    return sw_setup.mode || sw_setup.plan || sw_setup.report;
}

void sw_setup_check(void) {
    if (sw_setup.mode && !sw_setup.apply_asked && strcmp(sw_setup.mode, SW_MODE_OBSERVE) != 0)
        sw_complain(SW_ENV_MODE "=%.60s is not known (use " SW_MODE_OBSERVE " or " SW_MODE_APPLY
                                "); observing only",
                    sw_setup.mode);
    else if (sw_setup.apply_asked && !sw_setup.plan)
        sw_complain(SW_ENV_MODE "=" SW_MODE_APPLY " without " SW_ENV_PLAN "; observing only");
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

static void use_plan(bool apply) {
    const struct sw_plan *plan = &sw_runtime.plan;
    sw_runtime.apply = apply;
    for (size_t i = 0; i < plan->count; i++) {
        sw_runtime.hints |= plan->settings[i].layer == SW_HINT;
        sw_runtime.lays_out |= plan->settings[i].layer == SW_LAYOUT;
    }
}

static bool on_all_ranks(const struct sw_route *route, int here) {
    int everywhere = 0;
    sw_pmpi.Allreduce(&here, &everywhere, 1, MPI_INT, MPI_LAND, route->all);
    return everywhere;
}

void sw_setup_share_plan(const struct sw_route *route) {
    struct {
        uint64_t size;
        int good, apply;
    } plan = {0};
    char *text = NULL;
    size_t size = 0;
    if (route->rank == 0) {
        plan.good = read_plan(&text, &size);
        plan.apply = sw_setup.apply_asked && plan.good;
        plan.size = size;
    }
    sw_pmpi.Bcast(&plan, (int)sizeof plan, MPI_BYTE, 0, route->all);
    if (plan.good) {
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
        use_plan(plan.apply && good);
    }
    free(text);
}

void sw_setup_read_plan(void) {
    char *text = NULL;
    size_t size = 0;
    if (read_plan(&text, &size))
        use_plan(sw_setup.apply_asked);
    free(text);
}
