/* SPDX-License-Identifier: BSD-3-Clause
 * Settings that belong together, and their text: "hint cb_nodes 4;layout lustre stripe_count 8;hdf5 alignment
 * 65536". */
#ifndef STRIPEWISE_SETTINGS_H
#define STRIPEWISE_SETTINGS_H

#include <stdint.h>

#include "plan.h"

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
