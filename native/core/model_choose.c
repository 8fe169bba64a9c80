/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* Rows predicted at a time: they and all that is computed of them stay in the caches. */
#define BATCH 1024

/* Where a member's rows are computed. */
struct work {
    double *encoded_data, *raw, *post, *gate, *blend, *scratch;
    struct sw_column *encoded;
};

static bool work_open(struct work *work, const struct sw_model *model, size_t n) {
    size_t features = 1;
    for (uint32_t m = 0; m < model->counts[SW_MEMBERS]; m++)
        features = model->members[m].features > features ? model->members[m].features : features;
    double *memory = malloc((features + 4 + SW_ARTIFACT_STACK) * n * sizeof *memory);
    *work = (struct work){.encoded_data = memory, .encoded = malloc(features * sizeof *work->encoded)};
    if (!memory || !work->encoded) {
        free(memory);
        free(work->encoded);
        return false;
    }
    work->raw = memory + features * n;
    work->post = work->raw + n;
    work->gate = work->post + n;
    work->blend = work->gate + n;
    work->scratch = work->blend + n;
    return true;
}

static void work_close(struct work *work) {
    free(work->encoded_data);
    free(work->encoded);
}

static bool predict_batch(const struct sw_model *model, size_t n, const struct sw_column *inputs,
                          struct work *work, double *values) {
    memset(work->blend, 0, n * sizeof *work->blend);
    for (uint32_t m = 0; m < model->counts[SW_MEMBERS]; m++) {
        const struct sw_model_member *member = &model->members[m];
        bool one_gate = true;
        work->gate[0] = 1;
        if (member->gate != SW_ARTIFACT_NONE)
            one_gate = sw_model_run(model, member->gate, n, inputs, NULL, work->gate, work->scratch);
        if (one_gate && work->gate[0] == 0)
            continue;
        sw_model_encode(model, m, n, inputs, work->encoded_data, work->encoded, work->scratch);
        bool done = member->kind == SW_MEMBER_TREES
                        ? sw_model_trees(model, member, n, work->encoded, work->raw)
                        : sw_model_network(model, member, n, work->encoded, work->raw);
        if (!done)
            return false;
        bool one = sw_model_run(model, member->post, n, inputs, work->raw, work->post, work->scratch);
        for (size_t i = 0; i < n; i++) {
            double gate = work->gate[one_gate ? 0 : i];
            if (gate != 0)
                work->blend[i] += member->weight * gate * work->post[one ? 0 : i];
        }
    }
    bool one = sw_model_run(model, model->result, n, inputs, work->blend, work->post, work->scratch);
    for (size_t i = 0; i < n; i++)
        values[i] = work->post[one ? 0 : i];
    return true;
}

bool sw_model_predict(const struct sw_model *model, size_t n, const struct sw_column *inputs,
                      double *values) {
    struct work work;
    if (!work_open(&work, model, n < BATCH ? n + !n : BATCH))
        return false;
    bool done = true;
    for (size_t start = 0; done && start < n; start += BATCH) {
        struct sw_column own[SW_MAX_INPUTS];
        for (uint32_t i = 0; i < model->counts[SW_INPUTS]; i++)
            own[i] = (struct sw_column){inputs[i].data + (inputs[i].uniform ? 0 : start), inputs[i].uniform};
        done = predict_batch(model, n - start < BATCH ? n - start : BATCH, own, &work, values + start);
    }
    work_close(&work);
    return done;
}

/* The tunables of a decision, each with the values it may take: what is not free keeps its current one. */
struct search {
    const struct sw_model *model;
    uint32_t count, tunables[SW_MAX_TUNABLES], levels[SW_MAX_TUNABLES];
    double current[SW_MAX_INPUTS];
    double rows[SW_MAX_TUNABLES][BATCH]; /* of the batch that is being filled */
    double values[BATCH];
    size_t filled;
    struct sw_column columns[SW_MAX_INPUTS];
    double scratch[SW_ARTIFACT_STACK];
    struct sw_choice *choice;
    bool found; /* a combination with a finite prediction */
    double best_cost;
};

static double one_of(struct search *search, uint32_t program) {
    double out;
    sw_model_run(search->model, program, 1, search->columns, NULL, &out, search->scratch);
    return out;
}

static bool prefer(const struct sw_model *model, double a, double b) {
    return model->flags & SW_ARTIFACT_MAXIMIZE ? a > b : a < b;
}

static double price(const struct search *search, const double *values) {
    double sum = 0;
    for (uint32_t t = 0; t < search->count; t++) {
        const struct sw_model_input *input = &search->model->inputs[search->tunables[t]];
        double value = values[search->tunables[t]];
        if (input->cost > 0 && value > 0)
            sum += input->cost * sw_model_log2(value);
    }
    return sum;
}

/* Predicts the rows gathered and keeps the best; among equals the cheaper, then the earlier. */
static bool flush(struct search *search) {
    struct sw_choice *choice = search->choice;
    struct sw_column columns[SW_MAX_INPUTS];
    if (!search->filled)
        return true;
    for (uint32_t i = 0; i < search->model->counts[SW_INPUTS]; i++)
        columns[i] = (struct sw_column){&search->current[i], true};
    for (uint32_t t = 0; t < search->count; t++)
        columns[search->tunables[t]] = (struct sw_column){search->rows[t], false};
    if (!sw_model_predict(search->model, search->filled, columns, search->values))
        return false;
    for (size_t row = 0; row < search->filled; row++) {
        double values[SW_MAX_INPUTS], value = search->values[row];
        choice->combinations++;
        if (!isfinite(value) || (search->found && prefer(search->model, choice->best, value)))
            continue;
        memcpy(values, search->current, sizeof values);
        for (uint32_t t = 0; t < search->count; t++)
            values[search->tunables[t]] = search->rows[t][row];
        double cost = price(search, values);
        if (search->found && value == choice->best && cost >= search->best_cost)
            continue;
        search->found = true;
        choice->best = value;
        search->best_cost = cost;
        memcpy(choice->values, values, sizeof values);
    }
    search->filled = 0;
    return true;
}

/* Is this combination in its one form (what means nothing at its default), and allowed? */
static bool is_allowed(struct search *search, const double *row) {
    const struct sw_model *model = search->model;
    for (uint32_t t = 0; t < search->count; t++) {
        const struct sw_model_input *input = &model->inputs[search->tunables[t]];
        double initial = model->values[input->first_value + input->initial].number;
        if (row[search->tunables[t]] == initial)
            continue;
        if (input->active != SW_ARTIFACT_NONE && one_of(search, input->active) == 0)
            return false;
        if (input->same != SW_ARTIFACT_NONE && one_of(search, input->same) != 0)
            return false;
    }
    for (uint32_t c = 0; c < model->counts[SW_CONSTRAINTS]; c++)
        if (one_of(search, model->constraints[c]) == 0)
            return false;
    return true;
}

static bool enumerate(struct search *search, char *error, size_t error_size) {
    const struct sw_model *model = search->model;
    double row[SW_MAX_INPUTS];
    memcpy(row, search->current, sizeof row);
    for (uint32_t i = 0; i < model->counts[SW_INPUTS]; i++)
        search->columns[i] = (struct sw_column){&row[i], true};
    for (;;) {
        for (uint32_t t = 0; t < search->count; t++) {
            const struct sw_model_input *input = &model->inputs[search->tunables[t]];
            row[search->tunables[t]] = model->values[input->first_value + search->levels[t]].number;
        }
        if (is_allowed(search, row)) {
            for (uint32_t t = 0; t < search->count; t++)
                search->rows[t][search->filled] = row[search->tunables[t]];
            if (++search->filled == BATCH && !flush(search)) {
                snprintf(error, error_size, "out of memory");
                return false;
            }
        }
        uint32_t t = search->count; /* the last tunable turns fastest, as in Python */
        while (t && ++search->levels[t - 1] == model->inputs[search->tunables[t - 1]].values)
            search->levels[--t] = 0;
        if (!t)
            break;
    }
    if (flush(search))
        return true;
    snprintf(error, error_size, "out of memory");
    return false;
}

bool sw_model_choose(const struct sw_model *model, const double *inputs, struct sw_choice *choice,
                     char *error, size_t error_size) {
    *choice = (struct sw_choice){.combinations = 0};
    struct search *search = calloc(1, sizeof *search);
    if (!search) {
        snprintf(error, error_size, "out of memory");
        return false;
    }
    search->model = model;
    search->choice = choice;
    uint32_t count = model->counts[SW_INPUTS];
    double grid = 1;
    memcpy(search->current, inputs, count * sizeof *inputs);
    memcpy(choice->values, inputs, count * sizeof *inputs);
    for (uint32_t i = 0; i < count; i++)
        search->columns[i] = (struct sw_column){&search->current[i], true};
    for (uint32_t i = 0; i < count; i++) {
        const struct sw_model_input *input = &model->inputs[i];
        if (input->kind == SW_INPUT_TUNABLE &&
            (input->free == SW_ARTIFACT_NONE || one_of(search, input->free) != 0)) {
            search->tunables[search->count++] = i;
            grid *= input->values;
        }
    }
    bool done = false;
    if (grid > SW_MAX_COMBINATIONS) {
        snprintf(error, error_size, "%.3g combinations, at most %d", grid, SW_MAX_COMBINATIONS);
    } else if (!sw_model_predict(model, 1, search->columns, &choice->current)) {
        snprintf(error, error_size, "out of memory");
    } else if (enumerate(search, error, error_size)) {
        double ratio = model->flags & SW_ARTIFACT_MAXIMIZE ? choice->best / choice->current
                                                           : choice->current / choice->best;
        choice->changed = search->found && isfinite(ratio) && ratio > 0 && log(ratio) > model->margin;
        if (!choice->changed) {
            memcpy(choice->values, inputs, count * sizeof *inputs);
            choice->best = choice->current;
        }
        done = true;
    }
    free(search);
    return done;
}
