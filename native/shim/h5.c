/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "files.h"
#include "h5.h"
#include "mpi_symbols.h"
#include "runtime.h"

#define OLDEST 0x010a01 /* hid_t has 64 bits since 1.10.0; file spaces are as now since 1.10.1 */

struct sw_h5 sw_h5;

static struct sw_library hdf5 = {.mark = "H5get_libversion"};

void *sw_h5_next(const char *name) {
    return sw_library_function(&hdf5, name);
}

static bool load(void) {
    bool whole = true;
#define X(result, name, parameters)                                                                          \
    sw_h5.name = (__typeof__(sw_h5.name))sw_h5_next(#name);                                                  \
    whole &= sw_h5.name != NULL;
    SW_H5_FUNCTIONS(X)
#undef X
#define X(result, name, parameters) sw_h5.name = (__typeof__(sw_h5.name))sw_h5_next(#name);
    SW_H5_OPTIONAL(X)
#undef X
    sw_h5.file_access = sw_library_object(&hdf5, "H5P_CLS_FILE_ACCESS_ID_g");
    sw_h5.file_create = sw_library_object(&hdf5, "H5P_CLS_FILE_CREATE_ID_g");
    sw_h5.dataset_access = sw_library_object(&hdf5, "H5P_CLS_DATASET_ACCESS_ID_g");
    sw_h5.dataset_create = sw_library_object(&hdf5, "H5P_CLS_DATASET_CREATE_ID_g");
    sw_h5.mpio = sw_library_object(&hdf5, "H5FD_MPIO_id_g");
    sw_h5.native[0] = sw_library_object(&hdf5, "H5T_NATIVE_FLOAT_g");
    sw_h5.native[1] = sw_library_object(&hdf5, "H5T_NATIVE_DOUBLE_g");
    sw_h5.standard[0][0] = sw_library_object(&hdf5, "H5T_IEEE_F32LE_g");
    sw_h5.standard[0][1] = sw_library_object(&hdf5, "H5T_IEEE_F32BE_g");
    sw_h5.standard[1][0] = sw_library_object(&hdf5, "H5T_IEEE_F64LE_g");
    sw_h5.standard[1][1] = sw_library_object(&hdf5, "H5T_IEEE_F64BE_g");
    unsigned major = 0, minor = 0, release = 0;
    if (!whole || !sw_h5.file_access || !sw_h5.file_create || !sw_h5.dataset_access ||
        !sw_h5.dataset_create || sw_h5.H5get_libversion(&major, &minor, &release) < 0)
        return false;
    sw_h5.version = major << 16 | minor << 8 | release;
    return sw_h5.version >= OLDEST && major <= 2 &&
           (!sw_h5.H5Pget_fapl_mpio || sw_h5.H5FD_mpio_init || sw_h5.mpio);
}

static atomic_bool has_connector;

void sw_h5_leave_to_connector(void) {
    atomic_store(&has_connector, true);
}

bool sw_h5_ready(void) {
    return !atomic_load_explicit(&has_connector, memory_order_relaxed) && sw_h5_usable();
}

bool sw_h5_usable(void) {
    static atomic_int state; /* 0: not tried, 1: ready, 2: not usable */
    static sw_lock lock = ATOMIC_FLAG_INIT;
    if (!atomic_load_explicit(&sw_runtime.active, memory_order_relaxed))
        return false;
    if (!atomic_load_explicit(&state, memory_order_acquire)) {
        sw_lock_take(&lock);
        if (!atomic_load_explicit(&state, memory_order_relaxed))
            atomic_store_explicit(&state, load() ? 1 : 2, memory_order_release);
        sw_lock_release(&lock);
    }
    return atomic_load_explicit(&state, memory_order_relaxed) == 1;
}

bool sw_h5_is_parallel(sw_hid access) {
    return access != SW_H5_DEFAULT && (sw_h5.mpio || sw_h5.H5FD_mpio_init) &&
           sw_h5.H5Pget_driver(access) == (sw_h5.mpio ? *sw_h5.mpio : sw_h5.H5FD_mpio_init());
}

const char *sw_h5_version(void) {
    char text[40];
    snprintf(text, sizeof text, "%u.%u.%u", sw_h5.version >> 16, sw_h5.version >> 8 & 0xff,
             sw_h5.version & 0xff);
    return sw_arena_intern(&sw_runtime.files.arena, text);
}

/* ---- objects that are open ---- */

#define BUCKETS 512

static struct sw_h5_object *buckets[BUCKETS];
static sw_lock table_lock = ATOMIC_FLAG_INIT;

static struct sw_h5_object **bucket_of(sw_hid id) {
    return &buckets[(uint64_t)id % BUCKETS];
}

struct sw_h5_object *sw_h5_find(sw_hid id) {
    sw_lock_take(&table_lock);
    struct sw_h5_object *object = *bucket_of(id);
    while (object && object->id != id)
        object = object->next;
    sw_lock_release(&table_lock);
    return object;
}

void sw_h5_let_go(struct sw_file *record, struct sw_dataset *dataset) {
    if (dataset) {
        sw_lock_take(&record->lock);
        sw_dataset_put(dataset);
        sw_lock_release(&record->lock);
    }
    sw_files_put(record);
}

struct sw_h5_object *sw_h5_add(sw_hid id, struct sw_file *record, struct sw_dataset *dataset) {
    struct sw_h5_object *object = sw_arena_take(&sw_runtime.files.arena, sizeof *object);
    if (!object) {
        sw_h5_let_go(record, dataset);
        return NULL;
    }
    object->id = id;
    object->slot = -1;
    object->record = record;
    object->dataset = dataset;
    sw_lock_take(&table_lock);
    object->next = *bucket_of(id);
    *bucket_of(id) = object;
    sw_lock_release(&table_lock);
    return object;
}

void sw_h5_drop(sw_hid id) {
    sw_lock_take(&table_lock);
    struct sw_h5_object **link = bucket_of(id), *object;
    while (*link && (*link)->id != id)
        link = &(*link)->next;
    object = *link;
    if (object)
        *link = object->next;
    sw_lock_release(&table_lock);
    if (!object)
        return;
    sw_h5_let_go(object->record, object->dataset);
    sw_arena_give(&sw_runtime.files.arena, object, sizeof *object);
}

struct sw_file *sw_h5_file_of(sw_hid id) {
    char name[SW_MAX_PATH], path[SW_MAX_PATH];
    ssize_t length = sw_h5.H5Fget_name(id, name, sizeof name);
    if (length <= 0 || (size_t)length >= sizeof name || !sw_path_absolute(name, path, sizeof path))
        return NULL;
    return sw_files_get(&sw_runtime.files, path);
}

void sw_h5_count(sw_hid id, enum sw_h5_op op, int64_t began) {
    int64_t time = sw_tick() - began;
    struct sw_file *record = sw_h5_file_of(id);
    if (!record)
        return;
    sw_file_count_hdf5(&sw_runtime.files, record, op, time);
    sw_files_put(record);
}

/* ---- groups and attributes: HDF5's work on metadata ---- */

#define WRAP(RESULT, NAME, OP, PARAMETERS, ...)                                                              \
    SW_EXPORT RESULT NAME PARAMETERS {                                                                       \
        static RESULT(*_Atomic found) PARAMETERS; /* NOLINT(bugprone-macro-parentheses) */                   \
        SW_H5_RESOLVE_OR_FAIL(next, found, #NAME);                                                           \
        int64_t start = sw_h5_ready() ? sw_tick() : 0;                                                       \
        RESULT done = next(__VA_ARGS__);                                                                     \
        if (start && done >= 0)                                                                              \
            sw_h5_count(place, SW_H5_##OP, start);                                                           \
        return done;                                                                                         \
    }

WRAP(sw_hid, H5Gcreate1, group_create, (sw_hid place, const char *name, size_t hint), place, name, hint)
WRAP(sw_hid, H5Gcreate2, group_create,
     (sw_hid place, const char *name, sw_hid links, sw_hid creation, sw_hid access), place, name, links,
     creation, access)
WRAP(sw_hid, H5Gopen1, group_open, (sw_hid place, const char *name), place, name)
WRAP(sw_hid, H5Gopen2, group_open, (sw_hid place, const char *name, sw_hid access), place, name, access)
WRAP(sw_hid, H5Acreate1, attribute_create,
     (sw_hid place, const char *name, sw_hid type, sw_hid space, sw_hid creation), place, name, type, space,
     creation)
WRAP(sw_hid, H5Acreate2, attribute_create,
     (sw_hid place, const char *name, sw_hid type, sw_hid space, sw_hid creation, sw_hid access), place, name,
     type, space, creation, access)
WRAP(sw_hid, H5Aopen, attribute_open, (sw_hid place, const char *name, sw_hid access), place, name, access)
WRAP(sw_hid, H5Aopen_name, attribute_open, (sw_hid place, const char *name), place, name)
WRAP(int, H5Awrite, attribute_write, (sw_hid place, sw_hid type, const void *buffer), place, type, buffer)
WRAP(int, H5Aread, attribute_read, (sw_hid place, sw_hid type, void *buffer), place, type, buffer)

/* ---- selections ----
 * What a dataspace selects of a dataset: one run of bytes, several at regular distances, or others. */

/* A regular hyperslab: is it one run in the order of the elements, and where does it begin? */
static enum sw_selection hyperslab(sw_hid space, uint64_t *first, struct sw_transfer *transfer) {
    sw_hsize size[SW_H5_RANK], start[SW_H5_RANK], stride[SW_H5_RANK], count[SW_H5_RANK], block[SW_H5_RANK];
    int rank = sw_h5.H5Sget_simple_extent_ndims(space);
    if (rank < 1 || rank > SW_H5_RANK || sw_h5.H5Sget_simple_extent_dims(space, size, NULL) < 0 ||
        sw_h5.H5Sis_regular_hyperslab(space) <= 0 ||
        sw_h5.H5Sget_regular_hyperslab(space, start, stride, count, block) < 0)
        return SW_SELECT_IRREGULAR;
    bool run = true, whole = true; /* whole: all faster dimensions are selected from end to end */
    uint64_t below = 1;            /* elements of the faster dimensions */
    *first = 0;
    transfer->boxed = rank <= SW_BOX_DIMENSIONS;
    for (int i = rank - 1; i >= 0; i--) {
        sw_hsize selected = count[i] * block[i];
        bool together = count[i] == 1 || stride[i] == block[i];
        transfer->boxed &= together;
        if (i < SW_BOX_DIMENSIONS) {
            transfer->low[i] = start[i];
            transfer->high[i] = start[i] + selected;
        }
        run &= together && (whole || selected == 1);
        whole &= together && selected == size[i];
        *first += start[i] * below;
        below *= size[i];
    }
    return run ? SW_SELECT_BLOCK : SW_SELECT_STRIDED;
}

void sw_h5_describe(const struct sw_h5_object *object, sw_hid memory_space, sw_hid file_space,
                    struct sw_transfer *transfer) {
    uint64_t first = 0;
    sw_hssize points = (sw_hssize)object->elements;
    transfer->selection = SW_SELECT_ALL;
    /* 1 and 2 are H5S_BLOCK and H5S_PLIST of 1.14: no dataspaces. */
    sw_hid counted = file_space > 2 ? file_space : memory_space;
    if (file_space == SW_H5_DEFAULT) {
        transfer->place = 0;
    } else if (file_space > 2) {
        switch (sw_h5.H5Sget_select_type(file_space)) {
        case SW_H5_NONE:
            transfer->selection = SW_SELECT_NONE;
            break;
        case SW_H5_POINTS:
            transfer->selection = SW_SELECT_POINTS;
            break;
        case SW_H5_HYPERSLABS:
            transfer->selection = hyperslab(file_space, &first, transfer);
            break;
        default:
            break;
        }
        points = sw_h5.H5Sget_select_npoints(counted);
    } else {
        transfer->selection = SW_SELECT_IRREGULAR;
        points = counted > 2 ? sw_h5.H5Sget_select_npoints(counted) : 0;
    }
    transfer->bytes = points > 0 ? (uint64_t)points * object->element_size : 0;
    transfer->place = (int64_t)(first * object->element_size);
}
