/* SPDX-License-Identifier: BSD-3-Clause
 * Fully connected networks, eight rows at a time: stored in 4 bytes, computed in 8. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

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

bool sw_model_network(const struct sw_model *model, const struct sw_model_member *member, size_t n,
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
