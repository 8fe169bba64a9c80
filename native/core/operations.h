/* SPDX-License-Identifier: BSD-3-Clause
 * The MPI-IO operations, numbered, with what kind of call each is. */
#ifndef STRIPEWISE_OPERATIONS_H
#define STRIPEWISE_OPERATIONS_H

enum sw_kind { SW_META, SW_READ, SW_WRITE };
enum sw_mode { SW_COLLECTIVE, SW_INDEPENDENT, SW_END, SW_NO_MODE };

enum sw_place { SW_AT_OFFSET, SW_AT_POINTER, SW_NOWHERE };

enum sw_op {
#define OPERATION(name, kind, mode, place) SW_OP_##name,
#include "operations.def"
#undef OPERATION
    SW_OPERATIONS
};

struct sw_operation {
    const char *name;
    enum sw_kind kind;
    enum sw_mode mode;
    enum sw_place place;
};

extern const struct sw_operation sw_operations[SW_OPERATIONS];

#endif
