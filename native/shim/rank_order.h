/* SPDX-License-Identifier: BSD-3-Clause
 * Calls on the shared file pointer that all ranks make together (write_ordered, read_ordered and their split
 * forms) take their places in the order of the ranks. ROMIO hands the pointer from rank to rank and leaves it
 * to the collective transfer that no rank begins its next such call before the last one has had its place.
 * With collective buffering disabled nothing holds them back, and data land in the wrong order. */
#ifndef STRIPEWISE_RANK_ORDER_H
#define STRIPEWISE_RANK_ORDER_H

#include "runtime.h"

/* All ranks of the file have made such a call of this kind: waits until each has had its place, unless rank
 * 0's file says that the library sees to it. Collective over the file, also where the call failed. */
void sw_rank_order_keep(struct sw_handle *handle, enum sw_kind kind);

/* The file has been closed. Collective. */
void sw_rank_order_end(struct sw_handle *handle);

#endif
