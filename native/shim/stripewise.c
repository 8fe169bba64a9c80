/* SPDX-License-Identifier: BSD-3-Clause
 * The functions of stripewise.h. They decide as MPI_File_open does, only earlier. */
#define STRIPEWISE_RUNTIME
#define _GNU_SOURCE
#include "stripewise.h"
#include "../core/reserved.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "choose.h"
#include "files.h"
#include "mpi_comm.h"
#include "stripewise_format.h"

/* RTLD_DEFAULT and a pointer to a function: what the header offers to programs must be what is here. */
SW_EXPORT stripewise_expect_function stripewise_expect;
SW_EXPORT stripewise_fill_function stripewise_fill;
SW_EXPORT stripewise_advise_function stripewise_advise;
SW_EXPORT stripewise_explain_function stripewise_explain;

#define EXPLAINED 32

/* The latest decisions, for those who ask. */
static struct {
    const char *path;                        /* interned */
    char text[SW_JOURNAL_TEXT + SW_WHY + 2]; /* "SETTINGS: WHY" */
} explained[EXPLAINED];
static unsigned explanations;
static sw_lock lock = ATOMIC_FLAG_INIT;

void sw_explain(const char *path, const struct sw_decided_set *set, const char *why) {
    const char *kept = sw_arena_intern(&sw_runtime.files.arena, path);
    char settings[SW_JOURNAL_TEXT];
    if (!kept)
        return;
    if (!sw_settings_print(set, settings, sizeof settings))
        *settings = '\0';
    sw_lock_take(&lock);
    unsigned at = 0;
    while (at < EXPLAINED && explained[at].path && explained[at].path != kept)
        at++;
    if (at == EXPLAINED) /* the oldest makes room */
        at = explanations++ % EXPLAINED;
    explained[at].path = kept;
    snprintf(explained[at].text, sizeof explained[at].text, "%s: %.*s",
             *settings ? settings : "as the program has it", SW_WHY, why);
    sw_lock_release(&lock);
}

static bool is_here(void) {
    return sw_runtime.active && sw_runtime.mode > SW_RUN_OBSERVE;
}

int stripewise_expect(const char *filename, const char *word, const char *value) {
    char path[SW_MAX_PATH], error[160];
    struct sw_workload words = {.extras = 0};
    if (!is_here())
        return STRIPEWISE_ABSENT;
    if (!filename || !word || !value || !sw_path_absolute(filename, path, sizeof path) ||
        !sw_workload_set(&words, word, value, error, sizeof error))
        return STRIPEWISE_WRONG;
    sw_declare(path, &words);
    return STRIPEWISE_OK;
}

/* Fills an opening for a communicator all of whose ranks are asked. */
static int begin(struct sw_opening *opening, MPI_Comm comm, const char *filename, int amode, MPI_Info info,
                 char path[SW_MAX_PATH]) {
    *opening =
        (struct sw_opening){.comm = comm, .size = 1, .mode = sw_runtime.mode, .amode = amode, .info = info};
    if (!filename || comm == MPI_COMM_NULL)
        return STRIPEWISE_WRONG;
    opening->path = sw_path_absolute(filename, path, SW_MAX_PATH) ? path : filename;
    sw_pmpi.Comm_rank(comm, &opening->rank);
    sw_pmpi.Comm_size(comm, &opening->size);
    if (!sw_comm_is_ours(comm, opening->size))
        return STRIPEWISE_ABSENT;
    opening->nodes = sw_comm_nodes(comm, opening->rank, opening->size);
    return STRIPEWISE_OK;
}

int stripewise_fill(MPI_Comm comm, const char *filename, int amode, MPI_Info info) {
    char path[SW_MAX_PATH];
    struct sw_opening opening;
    struct sw_matches matches;
    struct sw_orders orders = {.decided = false};
    if (!is_here())
        return STRIPEWISE_ABSENT;
    if (info == MPI_INFO_NULL)
        return STRIPEWISE_WRONG;
    int status = begin(&opening, comm, filename, amode, info, path);
    if (status != STRIPEWISE_OK)
        return status;
    sw_matches_open(&matches, opening.path);
    if (opening.rank == 0) {
        sw_choose(&opening, &matches, &orders);
        /* All hints that are asked for, also the plan's, as every rank is to have them. */
        for (size_t i = 0; i < matches.count; i++)
            if (matches.results[i].carrier == SW_HINT)
                sw_settings_put(&orders.decision.chosen, SW_HINT, matches.results[i].key,
                                matches.results[i].requested);
    }
    if (opening.size > 1)
        sw_pmpi.Bcast(&orders, (int)sizeof orders, MPI_BYTE, 0, comm);
    for (uint32_t i = 0; i < orders.decision.chosen.count; i++) {
        const struct sw_decided *hint = &orders.decision.chosen.settings[i];
        char value[MPI_MAX_INFO_VAL + 1];
        if (!sw_info_get(info, hint->key, value) && strlen(hint->key) < MPI_MAX_INFO_KEY)
            sw_pmpi.Info_set(info, hint->key, hint->value);
    }
    sw_explain(opening.path, &orders.decision.chosen, orders.decision.why);
    sw_matches_close(&matches);
    return orders.decision.chosen.count || orders.decision.verdict != SW_UNDECIDED ? STRIPEWISE_OK
                                                                                   : STRIPEWISE_UNDECIDED;
}

int stripewise_advise(MPI_Comm comm, const char *filename, int amode, struct stripewise_advice *advice) {
    char path[SW_MAX_PATH];
    struct sw_opening opening;
    struct {
        struct sw_program_advice found;
        int status;
    } answer = {{0, -1, 0}, STRIPEWISE_UNDECIDED};
    if (!advice)
        return STRIPEWISE_WRONG;
    *advice = (struct stripewise_advice){0, -1, 1};
    if (!is_here())
        return STRIPEWISE_ABSENT;
    int status = begin(&opening, comm, filename, amode, MPI_INFO_NULL, path);
    if (status != STRIPEWISE_OK)
        return status;
    const struct sw_model *model =
        opening.rank == 0 && sw_runtime.mode > SW_RUN_APPLY ? sw_process_model() : NULL;
    if (model) {
        struct sw_workload workload;
        struct sw_choice_context context;
        struct sw_scene scene;
        struct sw_matches matches;
        sw_matches_open(&matches, opening.path);
        sw_known_workload(&opening, &workload);
        sw_choice_scene(&opening, &matches, &context, &scene);
        if (sw_decide_advice(model, &workload, &scene, &answer.found))
            answer.status = STRIPEWISE_OK;
        sw_matches_close(&matches);
    }
    if (opening.size > 1)
        sw_pmpi.Bcast(&answer, (int)sizeof answer, MPI_BYTE, 0, comm);
    bool any = answer.found.transfer_size > 0 || answer.found.collective >= 0;
    advice->transfer_size = (MPI_Offset)answer.found.transfer_size;
    advice->collective = answer.found.collective;
    advice->speedup = any ? sw_exp(answer.found.gain) : 1;
    return answer.status;
}

int stripewise_explain(const char *filename, char *text, size_t size) {
    char path[SW_MAX_PATH];
    int status = STRIPEWISE_UNDECIDED;
    if (!text || !size || !filename)
        return STRIPEWISE_WRONG;
    *text = '\0';
    if (!is_here())
        return STRIPEWISE_ABSENT;
    if (!sw_path_absolute(filename, path, sizeof path))
        return STRIPEWISE_WRONG;
    sw_lock_take(&lock);
    for (unsigned i = 0; i < EXPLAINED && explained[i].path; i++)
        if (strcmp(explained[i].path, path) == 0) {
            snprintf(text, size, "%s", explained[i].text);
            status = STRIPEWISE_OK;
        }
    sw_lock_release(&lock);
    return status;
}
