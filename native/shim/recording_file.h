/* SPDX-License-Identifier: BSD-3-Clause
 * The way of the records of all ranks into one file. */
#ifndef STRIPEWISE_RECORDING_FILE_H
#define STRIPEWISE_RECORDING_FILE_H

#include "gather.h"
#include "record.h"

/* Why a record does not hold everything. */
enum sw_gap {
    SW_GAP_MEMORY,
    SW_GAP_TYPE,
    SW_GAP_COMM,
    SW_GAP_FAILED,
    SW_GAP_INTERRUPTED,
    SW_GAP_SENT,
    SW_GAP_H5_TYPE,
    SW_GAP_H5_SELECTION,
    SW_GAP_H5_STORAGE,
    SW_GAP_H5_NAME,
    SW_GAP_H5_OPEN,
    SW_GAPS
};

/* What one process recorded. */
struct sw_record {
    struct sw_items calls;
    const struct sw_item *named;
    uint32_t named_count;
    const char *texts, *inputs; /* inputs: each its size (int64_t) and its path with the NUL */
    size_t text_size, input_size;
    unsigned gaps; /* bits 1 << enum sw_gap */
};

/* Bits of an amode as the record numbers them. */
int64_t sw_record_amode(int amode);

/* Writes the record of all ranks on rank 0. Collective over the route; NULL: this process alone. */
void sw_record_gather(const struct sw_route *route, uint64_t ranks, const struct sw_job *job,
                      const struct sw_record *own);

#endif
