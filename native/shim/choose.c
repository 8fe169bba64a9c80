/* SPDX-License-Identifier: BSD-3-Clause */
#include "choose.h"

#include <stdio.h>
#include <string.h>

#include "phases.h"

static void say(struct sw_orders *orders, const char *format, const char *what) {
    size_t used = strlen(orders->decision.why);
    snprintf(orders->decision.why + used, sizeof orders->decision.why - used, format, what);
}

static void predict(const struct sw_opening *opening, struct sw_matches *matches, struct sw_orders *orders) {
    struct sw_workload workload;
    struct sw_choice_context context;
    struct sw_scene scene;
    const struct sw_model *own = sw_process_model();
    if (!own) {
        say(orders, "the model cannot be read: %s", sw_process_model_error());
        return;
    }
    sw_known_workload(opening, &workload);
    sw_choice_scene(opening, matches, &context, &scene);
    sw_decide(own, &workload, &scene, &orders->decision, NULL, NULL);
    if (*context.why_not && scene.place)
        say(orders, "; no layout is chosen: %s", context.why_not);
}

/* What goes to all ranks: the hints. */
static void keep_hints(struct sw_decided_set *set) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < set->count; i++)
        if (set->settings[i].carrier == SW_HINT)
            set->settings[left++] = set->settings[i];
    set->count = left;
}

void sw_choose(const struct sw_opening *opening, struct sw_matches *matches, struct sw_orders *orders) {
    int64_t start = sw_now();
    struct sw_decided_set fallback = {.count = 0};
    if (opening->mode == SW_RUN_PREDICT)
        predict(opening, matches, orders);
    else if (opening->mode == SW_RUN_ONLINE)
        sw_phase_choose(opening, matches, orders);
    orders->decided = opening->mode > SW_RUN_APPLY;
    orders->seconds = sw_now() - start;
    sw_matches_decide(matches, &orders->decision.chosen,
                      opening->mode == SW_RUN_ONLINE ? SW_NOTE_TRIED : SW_NOTE_PRESCRIBED);
    sw_layouts_apply(matches, opening->path, opening->amode, &fallback);
    keep_hints(&orders->decision.chosen);
    sw_matches_decide(matches, &fallback, SW_NOTE_LAYOUT);
    for (uint32_t i = 0; i < fallback.count; i++)
        if (!sw_settings_get(&orders->decision.chosen, SW_HINT, fallback.settings[i].key))
            sw_settings_put(&orders->decision.chosen, SW_HINT, fallback.settings[i].key,
                            fallback.settings[i].value);
}
