/* SPDX-License-Identifier: BSD-3-Clause */
#include "hdf5_settings.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const sw_h5_key_names[SW_H5_KEYS] = {"alignment",
                                                 "alignment_threshold",
                                                 "meta_block_size",
                                                 "coll_metadata_write",
                                                 "all_coll_metadata_ops",
                                                 "sieve_buf_size",
                                                 "chunk_cache",
                                                 "chunk_slots",
                                                 "mdc_size",
                                                 "libver_low",
                                                 "page_buffer_size",
                                                 "file_space_strategy",
                                                 "file_space_page_size",
                                                 "chunk_size",
                                                 "chunk_shape",
                                                 "shuffle",
                                                 "deflate",
                                                 "fletcher32",
                                                 "scaleoffset",
                                                 "szip",
                                                 "plugin",
                                                 "fill_time",
                                                 "accuracy",
                                                 "collective_writes",
                                                 "datasets"};

/* The words of a key, at the places that are their numbers in HDF5; NULL ends them. */
static const char *const *words_of(enum sw_h5_key key) {
    static const char *const strategies[] = {"fsm_aggr", "page", "aggr", "none", NULL};
    static const char *const versions[] = {"earliest", "v18", "v110", "v112", "v114", "v200", NULL};
    static const char *const fill_times[] = {"alloc", "never", "ifset", NULL};
    return key == SW_H5_FILE_SPACE_STRATEGY ? strategies
           : key == SW_H5_LIBVER_LOW        ? versions
           : key == SW_H5_FILL_TIME         ? fill_times
                                            : NULL;
}

enum sw_h5_key sw_h5_key_of(const char *name) {
    int key = 0;
    while (key < SW_H5_KEYS && strcmp(name, sw_h5_key_names[key]) != 0)
        key++;
    return (enum sw_h5_key)key;
}

static bool is_flag(enum sw_h5_key key) {
    return key == SW_H5_COLL_METADATA_WRITE || key == SW_H5_ALL_COLL_METADATA_OPS || key == SW_H5_SHUFFLE ||
           key == SW_H5_FLETCHER32 || key == SW_H5_COLLECTIVE_WRITES;
}

/* The least and most that a number may be; most is 0: anything. */
static const struct {
    uint64_t least, most;
} limits[SW_H5_KEYS] = {[SW_H5_CHUNK_SIZE] = {1, 0xffffffff}, /* HDF5's own limit */
                        [SW_H5_DEFLATE] = {0, 9},
                        [SW_H5_SCALEOFFSET] = {0, 15},
                        [SW_H5_CHUNK_SLOTS] = {1, 0xffffffff},
                        [SW_H5_MDC_SIZE] = {1024, 134217728}, /* HDF5's own limits */
                        [SW_H5_SZIP] = {2, 32}};

bool sw_h5_parse(enum sw_h5_key key, const char *text, uint64_t *value) {
    const char *const *words = words_of(key);
    if (words) {
        for (*value = 0; words[*value]; ++*value)
            if (strcmp(text, words[*value]) == 0)
                return true;
        return false;
    }
    if (is_flag(key)) {
        *value = strcmp(text, "true") == 0 || strcmp(text, "yes") == 0;
        return *value || strcmp(text, "false") == 0 || strcmp(text, "no") == 0;
    }
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno && *value >= limits[key].least &&
           (!limits[key].most || *value <= limits[key].most) && !(key == SW_H5_SZIP && *value % 2);
}

void sw_h5_spell(enum sw_h5_key key, uint64_t value, char text[SW_H5_SPELLED]) {
    const char *word = !is_flag(key) ? NULL : value ? "true" : "false";
    const char *const *words = words_of(key);
    for (uint64_t i = 0; words && i <= value; i++) {
        word = words[i];
        if (!word) {
            word = "unknown";
            break;
        }
    }
    if (word)
        snprintf(text, SW_H5_SPELLED, "%s", word);
    else
        snprintf(text, SW_H5_SPELLED, "%llu", (unsigned long long)value);
}

int sw_h5_parse_plugin(const char *text, unsigned *filter, unsigned values[SW_H5_PLUGIN_VALUES]) {
    int count = -1;
    for (const char *at = text; at;) {
        char *end;
        unsigned long number = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 0x100000000ul;
        if (number > 0xffffffff || (*end && *end != ',') || count == SW_H5_PLUGIN_VALUES)
            return -1;
        if (count < 0)
            *filter = (unsigned)number;
        else
            values[count] = (unsigned)number;
        count++;
        at = *end ? end + 1 : NULL;
    }
    return *filter < 256 || *filter > 65535 ? -1 : count;
}

bool sw_h5_names(const char *patterns, const char *name) {
    char pattern[1024];
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    while (*name == '/')
        name++;
    for (const char *at = patterns; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        at += *at == '/';
        snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(at, ","), at);
        if (fnmatch(pattern, name, 0) == 0 || fnmatch(pattern, last, 0) == 0)
            return true;
    }
    return false;
}

void sw_h5_divide(uint64_t bytes, uint64_t element_size, int rank, const unsigned long long size[],
                  unsigned long long chunk[]) {
    uint64_t left = bytes / element_size;
    if (!left)
        left = 1;
    for (int i = rank - 1; i >= 0; i--) {
        chunk[i] = size[i] < left ? size[i] : left;
        left = left / chunk[i] ? left / chunk[i] : 1;
    }
}

/* One entry's dimensions, which end at end; how many, or -1 where they are none. */
static int read_shape(const char *at, const char *end, unsigned long long number[], unsigned long long part[],
                      int most) {
    int rank = 0;
    for (char *next; at < end && rank < most; at = next + 1, rank++) {
        number[rank] = part[rank] = 0;
        next = (char *)at + (*at == '*');
        if (*at == '*') {
            part[rank] = 1;
            if (*next == '/')
                part[rank] = next[1] >= '0' && next[1] <= '9' ? strtoull(next + 1, &next, 10) : 0;
        } else if (*at >= '0' && *at <= '9') {
            number[rank] = strtoull(at, &next, 10);
        }
        if (!number[rank] == !part[rank] || next > end || (next < end && *next != 'x'))
            return -1;
        if (next == end)
            return rank + 1;
    }
    return -1;
}

static const char *behind_word(const char *value) {
    static const char *const words[] = {"writers:", "readers:", "balanced:"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(value, words[i], strlen(words[i])) == 0)
            return value + strlen(words[i]);
    return value;
}

enum sw_h5_shape sw_h5_chunk_shape(const char *value, const char *name, int rank,
                                   const unsigned long long size[], const unsigned long long most[],
                                   const unsigned long long *own, unsigned long long chunk[]) {
    enum { RANK = 32, NAME = 1024 };
    unsigned long long number[RANK], part[RANK];
    char pattern[NAME];
    bool found = false;
    if (strcmp(value, "own") == 0)
        return SW_H5_OWN_SHAPE;
    for (const char *at = behind_word(value); at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const char *end = at + strcspn(at, ","), *dimensions = at;
        for (const char *c = at; c < end; c++)
            if (*c == '=')
                dimensions = c + 1;
        int entry = read_shape(dimensions, end, number, part, RANK);
        if (entry < 0 || dimensions - at >= NAME)
            return SW_H5_BAD_SHAPE;
        snprintf(pattern, sizeof pattern, "%.*s", dimensions > at ? (int)(dimensions - at - 1) : 0, at);
        if (found || entry != rank || (dimensions > at && !(name && sw_h5_names(pattern, name))))
            continue;
        found = true;
        for (int i = 0; i < rank; i++) {
            bool fixed = most[i] == size[i];
            chunk[i] = !part[i] ? number[i] : fixed ? (size[i] + part[i] - 1) / part[i] : (own ? own[i] : 1);
            if (chunk[i] > most[i])
                chunk[i] = most[i];
        }
    }
    return found ? SW_H5_SHAPED : SW_H5_NO_SHAPE;
}

/* HDF5 asks for a prime number, about ten times as many as chunks fit; before 2.0 it has 521 for 1 MiB. */
size_t sw_h5_slots(uint64_t bytes, size_t least) {
    size_t slots = (size_t)(bytes / 1048576 * 521) | 1;
    if (slots <= least)
        return least;
    for (size_t divisor = 3; divisor * divisor <= slots; divisor += 2)
        if (slots % divisor == 0) {
            slots += 2;
            divisor = 1;
        }
    return slots;
}
