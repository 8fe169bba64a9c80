/* SPDX-License-Identifier: BSD-3-Clause
 * The best combination for a workload. Of what is unknown about it every value that was measured counts
 * alike: a combination is then judged by the mean of the logarithms of its predictions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "reserved.h"

#define MOST_KEPT 16384    /* combinations whose scores are kept for simplifying */
#define MOST_DECISION 3e11 /* steps of all its predictions */

/* The tunables of a decision, each with the values it may take: what is not free keeps its current one. Rows
 * are predicted in batches; a combination takes one row for each way to fill in the unknown (a group). */
struct search {
    const struct sw_model *model;
    const struct sw_question *question;
    uint32_t count, tunables[SW_MAX_TUNABLES], levels[SW_MAX_TUNABLES];
    uint32_t gaps, unknown[SW_MAX_INPUTS];
    size_t guess[SW_MAX_GROUPS]; /* number of each way to fill in the unknown that counts */
    size_t groups, room, filled; /* ways to fill in the unknown; rows of a batch, and those in use */
    size_t place, grid;          /* of the combination in the grid; 0: too many to keep their scores */
    size_t *places;              /* of the combinations in the batch */
    double *scores;              /* of all combinations; no number where one is not allowed */
    bool current_waits;          /* the first rows of the batch are today's settings */
    double current_score;
    double current[SW_MAX_INPUTS];
    double *rows[SW_MAX_TUNABLES];  /* of the batch that is being filled */
    double *guesses[SW_MAX_INPUTS]; /* values of the unknown, repeating after each group */
    double *values, *memory;
    double one[SW_MAX_INPUTS];
    struct sw_column columns[SW_MAX_INPUTS]; /* of one */
    double scratch[SW_ARTIFACT_STACK];
    struct sw_choice *choice;
    bool found; /* a combination with a finite prediction */
    double best_score, best_cost;
};

static bool has_bit(uint64_t bits, uint32_t place) {
    return bits >> place & 1;
}

static bool is_tunable(const struct sw_model *model, uint32_t input) {
    return model->inputs[input].kind == SW_INPUT_TUNABLE;
}

static double one_of(struct search *search, uint32_t program) {
    double out;
    sw_model_run(search->model, program, 1, search->columns, NULL, &out, search->scratch);
    return out;
}

static double price(const struct search *search, const double *values) {
    double total = 0;
    for (uint32_t t = 0; t < search->count; t++) {
        const struct sw_model_input *input = &search->model->inputs[search->tunables[t]];
        double value = values[search->tunables[t]];
        if (input->cost > 0 && !input->categorical)
            total += input->cost * sw_log2(value > 1 ? value : 1);
    }
    return total;
}

/* What stands for the predictions of a group: larger is better. A single one is itself, of either sign; of
 * several the mean logarithm. */
static double score_of(const struct search *search, const double *values) {
    double sign = search->model->flags & SW_ARTIFACT_MAXIMIZE ? 1 : -1, sum = 0;
    if (search->groups == 1)
        return sign * values[0];
    for (size_t g = 0; g < search->groups; g++)
        sum += values[g] > 0 ? sw_log(values[g]) : NAN;
    return sign * sum / (double)search->groups;
}

static double value_of(const struct search *search, double score) {
    double value = search->model->flags & SW_ARTIFACT_MAXIMIZE ? score : -score;
    return search->groups == 1 ? value : sw_exp(value);
}

/* ln of how many times better the first is; no number where that means nothing. */
static double gain_of(const struct search *search, double score, double over) {
    if (search->groups > 1)
        return score - over;
    double ratio = search->model->flags & SW_ARTIFACT_MAXIMIZE ? score / over : over / score;
    return isfinite(ratio) && ratio > 0 ? sw_log(ratio) : NAN;
}

static bool predict(struct search *search) {
    struct sw_column columns[SW_MAX_INPUTS];
    for (uint32_t i = 0; i < search->model->counts[SW_INPUTS]; i++)
        columns[i] = search->guesses[i] ? (struct sw_column){search->guesses[i], false}
                                        : (struct sw_column){&search->current[i], true};
    for (uint32_t t = 0; t < search->count; t++)
        columns[search->tunables[t]] = (struct sw_column){search->rows[t], false};
    return sw_model_predict(search->model, search->filled, columns, search->values);
}

/* Keeps the best of each step of the alternatives' distance: what the model cannot tell apart is one
 * alternative. */
static void offer(struct search *search, double score, double cost, const double *values) {
    struct sw_choice *choice = search->choice;
    double gain = gain_of(search, score, search->best_score);
    for (size_t i = 0; isfinite(gain) && i < search->question->wanted; i++) {
        struct sw_alternative *other = &search->question->alternatives[i];
        bool free = i == choice->alternatives;
        double ahead = free ? INFINITY : gain_of(search, score, other->score);
        if (!free && fabs(ahead) < SW_ALTERNATIVE_STEP) {
            if (ahead < 0 || (ahead == 0 && cost >= other->cost))
                return;
        } else if (!free && ahead < 0) {
            continue;
        } else {
            size_t last = choice->alternatives < search->question->wanted ? choice->alternatives++
                                                                          : search->question->wanted - 1;
            memmove(other + 1, other, (last - i) * sizeof *other);
        }
        *other = (struct sw_alternative){.score = score, .cost = cost};
        memcpy(other->values, values, sizeof other->values);
        return;
    }
}

static void consider(struct search *search, size_t row) {
    struct sw_choice *choice = search->choice;
    double values[SW_MAX_INPUTS], score = score_of(search, search->values + row);
    choice->combinations++;
    if (search->scores)
        search->scores[search->places[row / search->groups]] = score;
    if (!isfinite(score) || (search->found && score < search->best_score && !search->question->wanted))
        return;
    memcpy(values, search->current, sizeof values);
    for (uint32_t t = 0; t < search->count; t++)
        values[search->tunables[t]] = search->rows[t][row];
    double cost = price(search, values);
    if (!search->found || score > search->best_score ||
        (score == search->best_score && cost < search->best_cost)) {
        search->found = true;
        search->best_score = score;
        search->best_cost = cost;
        memcpy(choice->values, values, sizeof values);
    }
    offer(search, score, cost, values);
}

static bool flush(struct search *search) {
    size_t row = 0;
    if (!search->filled)
        return true;
    if (!predict(search))
        return false;
    if (search->current_waits) {
        search->current_score = score_of(search, search->values);
        search->current_waits = false;
        row = search->groups;
    }
    for (; row < search->filled; row += search->groups)
        consider(search, row);
    search->filled = 0;
    return true;
}

/* The value of an unknown input, by its place among them, in a way to fill in all. */
static double guessed(const struct search *search, uint32_t gap, size_t guess) {
    const struct sw_model *model = search->model;
    for (uint32_t u = 0; u < gap; u++)
        guess /= model->inputs[search->unknown[u]].values;
    const struct sw_model_input *input = &model->inputs[search->unknown[gap]];
    return model->values[input->first_value + guess % input->values].number;
}

/* Puts today's settings in one, with a way to fill in the unknown. */
static void put_today(struct search *search, size_t guess) {
    memcpy(search->one, search->current, sizeof search->one);
    for (uint32_t u = 0; u < search->gaps; u++)
        search->one[search->unknown[u]] = guessed(search, u, guess);
}

/* Of what is expected to harm only a change counts. */
static bool harms_today(struct search *search, uint32_t constraint, size_t guess) {
    double one[SW_MAX_INPUTS];
    memcpy(one, search->one, sizeof one);
    put_today(search, guess);
    bool harms = one_of(search, constraint) == 0;
    memcpy(search->one, one, sizeof one);
    return harms;
}

static bool keeps_rules(struct search *search, size_t guess) {
    const struct sw_model *model = search->model;
    uint32_t count = model->counts[SW_CONSTRAINTS];
    for (uint32_t c = 0; c < count; c++)
        if (one_of(search, model->constraints[c]) == 0 &&
            (c < count - model->expected || !harms_today(search, model->constraints[c], guess)))
            return false;
    return true;
}

/* Leaves the ways to fill in the unknown that were measured with today's settings, if there are any. */
static void leave_measured(struct search *search) {
    const struct sw_model *model = search->model;
    uint32_t end = model->counts[SW_CONSTRAINTS] - model->expected, first = end - model->measured;
    size_t kept = 0, all = search->groups;
    for (size_t guess = 0; guess < all; guess++) {
        uint32_t c = first;
        put_today(search, guess);
        while (c < end && one_of(search, model->constraints[c]) != 0)
            c++;
        if (c == end)
            search->guess[kept++] = guess;
    }
    for (size_t guess = 0; !kept && guess < all; guess++)
        search->guess[guess] = guess;
    search->choice->unlike = !kept;
    search->groups = kept ? kept : all;
    memcpy(search->one, search->current, sizeof search->one);
}

/* Is this combination in its one form (what means nothing at its default), and allowed, however the unknown
 * is filled in? With fold the first is made so instead. */
static bool is_allowed(struct search *search, bool fold) {
    const struct sw_model *model = search->model;
    for (size_t g = 0; g < search->groups; g++) {
        for (uint32_t u = 0; u < search->gaps; u++)
            search->one[search->unknown[u]] = search->guesses[search->unknown[u]][g];
        for (uint32_t t = 0; t < search->count; t++) {
            uint32_t place = search->tunables[t];
            const struct sw_model_input *input = &model->inputs[place];
            double initial = model->values[input->first_value + input->initial].number;
            if (search->one[place] == initial)
                continue;
            bool acts = (input->active == SW_ARTIFACT_NONE || one_of(search, input->active) != 0) &&
                        (input->same == SW_ARTIFACT_NONE || one_of(search, input->same) == 0);
            if (!acts && !fold)
                return false;
            if (!acts)
                search->one[place] = initial;
        }
        if (!keeps_rules(search, search->guess[g]))
            return false;
    }
    return true;
}

/* Adds the combination in one to the batch. */
static bool add(struct search *search, const double *one) {
    if (search->groups == 0)
        return false;
    for (uint32_t t = 0; t < search->count; t++)
        for (size_t g = 0; g < search->groups; g++)
            search->rows[t][search->filled + g] = one[search->tunables[t]];
    search->places[search->filled / search->groups] = search->place;
    search->filled += search->groups;
    return search->filled + search->groups <= search->room || flush(search);
}

static bool enumerate(struct search *search) {
    const struct sw_model *model = search->model;
    for (;;) {
        double one[SW_MAX_INPUTS];
        for (uint32_t t = 0; t < search->count; t++) {
            const struct sw_model_input *input = &model->inputs[search->tunables[t]];
            search->one[search->tunables[t]] = model->values[input->first_value + search->levels[t]].number;
        }
        memcpy(one, search->one, sizeof one);
        if (is_allowed(search, false) && !add(search, one))
            return false;
        search->place++;
        uint32_t t = search->count; /* the last tunable turns fastest, as in Python */
        while (t && ++search->levels[t - 1] == model->inputs[search->tunables[t - 1]].values)
            search->levels[--t] = 0;
        if (!t)
            return flush(search);
    }
}

/* The score of the combination in one that the grid had; false if it did not have it. */
static bool recall(const struct search *search, double *score) {
    size_t place = 0;
    if (!search->scores)
        return false;
    for (uint32_t t = 0; t < search->count; t++) {
        const struct sw_model_input *input = &search->model->inputs[search->tunables[t]];
        uint32_t level = 0;
        while (level < input->values &&
               search->model->values[input->first_value + level].number != search->one[search->tunables[t]])
            level++;
        if (level == input->values)
            return false;
        place = place * input->values + level;
    }
    *score = search->scores[place];
    return isfinite(*score);
}

/* The score of one combination, which need not be in its one form; no number if it is not allowed. Returns
 * false if memory is out. */
static bool judge(struct search *search, const double *values, double *score) {
    memcpy(search->one, values, sizeof search->one);
    *score = NAN;
    if (!is_allowed(search, true) || recall(search, score))
        return true;
    for (uint32_t t = 0; t < search->count; t++)
        for (size_t g = 0; g < search->groups; g++)
            search->rows[t][g] = values[search->tunables[t]];
    search->filled = search->groups;
    bool done = predict(search);
    search->filled = 0;
    *score = done ? score_of(search, search->values) : NAN;
    return done;
}

/* Takes back changes that bring next to nothing, one after the other. */
static bool simplify(struct search *search) {
    struct sw_choice *choice = search->choice;
    uint32_t changes = 0;
    for (uint32_t t = 0; t < search->count; t++)
        changes += choice->values[search->tunables[t]] != search->current[search->tunables[t]];
    for (uint32_t t = 0; changes && t < search->count; t++) {
        double fewer[SW_MAX_INPUTS], score;
        uint32_t place = search->tunables[t];
        if (choice->values[place] == search->current[place])
            continue;
        memcpy(fewer, choice->values, sizeof fewer);
        fewer[place] = search->current[place];
        if (!judge(search, fewer, &score))
            return false;
        if (gain_of(search, score, search->best_score) >= -SW_WORTH) {
            choice->values[place] = fewer[place];
            search->best_score = score;
            changes--;
        }
    }
    return true;
}

/* Which tunables are free, how many combinations and groups there are; then the memory for the batches.
 * Returns what is wrong, or NULL. */
static const char *prepare(struct search *search, double *grid) {
    const struct sw_model *model = search->model;
    const struct sw_question *question = search->question;
    uint32_t count = model->counts[SW_INPUTS];
    search->groups = 1;
    *grid = 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct sw_model_input *input = &model->inputs[i];
        bool lawful = input->free == SW_ARTIFACT_NONE || one_of(search, input->free) != 0;
        if (is_tunable(model, i) && !has_bit(question->held, i) && (lawful || has_bit(question->freed, i))) {
            search->tunables[search->count++] = i;
            *grid *= input->values;
        } else if (has_bit(question->unknown, i) && input->values) {
            search->unknown[search->gaps++] = i;
            search->groups *= input->values;
            if (search->groups > SW_MAX_GROUPS)
                return "too much is unknown of the workload";
        }
    }
    if (*grid > SW_MAX_COMBINATIONS)
        return "too many combinations";
    if (*grid * (double)search->groups * (double)model->steps > MOST_DECISION)
        return "a decision takes too long";
    leave_measured(search);
    double wanted = (*grid + 1) * (double)search->groups;
    wanted = wanted < SW_MODEL_BATCH ? wanted : SW_MODEL_BATCH;
    search->grid = question->simplify && *grid <= MOST_KEPT ? (size_t)*grid : 0;
    search->room = (size_t)wanted / search->groups * search->groups;
    search->memory = malloc((search->count + search->gaps + 1) * search->room * sizeof *search->memory +
                            search->grid * sizeof *search->scores + search->room * sizeof *search->places);
    if (!search->memory)
        return "out of memory";
    search->values = search->memory;
    search->scores = search->grid ? search->memory + (search->count + search->gaps + 1) * search->room : NULL;
    for (size_t i = 0; i < search->grid; i++)
        search->scores[i] = NAN;
    search->places =
        (size_t *)(search->memory + (search->count + search->gaps + 1) * search->room + search->grid);
    for (uint32_t t = 0; t < search->count; t++)
        search->rows[t] = search->memory + (t + 1) * search->room;
    for (uint32_t u = 0; u < search->gaps; u++) {
        double *guesses = search->memory + (search->count + 1 + u) * search->room;
        for (size_t row = 0; row < search->room; row++)
            guesses[row] = guessed(search, u, search->guess[row % search->groups]);
        search->guesses[search->unknown[u]] = guesses;
    }
    return NULL;
}

/* What the measurements support of a gain: a prediction beyond all of them is wrong by the excess at least.
 */
static double supported(const struct sw_model *model, double gain) {
    return model->reach > 0 && gain > model->reach ? model->reach : gain;
}

static bool is_worth(const struct sw_model *model, double margin, double gain) {
    double doubt = model->reach > 0 ? sw_fmax(margin, gain - model->reach) : margin;
    return supported(model, gain) > doubt;
}

/* The margin of this workload. What is unknown of it is not a number here, which equals nothing: the program
 * then gives its widest margin. */
static double margin_of(struct search *search) {
    struct sw_column columns[SW_MAX_INPUTS];
    const double unknown = NAN;
    double margin = 0;
    for (uint32_t i = 0; i < search->model->counts[SW_INPUTS]; i++)
        columns[i] =
            (struct sw_column){has_bit(search->question->unknown, i) ? &unknown : &search->current[i], true};
    sw_model_run(search->model, search->model->margin, 1, columns, NULL, &margin, search->scratch);
    return margin;
}

static const char *answer(struct search *search, double *grid) {
    struct sw_choice *choice = search->choice;
    const char *problem = prepare(search, grid);
    if (problem)
        return problem;
    /* Today's settings need not be among the values, nor be allowed. They go with the first batch. */
    for (uint32_t t = 0; t < search->count; t++)
        for (size_t g = 0; g < search->groups; g++)
            search->rows[t][g] = search->current[search->tunables[t]];
    search->filled = search->groups;
    search->current_waits = true;
    if (!enumerate(search))
        return "out of memory";
    if (search->found && search->question->simplify && !simplify(search))
        return "out of memory";
    choice->current = value_of(search, search->current_score);
    choice->gain = search->found ? gain_of(search, search->best_score, search->current_score) : NAN;
    choice->margin = margin_of(search);
    choice->changed = !choice->unlike && is_worth(search->model, choice->margin, choice->gain);
    choice->gain = supported(search->model, choice->gain);
    choice->best = choice->changed ? value_of(search, search->best_score) : choice->current;
    if (!choice->changed)
        memcpy(choice->values, search->current, sizeof search->current);
    for (size_t i = 0; i < choice->alternatives; i++)
        search->question->alternatives[i].gain = supported(
            search->model, gain_of(search, search->question->alternatives[i].score, search->current_score));
    return NULL;
}

bool sw_model_ask(const struct sw_model *model, const struct sw_question *question, struct sw_choice *choice,
                  char *error, size_t error_size) {
    double grid = 1;
    *choice = (struct sw_choice){.combinations = 0};
    struct search *search = calloc(1, sizeof *search);
    const char *problem = "out of memory";
    if (search) {
        search->model = model;
        search->question = question;
        search->choice = choice;
        for (uint32_t i = 0; i < model->counts[SW_INPUTS]; i++) {
            search->one[i] = search->current[i] = question->inputs[i];
            search->columns[i] = (struct sw_column){&search->one[i], true};
        }
        problem = answer(search, &grid);
        free(search->memory);
        free(search);
    }
    if (problem && grid > SW_MAX_COMBINATIONS)
        snprintf(error, error_size, "%.3g combinations, at most %d", grid, SW_MAX_COMBINATIONS);
    else if (problem)
        snprintf(error, error_size, "%s", problem);
    return !problem;
}

bool sw_model_choose(const struct sw_model *model, const double *inputs, struct sw_choice *choice,
                     char *error, size_t error_size) {
    struct sw_question question = {.inputs = inputs};
    return sw_model_ask(model, &question, choice, error, error_size);
}
