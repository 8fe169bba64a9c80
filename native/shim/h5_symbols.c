/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "h5.h"

#include "library.h"
#include "runtime.h"

#define OLDEST 0x010a01 /* hid_t has 64 bits since 1.10.0; file spaces are as now since 1.10.1 */

struct sw_h5 sw_h5;

static struct sw_library hdf5 = {.mark = "H5get_libversion"};

void *sw_h5_next(const char *name) {
    return sw_library_function(&hdf5, name);
}

static bool load(void) {
    bool whole = true;
#define X(result, name, parameters)                                                                          \
    sw_h5.name = (__typeof__(sw_h5.name))sw_h5_next(#name);                                                  \
    whole &= sw_h5.name != NULL;
    SW_H5_FUNCTIONS(X)
#undef X
#define X(result, name, parameters) sw_h5.name = (__typeof__(sw_h5.name))sw_h5_next(#name);
    SW_H5_OPTIONAL(X)
#undef X
    sw_h5.file_access = sw_library_object(&hdf5, "H5P_CLS_FILE_ACCESS_ID_g");
    sw_h5.file_create = sw_library_object(&hdf5, "H5P_CLS_FILE_CREATE_ID_g");
    sw_h5.dataset_create = sw_library_object(&hdf5, "H5P_CLS_DATASET_CREATE_ID_g");
    sw_h5.native[0] = sw_library_object(&hdf5, "H5T_NATIVE_FLOAT_g");
    sw_h5.native[1] = sw_library_object(&hdf5, "H5T_NATIVE_DOUBLE_g");
    sw_h5.standard[0][0] = sw_library_object(&hdf5, "H5T_IEEE_F32LE_g");
    sw_h5.standard[0][1] = sw_library_object(&hdf5, "H5T_IEEE_F32BE_g");
    sw_h5.standard[1][0] = sw_library_object(&hdf5, "H5T_IEEE_F64LE_g");
    sw_h5.standard[1][1] = sw_library_object(&hdf5, "H5T_IEEE_F64BE_g");
    unsigned major = 0, minor = 0, release = 0;
    if (!whole || !sw_h5.file_access || !sw_h5.file_create || !sw_h5.dataset_create ||
        sw_h5.H5get_libversion(&major, &minor, &release) < 0)
        return false;
    sw_h5.version = major << 16 | minor << 8 | release;
    /* Of 2.x only what is without MPI-IO, or has it by the old name. */
    return sw_h5.version >= OLDEST &&
           (major == 1 || (major == 2 && (!sw_h5.H5Pget_fapl_mpio || sw_h5.H5FD_mpio_init)));
}

static atomic_bool has_connector;

void sw_h5_leave_to_connector(void) {
    atomic_store(&has_connector, true);
}

bool sw_h5_ready(void) {
    return !atomic_load_explicit(&has_connector, memory_order_relaxed) && sw_h5_usable();
}

bool sw_h5_usable(void) {
    static atomic_int state; /* 0: not tried, 1: ready, 2: not usable */
    static sw_lock lock = ATOMIC_FLAG_INIT;
    if (!atomic_load_explicit(&sw_runtime.active, memory_order_relaxed))
        return false;
    if (!atomic_load_explicit(&state, memory_order_acquire)) {
        sw_lock_take(&lock);
        if (!atomic_load_explicit(&state, memory_order_relaxed))
            atomic_store_explicit(&state, load() ? 1 : 2, memory_order_release);
        sw_lock_release(&lock);
    }
    return atomic_load_explicit(&state, memory_order_relaxed) == 1;
}

bool sw_h5_is_parallel(sw_hid access) {
    return access != SW_H5_DEFAULT && sw_h5.H5FD_mpio_init &&
           sw_h5.H5Pget_driver(access) == sw_h5.H5FD_mpio_init();
}
