/* SPDX-License-Identifier: BSD-3-Clause */
#include "recording_types.h"

#include <stdlib.h>

#include "flatten.h"
#include "recording_own.h"

/* A type of data in memory may reach over so many bytes, or so many times those that it has. */
#define WIDE (1 << 30)
#define WIDEST 64

/* The lock is held. -1 where there is no room. */
static int64_t type_number(const struct sw_flat *shape) {
    uint32_t first = sw_record_named();
    bool room = sw_record_name(SW_LINE_type, shape->lower, shape->extent);
    for (uint32_t i = 0; room && i < shape->count; i++) {
        const struct sw_block *block = &shape->blocks[i];
        room = sw_record_name(SW_LINE_block, block->offset, block->length);
        for (int d = 0; room && d < block->dims; d++)
            room = sw_record_name(SW_LINE_dim, block->count[d], block->stride[d]);
    }
    return room ? sw_record_number_of(first) : -1;
}

void sw_record_viewed(const struct sw_handle *handle, MPI_Datatype filetype, int64_t began) {
    if (handle->slot == SW_BENEATH_HDF5)
        return;
    struct sw_flat *shape = malloc(sizeof *shape);
    bool known = shape && sw_flatten(filetype, shape);
    sw_record_take();
    int64_t type = known ? type_number(shape) : -1;
    if (!known)
        sw_record_gap(SW_GAP_TYPE);
    const int64_t numbers[SW_RECORD_NUMBERS] = {handle->slot, handle->displacement, handle->etype_size, type};
    sw_record_add(SW_LINE_set_view, numbers, began, sw_tick());
    sw_record_release();
    free(shape);
}

/* ---- data in memory. Calls use few types: each keeps its number as an attribute. ---- */

static int numbers_key = MPI_KEYVAL_INVALID; /* the lock is held to make it */

/* A type that is made of another one has no number yet. */
static int copy_no_number(MPI_Datatype type, int key, void *extra, void *value, void *copied, int *copies) {
    (void)type, (void)key, (void)extra, (void)value, (void)copied;
    *copies = 0;
    return MPI_SUCCESS;
}

static int forget_number(MPI_Datatype type, int key, void *value, void *extra) {
    (void)type, (void)key, (void)value, (void)extra;
    return MPI_SUCCESS;
}

static bool in_one_piece(const struct sw_flat *shape) {
    const struct sw_block *block = shape->blocks;
    return shape->count == 0 || (shape->count == 1 && block->dims == 0 && block->offset == 0 &&
                                 shape->lower == 0 && block->length == shape->extent);
}

/* Memory for a copy of data whose parts lie far from one another, as addresses do, would not be there. */
static bool too_wide(MPI_Datatype datatype) {
    MPI_Count size = 0, lower = 0, extent = 0;
    sw_pmpi.Type_size_x(datatype, &size);
    sw_pmpi.Type_get_true_extent_x(datatype, &lower, &extent);
    return extent > WIDE && extent / WIDEST > size;
}

static int64_t new_number(MPI_Datatype datatype) {
    struct sw_flat *shape = malloc(sizeof *shape);
    const bool known = shape && sw_flatten(datatype, shape);
    int64_t number = SW_RECORD_ONE_PIECE;
    if (!known || too_wide(datatype))
        sw_record_gap(SW_GAP_TYPE);
    else if (!in_one_piece(shape)) {
        sw_record_take();
        number = type_number(shape);
        sw_record_release();
    }
    free(shape);
    return number;
}

int64_t sw_record_memory(const struct sw_handle *handle, MPI_Datatype datatype) {
    static char numbers[SW_MAX_RECORD_ITEMS + 1]; /* an attribute is a pointer: to its number's place here */
    char *kept = NULL;
    int found = 0;
    if (handle->slot == SW_BENEATH_HDF5)
        return SW_RECORD_ONE_PIECE;
    sw_record_take();
    if (numbers_key == MPI_KEYVAL_INVALID)
        sw_pmpi.Type_create_keyval(copy_no_number, forget_number, &numbers_key, NULL);
    sw_record_release();
    sw_pmpi.Type_get_attr(datatype, numbers_key, (void *)&kept, &found);
    if (found)
        return kept - numbers - 1;
    const int64_t number = new_number(datatype);
    sw_pmpi.Type_set_attr(datatype, numbers_key, &numbers[number + 1]);
    return number;
}
