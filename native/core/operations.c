/* SPDX-License-Identifier: BSD-3-Clause */
#include "operations.h"

const struct sw_operation sw_operations[SW_OPERATIONS] = {
#define OPERATION(name, kind, mode, place) {#name, SW_##kind, SW_##mode, SW_##place},
#include "operations.def"
#undef OPERATION
};
