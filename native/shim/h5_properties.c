/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "h5_properties.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5.h"
#include "runtime.h"

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

const char *sw_h5_keep(const char *format, ...) {
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return sw_arena_intern(&sw_runtime.files.arena, text);
}

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
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

const char *sw_h5_spell(enum sw_h5_key key, uint64_t value) {
    if (key == SW_H5_FILE_SPACE_STRATEGY)
        return value < sizeof strategies / sizeof *strategies ? strategies[value] : "unknown";
    if (is_flag(key))
        return value ? "true" : "false";
    return sw_h5_keep("%llu", (unsigned long long)value);
}

bool sw_h5_get(sw_hid list, enum sw_h5_key key, uint64_t *value) {
    sw_hsize first = 0, second = 0;
    size_t slots = 0, bytes = 0;
    double weight = 0;
    int number = 0;
    uint64_t flag = 0; /* of which HDF5 fills one byte or four */
    switch (key) {
    case SW_H5_ALIGNMENT:
    case SW_H5_ALIGNMENT_THRESHOLD:
        if (sw_h5.H5Pget_alignment(list, &first, &second) < 0)
            return false;
        *value = key == SW_H5_ALIGNMENT ? second : first;
        return true;
    case SW_H5_META_BLOCK_SIZE:
        return sw_h5.H5Pget_meta_block_size(list, &first) >= 0 && (*value = first, true);
    case SW_H5_COLL_METADATA_WRITE:
        return sw_h5.H5Pget_coll_metadata_write && sw_h5.H5Pget_coll_metadata_write(list, &flag) >= 0 &&
               (*value = flag & 1, true);
    case SW_H5_ALL_COLL_METADATA_OPS:
        return sw_h5.H5Pget_all_coll_metadata_ops && sw_h5.H5Pget_all_coll_metadata_ops(list, &flag) >= 0 &&
               (*value = flag & 1, true);
    case SW_H5_SIEVE_BUF_SIZE:
        return sw_h5.H5Pget_sieve_buf_size(list, &bytes) >= 0 && (*value = bytes, true);
    case SW_H5_CHUNK_CACHE:
        return sw_h5.H5Pget_cache(list, &number, &slots, &bytes, &weight) >= 0 && (*value = bytes, true);
    case SW_H5_FILE_SPACE_STRATEGY:
        return sw_h5.H5Pget_file_space_strategy &&
               sw_h5.H5Pget_file_space_strategy(list, &number, &flag, &first) >= 0 &&
               (*value = (uint64_t)number, true);
    case SW_H5_FILE_SPACE_PAGE_SIZE:
        return sw_h5.H5Pget_file_space_page_size && sw_h5.H5Pget_file_space_page_size(list, &first) >= 0 &&
               (*value = first, true);
    default:
        return false;
    }
}

/* HDF5 asks for a prime number of slots, about ten times as many as chunks fit; it has 521 for 1 MiB. */
static size_t slots_for(uint64_t bytes) {
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

bool sw_h5_set(sw_hid list, enum sw_h5_key key, uint64_t value) {
    sw_hsize first = 0, second = 0;
    size_t slots = 0, bytes = 0;
    double weight = 0;
    int number = 0;
    uint64_t flag = 0;
    switch (key) {
    case SW_H5_ALIGNMENT:
    case SW_H5_ALIGNMENT_THRESHOLD:
        return sw_h5.H5Pget_alignment(list, &first, &second) >= 0 &&
               sw_h5.H5Pset_alignment(list, key == SW_H5_ALIGNMENT ? first : value,
                                      key == SW_H5_ALIGNMENT ? value : second) >= 0;
    case SW_H5_META_BLOCK_SIZE:
        return sw_h5.H5Pset_meta_block_size(list, value) >= 0;
    case SW_H5_COLL_METADATA_WRITE:
        return sw_h5.H5Pset_coll_metadata_write && sw_h5.H5Pset_coll_metadata_write(list, value != 0) >= 0;
    case SW_H5_ALL_COLL_METADATA_OPS:
        return sw_h5.H5Pset_all_coll_metadata_ops &&
               sw_h5.H5Pset_all_coll_metadata_ops(list, value != 0) >= 0;
    case SW_H5_SIEVE_BUF_SIZE:
        return sw_h5.H5Pset_sieve_buf_size(list, (size_t)value) >= 0;
    case SW_H5_CHUNK_CACHE:
        return sw_h5.H5Pget_cache(list, &number, &slots, &bytes, &weight) >= 0 &&
               sw_h5.H5Pset_cache(list, number, slots_for(value), (size_t)value, weight) >= 0;
    case SW_H5_FILE_SPACE_STRATEGY:
        if (!sw_h5.H5Pget_file_space_strategy || !sw_h5.H5Pset_file_space_strategy ||
            sw_h5.H5Pget_file_space_strategy(list, &number, &flag, &first) < 0)
            return false;
        return sw_h5.H5Pset_file_space_strategy(list, (int)value, flag & 1, first ? first : 1) >= 0;
    case SW_H5_FILE_SPACE_PAGE_SIZE:
        return sw_h5.H5Pset_file_space_page_size && sw_h5.H5Pset_file_space_page_size(list, value) >= 0;
    default:
        return false;
    }
}
