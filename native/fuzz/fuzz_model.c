/* SPDX-License-Identifier: BSD-3-Clause
 * The artifact's reader and evaluator on any bytes. Size and checksum are put right first, so that what is
 * behind them is reached. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define ROWS 5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition) {
    if (!condition)
        abort();
}

static void put_right(char *memory, size_t size) {
    uint64_t sum = 0, word, total = size;
    if (size < sizeof(struct sw_model_header))
        return;
    for (size_t i = 4; i < size / 8; i++) {
        memcpy(&word, memory + 8 * i, 8);
        sum += (2 * (uint64_t)(i - 4) + 1) * word;
    }
    memcpy(memory + 16, &total, 8);
    memcpy(memory + 24, &sum, 8);
}

static void evaluate(const struct sw_model *model) {
    double rows[ROWS] = {0, 1, 4, 1e9, NAN}, one[SW_MAX_INPUTS], values[ROWS], grid = 1;
    struct sw_column columns[SW_MAX_INPUTS];
    for (uint32_t i = 0; i < model->counts[SW_INPUTS]; i++) {
        columns[i] = (struct sw_column){rows + i % ROWS, i % 2 == 0};
        if (!columns[i].uniform)
            columns[i].data = rows;
        one[i] = rows[i % 4];
        if (model->inputs[i].kind == SW_INPUT_TUNABLE)
            grid *= model->inputs[i].values;
    }
    demand(sw_model_predict(model, ROWS, columns, values));
    /* Only what the file itself holds is asked for: the fuzzer learns any text it is compared with, and
     * writes it there. */
    for (uint32_t i = 0; i < model->counts[SW_INPUTS]; i++) {
        const char *role = sw_model_text(model, model->inputs[i].role);
        const char *name = sw_model_text(model, model->inputs[i].name);
        uint32_t by_role = sw_model_find(model, role, NULL), by_name = sw_model_find(model, NULL, name);
        demand(by_role <= i && strcmp(sw_model_text(model, model->inputs[by_role].role), role) == 0);
        demand(by_name <= i && strcmp(sw_model_text(model, model->inputs[by_name].name), name) == 0);
        double code = sw_model_code(model, role);
        demand(code == -1 || strcmp(sw_model_text(model, (uint32_t)code), role) == 0);
    }
    if (grid > 4096)
        return;
    struct sw_choice choice;
    char error[128] = "";
    demand(sw_model_choose(model, one, &choice, error, sizeof error));
    demand(choice.combinations <= (size_t)grid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sw_model model;
    char error[128] = "";
    size_t room = size & ~(size_t)7;
    char *memory = malloc(room ? room : 1);
    if (!memory)
        return 0;
    memcpy(memory, data, room);
    put_right(memory, room);
    if (sw_model_parse(memory, room, &model, error, sizeof error)) {
        evaluate(&model);
        sw_model_free(&model);
    } else {
        demand(*error && !model.memory);
    }
    free(memory);
    return 0;
}
