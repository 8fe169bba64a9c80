/* SPDX-License-Identifier: BSD-3-Clause
 * Layouts of Lustre by liblustreapi, where it can be loaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "file_system.h"
#include "layout_lustre_api.h"

/* liblustreapi(7): the calls used here exist since Lustre 2.10, overstriping since 2.13. Names and values are
 * those of lustreapi.h of Lustre 2.17. */
struct llapi_layout;
#define LLAPI_MDT 2ULL                      /* LLAPI_LAYOUT_MDT */
#define LLAPI_OVERSTRIPING 4ULL             /* LLAPI_LAYOUT_OVERSTRIPING */
#define LLAPI_DEFAULT 0x1000000000000002ULL /* LLAPI_LAYOUT_DEFAULT */
#define LLAPI_WIDE (LLAPI_DEFAULT + 1) /* LLAPI_LAYOUT_WIDE: all targets; one more: twice as many stripes */
#define LLAPI_WIDEST (LLAPI_DEFAULT + 32)   /* LLAPI_LAYOUT_WIDE_MAX */
#define LLAPI_SPECIAL 0x1000000000000000ULL /* from here on values are words, not numbers */
#define LLAPI_EXPECTED 1U                   /* LLAPI_LAYOUT_GET_EXPECTED: what new files in a folder get */
#define LLAPI_EXTENSION 0x40U               /* LCME_FL_EXTENSION: where the component before it may grow */
enum { LLAPI_FIRST = 1, LLAPI_NEXT = 3 };   /* of enum llapi_layout_comp_use */

static struct {
    struct llapi_layout *(*alloc)(void);
    void (*free)(struct llapi_layout *layout);
    struct llapi_layout *(*get_by_path)(const char *path, uint32_t flags);
    int (*stripe_count_get)(const struct llapi_layout *layout, uint64_t *count);
    int (*stripe_count_set)(struct llapi_layout *layout, uint64_t count);
    int (*stripe_size_get)(const struct llapi_layout *layout, uint64_t *size);
    int (*stripe_size_set)(struct llapi_layout *layout, uint64_t size);
    int (*pattern_get)(const struct llapi_layout *layout, uint64_t *pattern);
    int (*pattern_set)(struct llapi_layout *layout, uint64_t pattern);
    int (*ost_index_set)(struct llapi_layout *layout, int stripe, uint64_t index);
    int (*pool_name_get)(const struct llapi_layout *layout, char *name, size_t size);
    int (*pool_name_set)(struct llapi_layout *layout, const char *name);
    int (*comp_use)(struct llapi_layout *layout, uint32_t place);
    int (*comp_add)(struct llapi_layout *layout);
    int (*comp_extent_get)(const struct llapi_layout *layout, uint64_t *start, uint64_t *end);
    int (*comp_extent_set)(struct llapi_layout *layout, uint64_t start, uint64_t end);
    int (*comp_flags_get)(const struct llapi_layout *layout, uint32_t *flags);
    int (*file_create)(const char *path, int flags, int mode, const struct llapi_layout *layout);
    /* Since 2.11 and 2.13; both may be missing. */
    bool (*is_composite)(struct llapi_layout *layout);
    int (*extension_size_get)(const struct llapi_layout *layout, uint64_t *size);
} llapi;

static bool llapi_found;

static void load_llapi(void) {
    void *library = dlopen("liblustreapi.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        library = dlopen("liblustreapi.so", RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return;
    llapi_found = true;
#define LOAD(name)                                                                                           \
    *(void **)&llapi.name = dlsym(library, "llapi_layout_" #name);                                           \
    llapi_found &= llapi.name != NULL
    LOAD(alloc);
    LOAD(free);
    LOAD(get_by_path);
    LOAD(stripe_count_get);
    LOAD(stripe_count_set);
    LOAD(stripe_size_get);
    LOAD(stripe_size_set);
    LOAD(pattern_get);
    LOAD(pattern_set);
    LOAD(ost_index_set);
    LOAD(pool_name_get);
    LOAD(pool_name_set);
    LOAD(comp_use);
    LOAD(comp_add);
    LOAD(comp_extent_get);
    LOAD(comp_extent_set);
    LOAD(comp_flags_get);
    LOAD(file_create);
    bool whole = llapi_found;
    LOAD(is_composite);
    LOAD(extension_size_get);
    llapi_found = whole;
#undef LOAD
}

bool sw_layout_by_commands;

bool sw_lustre_api(void) {
    if (sw_layout_by_commands)
        return false;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_llapi);
    return llapi_found;
}

static int64_t plain_number(uint64_t value) {
    if (value >= LLAPI_WIDE && value <= LLAPI_WIDEST)
        return -1 - (int64_t)(value - LLAPI_WIDE);
    return value >= LLAPI_SPECIAL ? 0 : (int64_t)value;
}

bool sw_lustre_api_read(const char *path, bool folder, struct components *layout) {
    struct llapi_layout *found = llapi.get_by_path(path, folder ? LLAPI_EXPECTED : 0);
    if (!found)
        return false;
    layout->composite = llapi.is_composite && llapi.is_composite(found);
    int more = llapi.comp_use(found, LLAPI_FIRST);
    while (more == 0) {
        struct component next = {0};
        uint64_t start = 0, end = UINT64_MAX, value;
        uint32_t flags = 0;
        llapi.comp_flags_get(found, &flags);
        if (llapi.comp_extent_get(found, &start, &end) == 0) {
            next.start = (int64_t)start;
            next.end = end > INT64_MAX ? TO_THE_END : (int64_t)end;
        }
        if (llapi.stripe_count_get(found, &value) == 0)
            next.count = plain_number(value);
        if (llapi.stripe_size_get(found, &value) == 0)
            next.size = plain_number(value);
        if (llapi.pattern_get(found, &value) == 0 && value < LLAPI_SPECIAL) {
            next.on_mdt = value & LLAPI_MDT;
            next.overstriped = value & LLAPI_OVERSTRIPING;
        }
        if (flags & LLAPI_EXTENSION && llapi.extension_size_get &&
            llapi.extension_size_get(found, &value) == 0)
            next.extension = plain_number(value);
        llapi.pool_name_get(found, next.pool, sizeof next.pool);
        sw_components_add(layout, &next, flags & LLAPI_EXTENSION);
        more = llapi.comp_use(found, LLAPI_NEXT);
    }
    layout->composite |= layout->count > 1;
    llapi.free(found);
    return true;
}

static int fill(struct llapi_layout *made, const struct component *c, bool composite) {
    int failed = 0;
    if (composite)
        failed |= llapi.comp_extent_set(made, (uint64_t)c->start,
                                        c->end == TO_THE_END ? UINT64_MAX : (uint64_t)c->end);
    if (c->on_mdt) /* its one stripe is as long as the component */
        return failed | llapi.pattern_set(made, LLAPI_MDT) | llapi.stripe_size_set(made, (uint64_t)c->end);
    if (c->overstriped)
        failed |= llapi.pattern_set(made, LLAPI_OVERSTRIPING);
    if (c->count)
        failed |= llapi.stripe_count_set(made, c->count == -1 ? LLAPI_WIDE : (uint64_t)c->count);
    if (c->size)
        failed |= llapi.stripe_size_set(made, (uint64_t)c->size);
    if (*c->pool)
        failed |= llapi.pool_name_set(made, c->pool);
    return failed;
}

int sw_lustre_api_create(const char *path, mode_t mode, const struct components *layout, const char *start) {
    struct llapi_layout *made = llapi.alloc();
    if (!made)
        return -1;
    int failed = 0;
    for (int c = 0; c < layout->count && !failed; c++) {
        failed = c ? llapi.comp_add(made) : 0;
        failed |= fill(made, &layout->all[c], layout->composite);
    }
    if (start)
        failed |= llapi.ost_index_set(made, 0, strtoull(start, NULL, 10));
    int fd = failed ? -1 : llapi.file_create(path, O_WRONLY | O_EXCL, (int)mode, made);
    int reason = errno;
    if (fd >= 0)
        close(fd);
    llapi.free(made);
    errno = reason;
    return fd < 0 ? -1 : 0;
}
