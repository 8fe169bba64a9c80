/* SPDX-License-Identifier: BSD-3-Clause */
#include "settings.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Can a key or value stand in the text? A layout's key has one blank between its two words. */
static bool is_word(const char *text, size_t room, unsigned blanks) {
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == ';' || text[i] == 0x7f)
            return false;
        if (text[i] == ' ' && blanks-- == 0)
            return false;
    }
    return length && length < room && text[0] != ' ' && text[length - 1] != ' ';
}

const char *sw_settings_get(const struct sw_decided_set *set, enum sw_carrier carrier, const char *key) {
    for (uint32_t i = 0; i < set->count; i++)
        if (set->settings[i].carrier == carrier && strcmp(set->settings[i].key, key) == 0)
            return set->settings[i].value;
    return NULL;
}

bool sw_settings_put(struct sw_decided_set *set, enum sw_carrier carrier, const char *key,
                     const char *value) {
    bool layout = carrier == SW_LAYOUT;
    if (carrier > SW_HDF5 || !is_word(key, SW_DECIDED_KEY, layout) || layout != (strchr(key, ' ') != NULL) ||
        !is_word(value, SW_DECIDED_VALUE, UINT32_MAX))
        return false;
    uint32_t at = 0;
    while (at < set->count &&
           (set->settings[at].carrier != carrier || strcmp(set->settings[at].key, key) != 0))
        at++;
    if (at == SW_MAX_DECIDED)
        return false;
    struct sw_decided *own = &set->settings[at];
    own->carrier = carrier;
    snprintf(own->key, sizeof own->key, "%s", key);
    snprintf(own->value, sizeof own->value, "%s", value);
    set->count += at == set->count;
    return true;
}

static int by_key(const void *a, const void *b) {
    const struct sw_decided *left = a, *right = b;
    return left->carrier != right->carrier
               ? (left->carrier > right->carrier) - (left->carrier < right->carrier)
               : strcmp(left->key, right->key);
}

bool sw_settings_print(const struct sw_decided_set *set, char *text, size_t size) {
    struct sw_decided_set sorted = *set;
    size_t used = 0;
    if (!size)
        return false;
    qsort(sorted.settings, sorted.count, sizeof *sorted.settings, by_key);
    *text = '\0';
    for (uint32_t i = 0; i < sorted.count; i++) {
        const struct sw_decided *own = &sorted.settings[i];
        int length = snprintf(text + used, size - used, "%s%s %s %s", i ? ";" : "",
                              sw_carrier_names[own->carrier], own->key, own->value);
        if (length < 0 || (size_t)length >= size - used)
            return false;
        used += (size_t)length;
    }
    return true;
}

static bool parse_one(char *line, struct sw_decided_set *set) {
    for (int carrier = SW_HINT; carrier <= SW_HDF5; carrier++) {
        size_t length = strlen(sw_carrier_names[carrier]);
        if (strncmp(line, sw_carrier_names[carrier], length) != 0 || line[length] != ' ')
            continue;
        char *key = line + length + 1, *value = strchr(key, ' ');
        if (value && carrier == SW_LAYOUT)
            value = strchr(value + 1, ' ');
        if (!value)
            return false;
        *value++ = '\0';
        return sw_settings_put(set, (enum sw_carrier)carrier, key, value);
    }
    return false;
}

bool sw_settings_parse(const char *text, struct sw_decided_set *set) {
    char line[SW_DECIDED_KEY + SW_DECIDED_VALUE + 16];
    set->count = 0;
    while (*text) {
        size_t length = strcspn(text, ";");
        if (length >= sizeof line) {
            set->count = 0;
            return false;
        }
        memcpy(line, text, length);
        line[length] = '\0';
        if (!parse_one(line, set)) {
            set->count = 0;
            return false;
        }
        text += length + (text[length] == ';');
    }
    return true;
}
