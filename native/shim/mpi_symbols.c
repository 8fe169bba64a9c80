/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

#include "mpi_symbols.h"

struct search {
    const char *mark;
    void *found;
};

static int has_mark(struct dl_phdr_info *object, size_t size, void *asked) {
    struct search *search = asked;
    (void)size;
    if (!object->dlpi_name || !*object->dlpi_name)
        return 0;
    void *handle = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return 0;
    /* One that we have taken the place of would lead back to us. */
    Dl_info ours, its;
    void *symbol = dlsym(handle, search->mark);
    if (symbol && dladdr((void *)&has_mark, &ours) && dladdr(symbol, &its) &&
        its.dli_fbase != ours.dli_fbase) {
        search->found = handle;
        return 1;
    }
    dlclose(handle);
    return 0;
}

/* A library that came by dlopen without RTLD_GLOBAL, as a Python extension's does, is in no scope that dlsym
 * searches by itself: each loaded object is asked for the mark. */
static void *handle_of(struct sw_library *library) {
    void *handle = atomic_load(&library->handle);
    if (!handle) {
        struct search search = {.mark = library->mark};
        dl_iterate_phdr(has_mark, &search);
        handle = search.found;
        atomic_store(&library->handle, handle);
    }
    return handle;
}

void *sw_library_function(struct sw_library *library, const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    void *handle = symbol ? NULL : handle_of(library);
    return handle ? dlsym(handle, name) : symbol;
}

void *sw_library_object(struct sw_library *library, const char *name) {
    void *object = dlsym(RTLD_DEFAULT, name);
    void *handle = object ? NULL : handle_of(library);
    return handle ? dlsym(handle, name) : object;
}

struct sw_pmpi sw_pmpi;
struct sw_known_type sw_known_types[SW_KNOWN_TYPES];

static struct sw_library mpi = {.mark = "PMPI_Init"};

void *sw_next(const char *name) {
    return sw_library_function(&mpi, name);
}

void *sw_predefined(const char *name) {
    return sw_library_object(&mpi, name);
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
