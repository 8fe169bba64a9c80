/* SPDX-License-Identifier: BSD-3-Clause */
#include "decide.h"
#include "reserved.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "numeric.h"
#include "stripewise_format.h"

const char *const sw_verdict_names[SW_VERDICTS] = {SW_VERDICT_NAMES};

/* A question to the model as it is put together. */
struct asked {
    const struct sw_model *model;
    const struct sw_scene *scene;
    struct sw_inputs inputs;
    uint64_t held, freed;
    uint32_t standin; /* "collective or not", where romio_cb_* can stand in for it; SW_ARTIFACT_NONE: none */
    const char *operation; /* "" if unknown */
};

static const char *text(const struct sw_model *model, uint32_t offset) {
    return sw_model_text(model, offset);
}

/* The key of a layout on the file system where the file lies. Stripes are stripes on any, under several
 * names, so a model that knows them by their role serves all. NULL if this file system has no such key. */
static const char *layout_key(const struct sw_model *model, const struct sw_model_input *input,
                              const struct sw_file_system *place) {
    for (int i = 0; place && i < SW_LAYOUT_KEYS && place->keys[i].name; i++)
        if (place->keys[i].role && strcmp(text(model, input->role), place->keys[i].role) == 0)
            return place->keys[i].name;
    return place && strcmp(text(model, input->layer), place->name) == 0 ? text(model, input->key) : NULL;
}

static bool is_of_romio(const char *hint) {
    return strncmp(hint, "romio_", 6) == 0 || strcmp(hint, "cb_nodes") == 0;
}

/* A tunable as a setting: its carrier and key. False if it cannot be set while a file is opened. */
static bool setting_of(const struct asked *asked, uint32_t input, struct sw_decided *setting) {
    const struct sw_model_input *entry = &asked->model->inputs[input];
    if (entry->carrier == SW_HINT || entry->carrier == SW_HDF5) {
        bool acts = entry->carrier == SW_HDF5
                        ? asked->scene->hdf5
                        : !(asked->scene->ompio && is_of_romio(text(asked->model, entry->key)));
        setting->carrier = (enum sw_carrier)entry->carrier;
        return acts && (size_t)snprintf(setting->key, sizeof setting->key, "%s",
                                        text(asked->model, entry->key)) < sizeof setting->key;
    }
    const char *key =
        entry->carrier == SW_LAYOUT ? layout_key(asked->model, entry, asked->scene->place) : NULL;
    setting->carrier = SW_LAYOUT;
    return key && (size_t)snprintf(setting->key, sizeof setting->key, "%s %s", asked->scene->place->name,
                                   key) < sizeof setting->key;
}

static const char *taken(const struct sw_scene *scene, const struct sw_decided *setting) {
    return scene->taken ? scene->taken(scene->context, setting->carrier, setting->key) : NULL;
}

/* What acts today, and what of it stays. */
static void hold(struct asked *asked) {
    const struct sw_model *model = asked->model;
    const struct sw_scene *scene = asked->scene;
    for (uint32_t i = 0; i < model->counts[SW_INPUTS]; i++) {
        struct sw_decided setting;
        uint64_t bit = 1ull << i;
        double number;
        if (model->inputs[i].kind != SW_INPUT_TUNABLE || i == asked->standin)
            continue;
        if (!setting_of(asked, i, &setting)) {
            asked->held |= bit;
            continue;
        }
        const char *others = taken(scene, &setting);
        const char *now =
            others || !scene->usual ? others : scene->usual(scene->context, setting.carrier, setting.key);
        if (now && sw_input_number(model, i, now, &number))
            asked->inputs.values[i] = number;
        if (setting.carrier == SW_LAYOUT) {
            int64_t now = sw_layout_number(&scene->layout, strchr(setting.key, ' ') + 1);
            if (!others && now > 0)
                asked->inputs.values[i] = (double)now / model->inputs[i].factor;
            if (!scene->layable)
                asked->held |= bit;
        }
        if (others)
            asked->held |= bit;
    }
}

/* The column "collective or not", where the model knows no setting for it and the calls are or may be
 * collective. */
static uint32_t find_standin(const struct sw_model *model, const struct sw_workload *workload,
                             const struct sw_scene *scene) {
    uint32_t found = SW_ARTIFACT_NONE;
    if (scene->ompio || (workload->known[SW_WORD_COLLECTIVE] && workload->number[SW_WORD_COLLECTIVE] == 0))
        return found;
    for (uint32_t i = 0; i < model->counts[SW_INPUTS]; i++) {
        const struct sw_model_input *input = &model->inputs[i];
        const char *key = text(model, input->key);
        if (input->kind != SW_INPUT_TUNABLE)
            continue;
        if (strcmp(key, "romio_cb_write") == 0 || strcmp(key, "romio_cb_read") == 0)
            return SW_ARTIFACT_NONE;
        if (strcmp(text(model, input->role), "collective") == 0 && found == SW_ARTIFACT_NONE)
            found = i;
    }
    return found;
}

static bool ask(struct asked *asked, const struct sw_model *model, const struct sw_workload *workload,
                const struct sw_scene *scene, char *why, size_t size) {
    *asked = (struct asked){.model = model, .scene = scene, .operation = ""};
    if (workload->known[SW_WORD_OPERATION])
        asked->operation = workload->text[SW_WORD_OPERATION];
    if (!sw_workload_inputs(workload, model, &asked->inputs, why, size))
        return false;
    asked->standin = find_standin(model, workload, scene);
    if (asked->standin != SW_ARTIFACT_NONE) {
        asked->freed |= 1ull << asked->standin;
        asked->inputs.unknown &= ~(1ull << asked->standin);
    }
    hold(asked);
    return true;
}

static const char *spelling_of(const struct sw_model *model, uint32_t input, double number) {
    const struct sw_model_input *entry = &model->inputs[input];
    for (uint32_t i = 0; i < entry->values; i++)
        if (model->values[entry->first_value + i].number == number)
            return text(model, model->values[entry->first_value + i].spelling);
    return NULL;
}

static void put_standin(struct sw_decided_set *set, const struct asked *asked, const char *spelling) {
    const char *word = strcasecmp(spelling, "true") == 0 || strcmp(spelling, "1") == 0 ? "enable" : "disable";
    if (strcmp(asked->operation, "read") != 0)
        sw_settings_put(set, SW_HINT, "romio_cb_write", word);
    if (strcmp(asked->operation, "write") != 0)
        sw_settings_put(set, SW_HINT, "romio_cb_read", word);
}

/* "{value}" in the template replaced by the number. */
static bool fill_template(const char *template, double number, char *value, size_t size) {
    const char *mark = strstr(template, "{value}");
    char spelled[40];
    sw_print_double(spelled, sizeof spelled, number, 17);
    int length = mark ? snprintf(value, size, "%.*s%s%s", (int)(mark - template), template, spelled,
                                 mark + strlen("{value}"))
                      : snprintf(value, size, "%s", template);
    return length >= 0 && (size_t)length < size;
}

/* Settings that follow from those that change; changed: bits over tunables in their order. */
static void put_derived(struct sw_decided_set *set, const struct asked *asked, const double *values,
                        uint32_t changed) {
    const struct sw_model *model = asked->model;
    struct sw_column columns[SW_MAX_INPUTS];
    double scratch[SW_ARTIFACT_STACK];
    for (uint32_t i = 0; i < model->counts[SW_INPUTS]; i++)
        columns[i] = (struct sw_column){&values[i], true};
    for (uint32_t i = 0; i < model->counts[SW_DERIVED]; i++) {
        const struct sw_model_derived *derived = &model->derived[i];
        struct sw_decided setting = {.carrier = (enum sw_carrier)derived->carrier};
        bool acts = derived->carrier == SW_HINT || (derived->carrier == SW_HDF5 && asked->scene->hdf5);
        double number;
        char value[SW_DECIDED_VALUE];
        const char *key = text(model, derived->key);
        if (!acts || !derived->needs || (derived->needs & ~changed) || strlen(key) >= sizeof setting.key)
            continue;
        if (derived->active != SW_ARTIFACT_NONE) {
            sw_model_run(model, derived->active, 1, columns, NULL, &number, scratch);
            if (number == 0)
                continue;
        }
        sw_model_run(model, derived->value, 1, columns, NULL, &number, scratch);
        snprintf(setting.key, sizeof setting.key, "%s", key);
        if (isfinite(number) && !taken(asked->scene, &setting) &&
            fill_template(text(model, derived->template), number, value, sizeof value))
            sw_settings_put(set, setting.carrier, setting.key, value);
    }
}

/* What to set so that the values act in place of today's. */
static void settings_of(const struct asked *asked, const double *values, struct sw_decided_set *set) {
    const struct sw_model *model = asked->model;
    uint32_t changed = 0, tunable = 0;
    set->count = 0;
    for (uint32_t i = 0; i < model->counts[SW_INPUTS]; i++) {
        struct sw_decided setting;
        if (model->inputs[i].kind != SW_INPUT_TUNABLE)
            continue;
        uint32_t bit = 1u << tunable++;
        const char *spelling = spelling_of(model, i, values[i]);
        if (values[i] == asked->inputs.values[i] || !spelling)
            continue;
        if (i == asked->standin)
            put_standin(set, asked, spelling);
        else if (setting_of(asked, i, &setting))
            sw_settings_put(set, setting.carrier, setting.key, spelling);
        changed |= bit;
    }
    put_derived(set, asked, values, changed);
}

static void explain(struct sw_decision *decision, const struct sw_model *model, bool unlike) {
    size_t size = sizeof decision->why;
    char gain[32], margin[32], reach[32];
    sw_print_double(reach, sizeof reach, sw_exp(model->reach), 3);
    sw_print_double(gain, sizeof gain, sw_exp(decision->gain), 3);
    sw_print_double(margin, sizeof margin, sw_exp(decision->margin), 3);
    if (decision->verdict == SW_CHANGED)
        snprintf(decision->why, size, "predicted %s times as good, the best of %llu combinations", gain,
                 (unsigned long long)decision->combinations);
    else if (!decision->combinations)
        snprintf(decision->why, size, "no combination of the settings was measured with this workload");
    else if (unlike)
        snprintf(decision->why, size,
                 "nothing like the program with its current settings was measured with this workload");
    else if (!(decision->gain > 0))
        snprintf(decision->why, size, "no combination is predicted better than the present settings");
    else if (model->reach > decision->margin && !(decision->gain < model->reach))
        snprintf(decision->why, size,
                 "the model predicts far more than the factor of %s that was measured: it is wrong", reach);
    else
        snprintf(decision->why, size,
                 "the best combination is predicted %s times as good, within the model's margin of %s", gain,
                 margin);
}

void sw_decide(const struct sw_model *model, const struct sw_workload *workload, const struct sw_scene *scene,
               struct sw_decision *decision, struct sw_other *others, size_t *count) {
    struct asked asked;
    struct sw_choice choice;
    size_t wanted = others ? *count + 1 : 0;
    struct sw_alternative *alternatives = wanted ? calloc(wanted, sizeof *alternatives) : NULL;
    *decision = (struct sw_decision){.verdict = SW_UNDECIDED};
    if (others)
        *count = 0;
    if (!ask(&asked, model, workload, scene, decision->why, sizeof decision->why)) {
        free(alternatives);
        return;
    }
    struct sw_question question = {.inputs = asked.inputs.values,
                                   .unknown = asked.inputs.unknown,
                                   .held = asked.held,
                                   .freed = asked.freed,
                                   .simplify = true,
                                   .wanted = alternatives ? wanted : 0,
                                   .alternatives = alternatives};
    if (sw_model_ask(model, &question, &choice, decision->why, sizeof decision->why)) {
        decision->verdict = choice.changed ? SW_CHANGED : SW_KEPT;
        decision->current = choice.current;
        decision->predicted = choice.best;
        decision->gain = choice.gain;
        decision->margin = choice.margin;
        decision->combinations = choice.combinations;
        settings_of(&asked, choice.values, &decision->chosen);
        explain(decision, model, choice.unlike);
        for (size_t i = 0; i < choice.alternatives && others && alternatives && *count + 1 < wanted; i++) {
            struct sw_other *other = &others[*count];
            settings_of(&asked, alternatives[i].values, &other->set);
            other->gain = alternatives[i].gain;
            *count += other->set.count > 0;
        }
    }
    free(alternatives);
}

bool sw_decide_advice(const struct sw_model *model, const struct sw_workload *workload,
                      const struct sw_scene *scene, struct sw_program_advice *advice) {
    struct asked asked;
    struct sw_choice settings, all;
    char why[SW_WHY];
    uint64_t program = 0;
    *advice = (struct sw_program_advice){0, -1, 0};
    if (!ask(&asked, model, workload, scene, why, sizeof why))
        return false;
    uint32_t transfer = SW_ARTIFACT_NONE, collective = SW_ARTIFACT_NONE;
    for (uint32_t i = 0; i < model->counts[SW_INPUTS]; i++) {
        const char *role = text(model, model->inputs[i].role);
        if (model->inputs[i].kind != SW_INPUT_TUNABLE)
            continue;
        if (strcmp(role, "transfer_size") == 0)
            transfer = i;
        if (strcmp(role, "collective") == 0)
            collective = i;
    }
    if (transfer != SW_ARTIFACT_NONE)
        program |= 1ull << transfer;
    if (collective != SW_ARTIFACT_NONE)
        program |= 1ull << collective;
    if (!program)
        return false;
    struct sw_question question = {
        .inputs = asked.inputs.values, .unknown = asked.inputs.unknown, .held = asked.held};
    if (!sw_model_ask(model, &question, &settings, why, sizeof why))
        return false;
    question.held &= ~program;
    question.freed = program;
    question.unknown &= ~program;
    if (!sw_model_ask(model, &question, &all, why, sizeof why))
        return false;
    advice->gain = all.gain - (settings.changed ? settings.gain : 0);
    if (!all.changed || !(advice->gain > all.margin))
        return true;
    if (transfer != SW_ARTIFACT_NONE)
        advice->transfer_size = all.values[transfer] * model->inputs[transfer].factor;
    if (collective != SW_ARTIFACT_NONE) {
        const char *spelling = spelling_of(model, collective, all.values[collective]);
        advice->collective = spelling && strcasecmp(spelling, "true") == 0;
    }
    return true;
}
