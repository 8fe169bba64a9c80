/* SPDX-License-Identifier: BSD-3-Clause
 * The functions of HDF5 by which calls go on to the connector below, and the callbacks that do nothing else.
 */
#include "vol.h"

struct sw_vol_functions sw_vol;

#ifdef STRIPEWISE_HDF5_HEADERS
#define CHECK(name)                                                                                          \
    _Static_assert(__builtin_types_compatible_p(__typeof__(sw_vol.name), __typeof__(&name)), #name);
#else
#define CHECK(name)
#endif

/* NOLINTBEGIN(bugprone-macro-parentheses): types and names cannot have them */
bool sw_vol_load(void) {
    bool whole = true;
#define LOAD(name)                                                                                           \
    CHECK(name)                                                                                              \
    sw_vol.name = (__typeof__(sw_vol.name))sw_h5_next(#name);                                                \
    whole &= sw_vol.name != NULL;
#define X(result, name, parameters) LOAD(name)
    SW_VOL_FUNCTIONS(X)
#undef X
#define GROUP(group)
#define MAKES(group, name, parameters, below, arguments) LOAD(H5VL##group##_##name)
#define ASKS MAKES
#define TELLS MAKES
#define SPECIAL(result, group, name, parameters, below) LOAD(H5VL##group##_##name)
#define END(group)
#include "callbacks.def"
    return whole;
}

#define GROUP(group)
#define MAKES(group, name, parameters, below, arguments)                                                     \
    void *sw_vol_##group##_##name parameters {                                                               \
        const struct sw_vol *o = object;                                                                     \
        struct sw_vol_printing printing = sw_vol_print_nothing();                                            \
        void *made = sw_vol.H5VL##group##_##name arguments;                                                  \
        sw_vol_print_again(printing);                                                                        \
        sw_vol_wrap_request(o, request);                                                                     \
        return made ? sw_vol_new(made, o->connector) : NULL;                                                 \
    }
#define ASKS(group, name, parameters, below, arguments)                                                      \
    herr_t sw_vol_##group##_##name parameters {                                                              \
        const struct sw_vol *o = object;                                                                     \
        herr_t done = sw_vol.H5VL##group##_##name arguments;                                                 \
        sw_vol_wrap_request(o, request);                                                                     \
        return done;                                                                                         \
    }
#define TELLS(group, name, parameters, below, arguments)                                                     \
    herr_t sw_vol_##group##_##name parameters {                                                              \
        const struct sw_vol *o = object;                                                                     \
        return sw_vol.H5VL##group##_##name arguments;                                                        \
    }
#define SPECIAL(result, group, name, parameters, below)
#define END(group)
#include "callbacks.def"
/* NOLINTEND(bugprone-macro-parentheses) */
