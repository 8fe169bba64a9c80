/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* Rows predicted at a time: they and all that is computed of them stay in the caches. */
#define BATCH SW_MODEL_BATCH

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
