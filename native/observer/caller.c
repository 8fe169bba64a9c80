/* SPDX-License-Identifier: BSD-3-Clause
 * Whether a call is made inside an MPI library or HDF5. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "caller.h"
#include "stripewise_beside.h"

#define KNOWN 256 /* callers that are remembered: the linker takes a lock to tell of others */

/* How the names of their libraries begin; the plugins of Open MPI, what MPI libraries start and send with,
 * and the runtime itself. */
static const char *const libraries[] = {"libmpi",  "libpmpi",   "libhdf5", "mca_",     "libopen-",
                                        "libpmix", "libprrte",  "libucp",  "libucs",   "libuct",
                                        "libucm",  "libfabric", "libpsm",  "libhwloc", "libstripewise"};

static sw_open_caller *open_caller; /* NULL: no runtime */

/* Twice the address, and one more if it is theirs. */
static _Atomic(uintptr_t) known[KNOWN];

static bool in_valgrind; /* which calls it an error to look at memory that may not be there */

void find_runtime(void) {
    *(void **)&open_caller = dlsym(RTLD_DEFAULT, SW_OPEN_CALLER);
    dlerror(); /* is not for the program */
    const char *preloaded = getenv("LD_PRELOAD");
    in_valgrind = preloaded && strstr(preloaded, "/vgpreload_");
}

bool is_of_io(const void *address) {
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
        found = address | is_of_io(before ? before : caller);
        atomic_store_explicit(place, found, memory_order_relaxed);
        errno = kept;
    }
    return found & 1;
}

#define SMALL 65536
#define NEEDED 32768 /* bytes to lay out a file */
#define STEP 4096    /* of a page, and of what lies behind the end of a stack */
#define NO_ACTION (-1)

bool on_small_stack(void) {
    stack_t now;
    return sigaltstack(NULL, &now) == 0 && now.ss_flags & SS_ONSTACK && now.ss_size < SMALL;
}

/* The kernel looks at a set of signals before it finds that it is to do nothing with it. */
static bool is_readable(const char *place) {
    return syscall(SYS_rt_sigprocmask, NO_ACTION, (uintptr_t)place & ~(uintptr_t)7, NULL, 8) == 0 ||
           errno != EFAULT;
}

bool has_stack(void) {
    const char *here = __builtin_frame_address(0);
    const int kept = errno;
    bool has = !on_small_stack();
    for (ptrdiff_t below = STEP; has && !in_valgrind && below <= NEEDED; below += STEP)
        has = is_readable(here - below);
    errno = kept;
    return has;
}
