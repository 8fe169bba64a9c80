/* SPDX-License-Identifier: BSD-3-Clause
 * The properties of HDF5 that settings are for: how they are spelled, and as numbers in property lists. */
#ifndef STRIPEWISE_H5_PROPERTIES_H
#define STRIPEWISE_H5_PROPERTIES_H

#include <stdbool.h>
#include <stdint.h>

#include "h5.h"

/* Keys of the plan, in the order of sw_h5_key_names. */
enum sw_h5_key {
    /* file access */
    SW_H5_ALIGNMENT,
    SW_H5_ALIGNMENT_THRESHOLD,
    SW_H5_META_BLOCK_SIZE,
    SW_H5_COLL_METADATA_WRITE,
    SW_H5_ALL_COLL_METADATA_OPS,
    SW_H5_SIEVE_BUF_SIZE,
    SW_H5_CHUNK_CACHE,
    /* file creation */
    SW_H5_FILE_SPACE_STRATEGY,
    SW_H5_FILE_SPACE_PAGE_SIZE,
    /* dataset creation */
    SW_H5_CHUNK_SIZE,
    SW_H5_SHUFFLE,
    SW_H5_DEFLATE,
    SW_H5_FLETCHER32,
    SW_H5_SCALEOFFSET,
    SW_H5_SZIP,
    SW_H5_PLUGIN,
    SW_H5_ACCURACY,          /* reals are rounded by at most this before they are written */
    SW_H5_COLLECTIVE_WRITES, /* stated by the user: every write to a dataset is collective */
    SW_H5_DATASETS,          /* which datasets the keys since SW_H5_CHUNK_SIZE are for */
    SW_H5_KEYS
};
#define SW_H5_FILE_KEYS SW_H5_CHUNK_SIZE /* the first key that is not of a file */
extern const char *const sw_h5_key_names[SW_H5_KEYS];

/* What HDF5 has where nobody sets anything. */
extern const uint64_t sw_h5_usual[SW_H5_FILE_KEYS];

/* The key of a name; SW_H5_KEYS if there is none. */
enum sw_h5_key sw_h5_key_of(const char *name);

/* The number that a value of a plan stands for; false if it cannot be. And the other way round. */
bool sw_h5_parse(enum sw_h5_key key, const char *text, uint64_t *value);
const char *sw_h5_spell(enum sw_h5_key key, uint64_t value);

/* What a property list of a file says, and is to say; false where this HDF5 cannot. */
bool sw_h5_get(sw_hid list, enum sw_h5_key key, uint64_t *value);
bool sw_h5_set(sw_hid list, enum sw_h5_key key, uint64_t value);

/* A text that is kept until the end. */
const char *sw_h5_keep(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
