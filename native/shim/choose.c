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

/* The rank that lays the file out is the only one that needs to know how. */
static void drop_layouts(struct sw_decided_set *set) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < set->count; i++)
        if (set->settings[i].carrier != SW_LAYOUT)
            set->settings[left++] = set->settings[i];
    set->count = left;
}

void sw_decide_open(const struct sw_opening *opening, struct sw_matches *matches, struct sw_orders *orders) {
    int64_t start = sw_now();
    if (opening->mode == SW_RUN_PREDICT)
        predict(opening, matches, orders);
    else if (opening->mode > SW_RUN_PREDICT)
        sw_phase_choose(opening, matches, orders);
    orders->decided = opening->mode > SW_RUN_APPLY;
    orders->nodes = opening->nodes;
    orders->seconds = sw_now() - start;
}

const char *sw_decided_note(enum sw_run_mode mode) {
    return mode == SW_RUN_ONLINE   ? SW_NOTE_TRIED
           : mode == SW_RUN_ORDERS ? SW_NOTE_ORDERED
                                   : SW_NOTE_PRESCRIBED;
}

/* What was decided for the open that this thread is in, in a layer above MPI-IO. */
static __thread struct {
    const char *path;
    const struct sw_orders *orders;
} foreseen __attribute__((tls_model("initial-exec")));

void sw_foresee(const char *path, const struct sw_orders *orders) {
    foreseen.path = path;
    foreseen.orders = orders;
}

const struct sw_orders *sw_foreseen(const char *path) {
    return foreseen.orders && strcmp(foreseen.path, path) == 0 ? foreseen.orders : NULL;
}

void sw_choose(const struct sw_opening *opening, struct sw_matches *matches, struct sw_orders *orders) {
    struct sw_decided_set fallback = {.count = 0}, dropped = {.count = 0};
    const struct sw_orders *before = sw_foreseen(opening->path);
    if (before) {
        *orders = *before;
        if (opening->mode == SW_RUN_ONLINE) /* the plan was one of the candidates */
            sw_matches_take(matches, true, &dropped);
    } else {
        sw_decide_open(opening, matches, orders);
    }
    sw_matches_decide(matches, &orders->decision.chosen, sw_decided_note(opening->mode));
    sw_layouts_apply(matches, opening->path, opening->amode, &fallback);
    drop_layouts(&orders->decision.chosen);
    sw_matches_decide(matches, &fallback, SW_NOTE_LAYOUT);
    for (uint32_t i = 0; i < fallback.count; i++)
        if (!sw_settings_get(&orders->decision.chosen, SW_HINT, fallback.settings[i].key))
            sw_settings_put(&orders->decision.chosen, SW_HINT, fallback.settings[i].key,
                            fallback.settings[i].value);
}

void sw_choose_as_told(const struct sw_opening *opening, struct sw_matches *matches,
                       struct sw_orders *orders) {
    struct sw_decided_set dropped = {.count = 0};
    drop_layouts(&orders->decision.chosen);
    if (opening->mode == SW_RUN_ONLINE)
        sw_matches_take(matches, false, &dropped);
    sw_matches_decide(matches, &orders->decision.chosen, NULL);
}

void sw_choice_record(const struct sw_orders *orders, struct sw_file *record) {
    if (!orders->decided)
        return;
    sw_lock_take(&record->lock);
    struct sw_choice_facts *facts = &record->facts.choice;
    facts->count++;
    facts->verdict = (uint32_t)orders->decision.verdict;
    facts->current = orders->decision.current;
    facts->predicted = orders->decision.predicted;
    facts->combinations = orders->decision.combinations;
    facts->seconds = orders->seconds;
    facts->broadcast = orders->broadcast;
    record->why = sw_arena_intern(&sw_runtime.files.arena, orders->decision.why);
    sw_lock_release(&record->lock);
}
