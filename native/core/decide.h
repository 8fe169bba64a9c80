/* SPDX-License-Identifier: BSD-3-Clause
 * From a workload and what already acts to settings: the model's choice for one open. */
#ifndef STRIPEWISE_DECIDE_H
#define STRIPEWISE_DECIDE_H

#include "layout.h"
#include "plan.h"
#include "workload.h"

/* What of an open cannot be chosen. */
struct sw_scene {
    const struct sw_file_system *place; /* where the file is or will be; NULL: no layouts there */
    struct sw_layout layout;            /* that acts now: the file's, or its folder's default */
    bool layable;                       /* the file may be laid out */
    bool ompio;                         /* ROMIO's hints do nothing here, or harm */
    bool hdf5;                          /* opened through HDF5: its properties may be chosen */
    /* What somebody else sets a hint, a layout key ("lustre stripe_count") or a property of HDF5 to, or NULL;
     * may itself be NULL. A property that cannot be chosen counts as set by somebody else. */
    const char *(*taken)(const void *context, enum sw_carrier carrier, const char *key);
    /* What a property of HDF5 has where nobody sets it, by the library that is there, or NULL; may itself be
     * NULL. A model knows the default of the library that it was measured with. */
    const char *(*usual)(const void *context, enum sw_carrier carrier, const char *key);
    const void *context;
};

extern const char *const sw_verdict_names[SW_VERDICTS];

/* What only the program can change. */
struct sw_program_advice {
    double transfer_size; /* bytes a call; 0: none */
    int collective;       /* 1: collective calls, 0: independent ones, -1: no advice */
    double gain;          /* ln of how many times better than the settings prescribed */
};

#define SW_WHY 240

struct sw_decision {
    enum sw_verdict verdict;
    double current, predicted,
        gain,   /* objective now and as decided; gain: ln of the best's over the current's */
        margin; /* of this workload, ln */
    uint64_t combinations;
    struct sw_decided_set chosen;
    char why[SW_WHY];
};

/* Other settings that are predicted to do well, best first, the default not among them. */
struct sw_other {
    struct sw_decided_set set;
    double gain; /* ln of how many times better than the current settings; negative: worse */
};

/* Decides. others (NULL: none wanted) has room for count entries and receives how many there are in *count.
 */
void sw_decide(const struct sw_model *model, const struct sw_workload *workload, const struct sw_scene *scene,
               struct sw_decision *decision, struct sw_other *others, size_t *count);

/* What the program itself should do, with the best settings for it. False if the model has nothing to say. */
bool sw_decide_advice(const struct sw_model *model, const struct sw_workload *workload,
                      const struct sw_scene *scene, struct sw_program_advice *advice);

#endif
