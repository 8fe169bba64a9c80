/* SPDX-License-Identifier: BSD-3-Clause
 * Ensembles of trees for many rows at once. The rows of a decision differ in a few features only, and these
 * take few values: so not each row walks down a tree, but the set of all rows, which a node divides by two
 * table look-ups. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define GROUP 256 /* rows that go down together */
#define WORDS (GROUP / 64)

typedef struct {
    uint64_t bits[WORDS];
} set;

/* The distinct values of a feature in ascending order; up_to[i] are the rows with one of the first i. */
struct axis {
    uint32_t count;
    double *values;
    set *up_to;
};

struct pending {
    uint32_t node;
    set rows;
};

static bool is_empty(const set *rows) {
    uint64_t any = 0;
    for (int i = 0; i < WORDS; i++)
        any |= rows->bits[i];
    return !any;
}

/* Where value stands or belongs among the first count of values. */
static uint32_t place_of(const double *values, uint32_t count, double value) {
    uint32_t low = 0;
    while (count) {
        uint32_t half = count / 2;
        if (values[low + half] < value) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

/* As the tree compares it. No number is greater than every threshold: that keeps the axis in order. */
static double compared(double value) {
    return isnan(value) ? INFINITY : value;
}

static void measure(struct axis *axis, const double *data, size_t n) {
    axis->count = 0;
    for (size_t i = 0; i < n; i++) {
        double value = compared(data[i]);
        uint32_t place = place_of(axis->values, axis->count, value);
        if (place < axis->count && axis->values[place] == value)
            continue;
        memmove(axis->values + place + 1, axis->values + place, (axis->count - place) * sizeof *axis->values);
        axis->values[place] = value;
        axis->count++;
    }
    memset(axis->up_to, 0, (axis->count + 1) * sizeof *axis->up_to);
    for (size_t i = 0; i < n; i++) {
        double value = compared(data[i]);
        uint32_t place = place_of(axis->values, axis->count, value); /* it is among them: below count */
        axis->up_to[place + 1].bits[i / 64] |= 1ull << i % 64; // NOLINT(clang-analyzer-security.ArrayBound)
    }
    for (uint32_t v = 1; v <= axis->count; v++)
        for (int w = 0; w < WORDS; w++)
            axis->up_to[v].bits[w] |= axis->up_to[v - 1].bits[w];
}

/* The number of values that are at most the threshold. Few are all compared: no branch can be foreseen here.
 */
static uint32_t count_below(const struct axis *axis, double threshold) {
    uint32_t count = 0;
    if (axis->count > 48) {
        count = place_of(axis->values, axis->count, threshold);
        return count + (count < axis->count && axis->values[count] == threshold);
    }
    for (uint32_t i = 0; i < axis->count; i++)
        count += axis->values[i] <= threshold;
    return count;
}

static void add(double *sums, const set *rows, double value) {
    for (int w = 0; w < WORDS; w++) {
        double *own = sums + (size_t)w * 64;
        if (rows->bits[w] == ~0ull)
            for (int i = 0; i < 64; i++)
                own[i] += value;
        else
            for (uint64_t bits = rows->bits[w]; bits; bits &= bits - 1)
                own[__builtin_ctzll(bits)] += value;
    }
}

static void descend(const struct sw_model_node *nodes, const struct axis *axes, const set *all,
                    double *sums) {
    struct pending
        waiting[SW_ARTIFACT_DEPTH]; /* right children on the way down: no more than a path is long */
    size_t count = 0;
    uint32_t at = 0;
    set rows = *all;
    for (;;) {
        const struct sw_model_node *node = &nodes[at];
        if (node->feature == SW_ARTIFACT_NONE) {
            add(sums, &rows, (double)node->value);
            if (!count)
                return;
            count--;
            at = waiting[count].node;
            rows = waiting[count].rows;
            continue;
        }
        const struct axis *axis = &axes[node->feature];
        uint32_t below = count_below(axis, (double)node->value);
        if (below == axis->count) {
            at++;
        } else if (below == 0) {
            at = node->right;
        } else {
            struct pending *right = &waiting[count];
            set left;
            for (int w = 0; w < WORDS; w++) {
                left.bits[w] = rows.bits[w] & axis->up_to[below].bits[w];
                right->rows.bits[w] = rows.bits[w] & ~axis->up_to[below].bits[w];
            }
            if (is_empty(&left)) {
                at = node->right;
            } else {
                if (!is_empty(&right->rows)) {
                    right->node = node->right;
                    count++;
                }
                at++;
                rows = left;
            }
        }
    }
}

bool sw_model_trees(const struct sw_model *model, const struct sw_model_member *member, size_t n,
                    const struct sw_column *encoded, double *sums) {
    size_t features = member->features ? member->features : 1, group = n < GROUP ? n : GROUP;
    struct axis *axes = calloc(features, sizeof *axes);
    double *values = malloc(features * (group + 1) * sizeof *values);
    set *sets = malloc(features * (group + 1) * sizeof *sets);
    bool ready = axes && values && sets;
    for (size_t f = 0; ready && f < member->features; f++) {
        axes[f].values = values + f * (group + 1);
        axes[f].up_to = sets + f * (group + 1);
    }
    for (size_t start = 0; ready && start < n; start += group) {
        size_t rows = n - start < group ? n - start : group;
        set all = {{0}};
        for (size_t i = 0; i < rows; i++)
            all.bits[i / 64] |= 1ull << i % 64;
        double partial[GROUP] = {0};
        for (size_t f = 0; f < member->features; f++) {
            const struct sw_column *column = &encoded[f];
            measure(&axes[f], column->data + (column->uniform ? 0 : start), column->uniform ? 1 : rows);
        }
        for (uint32_t b = 0; b < member->blocks; b++)
            descend(model->nodes + model->blocks[member->first_block + b].first, axes, &all, partial);
        for (size_t i = 0; i < rows; i++)
            sums[start + i] = member->base + member->scale * partial[i];
    }
    free(axes);
    free(values);
    free(sets);
    return ready;
}
