/* SPDX-License-Identifier: BSD-3-Clause */
#include "sites.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "setup.h"

#define SITES 64
#define OTHERS 8     /* alternatives asked of the model: some are not candidates */
#define REMEMBERED 8 /* the latest phases of a setting in the journal that count */

static struct sw_site sites[SITES];
static sw_lock sites_lock = ATOMIC_FLAG_INIT;
static uint64_t use_count;

static const char *keep(const char *text) {
    return sw_arena_intern(&sw_runtime.files.arena, text);
}

/* ---- sites ---- */

/* The site of a name whose operation and pattern were last seen, made if need be. The lock is held. */
static struct sw_site *site_of(const char *name, bool write, char pattern) {
    struct sw_site *found = NULL, *oldest = &sites[0];
    for (size_t i = 0; i < SITES; i++) {
        struct sw_site *site = &sites[i];
        if (site->used < oldest->used)
            oldest = site;
        if (site->name && site->write == write && strcmp(site->name, name) == 0 &&
            (pattern == '?' || site->pattern == '?' || site->pattern == pattern) &&
            (!found || site->used > found->used))
            found = site;
    }
    if (!found) {
        const char *kept = keep(name);
        if (!kept)
            return NULL;
        found = oldest;
        *found = (struct sw_site){.name = kept, .write = write, .pattern = pattern};
        sw_site_add(found, "", 0);
    }
    found->used = ++use_count;
    return found;
}

/* The site of a name for what the opening tells of the operation; if only the other operation was ever
 * measured there, the program does that. The lock is held. */
static struct sw_site *site_opened(const char *name, bool write) {
    struct sw_site *other = NULL;
    for (size_t i = 0; i < SITES; i++) {
        struct sw_site *site = &sites[i];
        if (!site->name || !site->phases || strcmp(site->name, name) != 0)
            continue;
        if (site->write == write)
            return site_of(name, write, '?');
        if (!other || site->used > other->used)
            other = site;
    }
    if (!other)
        return site_of(name, write, '?');
    other->used = ++use_count;
    return other;
}

/* ---- what earlier jobs knew ---- */

struct memory {
    const struct sw_opening *opening;
    struct sw_site *site;
    struct { /* of each settings, the latest costs */
        char settings[SW_JOURNAL_TEXT];
        double costs[REMEMBERED];
        uint32_t count;
    } known[8];
    unsigned kinds;
};

static void remember(const struct sw_phase *phase, void *context) {
    struct memory *memory = context;
    const struct sw_site *site = memory->site;
    if (strcmp(phase->site, site->name) != 0 || phase->write != site->write ||
        phase->ranks != (uint32_t)memory->opening->size || phase->nodes != (uint32_t)memory->opening->nodes ||
        (site->pattern != '?' && phase->pattern != site->pattern) ||
        (site->bytes > 0 && (phase->bytes > 2 * site->bytes || 2 * phase->bytes < site->bytes)))
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
    memory->known[at].costs[memory->known[at].count++ % REMEMBERED] = log(phase->seconds) - log(phase->bytes);
}

/* Candidates that earlier jobs measured, the cheapest first, then what they know of all. The lock is held. */
static void recall(struct sw_site *site, const struct sw_opening *opening) {
    char error[160], *text = NULL;
    size_t size = 0;
    struct memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return;
    memory->opening = opening;
    memory->site = site;
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
        const char *settings =
            sw_settings_parse(memory->known[best].settings, &set) ? keep(memory->known[best].settings) : NULL;
        int place = settings ? sw_site_add(site, settings, 0) : -1;
        if (place >= 0)
            sw_site_seed(site, (uint32_t)place, memory->known[best].count, means[best]);
        means[best] = INFINITY;
    }
    free(memory);
}

/* ---- candidates ---- */

static void add(struct sw_site *site, const struct sw_decided_set *set, double gain) {
    char text[SW_JOURNAL_TEXT];
    if (set->count && sw_settings_print(set, text, sizeof text)) {
        const char *kept = keep(text);
        if (kept)
            sw_site_add(site, kept, gain);
    }
}

/* The candidates of a site besides those of earlier jobs: the plan's, the model's choice and its next best.
 * The lock is held. */
static void ask(struct sw_site *site, const struct sw_opening *opening, const struct sw_matches *matches,
                const struct sw_decided_set *plan, struct sw_orders *orders) {
    add(site, plan, 0);
    const struct sw_model *model = sw_setup.model ? sw_process_model() : NULL;
    struct sw_other *others = model ? calloc(OTHERS, sizeof *others) : NULL;
    if (!others)
        return;
    struct sw_workload workload;
    struct sw_choice_context context;
    struct sw_scene scene;
    size_t count = OTHERS;
    sw_known_workload(opening, &workload);
    if (site->phases && strcmp(workload.text[SW_WORD_OPERATION], site->write ? "read" : "write") == 0)
        sw_workload_text(&workload, SW_WORD_OPERATION, site->write ? "write" : "read");
    sw_choice_scene(opening, matches, &context, &scene);
    sw_decide(model, &workload, &scene, &orders->decision, others, &count);
    add(site, &orders->decision.chosen, orders->decision.gain);
    for (size_t i = 0; i < count; i++)
        add(site, &others[i].set, others[i].gain);
    free(others);
    site->why = keep(orders->decision.why);
}

void sw_site_choose(const struct sw_opening *opening, struct sw_matches *matches, struct sw_orders *orders) {
    char name[SW_MAX_PATH];
    struct sw_workload known;
    struct sw_decided_set plan = {.count = 0};
    sw_matches_take(matches, opening->hdf5, &plan);
    sw_known_workload(opening, &known);
    bool write = !known.known[SW_WORD_OPERATION] || strcmp(known.text[SW_WORD_OPERATION], "read") != 0;
    if (!sw_fold_digits(opening->path, name, sizeof name)) {
        snprintf(orders->decision.why, sizeof orders->decision.why, "the path is too long to be a site");
        return;
    }
    sw_lock_take(&sites_lock);
    struct sw_site *site = site_opened(name, write);
    if (site) {
        if (sw_setup.journal && !site->recalled) {
            site->recalled = true;
            recall(site, opening);
        }
        /* The first phase, or an earlier job, tells what the site does; a model asked before that would
         * guess. */
        bool known_before = site->phases;
        for (uint32_t i = 0; i < site->count; i++)
            known_before |= site->candidates[i].count > 0;
        if (!site->asked && known_before) {
            site->asked = true;
            ask(site, opening, matches, &plan, orders);
        }
        uint32_t choice = sw_site_pick(site);
        const struct sw_candidate *candidate = &site->candidates[choice];
        orders->site = (uint32_t)(site - sites);
        orders->candidate = choice;
        orders->tracked = true;
        sw_settings_parse(candidate->settings, &orders->decision.chosen);
        orders->decision.verdict = choice ? SW_CHANGED : SW_KEPT;
        const char *does = site->write ? "writing" : "reading";
        if (site->asked && site->count == 1)
            snprintf(orders->decision.why, sizeof orders->decision.why,
                     "phase %u of %s: the default, since nothing is worth trying (%s)",
                     (unsigned)site->phases + 1, does,
                     site->why ? site->why : "the plan has no settings for it");
        else
            snprintf(orders->decision.why, sizeof orders->decision.why, "phase %u of %s: %s %u of %u (%s)",
                     (unsigned)site->phases + 1, does,
                     site->settled ? "keeping candidate" : "trying candidate", (unsigned)choice,
                     (unsigned)site->count - 1, choice ? candidate->settings : "the default");
    }
    sw_lock_release(&sites_lock);
}

bool sw_site_measured(uint32_t number, uint32_t candidate, const char *path, struct sw_phase *phase) {
    bool fits = sw_fold_digits(path, phase->site, sizeof phase->site);
    sw_lock_take(&sites_lock);
    struct sw_site *site = &sites[number];
    /* Many other sites may have been opened meanwhile, and one of them have taken the place. */
    bool named = fits && site->name && strcmp(site->name, phase->site) == 0;
    const char *settings = named && candidate < site->count ? site->candidates[candidate].settings : NULL;
    bool same = settings && site->write == phase->write;
    if (same && site->pattern == '?')
        site->pattern = phase->pattern;
    if (same && site->pattern == phase->pattern) {
        sw_site_learn(site, candidate, phase->bytes, phase->seconds);
    } else if (fits) {
        /* It turned out another site: what it began with counts as that site's first phase if it was the
         * default's. */
        site = site_of(phase->site, phase->write, phase->pattern);
        if (site && candidate == 0)
            sw_site_learn(site, 0, phase->bytes, phase->seconds);
    }
    if (settings)
        snprintf(phase->settings, sizeof phase->settings, "%s", settings);
    sw_lock_release(&sites_lock);
    return fits && settings && phase->bytes > 0 && phase->seconds > 0;
}

const struct sw_site *sw_sites_learned(size_t *count) {
    static struct sw_site learned[SITES]; /* at exit other threads may be within opens */
    sw_lock_take(&sites_lock);
    for (size_t i = 0; i < SITES; i++)
        if (sites[i].name)
            sw_site_pick(&sites[i]);
    memcpy(learned, sites, sizeof learned);
    sw_lock_release(&sites_lock);
    *count = SITES;
    return learned;
}
