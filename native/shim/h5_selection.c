/* SPDX-License-Identifier: BSD-3-Clause
 * What a dataspace selects of a dataset: one run of bytes, several at regular distances, or others. */
#include "h5.h"

/* A regular hyperslab: is it one run in the order of the elements, and where does it begin? */
static enum sw_selection hyperslab(sw_hid space, uint64_t *first) {
    sw_hsize size[SW_H5_RANK], start[SW_H5_RANK], stride[SW_H5_RANK], count[SW_H5_RANK], block[SW_H5_RANK];
    int rank = sw_h5.H5Sget_simple_extent_ndims(space);
    if (rank < 1 || rank > SW_H5_RANK || sw_h5.H5Sget_simple_extent_dims(space, size, NULL) < 0 ||
        sw_h5.H5Sis_regular_hyperslab(space) <= 0 ||
        sw_h5.H5Sget_regular_hyperslab(space, start, stride, count, block) < 0)
        return SW_SELECT_IRREGULAR;
    bool run = true, whole = true; /* whole: all faster dimensions are selected from end to end */
    uint64_t below = 1;            /* elements of the faster dimensions */
    *first = 0;
    for (int i = rank - 1; i >= 0; i--) {
        sw_hsize selected = count[i] * block[i];
        bool together = count[i] == 1 || stride[i] == block[i];
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
            transfer->selection = hyperslab(file_space, &first);
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
