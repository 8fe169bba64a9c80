/* SPDX-License-Identifier: BSD-3-Clause */
#include "call.h"

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
    sw_thread.file = call->handle->record;
    sw_thread.during = during_of(op);
    /* Nonblocking ones are carried out at any later time, perhaps by a wait: their POSIX calls find this in
     * the record. */
    if (sw_operations[op].name[0] == 'i')
        atomic_store_explicit(&sw_thread.file->pending, sw_thread.during, memory_order_relaxed);
    call->start = sw_now();
    return true;
}

static void finish(struct sw_call *call, uint64_t bytes) {
    int64_t time = sw_now() - call->start;
    sw_thread.file = NULL;
    sw_file_count(&sw_runtime.files, call->handle->record, call->op, bytes, time);
}

void sw_call_end(struct sw_call *call) {
    finish(call, 0);
}

void sw_call_end_transfer(struct sw_call *call, int code, MPI_Count count, MPI_Datatype datatype) {
    MPI_Count size = 0;
    if (code == MPI_SUCCESS && count > 0)
        sw_pmpi.Type_size_x(datatype, &size);
    if (size > 0)
        atomic_store_explicit(sw_operations[call->op].kind == SW_WRITE ? &call->handle->wrote
                                                                       : &call->handle->read,
                              true, memory_order_relaxed);
    finish(call, size > 0 ? (uint64_t)size * (uint64_t)count : 0);
}
