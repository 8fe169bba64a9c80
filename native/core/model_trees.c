/* SPDX-License-Identifier: BSD-3-Clause
 * Ensembles of trees for many rows at once. The rows of a decision differ in a few features only, and these
 * take few values: so not each row walks down a tree, but the set of all rows. The sets that arise are few as
 * well, since hundreds of trees cut the same rows at the same places. Each set is therefore kept once, with
 * what each cut makes of it and with the sum of all leaves that it ended in; the sums are handed out to the
 * rows at the end. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define GROUP 256 /* rows that go down together */
#define WORDS (GROUP / 64)
#define MOST_SETS 4096
#define SET_SLOTS (2 * MOST_SETS)
#define CUT_SLOTS 8192
#define NO_SET 0xffffu

typedef struct {
    uint64_t bits[WORDS];
} set;

/* The distinct values of a feature in ascending order; up_to[i] are the rows with one of the first i. */
struct axis {
    uint32_t count;
    double *values;
    set *up_to;
};

/* What a cut does to the rows of a group: all of them go one way, or it parts them as the set of this number
 * says, that of the rows on its left. */
#define ALL_LEFT 0xfffeu
#define ALL_RIGHT 0xffffu
#define MOST_PARTS 0xfffeu

struct pending {
    uint32_t node, rows;
};

/* A cut that was made before: key is set << 16 | cut, plus one. */
struct cut {
    uint32_t key;
    uint16_t left, right;
};

struct memory {
    uint32_t count, cuts;
    set sets[MOST_SETS];
    double sums[MOST_SETS];
    uint16_t slots[SET_SLOTS]; /* number of a set plus one */
    struct cut made[CUT_SLOTS];
};

static bool is_empty(const set *rows) {
    uint64_t any = 0;
    for (int i = 0; i < WORDS; i++)
        any |= rows->bits[i];
    return !any;
}

static bool is_equal(const set *a, const set *b) {
    uint64_t different = 0;
    for (int i = 0; i < WORDS; i++)
        different |= a->bits[i] ^ b->bits[i];
    return !different;
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
    if (axis->count == 1) /* nothing to cut */
        return;
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

/* The number of values that are at most the threshold. */
static uint32_t count_below(const struct axis *axis, float threshold) {
    uint32_t count = place_of(axis->values, axis->count, (double)threshold);
    return count + (count < axis->count && axis->values[count] == (double)threshold);
}

static void forget(struct memory *memory, const set *all) {
    memset(memory->slots, 0, sizeof memory->slots);
    memset(memory->made, 0, sizeof memory->made);
    memory->count = 1;
    memory->cuts = 0;
    memory->sets[0] = *all;
    memory->sums[0] = 0;
}

/* Gives each row the sums of the sets that it is in, and empties them. */
static void hand_out(struct memory *memory, double *sums) {
    for (uint32_t s = 0; s < memory->count; s++) {
        double value = memory->sums[s];
        memory->sums[s] = 0;
        if (value == 0)
            continue;
        for (int w = 0; w < WORDS; w++)
            for (uint64_t bits = memory->sets[s].bits[w]; bits; bits &= bits - 1)
                sums[w * 64 + __builtin_ctzll(bits)] += value;
    }
}

/* The number of a set, which becomes a new one if it was not there. There is room: see MOST_SETS below. */
static uint32_t number_of(struct memory *memory, const set *rows) {
    if (is_empty(rows))
        return NO_SET;
    static const uint64_t odd[WORDS] = {0x9e3779b97f4a7c15ull, 0xbf58476d1ce4e5b9ull, 0x94d049bb133111ebull,
                                        0xd6e8feb86659fd93ull};
    uint64_t hash = 0;
    for (int w = 0; w < WORDS; w++)
        hash += (rows->bits[w] ^ rows->bits[w] >> 32) * odd[w];
    for (uint32_t slot = hash >> 40;; slot++) {
        uint16_t *own = &memory->slots[slot % SET_SLOTS];
        if (!*own) {
            uint32_t number = memory->count++;
            memory->sets[number] = *rows;
            memory->sums[number] = 0;
            *own = (uint16_t)(number + 1);
            return number;
        }
        if (is_equal(&memory->sets[*own - 1], rows))
            return *own - 1u;
    }
}

/* What a cut makes of a set. */
static const struct cut *cut_of(struct memory *memory, uint32_t rows, uint32_t cut, const set *up_to) {
    uint32_t key = (rows << 16 | cut) + 1;
    for (uint32_t slot = key * 0x9e3779b1u >> 19;; slot++) {
        struct cut *own = &memory->made[slot % CUT_SLOTS];
        if (own->key == key)
            return own;
        if (!own->key) {
            set left, right;
            for (int w = 0; w < WORDS; w++) {
                left.bits[w] = memory->sets[rows].bits[w] & up_to->bits[w];
                right.bits[w] = memory->sets[rows].bits[w] & ~up_to->bits[w];
            }
            *own = (struct cut){key, (uint16_t)number_of(memory, &left), (uint16_t)number_of(memory, &right)};
            memory->cuts++;
            return own;
        }
    }
}

static void descend(const struct sw_model_node *nodes, const uint16_t *parts, const set *lefts,
                    struct memory *memory) {
    struct pending
        waiting[SW_ARTIFACT_DEPTH]; /* right children on the way down: no more than a path is long */
    size_t count = 0;
    uint32_t at = 0, rows = 0;
    for (;;) {
        const struct sw_model_node *node = &nodes[at];
        if (!node->right) {
            memory->sums[rows] += sw_model_leaf(node);
            if (!count)
                return;
            count--;
            at = waiting[count].node;
            rows = waiting[count].rows;
            continue;
        }
        uint32_t part = parts[node->what];
        if (part >= ALL_LEFT) {
            /* Which way cannot be foreseen: it is computed, not branched on. */
            uint32_t right = 0u - (part & 1);
            at = ((at + 1) & ~right) | (node->right & right);
            continue;
        }
        const struct cut *cut = cut_of(memory, rows, part, &lefts[part]);
        if (cut->left == NO_SET) {
            at = node->right;
            continue;
        }
        if (cut->right != NO_SET)
            waiting[count++] = (struct pending){node->right, cut->right};
        at++;
        rows = cut->left;
    }
}

/* A single row needs no sets. */
static double walk(const struct sw_model_node *nodes, const struct sw_model_cut *cuts,
                   const struct sw_column *encoded, size_t row) {
    const struct sw_model_node *node = nodes;
    while (node->right) {
        const struct sw_model_cut *cut = &cuts[node->what];
        const struct sw_column *column = &encoded[cut->feature];
        double value = compared(column->data[column->uniform ? 0 : row]);
        node = value <= (double)cut->threshold ? node + 1 : nodes + node->right;
    }
    return sw_model_leaf(node);
}

static void walk_all(const struct sw_model *model, const struct sw_model_member *member, size_t n,
                     const struct sw_column *encoded, double *sums) {
    for (size_t row = 0; row < n; row++) {
        double sum = 0;
        for (uint32_t b = 0; b < member->blocks; b++)
            sum += walk(model->nodes + model->blocks[member->first_block + b].first,
                        model->cuts + member->first_cut, encoded, row);
        sums[row] = member->base + member->scale * sum;
    }
}

/* The nodes of a tree, on their way from memory while the one before it is walked. */
static void fetch(const struct sw_model *model, const struct sw_model_block *block) {
    const char *from = (const char *)(model->nodes + block->first);
    size_t size = block->count * sizeof *model->nodes;
    for (size_t at = 0; at < size && at < 2048; at += 64)
        __builtin_prefetch(from + at);
}

/* What each cut of the member does to these rows; false if that are too many ways. */
static bool part(const struct sw_model *model, const struct sw_model_member *member, size_t start,
                 size_t rows, const struct sw_column *encoded, struct axis *axes, set *lefts,
                 uint16_t *parts) {
    uint32_t used = 0;
    for (uint32_t f = 0; f < member->features; f++) {
        const struct sw_column *column = &encoded[f];
        axes[f].up_to = lefts + used;
        measure(&axes[f], column->data + (column->uniform ? 0 : start), column->uniform ? 1 : rows);
        used += axes[f].count > 1 ? axes[f].count + 1 : 0;
    }
    if (used > MOST_PARTS)
        return false;
    for (uint32_t c = 0; c < member->cuts; c++) {
        const struct sw_model_cut *cut = &model->cuts[member->first_cut + c];
        const struct axis *axis = &axes[cut->feature];
        uint32_t below = count_below(axis, cut->threshold);
        if (below == 0)
            parts[c] = ALL_RIGHT;
        else if (below == axis->count)
            parts[c] = ALL_LEFT;
        else
            parts[c] = (uint16_t)((size_t)(axis->up_to - lefts) + below);
    }
    return true;
}

bool sw_model_trees(const struct sw_model *model, const struct sw_model_member *member, size_t n,
                    const struct sw_column *encoded, double *sums) {
    size_t features = member->features ? member->features : 1, group = n < GROUP ? n : GROUP;
    if (n < 4) {
        walk_all(model, member, n, encoded, sums);
        return true;
    }
    struct axis *axes = calloc(features, sizeof *axes);
    double *values = malloc(features * (group + 1) * sizeof *values);
    set *lefts = malloc(features * (group + 1) * sizeof *lefts);
    uint16_t *parts = malloc((member->cuts + (size_t)1) * sizeof *parts);
    struct memory *memory = malloc(sizeof *memory);
    bool ready = axes && values && lefts && parts && memory;
    for (size_t f = 0; ready && f < member->features; f++)
        axes[f].values = values + f * (group + 1);
    for (size_t start = 0; ready && start < n; start += group) {
        size_t rows = n - start < group ? n - start : group;
        set all = {{0}};
        for (size_t i = 0; i < rows; i++)
            all.bits[i / 64] |= 1ull << i % 64;
        double partial[GROUP] = {0};
        bool parted = part(model, member, start, rows, encoded, axes, lefts, parts);
        forget(memory, &all);
        for (uint32_t b = 0; b < member->blocks; b++) {
            const struct sw_model_block *block = &model->blocks[member->first_block + b];
            if (b + 1 < member->blocks)
                fetch(model, block + 1);
            /* A tree makes at most two sets a node. One that could overflow the memory walks row by row. */
            if (memory->count + 2 * (size_t)block->count > MOST_SETS ||
                memory->cuts + (size_t)block->count > CUT_SLOTS / 2) {
                hand_out(memory, partial);
                forget(memory, &all);
            }
            if (2 * (size_t)block->count + 1 <= MOST_SETS && parted)
                descend(model->nodes + block->first, parts, lefts, memory);
            else
                for (size_t i = 0; i < rows; i++)
                    partial[i] += walk(model->nodes + block->first, model->cuts + member->first_cut, encoded,
                                       start + i);
        }
        hand_out(memory, partial);
        for (size_t i = 0; i < rows; i++)
            sums[start + i] = member->base + member->scale * partial[i];
    }
    free(axes);
    free(values);
    free(lefts);
    free(parts);
    free(memory);
    return ready;
}
