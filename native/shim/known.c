/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "known.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "setup.h"
#include "workload.h"

static struct sw_history history;

#define DECLARED 32
static struct {
    const char *path; /* interned */
    struct sw_workload words;
} declared[DECLARED];
static unsigned declarations;
static sw_lock declared_lock = ATOMIC_FLAG_INIT;

/* ---- the model ---- */

static struct sw_model model;
static char model_error[256];

static void load_model(void) {
    char error[160];
    if (sw_setup.model && !sw_model_read(sw_setup.model, &model, error, sizeof error)) {
        snprintf(model_error, sizeof model_error, "%s", error);
        sw_complain("model %.300s cannot be read: %s; running without it", sw_setup.model, error);
    }
}

const struct sw_model *sw_process_model(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_model);
    return model.memory ? &model : NULL;
}

const char *sw_process_model_error(void) {
    return model_error;
}

/* ---- what is known ---- */

void sw_declare(const char *path, const struct sw_workload *words) {
    const char *kept = sw_arena_intern(&sw_runtime.files.arena, path);
    if (!kept)
        return;
    sw_lock_take(&declared_lock);
    unsigned at = 0;
    while (at < DECLARED && declared[at].path && declared[at].path != kept)
        at++;
    if (at == DECLARED) /* the oldest makes room */
        at = declarations++ % DECLARED;
    if (declared[at].path != kept)
        memset(&declared[at].words, 0, sizeof declared[at].words);
    declared[at].path = kept;
    struct sw_workload all = *words;
    sw_workload_fill(&all, &declared[at].words);
    declared[at].words = all;
    sw_lock_release(&declared_lock);
}

static void recall_declared(const char *path, struct sw_workload *workload) {
    sw_lock_take(&declared_lock);
    for (unsigned i = 0; i < DECLARED && declared[i].path; i++)
        if (strcmp(declared[i].path, path) == 0)
            sw_workload_fill(workload, &declared[i].words);
    sw_lock_release(&declared_lock);
}

/* Lines of the plan whose pattern matches, the later of a word; then the environment's words. */
static void recall_rules(const char *path, struct sw_workload *workload) {
    struct sw_workload rules = {.extras = 0}, everywhere = {.extras = 0};
    const struct sw_plan *plan = &sw_runtime.plan;
    char error[160], text[SW_MAX_VALUE + 1];
    for (size_t i = 0; i < plan->words; i++)
        if (sw_setting_matches(&plan->word[i], path) &&
            !sw_workload_set(&rules, plan->word[i].key, plan->word[i].value, error, sizeof error))
            sw_complain("plan: workload %s; it is passed over", error);
    if (sw_setup.workload) {
        char *rest = text;
        snprintf(text, sizeof text, "%s", sw_setup.workload);
        for (char *word; (word = strsep(&rest, " \t"));) {
            char *equals = strchr(word, '=');
            if (!*word)
                continue;
            if (equals)
                *equals = '\0';
            else
                snprintf(error, sizeof error, "\"%.40s\" is not NAME=VALUE", word);
            if (!equals || !sw_workload_set(&everywhere, word, equals + 1, error, sizeof error))
                sw_complain(SW_ENV_WORKLOAD ": %s; it is passed over", error);
        }
    }
    sw_workload_fill(workload, &rules);
    sw_workload_fill(workload, &everywhere);
}

/* What the way of opening tells of the operation; NULL: nothing. */
static const char *operation_of(const struct sw_opening *opening, bool exists) {
    if (opening->amode & MPI_MODE_RDONLY)
        return "read";
    if ((opening->amode & MPI_MODE_WRONLY) || !exists)
        return "write";
    return NULL;
}

void sw_known_workload(const struct sw_opening *opening, struct sw_workload *workload) {
    struct stat status;
    char name[32];
    bool exists = stat(opening->path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
    *workload = (struct sw_workload){.extras = 0};
    recall_declared(opening->path, workload);
    recall_rules(opening->path, workload);
    if (!workload->known[SW_WORD_OPERATION]) {
        const char *operation = operation_of(opening, exists);
        if (!operation && (opening->amode & MPI_MODE_CREATE))
            operation = "write"; /* a file that is written over */
        if (operation)
            sw_workload_text(workload, SW_WORD_OPERATION, operation);
    }
    bool reads = workload->known[SW_WORD_OPERATION] && strcmp(workload->text[SW_WORD_OPERATION], "read") == 0;
    struct sw_workload seen = {.extras = 0};
    sw_workload_number(&seen, SW_WORD_PROCESSES, opening->size);
    if (opening->nodes > 0) {
        sw_workload_number(&seen, SW_WORD_NODES, opening->nodes);
        int fullest = (opening->size + opening->nodes - 1) / opening->nodes; /* at least */
        sw_workload_number(&seen, SW_WORD_PROCESSES_PER_NODE, fullest);
    }
    sw_file_system_name(opening->path, name, sizeof name);
    sw_workload_text(&seen, SW_WORD_FILE_SYSTEM, name);
    sw_workload_text(&seen, SW_WORD_API, opening->hdf5 ? "hdf5" : "mpiio");
    sw_workload_fill(workload, &seen);
    sw_history_recall(&history, opening->path, !reads, exists && reads ? (double)status.st_size : 0,
                      workload);
    if (exists && !workload->known[SW_WORD_FILE_SIZE])
        sw_workload_number(workload, SW_WORD_FILE_SIZE, (double)status.st_size);
}

void sw_choice_learn(const char *path, const struct sw_use *use) {
    if (!(use->bytes > 0))
        return;
    struct sw_past past = {.write = use->write,
                           .file_size = use->file_size,
                           .stored = use->stored,
                           .transfer_size = use->transfer_size,
                           .collective = use->collective,
                           .strided = use->shapeless ? -1 : use->strided};
    sw_history_learn(&history, &sw_runtime.files.arena, path, past);
}

/* ---- the scene ---- */

static const char *taken(const void *data, enum sw_carrier carrier, const char *key) {
    static __thread char value[MPI_MAX_INFO_VAL + 1] __attribute__((tls_model("initial-exec")));
    const struct sw_choice_context *context = data;
    const char *own = sw_matches_get(context->matches, carrier, key), *hint = key;
    if (carrier == SW_HDF5)
        return own ? own : context->opening->fixed(context->opening->lists, key);
    if (context->opening->blind)
        return "";
    if (carrier == SW_LAYOUT) {
        const struct sw_layout_key *layout = sw_layout_key(key);
        hint = layout ? layout->hints[0] : NULL;
    }
    if (!own && hint && !sw_runtime.plan.override && sw_info_get(context->opening->info, hint, value))
        own = value;
    return own;
}

static const char *usual(const void *data, enum sw_carrier carrier, const char *key) {
    const struct sw_choice_context *context = data;
    return carrier == SW_HDF5 ? context->opening->usual(key) : NULL;
}

void sw_choice_scene(const struct sw_opening *opening, const struct sw_matches *matches,
                     struct sw_choice_context *context, struct sw_scene *scene) {
    struct sw_parent parent;
    *context = (struct sw_choice_context){opening, matches, ""};
    *scene = (struct sw_scene){.place = opening->blind ? NULL : sw_layout_place(opening->path),
                               .ompio = !opening->blind && sw_opened_by_ompio(opening->path),
                               .hdf5 = opening->fixed != NULL,
                               .taken = taken,
                               .usual = opening->usual ? usual : NULL,
                               .context = context};
    scene->layable = sw_layout_possible(scene->place, opening->path, opening->amode & MPI_MODE_CREATE,
                                        opening->amode & MPI_MODE_EXCL, sw_runtime.plan.allow,
                                        context->why_not, sizeof context->why_not);
    struct stat status;
    if (scene->place &&
        (stat(opening->path, &status) != 0 || !sw_layout_read(opening->path, &scene->layout))) {
        sw_layout_parent(scene->place, opening->path, &parent);
        scene->layout = parent.layout;
    }
}
