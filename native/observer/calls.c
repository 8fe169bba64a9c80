/* SPDX-License-Identifier: BSD-3-Clause
 * The real calls are found when the library is loaded: dlsym clears what dlerror would tell the program of a
 * call that failed, and may not be called within handlers of signals. */
#define _GNU_SOURCE
#include "calls.h"

#include <dlfcn.h>

_Static_assert(sizeof(struct call) == 2 * sizeof(void *), "they would not lie one behind the other");

/* The linker's. */
extern struct call __start_stripewise_calls[] __attribute__((visibility("hidden")));
extern struct call __stop_stripewise_calls[] __attribute__((visibility("hidden")));

void *find_next(struct call *call) {
    void *next = dlsym(RTLD_NEXT, call->name);
    atomic_store_explicit(&call->next, next, memory_order_relaxed);
    return next;
}

__attribute__((constructor)) static void find_all(void) {
    for (struct call *call = __start_stripewise_calls; call < __stop_stripewise_calls; call++)
        find_next(call);
    dlerror(); /* of those that this C library does not have */
}
