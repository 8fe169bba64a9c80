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
                                                 "file_space_strategy",
                                                 "file_space_page_size",
                                                 "chunk_size",
                                                 "shuffle",
                                                 "deflate",
                                                 "fletcher32",
                                                 "scaleoffset",
                                                 "szip",
                                                 "plugin",
                                                 "accuracy",
                                                 "collective_writes",
                                                 "datasets"};

static const char *const strategies[] = {"fsm_aggr", "page", "aggr", "none"};

/* What HDF5 has where nobody sets anything. */
const uint64_t sw_h5_usual[SW_H5_FILE_KEYS] = {
    [SW_H5_ALIGNMENT] = 1,          [SW_H5_ALIGNMENT_THRESHOLD] = 1, [SW_H5_META_BLOCK_SIZE] = 2048,
    [SW_H5_SIEVE_BUF_SIZE] = 65536, [SW_H5_CHUNK_CACHE] = 1048576,   [SW_H5_FILE_SPACE_PAGE_SIZE] = 4096};

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
                        [SW_H5_SZIP] = {2, 32}};

bool sw_h5_parse(enum sw_h5_key key, const char *text, uint64_t *value) {
    if (key == SW_H5_FILE_SPACE_STRATEGY) {
        for (*value = 0; *value < sizeof strategies / sizeof *strategies; ++*value)
            if (strcmp(text, strategies[*value]) == 0)
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
    if (key == SW_H5_FILE_SPACE_STRATEGY)
        word = value < sizeof strategies / sizeof *strategies ? strategies[value] : "unknown";
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

/* HDF5 asks for a prime number, about ten times as many as chunks fit; it has 521 for 1 MiB. */
size_t sw_h5_slots(uint64_t bytes) {
    size_t slots = (size_t)(bytes / 1048576 * 521) | 1;
    if (slots < 521)
        return 521;
    for (size_t divisor = 3; divisor * divisor <= slots; divisor += 2)
        if (slots % divisor == 0) {
            slots += 2;
            divisor = 1;
        }
    return slots;
}
