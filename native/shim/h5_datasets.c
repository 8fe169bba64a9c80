/* SPDX-License-Identifier: BSD-3-Clause
 * What is learnt of datasets and counted of their transfers, whichever way the calls come. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5_datasets.h"
#include "h5_settings.h"
#include "numeric.h"
#include "recording.h"
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

/* The cache of the chunks, which the dataset has from its own list, or else from the file. */
static void learn_cache(struct sw_dataset_facts *facts, sw_hid access) {
    size_t slots = 0, bytes = 0;
    double weight = 0;
    if (access < 0)
        return;
    if (sw_h5.H5Pget_chunk_cache(access, &slots, &bytes, &weight) >= 0) {
        facts->cache_bytes = bytes;
        facts->cache_slots = slots;
    }
    sw_h5.H5Pclose(access);
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
    if (!known && told && facts.storage == SW_CHUNKED)
        learn_cache(&facts, told->access(told->dataset));
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

/* ---- the calls ----
 * H5Dcreate, H5Dopen, H5Dwrite, H5Dread. What is asked of HDF5 is asked after its own call has succeeded: a
 * failed one's error stack is the program's to read. */

#define ID(dataset) (*(const sw_hid *)(dataset))

static ssize_t name_of(void *dataset, char *name, size_t size) {
    return sw_h5.H5Iget_name(ID(dataset), name, size);
}

static sw_hid space_of(void *dataset) {
    return sw_h5.H5Dget_space(ID(dataset));
}

static sw_hid type_of(void *dataset) {
    return sw_h5.H5Dget_type(ID(dataset));
}

static sw_hid creation_of(void *dataset) {
    return sw_h5.H5Dget_create_plist(ID(dataset));
}

static sw_hid access_of(void *dataset) {
    return sw_h5.H5Dget_access_plist(ID(dataset));
}

/* From here on the dataset's transfers are counted, and rounded to the accuracy unless that is 0. */
static void follow(sw_hid id, bool created, double accuracy, int64_t time) {
    struct sw_h5_told told = {&id, name_of, space_of, type_of, creation_of, access_of};
    struct sw_h5_object opened;
    const int64_t now = sw_tick();
    const int slot = sw_recording ? sw_record_h5_dataset(id, created, now - time, now) : -1;
    struct sw_file *record = sw_h5_file_of(id);
    struct sw_h5_object *object = record && sw_h5_dataset_opened(&opened, record, &told, created, time)
                                      ? sw_h5_add(id, record, opened.dataset)
                                      : NULL;
    if (!object) {
        sw_record_h5_lost(slot);
        return;
    }
    object->slot = slot;
    object->element_size = opened.element_size;
    object->elements = opened.elements;
    object->contiguous = opened.contiguous;
    object->accuracy = accuracy;
}

/* The dataset that the plan's settings make, by H5Dcreate2; -1 if there are none, or it cannot be made so. */
static sw_hid make_tuned(sw_hid place, const char *name, sw_hid type, sw_hid space, sw_hid links,
                         sw_hid creation, sw_hid access,
                         sw_hid (*create)(sw_hid, const char *, sw_hid, sw_hid, sw_hid, sw_hid, sw_hid),
                         double *accuracy) {
    struct sw_h5_tuning tuning;
    struct sw_file *record = sw_h5_dataset_settings() ? sw_h5_file_of(place) : NULL;
    char path[SW_MAX_PATH] = "";
    sw_hid id = -1;
    if (!record)
        return id;
    ssize_t length = name && *name != '/' ? sw_h5.H5Iget_name(place, path, sizeof path) : 0;
    size_t used = length > 0 && (size_t)length < sizeof path ? (size_t)length : 0;
    snprintf(path + used, sizeof path - used, "/%s", name ? name : "");
    if (sw_h5_dataset_tuned(&tuning, record, path, creation, access, type, space)) {
        id = create(place, name, type, space, links, tuning.creation, tuning.access);
        sw_hid own = id >= 0 ? sw_h5.H5Dget_create_plist(id) : -1;
        sw_h5_dataset_tried(&tuning, id >= 0, own);
        if (own >= 0)
            sw_h5.H5Pclose(own);
        *accuracy = id >= 0 ? tuning.accuracy : 0;
    }
    sw_files_put(record);
    return id;
}

SW_EXPORT sw_hid H5Dcreate2(sw_hid place, const char *name, sw_hid type, sw_hid space, sw_hid links,
                            sw_hid creation, sw_hid access) {
    static sw_hid (*_Atomic found)(sw_hid, const char *, sw_hid, sw_hid, sw_hid, sw_hid, sw_hid);
    SW_H5_RESOLVE_OR_FAIL(next, found, "H5Dcreate2");
    if (!sw_h5_ready())
        return next(place, name, type, space, links, creation, access);
    double accuracy = 0;
    int64_t start = sw_tick();
    sw_hid id = make_tuned(place, name, type, space, links, creation, access, next, &accuracy);
    if (id < 0)
        id = next(place, name, type, space, links, creation, access);
    if (id >= 0)
        follow(id, true, accuracy, sw_tick() - start);
    return id;
}

SW_EXPORT sw_hid H5Dcreate1(sw_hid place, const char *name, sw_hid type, sw_hid space, sw_hid creation) {
    static sw_hid (*_Atomic found)(sw_hid, const char *, sw_hid, sw_hid, sw_hid);
    static sw_hid (*_Atomic found2)(sw_hid, const char *, sw_hid, sw_hid, sw_hid, sw_hid, sw_hid);
    SW_H5_RESOLVE_OR_FAIL(next, found, "H5Dcreate1");
    SW_H5_RESOLVE_OR_FAIL(next2, found2, "H5Dcreate2"); /* in the same library */
    if (!sw_h5_ready())
        return next(place, name, type, space, creation);
    double accuracy = 0;
    int64_t start = sw_tick();
    sw_hid id =
        make_tuned(place, name, type, space, SW_H5_DEFAULT, creation, SW_H5_DEFAULT, next2, &accuracy);
    if (id < 0)
        id = next(place, name, type, space, creation);
    if (id >= 0)
        follow(id, true, accuracy, sw_tick() - start);
    return id;
}

#define OPENS(NAME, PARAMETERS, ...)                                                                         \
    SW_EXPORT sw_hid NAME PARAMETERS {                                                                       \
        static sw_hid(*_Atomic found) PARAMETERS;                                                            \
        SW_H5_RESOLVE_OR_FAIL(next, found, #NAME);                                                           \
        int64_t start = sw_h5_ready() ? sw_tick() : 0;                                                       \
        sw_hid id = next(__VA_ARGS__);                                                                       \
        if (start && id >= 0)                                                                                \
            follow(id, false, 0, sw_tick() - start);                                                         \
        return id;                                                                                           \
    }

OPENS(H5Dopen2, (sw_hid place, const char *name, sw_hid access), place, name, access)
OPENS(H5Dopen1, (sw_hid place, const char *name), place, name)

/* h5py opens datasets by H5Oopen. */
SW_EXPORT sw_hid H5Oopen(sw_hid place, const char *name, sw_hid access) {
    static sw_hid (*_Atomic found)(sw_hid, const char *, sw_hid);
    static int (*_Atomic found_type)(sw_hid);
    SW_H5_RESOLVE_OR_FAIL(next, found, "H5Oopen");
    SW_H5_RESOLVE(type_of, found_type, "H5Iget_type");
    int64_t start = sw_h5_ready() ? sw_tick() : 0;
    sw_hid id = next(place, name, access);
    if (start && id >= 0 && type_of && type_of(id) == SW_H5_IS_DATASET)
        follow(id, false, 0, sw_tick() - start);
    return id;
}

SW_EXPORT int H5Dset_extent(sw_hid id, const sw_hsize *size) {
    static int (*_Atomic found)(sw_hid, const sw_hsize *);
    SW_H5_RESOLVE_OR_FAIL(next, found, "H5Dset_extent");
    struct sw_h5_object *object = sw_h5_ready() ? sw_h5_find(id) : NULL;
    int64_t start = object ? sw_tick() : 0;
    int code = next(id, size);
    int64_t time = sw_tick() - start;
    if (object && object->dataset && code >= 0) {
        sw_hid space = sw_h5.H5Dget_space(id);
        if (sw_recording && object->slot >= 0)
            sw_record_h5_extended(object->slot, space, size, start, start + time);
        sw_h5_dataset_extended(object, space, time);
    }
    return code;
}

static bool is_collective(sw_hid list) {
    int mode = 0;
    return list != SW_H5_DEFAULT && sw_h5.H5Pget_dxpl_mpio && sw_h5.H5Pget_dxpl_mpio(list, &mode) >= 0 &&
           mode == SW_H5_COLLECTIVE;
}

/* After a transfer of a dataset; code: what it answered. */
static void ended(sw_hid id, bool write, sw_hid type, sw_hid memory_space, sw_hid file_space, sw_hid list,
                  int64_t began, int code) {
    struct sw_h5_object *object = sw_h5_find(id);
    if (!object) {
        if (sw_recording && code >= 0)
            sw_record_h5_moved_other(id);
        return;
    }
    if (sw_recording && object->slot >= 0) {
        const struct sw_h5_moved moved = {.dataset = object->id,
                                          .type = type,
                                          .memory = memory_space,
                                          .place = file_space,
                                          .writes = write,
                                          .collective = code >= 0 && is_collective(list),
                                          .failed = code < 0,
                                          .began = began,
                                          .ended = sw_tick()};
        sw_record_h5_moved(object, &moved);
    }
    if (object->dataset && code >= 0 &&
        sw_h5_transferred(object, write, memory_space, file_space, list, began))
        sw_h5_ask_cause(object, write, list);
}

/* A rounded copy of what a transfer is to write, to be freed, and where its buffer would begin; NULL where
 * the buffer is to be written as it is: types that HDF5 would convert with a loss, a selection that says
 * nothing of where its elements lie, or no memory. Of the buffer only what lies between the first and the
 * last selected element is touched. */
static void *rounded(const struct sw_h5_object *object, sw_hid type, sw_hid memory_space, sw_hid file_space,
                     const void *buffer, const void **begins) {
    enum { SPARSE = 8 };
    size_t bytes = 0;
    sw_hsize size[SW_H5_RANK], start[SW_H5_RANK], end[SW_H5_RANK];
    uint64_t first = 0, last = object->elements - 1, points = object->elements;
    for (int wide = 0; wide < 2; wide++)
        if (sw_h5.native[wide] && sw_h5.H5Tequal(type, *sw_h5.native[wide]) > 0)
            bytes = wide ? sizeof(double) : sizeof(float);
    sw_hid space = memory_space == SW_H5_DEFAULT ? file_space : memory_space;
    if (!buffer || !bytes || bytes > object->element_size || !points || (space && space <= 2))
        return NULL;
    if (space != SW_H5_DEFAULT) {
        sw_hssize selected = sw_h5.H5Sget_select_npoints(space);
        int rank = selected > 0 ? sw_h5.H5Sget_simple_extent_dims(space, size, NULL) : 0;
        if (rank < 1 || sw_h5.H5Sget_select_bounds(space, start, end) < 0)
            return NULL;
        points = (uint64_t)selected;
        last = 0;
        for (int i = 0; i < rank; i++) {
            first = first * size[i] + start[i];
            last = last * size[i] + end[i];
        }
    }
    size_t count = (size_t)(last - first + 1);
    void *copy = count / SPARSE <= points ? malloc(count * bytes) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, (const char *)buffer + first * bytes, count * bytes);
    sw_round_reals(copy, count, bytes, sw_rounding_step(object->accuracy));
    *begins = (const char *)copy - first * bytes;
    return copy;
}

SW_EXPORT int H5Dwrite(sw_hid id, sw_hid type, sw_hid memory_space, sw_hid file_space, sw_hid list,
                       const void *buffer) {
    static int (*_Atomic found)(sw_hid, sw_hid, sw_hid, sw_hid, sw_hid, const void *);
    SW_H5_RESOLVE_OR_FAIL(next, found, "H5Dwrite");
    const struct sw_h5_object *object = sw_h5_ready() ? sw_h5_find(id) : NULL;
    int64_t start = sw_h5_ready() ? sw_tick() : 0;
    void *copy = object && object->accuracy > 0
                     ? rounded(object, type, memory_space, file_space, buffer, &buffer)
                     : NULL;
    int code = next(id, type, memory_space, file_space, list, buffer);
    free(copy);
    if (start)
        ended(id, true, type, memory_space, file_space, list, start, code);
    return code;
}

SW_EXPORT int H5Dread(sw_hid id, sw_hid type, sw_hid memory_space, sw_hid file_space, sw_hid list,
                      void *buffer) {
    static int (*_Atomic found)(sw_hid, sw_hid, sw_hid, sw_hid, sw_hid, void *);
    SW_H5_RESOLVE_OR_FAIL(next, found, "H5Dread");
    int64_t start = sw_h5_ready() ? sw_tick() : 0;
    int code = next(id, type, memory_space, file_space, list, buffer);
    if (start)
        ended(id, false, type, memory_space, file_space, list, start, code);
    return code;
}

/* Since 1.14: several datasets at once; each counts as a call of its own, the time with the first. */
#define TRANSFER_MULTI(NAME, WRITES, BUFFERS)                                                                \
    SW_EXPORT int NAME(size_t number, sw_hid ids[], sw_hid types[], sw_hid memory_spaces[],                  \
                       sw_hid file_spaces[], sw_hid list, BUFFERS buffers) {                                 \
        static int (*_Atomic found)(size_t, sw_hid *, sw_hid *, sw_hid *, sw_hid *, sw_hid, BUFFERS);        \
        SW_H5_RESOLVE_OR_FAIL(next, found, #NAME);                                                           \
        int64_t start = sw_h5_ready() ? sw_tick() : 0;                                                       \
        int code = next(number, ids, types, memory_spaces, file_spaces, list, buffers);                      \
        /* HDF5 refuses lists that are missing. */                                                           \
        const bool told = start && ids && types && memory_spaces && file_spaces;                             \
        for (size_t i = 0; told && i < number; i++)                                                          \
            ended(ids[i], WRITES, types[i], memory_spaces[i], file_spaces[i], list, i ? sw_tick() : start,   \
                  code);                                                                                     \
        return code;                                                                                         \
    }

TRANSFER_MULTI(H5Dwrite_multi, true, const void **)
TRANSFER_MULTI(H5Dread_multi, false, void **)
