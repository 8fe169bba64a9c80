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
#define LANES 16
#define NO_SET 0xffffu

typedef struct {
    uint64_t bits[WORDS];
} set;

/* The distinct values of a feature in ascending order; up_to[i] are the rows with one of the first i. Cuts
 * between them are numbered on from first_cut. */
typedef float four __attribute__((vector_size(16), aligned(4)));
typedef int32_t four_truths __attribute__((vector_size(16)));

struct axis {
    float lanes[LANES]; /* the values once more, then infinity, if they are few and all of them floats */
    bool few;
    uint32_t count, first_cut;
    double *values;
    set *up_to;
};

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
    axis->few = axis->count <= LANES;
    for (uint32_t i = 0; i < LANES; i++) {
        double value = i < axis->count ? axis->values[i] : INFINITY;
        axis->lanes[i] = (float)value;
        axis->few &= (double)axis->lanes[i] == value;
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

/* The number of values that are at most the threshold. Few are all compared: no branch can be foreseen here.
 */
static inline uint32_t count_below(const struct axis *axis, float threshold) {
    if (axis->few) {
        four limit = {threshold, threshold, threshold, threshold};
        four_truths below = -(*(const four *)axis->lanes <= limit);
        for (uint32_t i = 4; i < axis->count; i += 4)
            below -= *(const four *)(axis->lanes + i) <= limit;
        return (uint32_t)(below[0] + below[1] + below[2] + below[3]);
    }
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

static void descend(const struct sw_model_node *nodes, const struct axis *axes, struct memory *memory) {
    struct pending
        waiting[SW_ARTIFACT_DEPTH]; /* right children on the way down: no more than a path is long */
    size_t count = 0;
    uint32_t at = 0, rows = 0;
    for (;;) {
        const struct sw_model_node *node = &nodes[at];
        if (node->feature == SW_ARTIFACT_NONE) {
            memory->sums[rows] += (double)node->value;
            if (!count)
                return;
            count--;
            at = waiting[count].node;
            rows = waiting[count].rows;
            continue;
        }
        const struct axis *axis = &axes[node->feature];
        uint32_t below = count_below(axis, node->value);
        /* Which way all rows go cannot be foreseen: it is computed, not branched on. */
        uint32_t left = 0u - (below != 0);
        if (below - 1 >= axis->count - 1) {
            at = ((at + 1) & left) | (node->right & ~left);
            continue;
        }
        const struct cut *cut = cut_of(memory, rows, axis->first_cut + below, &axis->up_to[below]);
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
static double walk(const struct sw_model_node *node, const struct sw_column *encoded, size_t row) {
    const struct sw_model_node *nodes = node;
    while (node->feature != SW_ARTIFACT_NONE) {
        const struct sw_column *column = &encoded[node->feature];
        double value = compared(column->data[column->uniform ? 0 : row]);
        node = value <= (double)node->value ? node + 1 : nodes + node->right;
    }
    return (double)node->value;
}

static void walk_all(const struct sw_model *model, const struct sw_model_member *member, size_t n,
                     const struct sw_column *encoded, double *sums) {
    for (size_t row = 0; row < n; row++) {
        double sum = 0;
        for (uint32_t b = 0; b < member->blocks; b++)
            sum += walk(model->nodes + model->blocks[member->first_block + b].first, encoded, row);
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

bool sw_model_trees(const struct sw_model *model, const struct sw_model_member *member, size_t n,
                    const struct sw_column *encoded, double *sums) {
    size_t features = member->features ? member->features : 1, group = n < GROUP ? n : GROUP;
    if (n < 4) {
        walk_all(model, member, n, encoded, sums);
        return true;
    }
    struct axis *axes = calloc(features, sizeof *axes);
    double *values = malloc(features * (group + 1) * sizeof *values);
    set *sets = malloc(features * (group + 1) * sizeof *sets);
    struct memory *memory = malloc(sizeof *memory);
    bool ready = axes && values && sets && memory;
    for (size_t f = 0; ready && f < member->features; f++) {
        axes[f].values = values + f * (group + 1);
        axes[f].up_to = sets + f * (group + 1);
    }
    for (size_t start = 0; ready && start < n; start += group) {
        size_t rows = n - start < group ? n - start : group;
        uint32_t cuts = 0;
        set all = {{0}};
        for (size_t i = 0; i < rows; i++)
            all.bits[i / 64] |= 1ull << i % 64;
        double partial[GROUP] = {0};
        for (size_t f = 0; f < member->features; f++) {
            const struct sw_column *column = &encoded[f];
            measure(&axes[f], column->data + (column->uniform ? 0 : start), column->uniform ? 1 : rows);
            axes[f].first_cut = cuts;
            cuts += axes[f].count;
        }
        forget(memory, &all);
        for (uint32_t b = 0; b < member->blocks; b++) {
            const struct sw_model_block *block = &model->blocks[member->first_block + b];
            if (b + 1 < member->blocks)
                fetch(model, block + 1);
            /* A tree makes at most two sets a node. One that could overflow the memory walks row by row. */
            if (memory->count + 2 * (size_t)block->count > MOST_SETS ||
                memory->cuts + (size_t)block->count > CUT_SLOTS / 2 || cuts > 0xfffe) {
                hand_out(memory, partial);
                forget(memory, &all);
            }
            if (2 * (size_t)block->count + 1 <= MOST_SETS && cuts <= 0xfffe)
                descend(model->nodes + block->first, axes, memory);
            else
                for (size_t i = 0; i < rows; i++)
                    partial[i] += walk(model->nodes + block->first, encoded, start + i);
        }
        hand_out(memory, partial);
        for (size_t i = 0; i < rows; i++)
            sums[start + i] = member->base + member->scale * partial[i];
    }
    free(axes);
    free(values);
    free(sets);
    free(memory);
    return ready;
}
