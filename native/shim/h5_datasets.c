/* SPDX-License-Identifier: BSD-3-Clause
 * What is learnt of datasets and counted of their transfers, whichever way the calls come. */
#include "h5_datasets.h"

#include <string.h>

#include "runtime.h"

#define NAME_BYTES 1024

static uint32_t filters_of(sw_hid creation) {
    static const uint32_t bits[] = {0,
                                    SW_FILTER_DEFLATE,
                                    SW_FILTER_SHUFFLE,
                                    SW_FILTER_FLETCHER32,
                                    SW_FILTER_SZIP,
                                    SW_FILTER_NBIT,
                                    SW_FILTER_SCALEOFFSET};
    uint32_t found = 0;
    for (int i = 0, count = sw_h5.H5Pget_nfilters(creation); i < count; i++) {
        unsigned flags = 0;
        size_t values = 0;
        int filter = sw_h5.H5Pget_filter2(creation, (unsigned)i, &flags, &values, NULL, 0, NULL, NULL);
        found |= filter > 0 && (size_t)filter < sizeof bits / sizeof *bits ? bits[filter] : SW_FILTER_OTHER;
    }
    return found;
}

/* Storage, chunks and filters. */
static void learn_storage(struct sw_dataset_facts *facts, sw_hid creation) {
    if (creation < 0)
        return;
    sw_hsize chunk[SW_H5_RANK] = {0};
    facts->storage = (uint32_t)sw_h5.H5Pget_layout(creation);
    facts->filters = filters_of(creation);
    if (facts->storage == SW_CHUNKED && sw_h5.H5Pget_chunk(creation, SW_H5_RANK, chunk) > 0)
        for (int i = 0; i < SW_DIMENSIONS; i++)
            facts->chunk[i] = chunk[i];
    sw_h5.H5Pclose(creation);
}

static uint64_t extent_of(sw_hid space, struct sw_dataset_facts *facts) {
    sw_hsize size[SW_H5_RANK] = {0};
    uint64_t elements = 1;
    if (space < 0)
        return 0;
    int rank = sw_h5.H5Sget_simple_extent_dims(space, size, NULL);
    for (int i = 0; i < rank && i < SW_H5_RANK; i++)
        elements *= size[i];
    facts->dimensions = rank > 0 ? (uint32_t)rank : 0;
    for (int i = 0; i < SW_DIMENSIONS; i++)
        facts->size[i] = size[i];
    sw_h5.H5Sclose(space);
    return elements;
}

static uint64_t element_size(sw_hid type) {
    if (type < 0)
        return 0;
    size_t size = sw_h5.H5Tget_size(type);
    sw_h5.H5Tclose(type);
    return size;
}

bool sw_h5_dataset_opened(struct sw_h5_object *object, struct sw_file *record, const struct sw_h5_told *told,
                          bool created, int64_t time) {
    char name[NAME_BYTES];
    struct sw_dataset_facts facts = {.known = told != NULL, .address = -1};
    sw_file_count_hdf5(&sw_runtime.files, record, created ? SW_H5_dataset_create : SW_H5_dataset_open, time);
    ssize_t length = told ? told->name(told->dataset, name, sizeof name) : 0;
    if (length <= 0 || (size_t)length >= sizeof name)
        memcpy(name, SW_OTHER_DATASETS, sizeof SW_OTHER_DATASETS);
    uint64_t elements = told ? extent_of(told->space(told->dataset), &facts) : 0;
    facts.element_size = told ? element_size(told->type(told->dataset)) : 0;
    sw_lock_take(&record->lock);
    struct sw_hdf5 *hdf5 = sw_file_hdf5(&sw_runtime.files, record);
    bool summed = strcmp(record->path, SW_OTHER_FILES) == 0;
    struct sw_dataset *dataset = hdf5 ? sw_hdf5_dataset(&sw_runtime.files.arena, hdf5,
                                                        summed ? SW_OTHER_DATASETS : name, SW_MAX_DATASETS)
                                      : NULL;
    bool known = dataset && (dataset->facts.known || dataset == hdf5->other);
    sw_lock_release(&record->lock);
    if (!dataset) {
        sw_files_put(record);
        return false;
    }
    if (!known && told)
        learn_storage(&facts, told->creation(told->dataset));
    sw_lock_take(&record->lock);
    dataset->facts.creates += created;
    dataset->facts.opens += !created;
    dataset->facts.ranks = dataset->facts.nodes = 1;
    if (!known) {
        facts.creates = dataset->facts.creates;
        facts.opens = dataset->facts.opens;
        facts.ranks = facts.nodes = 1;
        dataset->facts = facts;
    }
    bool asks = dataset->facts.known && dataset->facts.storage == SW_CONTIGUOUS && dataset->facts.address < 0;
    sw_lock_release(&record->lock);
    object->record = record;
    object->dataset = dataset;
    object->element_size = facts.element_size;
    object->elements = elements;
    object->contiguous = asks;
    return true;
}

bool sw_h5_dataset_asks_place(const struct sw_h5_object *object) {
    return object->dataset && object->contiguous;
}

void sw_h5_dataset_place(struct sw_h5_object *object, sw_hsize address) {
    if (address == SW_H5_UNDEFINED)
        return;
    sw_lock_take(&object->record->lock);
    object->dataset->facts.address = (int64_t)address;
    sw_lock_release(&object->record->lock);
}

void sw_h5_dataset_extended(struct sw_h5_object *object, sw_hid space, int64_t time) {
    struct sw_dataset_facts facts = {.known = true};
    sw_file_count_hdf5(&sw_runtime.files, object->record, SW_H5_dataset_extend, time);
    object->elements = extent_of(space, &facts);
    sw_lock_take(&object->record->lock);
    memcpy(object->dataset->facts.size, facts.size, sizeof facts.size);
    sw_lock_release(&object->record->lock);
}

bool sw_h5_transferred(struct sw_h5_object *object, bool write, sw_hid memory_space, sw_hid file_space,
                       sw_hid list, int64_t began) {
    struct sw_transfer transfer = {.began = began, .ended = sw_tick()};
    int mode = 0;
    sw_h5_describe(object, memory_space, file_space, &transfer);
    transfer.collective = list != SW_H5_DEFAULT && sw_h5.H5Pget_dxpl_mpio &&
                          sw_h5.H5Pget_dxpl_mpio(list, &mode) >= 0 && mode == SW_H5_COLLECTIVE;
    sw_file_count_hdf5(&sw_runtime.files, object->record, write ? SW_H5_dataset_write : SW_H5_dataset_read,
                       transfer.ended - began);
    sw_lock_take(&object->record->lock);
    sw_dataset_count(&sw_runtime.files.arena, object->dataset, write, &transfer);
    sw_lock_release(&object->record->lock);
    return transfer.collective;
}

void sw_h5_ask_cause(struct sw_h5_object *object, bool write, sw_hid list) {
    uint32_t here = 0, anywhere = 0;
    if (!sw_h5.H5Pget_mpio_no_collective_cause ||
        sw_h5.H5Pget_mpio_no_collective_cause(list, &here, &anywhere) < 0 || !(here | anywhere))
        return;
    sw_lock_take(&object->record->lock);
    sw_dataset_broken(object->dataset, write, here | anywhere);
    sw_lock_release(&object->record->lock);
}
