/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "reserved.h"

/* ---- programs ----
 * Compiled without contraction (a * b + c in one rounding): Python's results must come out to the bit. * */

/* Kept in step with src/stripewise/models/artifact/program.py. */
#define FACTOR 2.8853900817779268 /* 2 / ln 2 */

double sw_model_log2(double x) {
    static const double coefficients[] = {FACTOR,      FACTOR / 3,  FACTOR / 5,  FACTOR / 7,
                                          FACTOR / 9,  FACTOR / 11, FACTOR / 13, FACTOR / 15,
                                          FACTOR / 17, FACTOR / 19, FACTOR / 21};
    if (!(x > 0))
        return x == 0 ? -INFINITY : NAN;
    if (!isfinite(x))
        return x;
    int exponent;
    double mantissa = sw_frexp(x, &exponent);
    double power = exponent;
    if (mantissa < 0.7071067811865476) {
        mantissa = mantissa + mantissa;
        power = power - 1;
    }
    double t = (mantissa - 1.0) / (mantissa + 1.0);
    double square = t * t;
    double series = coefficients[10];
    for (int k = 9; k >= 0; k--)
        series = series * square + coefficients[k];
    return power + t * series;
}

static double divide_down(double a, double b, double *modulo) {
    double rest = sw_fmod(a, b);
    if (b == 0) {
        *modulo = rest;
        return a / b;
    }
    double quotient = (a - rest) / b;
    if (rest != 0) {
        if ((b < 0) != (rest < 0)) {
            rest += b;
            quotient -= 1.0;
        }
    } else {
        rest = copysign(0, b);
    }
    *modulo = rest;
    if (quotient == 0)
        return copysign(0, a / b);
    double down = floor(quotient);
    return quotient - down > 0.5 ? down + 1.0 : down;
}

static double unary(uint32_t op, double a) {
    switch (op) {
    case SW_OP_LOG2:
        return sw_model_log2(a);
    case SW_OP_EXP:
        return sw_exp(a);
    case SW_OP_SINGLE:
        return (double)(float)a;
    case SW_OP_ABS:
        return fabs(a);
    case SW_OP_NEGATE:
        return -a;
    default:
        return a == 0;
    }
}

static void binary(uint32_t op, size_t n, double *a, const double *b) {
    double modulo;
#define CASE(OP, expression)                                                                                 \
    case SW_OP_##OP:                                                                                         \
        for (size_t i = 0; i < n; i++)                                                                       \
            a[i] = (expression);                                                                             \
        return;
    switch (op) {
        CASE(ADD, a[i] + b[i])
        CASE(SUBTRACT, a[i] - b[i])
        CASE(MULTIPLY, a[i] * b[i])
        CASE(DIVIDE, a[i] / b[i])
        CASE(FLOOR_DIVIDE, divide_down(a[i], b[i], &modulo))
        CASE(MINIMUM, a[i] < b[i] || isnan(a[i]) ? a[i] : b[i])
        CASE(MAXIMUM, a[i] > b[i] || isnan(a[i]) ? a[i] : b[i])
        CASE(EQUAL, a[i] == b[i])
        CASE(NOT_EQUAL, a[i] != b[i])
        CASE(LESS, a[i] < b[i])
        CASE(LESS_EQUAL, a[i] <= b[i])
        CASE(GREATER, a[i] > b[i])
        CASE(GREATER_EQUAL, a[i] >= b[i])
        CASE(AND, a[i] != 0 && b[i] != 0)
    case SW_OP_MODULO:
        for (size_t i = 0; i < n; i++) {
            divide_down(a[i], b[i], &modulo);
            a[i] = modulo;
        }
        return;
    default: /* SW_OP_OR */
        for (size_t i = 0; i < n; i++)
            a[i] = a[i] != 0 || b[i] != 0;
    }
#undef CASE
}

struct slot {
    double *data;
    bool uniform;
};

static void spread(struct slot *slot, size_t n) {
    if (!slot->uniform)
        return;
    for (size_t i = 1; i < n; i++)
        slot->data[i] = slot->data[0];
    slot->uniform = n == 1;
}

static void push(struct slot *slot, const double *data, bool uniform, size_t n) {
    memcpy(slot->data, data, (uniform ? 1 : n) * sizeof *data);
    slot->uniform = uniform;
}

bool sw_model_run(const struct sw_model *model, uint32_t program, size_t n, const struct sw_column *inputs,
                  const double *output, double *out, double *scratch) {
    struct slot stack[SW_ARTIFACT_STACK];
    size_t depth = 0;
    for (size_t i = 0; i < SW_ARTIFACT_STACK; i++)
        stack[i].data = scratch + i * n;
    struct sw_model_program at = model->programs[program];
    for (const uint32_t *code = model->code + at.first; code < model->code + at.first + at.length; code++) {
        uint32_t op = *code >> 24, operand = *code & 0xffffffu;
        if (op == SW_OP_INPUT) {
            push(&stack[depth++], inputs[operand].data, inputs[operand].uniform, n);
        } else if (op == SW_OP_CONSTANT) {
            push(&stack[depth++], &model->constants[operand], true, n);
        } else if (op == SW_OP_OUTPUT) {
            push(&stack[depth++], output, false, n);
        } else if (op <= SW_OP_NOT) {
            struct slot *a = &stack[depth - 1];
            /* Rows that follow each other often have the same value, and logarithms are slow. */
            double last = NAN, result = NAN;
            for (size_t i = 0; i < (a->uniform ? 1 : n); i++) {
                if (!(a->data[i] == last) || last == 0) {
                    last = a->data[i];
                    result = unary(op, last);
                }
                a->data[i] = result;
            }
        } else if (op < SW_OP_SELECT) {
            struct slot *a = &stack[depth - 2], *b = &stack[depth - 1];
            if (a->uniform != b->uniform) {
                spread(a, n);
                spread(b, n);
            }
            binary(op, a->uniform ? 1 : n, a->data, b->data);
            depth--;
        } else {
            struct slot *test = &stack[depth - 3], *a = test + 1, *b = test + 2;
            if (!(test->uniform && a->uniform && b->uniform)) {
                spread(test, n);
                spread(a, n);
                spread(b, n);
            }
            for (size_t i = 0; i < (test->uniform ? 1 : n); i++)
                test->data[i] = test->data[i] != 0 ? a->data[i] : b->data[i];
            depth -= 2;
        }
    }
    push(&(struct slot){out, false}, stack[0].data, stack[0].uniform, n);
    return stack[0].uniform;
}

void sw_model_encode(const struct sw_model *model, uint32_t member, size_t n, const struct sw_column *inputs,
                     double *data, struct sw_column *encoded, double *scratch) {
    const struct sw_model_member *at = &model->members[member];
    for (uint32_t i = 0; i < at->features; i++) {
        double *own = data + i * n;
        bool uniform =
            sw_model_run(model, model->features[at->first_feature + i], n, inputs, NULL, own, scratch);
        if (at->flags & SW_ARTIFACT_FLOAT32)
            for (size_t row = 0; row < (uniform ? 1 : n); row++)
                own[row] = (double)(float)own[row];
        encoded[i] = (struct sw_column){own, uniform};
    }
}

/* ---- networks ----
 * Fully connected networks, eight rows at a time: stored in 4 bytes, computed in 8. */

#define ROWS 8

/* outputs[o][r] = bias[o] + sum over i of weights[o][i] * inputs[i][r]. Four outputs share each load of the
 * inputs. */
static void layer(const float *restrict weights, size_t inputs, size_t outputs, bool rectify,
                  const double *restrict from, double *restrict to) {
    const float *bias = weights + inputs * outputs;
    for (size_t o = 0; o < outputs; o += 2) {
        size_t second = o + 1 < outputs ? o + 1 : o;
        const float *w0 = weights + o * inputs, *w1 = weights + second * inputs;
        double sum0[ROWS], sum1[ROWS];
        for (int r = 0; r < ROWS; r++) {
            sum0[r] = (double)bias[o];
            sum1[r] = (double)bias[second];
        }
        for (size_t i = 0; i < inputs; i++) {
            const double *x = from + i * ROWS;
            double a = (double)w0[i], b = (double)w1[i];
            for (int r = 0; r < ROWS; r++) {
                sum0[r] += a * x[r];
                sum1[r] += b * x[r];
            }
        }
        for (int r = 0; r < ROWS; r++) {
            to[o * ROWS + r] = rectify && sum0[r] < 0 ? 0 : sum0[r];
            to[second * ROWS + r] = rectify && sum1[r] < 0 ? 0 : sum1[r];
        }
    }
}

static bool run_network(const struct sw_model *model, const struct sw_model_member *member, size_t n,
                        const struct sw_column *encoded, double *outputs) {
    const struct sw_model_block *layers = model->blocks + member->first_block;
    size_t width = member->features;
    for (uint32_t i = 0; i < member->blocks; i++)
        width = layers[i].outputs > width ? layers[i].outputs : width;
    double *memory = calloc(2 * (width + 1) * ROWS, sizeof *memory);
    if (!memory)
        return false;
    for (size_t start = 0; start < n; start += ROWS) {
        double *from = memory, *to = memory + (width + 1) * ROWS;
        for (uint32_t f = 0; f < member->features; f++)
            for (size_t r = 0; r < ROWS; r++) {
                size_t row = start + r < n ? start + r : n - 1;
                from[(size_t)f * ROWS + r] = encoded[f].data[encoded[f].uniform ? 0 : row];
            }
        for (uint32_t i = 0; i < member->blocks; i++) {
            layer(model->weights + layers[i].first, layers[i].inputs, layers[i].outputs, layers[i].count,
                  from, to);
            double *swap = from;
            from = to;
            to = swap;
        }
        for (size_t r = 0; r < ROWS && start + r < n; r++)
            outputs[start + r] = member->base + member->scale * from[r];
    }
    free(memory);
    return true;
}

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
                        : run_network(model, member, n, work->encoded, work->raw);
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
