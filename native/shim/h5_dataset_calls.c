/* SPDX-License-Identifier: BSD-3-Clause
 * H5Dcreate, H5Dopen, H5Dwrite, H5Dread. What is asked of HDF5 is asked after its own call has succeeded: a
 * failed one's error stack is the program's to read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5_datasets.h"
#include "h5_settings.h"
#include "numeric.h"
#include "recording.h"
#include "recording_h5.h"

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

/* From here on the dataset's transfers are counted, and rounded to the accuracy unless that is 0. */
static void follow(sw_hid id, bool created, double accuracy, int64_t time) {
    struct sw_h5_told told = {&id, name_of, space_of, type_of, creation_of};
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

/* The dataset that the plan's settings make, by one of the two; -1 if there are none, or it cannot be made
 * so.
 */
static sw_hid make_tuned(sw_hid place, const char *name, sw_hid type, sw_hid space, sw_hid links,
                         sw_hid creation, sw_hid access,
                         sw_hid (*create)(sw_hid, const char *, sw_hid, sw_hid, sw_hid, sw_hid, sw_hid),
                         sw_hid (*create1)(sw_hid, const char *, sw_hid, sw_hid, sw_hid), double *accuracy) {
    struct sw_h5_tuning tuning;
    struct sw_file *record = sw_h5_dataset_settings() ? sw_h5_file_of(place) : NULL;
    char path[SW_MAX_PATH] = "";
    sw_hid id = -1;
    if (!record)
        return id;
    ssize_t length = name && *name != '/' ? sw_h5.H5Iget_name(place, path, sizeof path) : 0;
    size_t used = length > 0 && (size_t)length < sizeof path ? (size_t)length : 0;
    snprintf(path + used, sizeof path - used, "/%s", name ? name : "");
    if (sw_h5_dataset_tuned(&tuning, record, path, creation, type, space)) {
        id = create ? create(place, name, type, space, links, tuning.creation, access)
                    : create1(place, name, type, space, tuning.creation);
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
    sw_hid id = make_tuned(place, name, type, space, links, creation, access, next, NULL, &accuracy);
    if (id < 0)
        id = next(place, name, type, space, links, creation, access);
    if (id >= 0)
        follow(id, true, accuracy, sw_tick() - start);
    return id;
}

SW_EXPORT sw_hid H5Dcreate1(sw_hid place, const char *name, sw_hid type, sw_hid space, sw_hid creation) {
    static sw_hid (*_Atomic found)(sw_hid, const char *, sw_hid, sw_hid, sw_hid);
    SW_H5_RESOLVE_OR_FAIL(next, found, "H5Dcreate1");
    if (!sw_h5_ready())
        return next(place, name, type, space, creation);
    double accuracy = 0;
    int64_t start = sw_tick();
    sw_hid id =
        make_tuned(place, name, type, space, SW_H5_DEFAULT, creation, SW_H5_DEFAULT, NULL, next, &accuracy);
    if (id < 0)
        id = next(place, name, type, space, creation);
    if (id >= 0)
        follow(id, true, accuracy, sw_tick() - start);
    return id;
}

SW_EXPORT sw_hid H5Dopen2(sw_hid place, const char *name, sw_hid access) {
    static sw_hid (*_Atomic found)(sw_hid, const char *, sw_hid);
    SW_H5_RESOLVE_OR_FAIL(next, found, "H5Dopen2");
    int64_t start = sw_h5_ready() ? sw_tick() : 0;
    sw_hid id = next(place, name, access);
    if (start && id >= 0)
        follow(id, false, 0, sw_tick() - start);
    return id;
}

SW_EXPORT sw_hid H5Dopen1(sw_hid place, const char *name) {
    static sw_hid (*_Atomic found)(sw_hid, const char *);
    SW_H5_RESOLVE_OR_FAIL(next, found, "H5Dopen1");
    int64_t start = sw_h5_ready() ? sw_tick() : 0;
    sw_hid id = next(place, name);
    if (start && id >= 0)
        follow(id, false, 0, sw_tick() - start);
    return id;
}

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
