/* In the place of MPICH's portability layer: as much of it as ROMIO uses. */
#ifndef LUSTRE_TEST_MPL_H
#define LUSTRE_TEST_MPL_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MPL_MIN(a, b) ((a) < (b) ? (a) : (b))
#define MPL_MAX(a, b) ((a) > (b) ? (a) : (b))
#define MPL_UNREFERENCED_ARG(a) ((void)(a))
#define MPL_VG_MEM_INIT(address, size)
#define MPL_MEM_IO 0

#define MPL_snprintf snprintf
#define MPL_malloc(size, use) malloc(size)
#define MPL_calloc(number, size, use) calloc(number, size)
#define MPL_realloc(old, size, use) realloc(old, size)
#define MPL_free free
#define MPL_direct_free free
#define MPL_external_free free

static inline int MPL_strnapp(char *text, const char *more, size_t size) {
    size_t used = strnlen(text, size);
    return snprintf(text + used, size - used, "%s", more) >= (int)(size - used);
}

/* A name that no other process of this machine uses now. */
static inline void MPL_create_pathname(char *name, const char *folder, const char *prefix, int is_folder) {
    snprintf(name, PATH_MAX, "%s%s%s.%d%s", folder ? folder : "", folder ? "/" : "", prefix, (int)getpid(),
             is_folder ? "/" : "");
}

#endif
