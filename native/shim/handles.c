/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime.h"

#define BUCKETS 512

static struct sw_handle *buckets[BUCKETS];
static sw_lock table_lock = ATOMIC_FLAG_INIT;
static atomic_uint generation; /* grows when a handle goes: what threads remember may then be stale */

/* The handle a thread used last; most programs work on one file at a time. */
static __thread struct {
    MPI_File file;
    struct sw_handle *handle;
    unsigned generation;
} last __attribute__((tls_model("initial-exec")));

static struct sw_handle **bucket_of(MPI_File file) {
    return &buckets[((uintptr_t)file >> 4) % BUCKETS];
}

struct sw_handle *sw_handle_find(MPI_File file) {
    unsigned now = atomic_load_explicit(&generation, memory_order_acquire);
    if (last.handle && last.file == file && last.generation == now)
        return last.handle;
    sw_lock_take(&table_lock);
    struct sw_handle *handle = *bucket_of(file);
    while (handle && handle->file != file)
        handle = handle->next;
    sw_lock_release(&table_lock);
    if (handle) {
        last.file = file;
        last.handle = handle;
        last.generation = now;
    }
    return handle;
}

struct sw_handle *sw_handle_add(MPI_File file, struct sw_file *record, int64_t opened, bool root) {
    struct sw_handle *handle = sw_arena_take(&sw_runtime.files.arena, sizeof *handle);
    if (!handle) { /* the file then passes through uncounted */
        sw_files_put(record);
        return NULL;
    }
    handle->file = file;
    handle->record = record;
    handle->opened = opened;
    handle->root = root;
    handle->etype_size = handle->filetype_size = 1;
    sw_lock_take(&table_lock);
    handle->next = *bucket_of(file);
    *bucket_of(file) = handle;
    sw_lock_release(&table_lock);
    return handle;
}

void sw_handle_detach(struct sw_handle *handle) {
    sw_lock_take(&table_lock);
    struct sw_handle **link = bucket_of(handle->file);
    while (*link != handle)
        link = &(*link)->next;
    *link = handle->next;
    atomic_fetch_add_explicit(&generation, 1, memory_order_release);
    sw_lock_release(&table_lock);
}

static void add_spans(const struct sw_handle *handle, int64_t closed) {
    /* Since MPI_Init, where a barrier aligned the clocks: those of different nodes have nothing else in
     * common. */
    struct sw_span span = {handle->opened - sw_runtime.zero, closed - sw_runtime.zero};
    struct sw_facts *facts = &handle->record->facts;
    sw_lock_take(&handle->record->lock);
    sw_span_include(&facts->span, span);
    if (handle->wrote)
        sw_span_include(&facts->write_span, span);
    if (handle->read)
        sw_span_include(&facts->read_span, span);
    sw_lock_release(&handle->record->lock);
}

void sw_handle_end(struct sw_handle *handle, int64_t closed) {
    add_spans(handle, closed);
    sw_files_put(handle->record);
    sw_arena_give(&sw_runtime.files.arena, handle, sizeof *handle);
}

void sw_handles_flush(int64_t now) {
    sw_lock_take(&table_lock);
    for (int i = 0; i < BUCKETS; i++)
        for (const struct sw_handle *handle = buckets[i]; handle; handle = handle->next)
            add_spans(handle, now);
    sw_lock_release(&table_lock);
}
