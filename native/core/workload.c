/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "numeric.h"
#include "workload.h"

const char *const sw_word_names[SW_WORDS] = {"operation",
                                             "layout",
                                             "driver",
                                             "file_system",
                                             "api",
                                             "nodes",
                                             "processes",
                                             "processes_per_node",
                                             "file_size",
                                             "transfer_size",
                                             "piece_size",
                                             "collective",
                                             "file_per_process"};

static bool is_size(enum sw_word word) {
    return word >= SW_WORD_FILE_SIZE && word <= SW_WORD_PIECE_SIZE;
}

static bool is_truth(enum sw_word word) {
    return word >= SW_WORD_COLLECTIVE;
}

void sw_workload_number(struct sw_workload *workload, enum sw_word word, double number) {
    workload->known[word] = true;
    workload->number[word] = number;
}

void sw_workload_text(struct sw_workload *workload, enum sw_word word, const char *text) {
    workload->known[word] = true;
    snprintf(workload->text[word], SW_WORD_LENGTH, "%s", text);
}

/* A number, of a size with a unit after it: K and KiB are 1024, kB is 1000, as everywhere. */
static bool parse_number(const char *text, bool size, double *number) {
    static const char units[] = "kmgtp";
    char *end;
    *number = sw_scan_double(text, &end);
    if (end == text || !isfinite(*number) || *number < 0)
        return false;
    while (*end == ' ')
        end++;
    if (size && *end && *end != 'B') {
        char letter = *end >= 'A' && *end <= 'Z' ? (char)(*end - 'A' + 'a') : *end;
        const char *unit = strchr(units, letter);
        if (!unit)
            return false;
        for (long power = unit - units + 1; power > 0; power--)
            *number *= end[1] == 'B' ? 1000 : 1024;
        end += end[1] == 'i' ? 2 : 1;
    }
    if (size && *end == 'B')
        end++;
    return !*end;
}

static bool parse_truth(const char *text, double *number) {
    *number = strcasecmp(text, "true") == 0 || strcasecmp(text, "yes") == 0 || strcmp(text, "1") == 0;
    return *number == 1 || strcasecmp(text, "false") == 0 || strcasecmp(text, "no") == 0 ||
           strcmp(text, "0") == 0;
}

static bool set_extra(struct sw_workload *workload, const char *name, const char *value) {
    unsigned place = 0;
    while (place < workload->extras && strcmp(workload->extra[place].name, name) != 0)
        place++;
    if (place == SW_MAX_EXTRA || strlen(name) >= SW_WORD_LENGTH || strlen(value) >= SW_WORD_LENGTH)
        return false;
    snprintf(workload->extra[place].name, SW_WORD_LENGTH, "%s", name);
    snprintf(workload->extra[place].value, SW_WORD_LENGTH, "%s", value);
    workload->extras += place == workload->extras;
    return true;
}

bool sw_workload_set(struct sw_workload *workload, const char *name, const char *value, char *error,
                     size_t error_size) {
    double number = 0;
    for (int w = 0; w < SW_WORDS; w++) {
        enum sw_word word = (enum sw_word)w;
        if (strcmp(name, sw_word_names[w]) != 0)
            continue;
        if (word <= SW_WORD_API ? strlen(value) >= SW_WORD_LENGTH
            : is_truth(word)    ? !parse_truth(value, &number)
                                : !parse_number(value, is_size(word), &number)) {
            snprintf(error, error_size, "\"%.40s\" is not a %s", value, name);
            return false;
        }
        if (word <= SW_WORD_API)
            sw_workload_text(workload, word, value);
        else
            sw_workload_number(workload, word, number);
        return true;
    }
    if (set_extra(workload, name, value))
        return true;
    snprintf(error, error_size, "\"%.40s\" is too long, or one too many", name);
    return false;
}

void sw_workload_fill(struct sw_workload *workload, const struct sw_workload *from) {
    for (int word = 0; word < SW_WORDS; word++)
        if (!workload->known[word] && from->known[word]) {
            workload->known[word] = true;
            workload->number[word] = from->number[word];
            if (word <= SW_WORD_API)
                memcpy(workload->text[word], from->text[word], SW_WORD_LENGTH);
        }
    for (unsigned i = 0; i < from->extras; i++) {
        bool there = false;
        for (unsigned k = 0; k < workload->extras; k++)
            there |= strcmp(workload->extra[k].name, from->extra[i].name) == 0;
        if (!there)
            set_extra(workload, from->extra[i].name, from->extra[i].value);
    }
}

void sw_workload_print(const struct sw_workload *workload, char *text, size_t size) {
    size_t used = 0;
    *text = '\0';
    for (int word = 0; word < SW_WORDS; word++) {
        char number[40];
        if (!workload->known[word])
            continue;
        sw_print_double(number, sizeof number, workload->number[word], 17);
        int length = snprintf(text + used, size - used, "%s%s=%s", used ? " " : "", sw_word_names[word],
                              word <= SW_WORD_API ? workload->text[word] : number);
        used += (size_t)length < size - used ? (size_t)length : 0;
    }
}

/* ---- as words of rules: what is unknown rules nothing out (stripewise/catalogue/workload.py) ---- */

static const char *text_of(const struct sw_workload *workload, enum sw_word word, const char *unknown) {
    return workload->known[word] ? workload->text[word] : unknown;
}

static double number_of(const struct sw_workload *workload, enum sw_word word, double unknown) {
    return workload->known[word] && workload->number[word] > 0 ? workload->number[word] : unknown;
}

static bool is(const struct sw_workload *workload, enum sw_word word, double truth) {
    return workload->known[word] && workload->number[word] == truth;
}

static const char *pieces(const struct sw_workload *workload) {
    double transfer = number_of(workload, SW_WORD_TRANSFER_SIZE, 0),
           piece = number_of(workload, SW_WORD_PIECE_SIZE, 0);
    if (strcmp(text_of(workload, SW_WORD_LAYOUT, ""), "segmented") == 0 ||
        (transfer > 0 && transfer == piece))
        return "no";
    return piece > 0 && transfer > 0 ? "yes" : "unknown";
}

static const char *interleaved(const struct sw_workload *workload) {
    const char *layout = text_of(workload, SW_WORD_LAYOUT, "");
    if (number_of(workload, SW_WORD_PROCESSES, 0) == 1 || is(workload, SW_WORD_FILE_PER_PROCESS, 1) ||
        strcmp(layout, "segmented") == 0)
        return "no";
    return strcmp(layout, "strided") == 0 ? pieces(workload) : "unknown";
}

static double word_number(const struct sw_workload *workload, const struct sw_model *model,
                          const char *name) {
    const char *operation = text_of(workload, SW_WORD_OPERATION, "both");
    for (int word = SW_WORD_NODES; word <= SW_WORD_PIECE_SIZE; word++)
        if (strcmp(name, sw_word_names[word]) == 0)
            return number_of(workload, (enum sw_word)word, word < SW_WORD_FILE_SIZE ? 1 : 0);
    if (strcmp(name, "operation") == 0)
        return sw_model_code(model, operation);
    if (strcmp(name, "reads") == 0)
        return strcmp(operation, "write") != 0;
    if (strcmp(name, "writes") == 0)
        return strcmp(operation, "read") != 0;
    if (strcmp(name, "pieces") == 0)
        return sw_model_code(model, pieces(workload));
    if (strcmp(name, "interleaved") == 0)
        return sw_model_code(model, interleaved(workload));
    if (strcmp(name, "collective") == 0)
        return !is(workload, SW_WORD_COLLECTIVE, 0);
    if (strcmp(name, "independent") == 0)
        return !is(workload, SW_WORD_COLLECTIVE, 1);
    if (strcmp(name, "file_per_process") == 0)
        return is(workload, SW_WORD_FILE_PER_PROCESS, 1);
    for (int word = SW_WORD_LAYOUT; word <= SW_WORD_API; word++)
        if (strcmp(name, sw_word_names[word]) == 0)
            return sw_model_code(model, text_of(workload, (enum sw_word)word, "unknown"));
    return 0;
}

/* ---- as columns of the model ---- */

bool sw_input_number(const struct sw_model *model, uint32_t input, const char *spelling, double *number) {
    const struct sw_model_input *entry = &model->inputs[input];
    for (uint32_t i = 0; i < entry->values; i++) {
        const struct sw_model_value *value = &model->values[entry->first_value + i];
        if (strcasecmp(sw_model_text(model, value->spelling), spelling) == 0) {
            *number = value->number;
            return true;
        }
    }
    return !entry->categorical && parse_number(spelling, entry->factor != 1, number) &&
           isfinite(*number /= entry->factor);
}

/* The workload's value of a column, spelled. False if it is unknown. */
static bool spelled(const struct sw_workload *workload, const struct sw_model *model, uint32_t input,
                    char *text, size_t size) {
    const char *name = sw_model_text(model, model->inputs[input].name),
               *role = sw_model_text(model, model->inputs[input].role);
    for (unsigned i = 0; i < workload->extras; i++)
        if (strcmp(workload->extra[i].name, name) == 0) {
            snprintf(text, size, "%s", workload->extra[i].value);
            return true;
        }
    for (int word = 0; word < SW_WORDS; word++) {
        if (strcmp(role, sw_word_names[word]) != 0 || !workload->known[word])
            continue;
        if (word == SW_WORD_OPERATION && strcmp(workload->text[word], "both") == 0)
            return false;
        if (word <= SW_WORD_API)
            snprintf(text, size, "%s", workload->text[word]);
        else if (is_truth((enum sw_word)word))
            snprintf(text, size, "%s", workload->number[word] != 0 ? "true" : "false");
        else
            sw_print_double(text, size, workload->number[word], 17);
        return true;
    }
    return false;
}

/* Can a category of the workload that was never measured be predicted from those that were, as in
 * stripewise/models/domain.py? Reads say nothing of writes, and there is no third truth value. */
static bool admits_new(const struct sw_model *model, const struct sw_model_input *input) {
    const char *first = input->values ? sw_model_text(model, model->values[input->first_value].spelling) : "";
    return input->kind == SW_INPUT_CONTEXT && input->categorical && input->values > 1 &&
           strcmp(sw_model_text(model, input->role), sw_word_names[SW_WORD_OPERATION]) != 0 &&
           strcasecmp(first, "true") != 0 && strcasecmp(first, "false") != 0;
}

bool sw_workload_inputs(const struct sw_workload *workload, const struct sw_model *model,
                        struct sw_inputs *inputs, char *error, size_t error_size) {
    memset(inputs, 0, sizeof *inputs);
    for (uint32_t i = 0; i < model->counts[SW_INPUTS]; i++) {
        const struct sw_model_input *input = &model->inputs[i];
        const char *name = sw_model_text(model, input->name);
        char text[SW_WORD_LENGTH + 32];
        if (input->kind == SW_INPUT_WORD) {
            inputs->values[i] = word_number(workload, model, name);
            continue;
        }
        if (input->values)
            inputs->values[i] = model->values[input->first_value + input->initial].number;
        /* A setting acts as its default until somebody sets it; what the program does is unknown until told.
         */
        if (input->kind == SW_INPUT_TUNABLE && input->carrier != SW_ADVICE)
            continue;
        if (!spelled(workload, model, i, text, sizeof text)) {
            bool program = input->kind == SW_INPUT_CONTEXT ||
                           strcmp(sw_model_text(model, input->layer), "program") == 0 ||
                           strcmp(sw_model_text(model, input->layer), "launch") == 0;
            if (program && !input->values) {
                snprintf(error, error_size, "%.60s is unknown", name);
                return false;
            }
            if (program && input->values > 1)
                inputs->unknown |= 1ull << i;
        } else if (!sw_input_number(model, i, text, &inputs->values[i])) {
            if (admits_new(model, input)) {
                inputs->unknown |= 1ull << i;
                continue;
            }
            snprintf(error, error_size, "the model never saw %.60s = %.60s", name, text);
            return false;
        }
    }
    return true;
}

bool sw_fold_digits(const char *name, char *folded, size_t size) {
    size_t used = 0;
    for (; *name; name++) {
        bool digit = *name >= '0' && *name <= '9';
        if (digit && used && folded[used - 1] == '#' && name[-1] >= '0' && name[-1] <= '9')
            continue;
        if (used + 1 >= size)
            return false;
        folded[used++] = digit ? '#' : *name;
    }
    if (!size)
        return false;
    folded[used] = '\0';
    return true;
}

static struct sw_past *find(struct sw_history *history, const char *name, bool write) {
    for (size_t i = 0; i < SW_HISTORY_FAMILIES; i++)
        if (history->families[i].name && history->families[i].write == write &&
            strcmp(history->families[i].name, name) == 0)
            return &history->families[i];
    return NULL;
}

void sw_history_learn(struct sw_history *history, struct sw_arena *arena, const char *path,
                      struct sw_past past) {
    char folded[SW_MAX_PATH];
    if (!sw_fold_digits(path, folded, sizeof folded))
        return;
    sw_lock_take(&history->lock);
    struct sw_past *family = find(history, folded, past.write);
    if (!family) {
        family = &history->families[0];
        for (size_t i = 1; i < SW_HISTORY_FAMILIES; i++)
            if (history->families[i].used < family->used)
                family = &history->families[i];
        *family = (struct sw_past){.name = sw_arena_intern(arena, folded), .write = past.write};
    }
    past.name = family->name;
    past.opens = family->opens + 1;
    past.used = ++history->clock;
    *family = past;
    sw_lock_release(&history->lock);
}

void sw_history_recall(struct sw_history *history, const char *path, bool write, double stored,
                       struct sw_workload *workload) {
    char folded[SW_MAX_PATH];
    struct sw_workload seen = {.extras = 0};
    if (!sw_fold_digits(path, folded, sizeof folded))
        return;
    sw_lock_take(&history->lock);
    struct sw_past *family = find(history, folded, write);
    if (family) {
        family->used = ++history->clock;
        if (family->file_size > 0)
            sw_workload_number(&seen, SW_WORD_FILE_SIZE,
                               stored > 0 && family->stored > 0 ? stored * family->file_size / family->stored
                                                                : family->file_size);
        if (family->transfer_size > 0)
            sw_workload_number(&seen, SW_WORD_TRANSFER_SIZE, family->transfer_size);
        if (family->collective >= 0)
            sw_workload_number(&seen, SW_WORD_COLLECTIVE, family->collective);
        if (family->strided >= 0)
            sw_workload_text(&seen, SW_WORD_LAYOUT, family->strided ? "strided" : "segmented");
    }
    sw_lock_release(&history->lock);
    sw_workload_fill(workload, &seen);
}
