/* SPDX-License-Identifier: BSD-3-Clause
 * The settings of HDF5: their names, what their texts stand for, and what follows from them. The shim and the
 * connector, which carry them out, ask here. */
#ifndef STRIPEWISE_HDF5_SETTINGS_H
#define STRIPEWISE_HDF5_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SW_H5_SPELLED 24       /* bytes of a value's text */
#define SW_H5_PLUGIN_VALUES 20 /* at most */

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
    SW_H5_CHUNK_SLOTS,
    SW_H5_MDC_SIZE,   /* of the metadata cache, when the file is opened */
    SW_H5_LIBVER_LOW, /* the oldest HDF5 that is to read the file */
    SW_H5_PAGE_BUFFER_SIZE,
    /* file creation */
    SW_H5_FILE_SPACE_STRATEGY,
    SW_H5_FILE_SPACE_PAGE_SIZE,
    /* dataset creation */
    SW_H5_CHUNK_SIZE,
    SW_H5_CHUNK_SHAPE,
    SW_H5_SHUFFLE,
    SW_H5_DEFLATE,
    SW_H5_FLETCHER32,
    SW_H5_SCALEOFFSET,
    SW_H5_SZIP,
    SW_H5_PLUGIN,
    SW_H5_FILL_TIME,
    SW_H5_ACCURACY,          /* reals are rounded by at most this before they are written */
    SW_H5_COLLECTIVE_WRITES, /* stated by the user: every write to a dataset is collective */
    SW_H5_DATASETS,          /* which datasets the keys since SW_H5_CHUNK_SIZE are for */
    SW_H5_KEYS
};
#define SW_H5_FILE_KEYS SW_H5_CHUNK_SIZE /* the first key that is not of a file */
extern const char *const sw_h5_key_names[SW_H5_KEYS];

/* The key of a name; SW_H5_KEYS if there is none. */
enum sw_h5_key sw_h5_key_of(const char *name);

/* The number that a value of a plan stands for; false if it cannot be. And the other way round. */
bool sw_h5_parse(enum sw_h5_key key, const char *text, uint64_t *value);
void sw_h5_spell(enum sw_h5_key key, uint64_t value, char text[SW_H5_SPELLED]);

/* The numbers of SW_H5_PLUGIN: a filter's own, and behind commas values for it. How many values, or -1. */
int sw_h5_parse_plugin(const char *text, unsigned *filter, unsigned values[SW_H5_PLUGIN_VALUES]);

/* Does one of the patterns of SW_H5_DATASETS, between commas, match the dataset's path or its last part? */
bool sw_h5_names(const char *patterns, const char *name);

/* The largest block of about so many bytes that keeps the fastest dimensions whole: what a rank's rows are.
 */
void sw_h5_divide(uint64_t bytes, uint64_t element_size, int rank, const unsigned long long size[],
                  unsigned long long chunk[]);

/* The chunk that a value of SW_H5_CHUNK_SHAPE asks for in a dataset of that name and size. The value is
 * `own`, or entries between commas, of which the first counts whose pattern and number of dimensions match:
 *     [WORD:][PATTERN=]DIMENSIONxDIMENSION...
 * A dimension is a number of elements, * (all), or asterisk, slash and a number (that part of all, rounded
 * up). The word only says where the entries come from. most: how large each dimension may become; one that
 * is not fixed has no "all", and keeps what it has in own (the program's chunk, or NULL). */
enum sw_h5_shape { SW_H5_SHAPED, SW_H5_OWN_SHAPE, SW_H5_NO_SHAPE, SW_H5_BAD_SHAPE };
enum sw_h5_shape sw_h5_chunk_shape(const char *value, const char *name, int rank,
                                   const unsigned long long size[], const unsigned long long most[],
                                   const unsigned long long *own, unsigned long long chunk[]);

/* How many slots a chunk cache of so many bytes wants, and no fewer than it has. */
size_t sw_h5_slots(uint64_t bytes, size_t least);

#endif
