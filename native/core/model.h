/* SPDX-License-Identifier: BSD-3-Clause
 * The artifact of stripewise_format.h: a performance model that is read, checked once, and then evaluated for
 * one or many configurations. Nothing here knows MPI. */
#ifndef STRIPEWISE_MODEL_H
#define STRIPEWISE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "stripewise_format.h"

struct sw_model {
    void *memory; /* all arrays below point into it */
    size_t size;
    uint32_t flags, name, identifier, objective, unit, result;
    uint32_t margin; /* program of a workload: the gain (ln) below which the current settings stay */
    double reach;    /* the largest gain (ln) that the measurements support; 0: unknown */
    uint32_t measured, expected; /* of the constraints: see the artifact's section */
    uint64_t steps;              /* of one prediction with its rules, about */
    uint32_t counts[SW_SECTIONS];
#define X(name, type, section) const type *name; /* NOLINT(bugprone-macro-parentheses) */
    SW_MODEL_SECTIONS(X)
#undef X
};

/* The value of a leaf. */
static inline double sw_model_leaf(const struct sw_model_node *node) {
    float value;
    memcpy(&value, &node->what, sizeof value);
    return (double)value;
}

/* Many numbers of one quantity, or one that holds for all. */
struct sw_column {
    const double *data;
    bool uniform;
};

/* The same for a copy of any bytes, and for the file at path. */
bool sw_model_parse(const void *data, size_t size, struct sw_model *model, char *error, size_t error_size);
bool sw_model_read(const char *path, struct sw_model *model, char *error, size_t error_size);
void sw_model_free(struct sw_model *model);

/* The string at an offset of the section strings. */
const char *sw_model_text(const struct sw_model *model, uint32_t offset);

/* Number of the first input with this role (or, if role is NULL, of this name); SW_ARTIFACT_NONE if there is
 * none. */
uint32_t sw_model_find(const struct sw_model *model, const char *role, const char *name);

/* The number that stands for a text in all arithmetic; -1 if the artifact does not have it. */
double sw_model_code(const struct sw_model *model, const char *text);

/* Runs a program for n rows into out, which has room for n. inputs: one column an input; output: what OUTPUT
 * pushes, or NULL. Returns whether the result is uniform (then out[0] alone is set). scratch: room for
 * SW_ARTIFACT_STACK * n numbers. */
bool sw_model_run(const struct sw_model *model, uint32_t program, size_t n, const struct sw_column *inputs,
                  const double *output, double *out, double *scratch);

/* log2 in steps that Python repeats to the bit. */
double sw_model_log2(double x);

/* The features of a member for n rows: features[i] of encoded, each of n numbers at data + i * n. */
void sw_model_encode(const struct sw_model *model, uint32_t member, size_t n, const struct sw_column *inputs,
                     double *data, struct sw_column *encoded, double *scratch);

/* Adds a member's raw output for n rows to sums (n numbers, zeroed before). Return false if memory is out. */
bool sw_model_trees(const struct sw_model *model, const struct sw_model_member *member, size_t n,
                    const struct sw_column *encoded, double *sums);

/* Predicts the objective for n rows. Returns false if memory is out. */
bool sw_model_predict(const struct sw_model *model, size_t n, const struct sw_column *inputs, double *values);

/* Rows predicted at a time: they and all that is computed of them stay in the caches. */
#define SW_MODEL_BATCH 1024

/* Another combination that is predicted to do well. */
struct sw_alternative {
    double score, cost;           /* of the search */
    double values[SW_MAX_INPUTS]; /* of every input */
    double gain;                  /* ln of how many times better than the current settings */
};

/* What is asked for one workload. */
struct sw_question {
    const double *inputs; /* one number an input, of tunables the current one */
    uint64_t unknown;     /* bits of inputs of which every value that was measured counts alike */
    uint64_t held;        /* bits of tunables that keep their current value */
    uint64_t
        freed;     /* bits of tunables that may be chosen although the artifact says that they are not free */
    bool simplify; /* take back changes that bring less than SW_WORTH */
    size_t wanted; /* alternatives, best first; the best itself is the first of them */
    struct sw_alternative *alternatives;
};

/* What is best for a workload. */
struct sw_choice {
    size_t combinations;          /* distinct, allowed, evaluated */
    double current, best;         /* predicted objective */
    double margin;                /* of this workload */
    bool unlike;                  /* nothing was measured with this workload and today's settings */
    bool changed;                 /* whether the gain is supported and more than the margin, and not unlike */
    double values[SW_MAX_INPUTS]; /* of every input; tunables as chosen (as they were if not changed) */
    double gain;                  /* ln of how many times better the best combination is, changed or not, at
                                     most the model's reach */
    size_t alternatives;          /* found */
};

/* Evaluates every combination of the free tunables. Returns false with a reason. */
bool sw_model_ask(const struct sw_model *model, const struct sw_question *question, struct sw_choice *choice,
                  char *error, size_t error_size);

/* The same where all is known and nothing held: inputs are one number an input, of tunables the current one.
 */
bool sw_model_choose(const struct sw_model *model, const double *inputs, struct sw_choice *choice,
                     char *error, size_t error_size);

#endif
