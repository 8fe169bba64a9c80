/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "rank_order.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "hints.h"
#include "mpi_comm.h"

#define NOTE                                                                                                 \
    "ROMIO confuses the order of ordered calls without collective buffering: "                               \
    "the runtime makes them wait for each other"

static const char *const hint_of[] = {[SW_READ] = "romio_cb_read", [SW_WRITE] = "romio_cb_write"};

/* Whether calls of a kind need a barrier. ROMIO says what is in force, wherever it was set, except in Open
 * MPI 4: there, and in OMPIO, an info without the hint may mean anything. */
static bool needs_barrier(const struct sw_handle *handle, MPI_Info used, enum sw_kind kind) {
    char value[MPI_MAX_INFO_VAL + 1];
    if (sw_info_get(used, hint_of[kind], value))
        return strcasecmp(value, "disable") == 0;
    sw_lock_take(&handle->record->lock);
    const char *driver = handle->record->driver;
    sw_lock_release(&handle->record->lock);
    return !driver || strcmp(driver, "ompio") != 0;
}

static int kinds_that_wait(const struct sw_handle *handle) {
    MPI_Info used = MPI_INFO_NULL;
    if (sw_pmpi.File_get_info(handle->file, &used) != MPI_SUCCESS)
        used = MPI_INFO_NULL;
    int waits = 0;
    for (enum sw_kind kind = SW_READ; kind <= SW_WRITE; kind++)
        waits |= needs_barrier(handle, used, kind) << kind;
    if (used != MPI_INFO_NULL)
        sw_pmpi.Info_free(&used);
    return waits;
}

/* The report says why these calls wait. */
static void note(struct sw_file *record, int waits) {
    sw_lock_take(&record->lock);
    for (uint32_t i = 0; i < record->result_count; i++) {
        struct sw_result *result = &record->results[i];
        for (enum sw_kind kind = SW_READ; kind <= SW_WRITE; kind++)
            if (waits >> kind & 1 && result->carrier == SW_HINT && result->outcome == SW_APPLIED &&
                strcmp(result->key, hint_of[kind]) == 0)
                result->note = NOTE;
    }
    sw_lock_release(&record->lock);
}

/* Rank 0 decides, so that all ranks do the same. */
static void find_out(struct sw_handle *handle) {
    struct sw_rank_order *order = &handle->order;
    order->known = true;
    order->waits = 0;
    if (order->number && !order->joined) {
        order->comm = sw_comm_of_file(handle->file, order->number, order->in_world);
        order->joined = true;
    }
    if (!order->number || order->comm == MPI_COMM_NULL)
        return;
    int waits = handle->root ? kinds_that_wait(handle) : 0;
    if (sw_pmpi.Bcast(&waits, 1, MPI_INT, 0, order->comm) != MPI_SUCCESS)
        return;
    order->waits = waits;
    if (handle->root && waits)
        note(handle->record, waits);
}

void sw_rank_order_keep(struct sw_handle *handle, enum sw_kind kind) {
    struct sw_rank_order *order = &handle->order;
    if (!order->known)
        find_out(handle);
    if (order->waits >> kind & 1)
        sw_pmpi.Barrier(order->comm);
}

void sw_rank_order_end(struct sw_handle *handle) {
    if (handle->order.joined && handle->order.comm != MPI_COMM_NULL)
        sw_pmpi.Comm_free(&handle->order.comm);
    handle->order.joined = false;
}
