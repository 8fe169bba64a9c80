/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "h5.h"
#include "paths.h"
#include "runtime.h"

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
