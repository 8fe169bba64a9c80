/* SPDX-License-Identifier: BSD-3-Clause */
#include "families.h"
#include "../core/reserved.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "setup.h"
#include "workload.h"

#define FAMILIES 64
#define OTHERS 8     /* alternatives asked of the model: some are not candidates */
#define REMEMBERED 8 /* the latest phases of a setting in the journal that count */

static struct sw_family families[FAMILIES];
static sw_lock sites_lock = ATOMIC_FLAG_INIT;
static uint64_t use_count;

static const char *keep(const char *text) {
    return sw_arena_intern(&sw_runtime.files.arena, text);
}

/* ---- families ---- */

/* The family of a name whose operation and pattern were last seen, made if need be. The lock is held. */
static struct sw_family *family_of(const char *name, bool write, char pattern) {
    struct sw_family *found = NULL, *oldest = &families[0];
    for (size_t i = 0; i < FAMILIES; i++) {
        struct sw_family *family = &families[i];
        if (family->used < oldest->used)
            oldest = family;
        if (family->name && family->write == write && strcmp(family->name, name) == 0 &&
            (pattern == '?' || family->pattern == '?' || family->pattern == pattern) &&
            (!found || family->used > found->used))
            found = family;
    }
    if (!found) {
        const char *kept = keep(name);
        if (!kept)
            return NULL;
        found = oldest;
        *found = (struct sw_family){.name = kept, .write = write, .pattern = pattern};
        sw_family_add(found, "", 0);
    }
    found->used = ++use_count;
    return found;
}

/* The family of a name for what the opening tells of the operation; if only the other operation was ever
 * measured there, the program does that. The lock is held. */
static struct sw_family *family_opened(const char *name, bool write) {
    struct sw_family *other = NULL;
    for (size_t i = 0; i < FAMILIES; i++) {
        struct sw_family *family = &families[i];
        if (!family->name || !family->phases || strcmp(family->name, name) != 0)
            continue;
        if (family->write == write)
            return family_of(name, write, '?');
        if (!other || family->used > other->used)
            other = family;
    }
    if (!other)
        return family_of(name, write, '?');
    other->used = ++use_count;
    return other;
}

/* ---- what earlier jobs knew ---- */

struct memory {
    const struct sw_opening *opening;
    struct sw_family *family;
    struct { /* of each settings, the latest costs */
        char settings[SW_JOURNAL_TEXT];
        double costs[REMEMBERED];
        uint32_t count;
    } known[8];
    unsigned kinds;
};

static void remember(const struct sw_phase *phase, void *context) {
    struct memory *memory = context;
    const struct sw_family *family = memory->family;
    if (strcmp(phase->site, family->name) != 0 || phase->write != family->write ||
        phase->ranks != (uint32_t)memory->opening->size || phase->nodes != (uint32_t)memory->opening->nodes ||
        (family->pattern != '?' && phase->pattern != family->pattern) ||
        (family->bytes > 0 && (phase->bytes > 2 * family->bytes || 2 * phase->bytes < family->bytes)))
        return;
    unsigned at = 0;
    while (at < memory->kinds && strcmp(memory->known[at].settings, phase->settings) != 0)
        at++;
    if (at == sizeof memory->known / sizeof *memory->known)
        return;
    if (at == memory->kinds) {
        memory->kinds++;
        memcpy(memory->known[at].settings, phase->settings, sizeof phase->settings);
        memory->known[at].count = 0;
    }
    memory->known[at].costs[memory->known[at].count++ % REMEMBERED] =
        sw_log(phase->seconds) - sw_log(phase->bytes);
}

/* Leaves the properties of HDF5. */
static void drop_others(struct sw_decided_set *set) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < set->count; i++)
        if (set->settings[i].carrier == SW_HDF5)
            set->settings[left++] = set->settings[i];
    set->count = left;
}

/* Candidates that earlier jobs measured, the cheapest first, then what they know of all. The lock is held. */
static void recall(struct sw_family *family, const struct sw_opening *opening) {
    char error[160], *text = NULL;
    size_t size = 0;
    struct memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return;
    memory->opening = opening;
    memory->family = family;
    if (!sw_journal_read(sw_setup.journal, &text, &size, error, sizeof error))
        sw_complain("journal %.300s cannot be read: %s; learning without it", sw_setup.journal, error);
    else
        sw_journal_each(text, size, remember, memory);
    free(text);
    double means[8];
    for (unsigned i = 0; i < memory->kinds; i++) {
        uint32_t count = memory->known[i].count < REMEMBERED ? memory->known[i].count : REMEMBERED;
        means[i] = 0;
        for (uint32_t k = 0; k < count; k++)
            means[i] += memory->known[i].costs[k] / count;
    }
    for (unsigned turn = 0; turn < memory->kinds; turn++) {
        unsigned best = 0;
        for (unsigned i = 1; i < memory->kinds; i++)
            if (means[i] < means[best])
                best = i;
        struct sw_decided_set set;
        bool usable = sw_settings_parse(memory->known[best].settings, &set);
        const uint32_t all = set.count;
        if (usable && opening->blind)
            drop_others(&set);
        const char *settings = usable && set.count == all ? keep(memory->known[best].settings) : NULL;
        int place = settings ? sw_family_add(family, settings, 0) : -1;
        if (place >= 0)
            sw_family_seed(family, (uint32_t)place, memory->known[best].count, means[best]);
        means[best] = INFINITY;
    }
    free(memory);
}

/* ---- candidates ---- */

static void add(struct sw_family *family, const struct sw_decided_set *set, double gain) {
    char text[SW_JOURNAL_TEXT];
    if (set->count && sw_settings_print(set, text, sizeof text)) {
        const char *kept = keep(text);
        if (kept)
            sw_family_add(family, kept, gain);
    }
}

/* The candidates of a family besides those of earlier jobs: the plan's, the model's choice and its next best.
 * The lock is held. */
static void ask(struct sw_family *family, const struct sw_opening *opening, const struct sw_matches *matches,
                const struct sw_decided_set *plan, struct sw_orders *orders) {
    add(family, plan, 0);
    const struct sw_model *model = sw_setup.model ? sw_process_model() : NULL;
    struct sw_other *others = model ? calloc(OTHERS, sizeof *others) : NULL;
    if (!others)
        return;
    struct sw_workload workload;
    struct sw_choice_context context;
    struct sw_scene scene;
    size_t count = OTHERS;
    sw_known_workload(opening, &workload);
    if (family->phases && strcmp(workload.text[SW_WORD_OPERATION], family->write ? "read" : "write") == 0)
        sw_workload_text(&workload, SW_WORD_OPERATION, family->write ? "write" : "read");
    sw_choice_scene(opening, matches, &context, &scene);
    sw_decide(model, &workload, &scene, &orders->decision, others, &count);
    add(family, &orders->decision.chosen, orders->decision.gain);
    for (size_t i = 0; i < count; i++)
        add(family, &others[i].set, others[i].gain);
    free(others);
    family->why = keep(orders->decision.why);
}

/* What somebody vouches for before the first phase has told what the family does: the plan's settings, or
 * what the model prescribes although it knows only what the opening tells. The lock is held. */
static void begin(struct sw_family *family, const struct sw_opening *opening, struct sw_matches *matches,
                  const struct sw_decided_set *plan, struct sw_orders *orders) {
    const struct sw_model *model = sw_setup.model && !plan->count ? sw_process_model() : NULL;
    struct sw_workload workload;
    struct sw_choice_context context;
    struct sw_scene scene;
    add(family, plan, 0);
    if (!model)
        return;
    sw_known_workload(opening, &workload);
    sw_choice_scene(opening, matches, &context, &scene);
    sw_decide(model, &workload, &scene, &orders->decision, NULL, NULL);
    add(family, &orders->decision.chosen, orders->decision.gain);
}

void sw_family_choose(const struct sw_opening *opening, struct sw_matches *matches,
                      struct sw_orders *orders) {
    char name[SW_MAX_PATH];
    struct sw_workload known;
    struct sw_decided_set plan = {.count = 0};
    sw_matches_take(matches, opening->hdf5, &plan);
    if (opening->blind)
        drop_others(&plan);
    sw_known_workload(opening, &known);
    bool write = !known.known[SW_WORD_OPERATION] || strcmp(known.text[SW_WORD_OPERATION], "read") != 0;
    if (!sw_fold_digits(opening->path, name, sizeof name)) {
        snprintf(orders->decision.why, sizeof orders->decision.why,
                 "the path is too long to be a file family");
        return;
    }
    sw_lock_take(&sites_lock);
    struct sw_family *family = family_opened(name, write);
    if (family) {
        if (sw_setup.journal && !family->recalled) {
            family->recalled = true;
            recall(family, opening);
        }
        /* The first phase, or an earlier job, tells what the family does; before that a model knows too
         * little to name more than one candidate. */
        bool known_before = family->phases;
        for (uint32_t i = 0; i < family->count; i++)
            known_before |= family->candidates[i].count > 0;
        if (!family->asked && known_before) {
            family->asked = true;
            ask(family, opening, matches, &plan, orders);
        } else if (!family->asked && family->count == 1) {
            begin(family, opening, matches, &plan, orders);
        }
        uint32_t choice = sw_family_pick(family);
        const struct sw_candidate *candidate = &family->candidates[choice];
        orders->family = (uint32_t)(family - families);
        orders->candidate = choice;
        orders->tracked = true;
        sw_settings_parse(candidate->settings, &orders->decision.chosen);
        orders->decision.verdict = choice ? SW_CHANGED : SW_KEPT;
        const char *does = family->write ? "writing" : "reading";
        if (family->asked && family->count == 1)
            snprintf(orders->decision.why, sizeof orders->decision.why,
                     "phase %u of %s: the default, since nothing is worth trying (%s)",
                     (unsigned)family->phases + 1, does,
                     family->why ? family->why : "the plan has no settings for it");
        else
            snprintf(orders->decision.why, sizeof orders->decision.why, "phase %u of %s: %s %u of %u (%s)",
                     (unsigned)family->phases + 1, does,
                     family->settled ? "keeping candidate" : "trying candidate", (unsigned)choice,
                     (unsigned)family->count - 1, choice ? candidate->settings : "the default");
    }
    sw_lock_release(&sites_lock);
}

bool sw_family_measured(uint32_t number, uint32_t candidate, const char *path, struct sw_phase *phase) {
    bool fits = sw_fold_digits(path, phase->site, sizeof phase->site);
    sw_lock_take(&sites_lock);
    struct sw_family *family = &families[number];
    /* Many other families may have been opened meanwhile, and one of them have taken the place. */
    bool named = fits && family->name && strcmp(family->name, phase->site) == 0;
    const char *settings = named && candidate < family->count ? family->candidates[candidate].settings : NULL;
    bool same = settings && family->write == phase->write;
    if (same && family->pattern == '?')
        family->pattern = phase->pattern;
    if (same && family->pattern == phase->pattern) {
        sw_family_learn(family, candidate, phase->bytes, phase->seconds);
    } else if (fits) {
        /* It turned out another family: what it began with counts as that family's first phase. */
        family = family_of(phase->site, phase->write, phase->pattern);
        int place = 0;
        if (family && candidate)
            place = settings && !family->phases ? sw_family_add(family, settings, 0) : -1;
        if (family && place >= 0)
            sw_family_learn(family, (uint32_t)place, phase->bytes, phase->seconds);
    }
    if (settings)
        snprintf(phase->settings, sizeof phase->settings, "%s", settings);
    sw_lock_release(&sites_lock);
    return fits && settings && phase->bytes > 0 && phase->seconds > 0;
}

const struct sw_family *sw_families_learned(size_t *count) {
    static struct sw_family learned[FAMILIES]; /* at exit other threads may be within opens */
    sw_lock_take(&sites_lock);
    for (size_t i = 0; i < FAMILIES; i++)
        if (families[i].name)
            sw_family_pick(&families[i]);
    memcpy(learned, families, sizeof learned);
    sw_lock_release(&sites_lock);
    *count = FAMILIES;
    return learned;
}
