/* SPDX-License-Identifier: BSD-3-Clause
 * The plan: a bounded, allocation-checked parser of the grammar in stripewise_format.h. */
#ifndef STRIPEWISE_PLAN_H
#define STRIPEWISE_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "stripewise_format.h"

/* As the plan and the report spell the carriers. */
extern const char *const sw_carrier_names[SW_CARRIERS];

struct sw_setting {
    enum sw_carrier carrier;
    const char *glob;  /* which files */
    const char *key;   /* for a layout: "FILESYSTEM KEY" */
    const char *value; /* never empty */
};

/* Parents whose files are laid out although their own layout is of this kind. */
enum sw_allowance { SW_ALLOW_COMPOSITE = 1, SW_ALLOW_POOL = 2 };

struct sw_plan {
    char id[SW_MAX_ID + 1]; /* "" if the plan has none */
    bool override;
    unsigned allow; /* bits of enum sw_allowance */
    size_t count;
    struct sw_setting *settings;
    size_t words;            /* lines that describe the workload: their settings have no carrier */
    struct sw_setting *word; /* key: a word of the workload or a column of the model */
    char *text;              /* the settings' strings live here */
};

/* Parses size bytes of text, which need not end in NUL. Returns true and a plan to be released with
 * sw_plan_free; or false, an empty plan, and in error (of error_size bytes) "line N: what is wrong", or "what
 * is wrong" where no line is at fault. */
bool sw_plan_parse(const char *text, size_t size, struct sw_plan *plan, char *error, size_t error_size);

/* Reads at most SW_MAX_PLAN_BYTES of the file at path into a new buffer (*text, to be freed; size in *size).
 * Returns false with the reason in error. */
bool sw_plan_read(const char *path, char **text, size_t *size, char *error, size_t error_size);

void sw_plan_free(struct sw_plan *plan);

/* Does the setting apply to the file of this absolute path? */
bool sw_setting_matches(const struct sw_setting *setting, const char *path);

#endif
