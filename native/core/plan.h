/* SPDX-License-Identifier: BSD-3-Clause
 * The plan: a bounded, allocation-checked parser of the grammar in stripewise_format.h. */
#ifndef STRIPEWISE_PLAN_H
#define STRIPEWISE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stripewise_format.h"

/* As the plan and the report spell the carriers. */
extern const char *const sw_carrier_names[SW_CARRIERS];

struct sw_setting {
    enum sw_carrier carrier;
    const char *glob;  /* which files */
    const char *key;   /* for a layout: "FILESYSTEM KEY" */
    const char *value; /* never empty */
};

/* What may be done for a layout: replace what a folder of this kind gives to its files, make empty files
 * anew. */
enum sw_allowance { SW_ALLOW_COMPOSITE = 1, SW_ALLOW_POOL = 2, SW_ALLOW_EMPTY = 4 };

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

/* ---- settings that belong together ----
 * Settings that belong together, and their text: "hint cb_nodes 4;layout lustre stripe_count 8;hdf5 alignment
 * 65536". */

#define SW_MAX_DECIDED 24
#define SW_DECIDED_KEY 64
#define SW_DECIDED_VALUE 64

struct sw_decided {
    enum sw_carrier carrier;  /* SW_HINT, SW_LAYOUT or SW_HDF5 */
    char key[SW_DECIDED_KEY]; /* of a layout "FILESYSTEM KEY" */
    char value[SW_DECIDED_VALUE];
};

/* None: the program as it is. */
struct sw_decided_set {
    uint32_t count;
    struct sw_decided settings[SW_MAX_DECIDED];
};

/* Adds a setting, or replaces that of the same layer and key. False if the set is full, or it cannot be
 * written. */
bool sw_settings_put(struct sw_decided_set *set, enum sw_carrier carrier, const char *key, const char *value);

/* The value of a key, or NULL. */
const char *sw_settings_get(const struct sw_decided_set *set, enum sw_carrier carrier, const char *key);

/* Writes the settings in the order of their layers and keys, so that equal sets have equal texts. False if
 * they do not fit. */
bool sw_settings_print(const struct sw_decided_set *set, char *text, size_t size);

/* Reads what sw_settings_print wrote. False, and an empty set, if it is nothing of the kind. */
bool sw_settings_parse(const char *text, struct sw_decided_set *set);

#endif
