/* SPDX-License-Identifier: BSD-3-Clause
 * Groups and attributes: HDF5's work on metadata. */
#include "h5.h"
#include "runtime.h"

#define WRAP(RESULT, NAME, OP, PARAMETERS, ...)                                                              \
    SW_EXPORT RESULT NAME PARAMETERS {                                                                       \
        static RESULT(*_Atomic found) PARAMETERS; /* NOLINT(bugprone-macro-parentheses) */                   \
        SW_H5_RESOLVE_OR_FAIL(next, found, #NAME);                                                           \
        int64_t start = sw_h5_ready() ? sw_tick() : 0;                                                       \
        RESULT done = next(__VA_ARGS__);                                                                     \
        if (start && done >= 0)                                                                              \
            sw_h5_count(place, SW_H5_##OP, start);                                                           \
        return done;                                                                                         \
    }

WRAP(sw_hid, H5Gcreate1, group_create, (sw_hid place, const char *name, size_t hint), place, name, hint)
WRAP(sw_hid, H5Gcreate2, group_create,
     (sw_hid place, const char *name, sw_hid links, sw_hid creation, sw_hid access), place, name, links,
     creation, access)
WRAP(sw_hid, H5Gopen1, group_open, (sw_hid place, const char *name), place, name)
WRAP(sw_hid, H5Gopen2, group_open, (sw_hid place, const char *name, sw_hid access), place, name, access)
WRAP(sw_hid, H5Acreate1, attribute_create,
     (sw_hid place, const char *name, sw_hid type, sw_hid space, sw_hid creation), place, name, type, space,
     creation)
WRAP(sw_hid, H5Acreate2, attribute_create,
     (sw_hid place, const char *name, sw_hid type, sw_hid space, sw_hid creation, sw_hid access), place, name,
     type, space, creation, access)
WRAP(sw_hid, H5Aopen, attribute_open, (sw_hid place, const char *name, sw_hid access), place, name, access)
WRAP(sw_hid, H5Aopen_name, attribute_open, (sw_hid place, const char *name), place, name)
WRAP(int, H5Awrite, attribute_write, (sw_hid place, sw_hid type, const void *buffer), place, type, buffer)
WRAP(int, H5Aread, attribute_read, (sw_hid place, sw_hid type, void *buffer), place, type, buffer)
