/* SPDX-License-Identifier: BSD-3-Clause
 * Lustre's layout is fixed when a file is created. liblustreapi does it where it can be loaded, else the lfs
 * command does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_system.h"
#include "input.h"

/* liblustreapi(7): the calls used here exist since Lustre 2.7, overstriping since 2.13. */
struct llapi_layout;
#define LLAPI_OVERSTRIPING 4ULL             /* LLAPI_LAYOUT_OVERSTRIPING */
#define LLAPI_WIDE 0x1000000000000003ULL    /* LLAPI_LAYOUT_WIDE: all targets */
#define LLAPI_SPECIAL 0x1000000000000000ULL /* from here on values are words, not numbers */
#define LLAPI_EXPECTED 1U                   /* LLAPI_LAYOUT_GET_EXPECTED: what new files in a folder get */

static struct {
    struct llapi_layout *(*alloc)(void);
    void (*free)(struct llapi_layout *layout);
    struct llapi_layout *(*get_by_path)(const char *path, uint32_t flags);
    int (*stripe_count_get)(const struct llapi_layout *layout, uint64_t *count);
    int (*stripe_count_set)(struct llapi_layout *layout, uint64_t count);
    int (*stripe_size_get)(const struct llapi_layout *layout, uint64_t *size);
    int (*stripe_size_set)(struct llapi_layout *layout, uint64_t size);
    int (*pattern_set)(struct llapi_layout *layout, uint64_t pattern);
    int (*ost_index_set)(struct llapi_layout *layout, int stripe, uint64_t index);
    int (*pool_name_set)(struct llapi_layout *layout, const char *name);
    int (*file_create)(const char *path, int flags, int mode, const struct llapi_layout *layout);
    /* Since 2.11, and only to look at folders: both may be missing. */
    bool (*is_composite)(struct llapi_layout *layout);
    int (*pool_name_get)(const struct llapi_layout *layout, char *name, size_t size);
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
    LOAD(pattern_set);
    LOAD(ost_index_set);
    LOAD(pool_name_set);
    LOAD(file_create);
    bool whole = llapi_found;
    LOAD(is_composite);
    LOAD(pool_name_get);
    llapi_found = whole;
#undef LOAD
}

static bool have_llapi(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_llapi);
    return llapi_found;
}

/* The numbers of stripes and of their bytes: either two bare ones, or after labels such as "lmm_stripe_count:
 * 4", the count first. */
static bool parse_stripes(const char *output, struct sw_layout *layout) {
    int64_t numbers[2] = {-1, -1};
    int found = 0;
    for (const char *c = output; *c && found < 2; c++)
        if ((*c == '-' || (*c >= '0' && *c <= '9')) &&
            (c == output || c[-1] == ' ' || c[-1] == '\t' || c[-1] == '\n')) {
            char *end;
            numbers[found++] = strtoll(c, &end, 10);
            c = end - 1;
        }
    layout->numbers[0] = numbers[0];
    layout->numbers[1] = numbers[1];
    return found > 0;
}

static bool read_with_lfs(const char *path, struct sw_layout *layout) {
    char output[256];
    char *const arguments[] = {"lfs", "getstripe", "-q", "-c", "-S", (char *)path, NULL};
    return sw_input_command(arguments, output, sizeof output) == 0 && parse_stripes(output, layout);
}

static void parent_with_lfs(const char *folder, struct sw_parent *parent) {
    char output[2048];
    char *const arguments[] = {"lfs", "getstripe", "-d", (char *)folder, NULL};
    if (sw_input_command(arguments, output, sizeof output) != 0)
        return;
    parent->composite = strstr(output, "lcm_") || strstr(output, "lcme_");
    const char *pool = strstr(output, "pool:");
    while (pool && !parent->pooled) {
        const char *name = pool + strlen("pool:");
        name += strspn(name, " \t");
        parent->pooled = *name && *name != '\n';
        pool = strstr(name, "pool:");
    }
    const char *count = strstr(output, "stripe_count:");
    if (count && !parent->composite)
        parse_stripes(count, &parent->layout);
}

static void lustre_parent(const char *folder, struct sw_parent *parent) {
    if (!have_llapi()) {
        parent_with_lfs(folder, parent);
        return;
    }
    struct llapi_layout *found = llapi.get_by_path(folder, LLAPI_EXPECTED);
    uint64_t count, size;
    char pool[64] = "";
    if (!found)
        return;
    parent->composite = llapi.is_composite && llapi.is_composite(found);
    parent->pooled = llapi.pool_name_get && llapi.pool_name_get(found, pool, sizeof pool) == 0 && *pool;
    if (!parent->composite && llapi.stripe_count_get(found, &count) == 0 && count < LLAPI_SPECIAL)
        parent->layout.numbers[0] = (int64_t)count;
    if (!parent->composite && llapi.stripe_size_get(found, &size) == 0 && size < LLAPI_SPECIAL)
        parent->layout.numbers[1] = (int64_t)size;
    llapi.free(found);
}

static bool lustre_read(const char *path, struct sw_layout *layout) {
    if (!have_llapi())
        return read_with_lfs(path, layout);
    struct llapi_layout *found = llapi.get_by_path(path, 0);
    uint64_t count, size;
    if (!found)
        return false;
    if (llapi.stripe_count_get(found, &count) == 0)
        layout->numbers[0] = (int64_t)count;
    if (llapi.stripe_size_get(found, &size) == 0)
        layout->numbers[1] = (int64_t)size;
    llapi.free(found);
    return true;
}

enum { COUNT, SIZE, OVERSTRIPE, START, POOL, KEYS }; /* of sw_lustre.keys */

/* "-2" to "-32", so many stripes on every target, has no stable number in the library; lfs knows it. */
static bool only_lfs_can(const char *overstripe_count) {
    return overstripe_count && strtoll(overstripe_count, NULL, 10) < 0;
}

static int create_with_llapi(const char *path, const char *const values[SW_LAYOUT_KEYS]) {
    struct llapi_layout *layout = llapi.alloc();
    if (!layout)
        return -1;
    const char *count = values[OVERSTRIPE] ? values[OVERSTRIPE] : values[COUNT];
    int failed = 0;
    if (count) {
        long long stripes = strtoll(count, NULL, 10);
        failed |= llapi.stripe_count_set(layout, stripes == -1 ? LLAPI_WIDE : (uint64_t)stripes);
    }
    if (values[SIZE])
        failed |= llapi.stripe_size_set(layout, strtoull(values[SIZE], NULL, 10));
    if (values[OVERSTRIPE])
        failed |= llapi.pattern_set(layout, LLAPI_OVERSTRIPING);
    if (values[START])
        failed |= llapi.ost_index_set(layout, 0, strtoull(values[START], NULL, 10));
    if (values[POOL])
        failed |= llapi.pool_name_set(layout, values[POOL]);
    int fd = failed ? -1 : llapi.file_create(path, O_WRONLY | O_EXCL, 0666, layout);
    int reason = errno;
    if (fd >= 0)
        close(fd);
    llapi.free(layout);
    errno = reason;
    return fd < 0 ? -1 : 0;
}

static enum sw_layout_outcome lustre_apply(const char *path, const char *const values[SW_LAYOUT_KEYS],
                                           char *note, size_t note_size) {
    static const char *const options[KEYS] = {"-c", "-S", "-C", "-i", "-p"}; /* of lfs setstripe */
    struct stat status;
    if (have_llapi() && !only_lfs_can(values[OVERSTRIPE])) {
        if (create_with_llapi(path, values) == 0)
            return SW_LAID_OUT;
        snprintf(note, note_size, "liblustreapi: %s", strerror(errno));
        return SW_LAYOUT_FAILED;
    }
    char *arguments[2 * KEYS + 4] = {"lfs", "setstripe"}, output[200];
    int used = 2;
    for (int k = 0; k < KEYS; k++)
        if (values[k] && !(k == COUNT && values[OVERSTRIPE])) { /* -C replaces -c */
            arguments[used++] = (char *)options[k];
            arguments[used++] = (char *)values[k];
        }
    arguments[used] = (char *)path;
    int code = sw_input_command(arguments, output, sizeof output);
    if (code == 0 && stat(path, &status) == 0)
        return SW_LAID_OUT;
    output[strcspn(output, "\n")] = '\0';
    if (code < 0) {
        snprintf(note, note_size, "neither liblustreapi nor the lfs command was found");
        return values[OVERSTRIPE] || values[POOL] ? SW_LAYOUT_FAILED : SW_LAYOUT_BY_HINTS;
    }
    snprintf(note, note_size, "lfs setstripe failed with exit code %d: %s", code, output);
    return SW_LAYOUT_FAILED;
}

static bool lustre_holds(const char *path, const char *name, const char *folder) {
    (void)path, (void)folder;
    return strcmp(name, SW_LAYOUT_LUSTRE) == 0;
}

static const char *lustre_fixed(const struct stat *status) {
    (void)status;
    return "the file exists; on Lustre the layout is fixed at creation";
}

/* The hint of the first target had another name before MPICH 4.2. */
const struct sw_file_system sw_lustre = {
    .name = SW_LAYOUT_LUSTRE,
    .keys = {{SW_KEY_STRIPE_COUNT, "stripe_count", {"striping_factor"}, false},
             {SW_KEY_STRIPE_SIZE, "stripe_size", {"striping_unit"}, false},
             {.name = SW_KEY_OVERSTRIPE_COUNT},
             {SW_KEY_START_OST, NULL, {"start_iodevice", "romio_lustre_start_iodevice"}, false},
             {.name = SW_KEY_POOL, .text = true}},
    .holds = lustre_holds,
    .read = lustre_read,
    .parent = lustre_parent,
    .fixed = lustre_fixed,
    .apply = lustre_apply,
};
