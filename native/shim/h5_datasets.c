/* SPDX-License-Identifier: BSD-3-Clause
 * H5Dcreate, H5Dopen, H5Dwrite, H5Dread. What is asked of HDF5 is asked after its own call has succeeded: a
 * failed one's error stack is the program's to read. */
#include "h5_datasets.h"

#include <string.h>

#include "h5_settings.h"

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
static void learn_storage(struct sw_dataset_facts *facts, sw_hid id) {
    sw_hid creation = sw_h5.H5Dget_create_plist(id);
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

static uint64_t extent_of(sw_hid id, struct sw_dataset_facts *facts) {
    sw_hsize size[SW_H5_RANK] = {0};
    uint64_t elements = 1;
    sw_hid space = sw_h5.H5Dget_space(id);
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

static uint64_t element_size(sw_hid id) {
    sw_hid type = sw_h5.H5Dget_type(id);
    if (type < 0)
        return 0;
    size_t size = sw_h5.H5Tget_size(type);
    sw_h5.H5Tclose(type);
    return size;
}

/* From here on the dataset's transfers are counted. */
static void follow(sw_hid id, bool created, int64_t time) {
    char name[NAME_BYTES];
    struct sw_dataset_facts facts = {.known = true, .address = -1};
    struct sw_file *record = sw_h5_file_of(id);
    if (!record)
        return;
    sw_file_count_hdf5(&sw_runtime.files, record, created ? SW_H5_dataset_create : SW_H5_dataset_open, time);
    ssize_t length = sw_h5.H5Iget_name(id, name, sizeof name);
    if (length <= 0 || (size_t)length >= sizeof name)
        memcpy(name, SW_OTHER_DATASETS, sizeof SW_OTHER_DATASETS);
    uint64_t elements = extent_of(id, &facts);
    facts.element_size = element_size(id);
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
        return;
    }
    if (!known)
        learn_storage(&facts, id);
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
    struct sw_h5_object *object = sw_h5_add(id, record, dataset);
    if (!object)
        return;
    object->element_size = facts.element_size;
    object->elements = elements;
    object->contiguous = asks;
}

void sw_h5_dataset_closing(struct sw_h5_object *object, sw_hid id) {
    if (!object->dataset || !object->contiguous)
        return;
    sw_hsize address = sw_h5.H5Dget_offset(id);
    if (address == SW_H5_UNDEFINED)
        return;
    sw_lock_take(&object->record->lock);
    object->dataset->facts.address = (int64_t)address;
    sw_lock_release(&object->record->lock);
}

SW_EXPORT sw_hid H5Dcreate2(sw_hid place, const char *name, sw_hid type, sw_hid space, sw_hid links,
                            sw_hid creation, sw_hid access) {
    static sw_hid (*next)(sw_hid, const char *, sw_hid, sw_hid, sw_hid, sw_hid, sw_hid);
    SW_H5_RESOLVE(next, "H5Dcreate2");
    if (!next)
        return -1;
    if (!sw_h5_ready())
        return next(place, name, type, space, links, creation, access);
    int64_t start = sw_tick();
    struct sw_h5_tuning tuning;
    sw_hid id = -1;
    if (sw_h5_dataset_tuned(&tuning, place, creation, type, space)) {
        id = next(place, name, type, space, links, tuning.creation, access);
        sw_h5_dataset_tried(&tuning, id);
    }
    if (id < 0)
        id = next(place, name, type, space, links, creation, access);
    if (id >= 0)
        follow(id, true, sw_tick() - start);
    return id;
}

SW_EXPORT sw_hid H5Dcreate1(sw_hid place, const char *name, sw_hid type, sw_hid space, sw_hid creation) {
    static sw_hid (*next)(sw_hid, const char *, sw_hid, sw_hid, sw_hid);
    SW_H5_RESOLVE(next, "H5Dcreate1");
    if (!next)
        return -1;
    if (!sw_h5_ready())
        return next(place, name, type, space, creation);
    int64_t start = sw_tick();
    struct sw_h5_tuning tuning;
    sw_hid id = -1;
    if (sw_h5_dataset_tuned(&tuning, place, creation, type, space)) {
        id = next(place, name, type, space, tuning.creation);
        sw_h5_dataset_tried(&tuning, id);
    }
    if (id < 0)
        id = next(place, name, type, space, creation);
    if (id >= 0)
        follow(id, true, sw_tick() - start);
    return id;
}

SW_EXPORT sw_hid H5Dopen2(sw_hid place, const char *name, sw_hid access) {
    static sw_hid (*next)(sw_hid, const char *, sw_hid);
    SW_H5_RESOLVE(next, "H5Dopen2");
    if (!next)
        return -1;
    int64_t start = sw_h5_ready() ? sw_tick() : 0;
    sw_hid id = next(place, name, access);
    if (start && id >= 0)
        follow(id, false, sw_tick() - start);
    return id;
}

SW_EXPORT sw_hid H5Dopen1(sw_hid place, const char *name) {
    static sw_hid (*next)(sw_hid, const char *);
    SW_H5_RESOLVE(next, "H5Dopen1");
    if (!next)
        return -1;
    int64_t start = sw_h5_ready() ? sw_tick() : 0;
    sw_hid id = next(place, name);
    if (start && id >= 0)
        follow(id, false, sw_tick() - start);
    return id;
}

/* h5py opens datasets by H5Oopen. */
SW_EXPORT sw_hid H5Oopen(sw_hid place, const char *name, sw_hid access) {
    static sw_hid (*next)(sw_hid, const char *, sw_hid);
    static int (*type_of)(sw_hid);
    SW_H5_RESOLVE(next, "H5Oopen");
    SW_H5_RESOLVE(type_of, "H5Iget_type");
    if (!next)
        return -1;
    int64_t start = sw_h5_ready() ? sw_tick() : 0;
    sw_hid id = next(place, name, access);
    if (start && id >= 0 && type_of && type_of(id) == SW_H5_IS_DATASET)
        follow(id, false, sw_tick() - start);
    return id;
}

SW_EXPORT int H5Dset_extent(sw_hid id, const sw_hsize *size) {
    static int (*next)(sw_hid, const sw_hsize *);
    SW_H5_RESOLVE(next, "H5Dset_extent");
    if (!next)
        return -1;
    struct sw_h5_object *object = sw_h5_ready() ? sw_h5_find(id) : NULL;
    int64_t start = object ? sw_tick() : 0;
    int code = next(id, size);
    if (!object || !object->dataset || code < 0)
        return code;
    sw_file_count_hdf5(&sw_runtime.files, object->record, SW_H5_dataset_extend, sw_tick() - start);
    struct sw_dataset_facts facts = {.known = true};
    object->elements = extent_of(id, &facts);
    sw_lock_take(&object->record->lock);
    memcpy(object->dataset->facts.size, facts.size, sizeof facts.size);
    sw_lock_release(&object->record->lock);
    return code;
}

static void count(struct sw_h5_object *object, bool write, sw_hid memory_space, sw_hid file_space,
                  sw_hid transfer_list, int64_t began) {
    struct sw_transfer transfer = {.began = began, .ended = sw_tick()};
    int mode = 0;
    sw_h5_describe(object, memory_space, file_space, &transfer);
    if (transfer_list != SW_H5_DEFAULT && sw_h5.H5Pget_dxpl_mpio &&
        sw_h5.H5Pget_dxpl_mpio(transfer_list, &mode) >= 0 && mode == SW_H5_COLLECTIVE) {
        uint32_t here = 0, anywhere = 0;
        transfer.collective = true;
        if (sw_h5.H5Pget_mpio_no_collective_cause &&
            sw_h5.H5Pget_mpio_no_collective_cause(transfer_list, &here, &anywhere) >= 0)
            transfer.cause = here | anywhere;
        transfer.broken = transfer.cause != 0;
    }
    sw_file_count_hdf5(&sw_runtime.files, object->record, write ? SW_H5_dataset_write : SW_H5_dataset_read,
                       transfer.ended - began);
    sw_lock_take(&object->record->lock);
    sw_dataset_count(&sw_runtime.files.arena, object->dataset, write, &transfer);
    sw_lock_release(&object->record->lock);
}

#define TRANSFER(NAME, WRITES, BUFFER)                                                                       \
    SW_EXPORT int NAME(sw_hid id, sw_hid type, sw_hid memory_space, sw_hid file_space, sw_hid list,          \
                       BUFFER buffer) {                                                                      \
        static int (*next)(sw_hid, sw_hid, sw_hid, sw_hid, sw_hid, BUFFER);                                  \
        SW_H5_RESOLVE(next, #NAME);                                                                          \
        if (!next)                                                                                           \
            return -1;                                                                                       \
        struct sw_h5_object *object = sw_h5_ready() ? sw_h5_find(id) : NULL;                                 \
        int64_t start = object ? sw_tick() : 0;                                                              \
        int code = next(id, type, memory_space, file_space, list, buffer);                                   \
        if (object && object->dataset && code >= 0)                                                          \
            count(object, WRITES, memory_space, file_space, list, start);                                    \
        return code;                                                                                         \
    }

TRANSFER(H5Dwrite, true, const void *)
TRANSFER(H5Dread, false, void *)

/* Since 1.14: several datasets at once; each counts as a call of its own, the time with the first. */
#define TRANSFER_MULTI(NAME, WRITES, BUFFERS)                                                                \
    SW_EXPORT int NAME(size_t number, sw_hid ids[], sw_hid types[], sw_hid memory_spaces[],                  \
                       sw_hid file_spaces[], sw_hid list, BUFFERS buffers) {                                 \
        static int (*next)(size_t, sw_hid *, sw_hid *, sw_hid *, sw_hid *, sw_hid, BUFFERS);                 \
        SW_H5_RESOLVE(next, #NAME);                                                                          \
        if (!next)                                                                                           \
            return -1;                                                                                       \
        int64_t start = sw_h5_ready() ? sw_tick() : 0;                                                       \
        int code = next(number, ids, types, memory_spaces, file_spaces, list, buffers);                      \
        for (size_t i = 0; start && code >= 0 && i < number; i++) {                                          \
            struct sw_h5_object *object = sw_h5_find(ids[i]);                                                \
            if (object && object->dataset)                                                                   \
                count(object, WRITES, memory_spaces[i], file_spaces[i], list, i ? sw_tick() : start);        \
        }                                                                                                    \
        return code;                                                                                         \
    }

TRANSFER_MULTI(H5Dwrite_multi, true, const void **)
TRANSFER_MULTI(H5Dread_multi, false, void **)
