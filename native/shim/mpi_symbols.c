/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "mpi_symbols.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

struct sw_pmpi sw_pmpi;
struct sw_known_type sw_known_types[SW_KNOWN_TYPES];

/* An MPI that came by dlopen without RTLD_GLOBAL (as a Python extension's does) is in no scope that dlsym
 * searches by itself: ask each loaded object for a function only MPI has, and keep the one that knows it. */
static int find_mpi(struct dl_phdr_info *object, size_t size, void *found) {
    (void)size;
    if (!object->dlpi_name || !*object->dlpi_name)
        return 0;
    void *handle = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return 0;
    if (dlsym(handle, "PMPI_Init")) {
        *(void **)found = handle;
        return 1;
    }
    dlclose(handle);
    return 0;
}

static void *mpi_handle(void) {
    static void *handle;
    if (!__atomic_load_n(&handle, __ATOMIC_ACQUIRE)) {
        void *found = NULL;
        dl_iterate_phdr(find_mpi, (void *)&found);
        __atomic_store_n(&handle, found, __ATOMIC_RELEASE);
    }
    return handle;
}

void *sw_next(const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    if (!symbol && mpi_handle())
        symbol = dlsym(mpi_handle(), name);
    return symbol;
}

/* Objects, unlike functions, are sought from the program downward: where the program refers to one itself, a
 * copy relocation has moved it into the program, and libmpi's own is never used. */
void *sw_predefined(const char *name) {
    void *object = dlsym(RTLD_DEFAULT, name);
    if (!object && mpi_handle())
        object = dlsym(mpi_handle(), name);
    return object;
}

bool sw_pmpi_load(void) {
    bool whole = true;
#define X(name)                                                                                              \
    sw_pmpi.name = (__typeof__(sw_pmpi.name))sw_next("PMPI_" #name);                                         \
    whole &= sw_pmpi.name != NULL;
    SW_PMPI_FUNCTIONS(X)
    SW_PMPI_CONVERSIONS(X)
#undef X
    MPI_Datatype known[SW_KNOWN_TYPES] = {MPI_BYTE, MPI_CHAR, MPI_DOUBLE, MPI_FLOAT, MPI_INT, MPI_LONG};
    for (int i = 0; whole && i < SW_KNOWN_TYPES; i++) {
        sw_known_types[i].datatype = known[i];
        sw_pmpi.Type_size_x(known[i], &sw_known_types[i].size);
    }
    return whole;
}

const char *sw_mpi_library_path(void) {
    Dl_info info;
    void *init = sw_next("PMPI_Init");
    return init && dladdr(init, &info) ? info.dli_fname : NULL;
}
