/* SPDX-License-Identifier: BSD-3-Clause
 * Datasets as they are opened, used and closed. */
#ifndef STRIPEWISE_H5_DATASETS_H
#define STRIPEWISE_H5_DATASETS_H

#include "h5.h"

/* How a dataset that has just been opened tells about itself; each answer is to be closed, negative if there
 * is none. */
struct sw_h5_told {
    void *dataset; /* an identifier, or an object of the connector */
    ssize_t (*name)(void *dataset, char *name, size_t size);
    sw_hid (*space)(void *dataset);
    sw_hid (*type)(void *dataset);
    sw_hid (*creation)(void *dataset);
    sw_hid (*access)(void *dataset);
};

/* Counts that the dataset was created or opened, and fills object: from here on its transfers can be counted.
 * Takes over the hold of record, which is let go if false is answered (memory is out). told is NULL where
 * nothing may be asked. */
bool sw_h5_dataset_opened(struct sw_h5_object *object, struct sw_file *record, const struct sw_h5_told *told,
                          bool created, int64_t time);

/* Before the dataset ends it is known where its data lie: is that asked for? The answer may be
 * SW_H5_UNDEFINED. */
bool sw_h5_dataset_asks_place(const struct sw_h5_object *object);
void sw_h5_dataset_place(struct sw_h5_object *object, sw_hsize address);

/* The dataset has another extent, which space tells (closed here). */
void sw_h5_dataset_extended(struct sw_h5_object *object, sw_hid space, int64_t time);

/* Counts a transfer that has succeeded. Answers whether it was to be collective: HDF5 then tells why it was
 * not, if it was not. */
bool sw_h5_transferred(struct sw_h5_object *object, bool write, sw_hid memory_space, sw_hid file_space,
                       sw_hid list, int64_t began);
/* Asks that, where the list has the answer: after H5Dread or H5Dwrite. */
void sw_h5_ask_cause(struct sw_h5_object *object, bool write, sw_hid list);

#endif
