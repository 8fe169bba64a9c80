/* SPDX-License-Identifier: BSD-3-Clause */
#include "call.h"
#include "rank_order.h"
#include "recording.h"
#include "runtime.h"
#include "setup.h"

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

struct sw_handle *sw_handle_reserve(void) {
    return sw_arena_take(&sw_runtime.files.arena, sizeof(struct sw_handle));
}

void sw_handle_give(struct sw_handle *handle) {
    sw_arena_give(&sw_runtime.files.arena, handle, sizeof *handle);
}

void sw_handle_add(struct sw_handle *handle, MPI_File file, struct sw_file *record, int64_t opened,
                   bool root) {
    handle->file = file;
    handle->record = record;
    handle->opened = opened;
    handle->root = root;
    handle->etype_size = handle->filetype_size = 1;
    sw_lock_take(&table_lock);
    handle->next = *bucket_of(file);
    *bucket_of(file) = handle;
    sw_lock_release(&table_lock);
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

__thread struct sw_thread sw_thread __attribute__((tls_model("initial-exec")));

static unsigned during_of(enum sw_op op) {
    static const unsigned by_mode[] = {[SW_COLLECTIVE] = 1u << SW_DURING_COLLECTIVE,
                                       [SW_INDEPENDENT] = 1u << SW_DURING_INDEPENDENT,
                                       [SW_END] = 1u << SW_DURING_COLLECTIVE,
                                       [SW_NO_MODE] = 0};
    return by_mode[sw_operations[op].mode] | (sw_operations[op].kind == SW_WRITE ? 1u << SW_DURING_WRITE : 0);
}

bool sw_call_begin(struct sw_call *call, enum sw_op op, MPI_File file) {
    if (!atomic_load_explicit(&sw_runtime.active, memory_order_relaxed) || sw_thread.file)
        return false;
    call->handle = sw_handle_find(file);
    if (!call->handle)
        return false;
    call->op = op;
    call->size = 0;
    sw_thread.file = call->handle->record;
    sw_thread.during = during_of(op);
    /* Nonblocking ones are carried out at any later time, perhaps by a wait: their POSIX calls find this in
     * the record. */
    if (sw_operations[op].name[0] == 'i')
        atomic_store_explicit(&sw_thread.file->pending, sw_thread.during, memory_order_relaxed);
    sw_thread.collects = true;
    call->start = sw_tick();
    return true;
}

static void leave(void) {
    sw_thread.file = NULL;
    sw_thread.collects = false;
    sw_thread.calls = 0;
    sw_thread.messages = 0;
}

void sw_call_end(struct sw_call *call) {
    struct sw_files *files = &sw_runtime.files;
    struct sw_file *record = call->handle->record;
    int64_t ended = sw_tick();
    if (sw_thread.calls)
        sw_file_count_posix(files, record, sw_thread.beneath, sw_thread.calls);
    leave();
    if (call->op == SW_OP_set_view || call->op == SW_OP_set_info) /* the file may have got other hints */
        call->handle->order.known = false;
    sw_file_count(files, record, call->op, 0, ended - call->start);
    if (sw_recording)
        sw_record_counted(call->handle, call->op, SW_RECORD_ONE_PIECE, 0, call->size, call->start, ended,
                          false);
}

/* Datatypes that HDF5, PnetCDF and most programs use are known without asking MPI; NULL for others. */
static const struct sw_known_type *known_type(MPI_Datatype datatype) {
    for (int i = 0; i < SW_KNOWN_TYPES; i++)
        if (sw_known_types[i].datatype == datatype)
            return &sw_known_types[i];
    return NULL;
}

static MPI_Count size_of(MPI_Datatype datatype) {
    MPI_Count size = 0;
    sw_pmpi.Type_size_x(datatype, &size);
    return size;
}

/* Where in the file a call begins, and what it does to the file pointer. Bytes of a view with gaps are those
 * that it shows: they tell as well whether calls follow on each other. */
static int64_t place_of(struct sw_handle *handle, enum sw_op op, MPI_Offset offset, uint64_t bytes) {
    int64_t pointer;
    switch (sw_operations[op].place) {
    case SW_AT_OFFSET:
        return handle->displacement + offset * handle->etype_size;
    case SW_AT_POINTER:
        pointer = atomic_load_explicit(&handle->pointer, memory_order_relaxed);
        atomic_store_explicit(&handle->pointer, pointer + (int64_t)bytes, memory_order_relaxed);
        return handle->displacement + pointer;
    default:
        return SW_UNKNOWN_PLACE;
    }
}

/* Whether the bytes of a call lie in one piece of the file or in several, and where they begin. */
static void look_through_view(const struct sw_handle *handle, struct sw_event *event) {
    event->filetype_size = handle->filetype_size;
    event->shape = SW_RUN;
    if (!handle->pieces)
        return;
    if (handle->run == handle->filetype_size && handle->run > 0 && event->place != SW_UNKNOWN_PLACE) {
        int64_t shown = event->place - handle->displacement, within = shown % handle->run;
        if (within + (int64_t)event->bytes <= handle->run) {
            event->place =
                handle->displacement + handle->lower + shown / handle->run * handle->extent + within;
            return;
        }
    }
    event->shape = SW_PIECES;
    event->piece = handle->run;
    if (event->piece > (int64_t)event->bytes)
        event->piece = (int64_t)event->bytes;
}

void sw_call_end_transfer(struct sw_call *call, int code, MPI_Count count, MPI_Datatype datatype,
                          MPI_Offset offset) {
    struct sw_handle *handle = call->handle;
    const struct sw_operation *operation = &sw_operations[call->op];
    bool ordered = operation->mode == SW_COLLECTIVE && operation->place == SW_NOWHERE;
    if (ordered)
        sw_rank_order_keep(handle, operation->kind);
    struct sw_event event = {
        .op = call->op, .began = call->start, .ended = sw_tick(), .messages = sw_thread.messages};
    int64_t memory = SW_RECORD_ONE_PIECE;
    if (code == MPI_SUCCESS && operation->mode != SW_END) {
        const struct sw_known_type *known = known_type(datatype);
        if (count > 0)
            event.bytes = (uint64_t)(known ? known->size : size_of(datatype)) * (uint64_t)count;
        if (sw_recording && event.bytes && !known)
            memory = sw_record_memory(handle, datatype);
        event.moved = event.bytes > 0; /* else the rank only takes part */
        event.place = place_of(handle, call->op, offset, event.bytes);
        look_through_view(handle, &event);
        atomic_bool *moved = operation->kind == SW_WRITE ? &handle->wrote : &handle->read;
        if (event.bytes && !atomic_load_explicit(moved, memory_order_relaxed))
            atomic_store_explicit(moved, true, memory_order_relaxed);
    }
    sw_file_count_event(&sw_runtime.files, handle->record, &event, sw_thread.beneath, sw_thread.calls);
    leave();
    if (sw_setup.moved_from && event.bytes)
        sw_setup.moved_from(handle->record->path, operation->kind == SW_WRITE, event.bytes);
    if (sw_recording)
        sw_record_counted(handle, call->op, memory, offset, (int64_t)event.bytes, event.began, event.ended,
                          code != MPI_SUCCESS);
}
