/* SPDX-License-Identifier: BSD-3-Clause
 * Compiled without contraction (a * b + c in one rounding): Python's results must come out to the bit. */
#include <math.h>
#include <string.h>

#include "model.h"

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
    double mantissa = frexp(x, &exponent);
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
    double rest = fmod(a, b);
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
        return exp(a);
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
#define FOR_ALL(expression)                                                                                  \
    for (size_t i = 0; i < n; i++)                                                                           \
    a[i] = (expression)
    switch (op) {
    case SW_OP_ADD:
        FOR_ALL(a[i] + b[i]);
        return;
    case SW_OP_SUBTRACT:
        FOR_ALL(a[i] - b[i]);
        return;
    case SW_OP_MULTIPLY:
        FOR_ALL(a[i] * b[i]);
        return;
    case SW_OP_DIVIDE:
        FOR_ALL(a[i] / b[i]);
        return;
    case SW_OP_FLOOR_DIVIDE:
        FOR_ALL(divide_down(a[i], b[i], &modulo));
        return;
    case SW_OP_MODULO:
        for (size_t i = 0; i < n; i++) {
            divide_down(a[i], b[i], &modulo);
            a[i] = modulo;
        }
        return;
    case SW_OP_MINIMUM:
        FOR_ALL(a[i] < b[i] || isnan(a[i]) ? a[i] : b[i]);
        return;
    case SW_OP_MAXIMUM:
        FOR_ALL(a[i] > b[i] || isnan(a[i]) ? a[i] : b[i]);
        return;
    case SW_OP_EQUAL:
        FOR_ALL(a[i] == b[i]);
        return;
    case SW_OP_NOT_EQUAL:
        FOR_ALL(a[i] != b[i]);
        return;
    case SW_OP_LESS:
        FOR_ALL(a[i] < b[i]);
        return;
    case SW_OP_LESS_EQUAL:
        FOR_ALL(a[i] <= b[i]);
        return;
    case SW_OP_GREATER:
        FOR_ALL(a[i] > b[i]);
        return;
    case SW_OP_GREATER_EQUAL:
        FOR_ALL(a[i] >= b[i]);
        return;
    case SW_OP_AND:
        FOR_ALL(a[i] != 0 && b[i] != 0);
        return;
    default:
        FOR_ALL(a[i] != 0 || b[i] != 0);
    }
#undef FOR_ALL
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
