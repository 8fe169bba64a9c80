/* SPDX-License-Identifier: BSD-3-Clause
 * Whether a call is made inside an MPI library or HDF5. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "stripewise_beside.h"
#include "within.h"

#define KNOWN 256 /* callers that are remembered: the linker takes a lock to tell of others */

/* How the names of their libraries begin; the plugins of Open MPI, what MPI libraries start and send with,
 * and the runtime itself. */
static const char *const libraries[] = {"libmpi",  "libpmpi",   "libhdf5", "mca_",     "libopen-",
                                        "libpmix", "libprrte",  "libucp",  "libucs",   "libuct",
                                        "libucm",  "libfabric", "libpsm",  "libhwloc", "libstripewise"};

static sw_open_caller *open_caller; /* NULL: no runtime */

/* Twice the address, and one more if it is theirs. */
static _Atomic(uintptr_t) known[KNOWN];

void find_runtime(void) {
    *(void **)&open_caller = dlsym(RTLD_DEFAULT, SW_OPEN_CALLER);
    dlerror(); /* is not for the program */
}

static bool is_theirs(const void *address) {
    Dl_info about;
    if (!dladdr(address, &about) || !about.dli_fname)
        return false;
    const char *slash = strrchr(about.dli_fname, '/'), *name = slash ? slash + 1 : about.dli_fname;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (strncmp(name, libraries[i], strlen(libraries[i])) == 0)
            return true;
    return false;
}

bool within(const void *caller) {
    if (!open_caller)
        return false;
    const void *before = open_caller();
    uintptr_t address = (uintptr_t)(before ? before : caller) << 1;
    _Atomic(uintptr_t) *place = &known[(address >> 1) % KNOWN];
    uintptr_t found = atomic_load_explicit(place, memory_order_relaxed);
    if ((found & ~(uintptr_t)1) != address) {
        int kept = errno;
        found = address | is_theirs(before ? before : caller);
        atomic_store_explicit(place, found, memory_order_relaxed);
        errno = kept;
    }
    return found & 1;
}
