/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "h5.h"

#include <dlfcn.h>
#include <link.h>

#include "runtime.h"

#define OLDEST 0x010a01 /* hid_t has 64 bits since 1.10.0; file spaces are as now since 1.10.1 */

struct sw_h5 sw_h5;

/* As for MPI: a Python extension's HDF5 is in no scope that dlsym searches by itself. */
static int find_hdf5(struct dl_phdr_info *object, size_t size, void *found) {
    (void)size;
    if (!object->dlpi_name || !*object->dlpi_name)
        return 0;
    void *handle = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return 0;
    Dl_info ours, its;
    void *symbol = dlsym(handle, "H5get_libversion");
    if (symbol && dladdr((void *)&sw_h5, &ours) && dladdr(symbol, &its) && its.dli_fbase != ours.dli_fbase) {
        *(void **)found = handle;
        return 1;
    }
    dlclose(handle);
    return 0;
}

static void *hdf5_handle(void) {
    static void *handle;
    if (!__atomic_load_n(&handle, __ATOMIC_ACQUIRE)) {
        void *found = NULL;
        dl_iterate_phdr(find_hdf5, (void *)&found);
        __atomic_store_n(&handle, found, __ATOMIC_RELEASE);
    }
    return handle;
}

void *sw_h5_next(const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    if (!symbol && hdf5_handle())
        symbol = dlsym(hdf5_handle(), name);
    return symbol;
}

/* Variables are sought from the program downward: a copy relocation may have moved them there. */
static void *variable(const char *name) {
    void *object = dlsym(RTLD_DEFAULT, name);
    if (!object && hdf5_handle())
        object = dlsym(hdf5_handle(), name);
    return object;
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
    sw_h5.file_access = variable("H5P_CLS_FILE_ACCESS_ID_g");
    sw_h5.file_create = variable("H5P_CLS_FILE_CREATE_ID_g");
    sw_h5.dataset_create = variable("H5P_CLS_DATASET_CREATE_ID_g");
    unsigned major = 0, minor = 0, release = 0;
    if (!whole || !sw_h5.file_access || !sw_h5.file_create || !sw_h5.dataset_create ||
        sw_h5.H5get_libversion(&major, &minor, &release) < 0)
        return false;
    sw_h5.version = major << 16 | minor << 8 | release;
    return major == 1 && sw_h5.version >= OLDEST;
}

bool sw_h5_ready(void) {
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
