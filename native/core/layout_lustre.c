/* SPDX-License-Identifier: BSD-3-Clause
 * Lustre's layout is fixed when a file is created. liblustreapi does it where it can be loaded, else the lfs
 * command does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "layout.h"
#include "stripewise_format.h"

extern char **environ;

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

/* Runs lfs with these arguments, what it prints in output. Returns its exit status, or -1 if it could not be
 * run. */
static int run_lfs(char *const arguments[], char *output, size_t size) {
    int pipe_ends[2];
    if (pipe2(pipe_ends, O_CLOEXEC) != 0)
        return -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDERR_FILENO);
    pid_t child;
    int failed = posix_spawnp(&child, "lfs", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_ends[1]);
    size_t used = 0;
    while (!failed) {
        char rest[256];
        bool room = used + 1 < size;
        ssize_t got = read(pipe_ends[0], room ? output + used : rest, room ? size - 1 - used : sizeof rest);
        if (got > 0 && room)
            used += (size_t)got;
        else if (got == 0 || (got < 0 && errno != EINTR))
            break;
    }
    output[used] = '\0';
    close(pipe_ends[0]);
    int status = -1;
    /* ECHILD where the program ignores SIGCHLD: the result is then unknown, and its effect is checked by the
     * caller. */
    while (!failed && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 0;
    return !failed && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
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
    *layout = (struct sw_layout){SW_IN_LUSTRE, numbers[0], numbers[1], -1};
    return found > 0;
}

static bool read_with_lfs(const char *path, struct sw_layout *layout) {
    char output[256];
    char *const arguments[] = {"lfs", "getstripe", "-q", "-c", "-S", (char *)path, NULL};
    return run_lfs(arguments, output, sizeof output) == 0 && parse_stripes(output, layout);
}

static void parent_with_lfs(const char *folder, struct sw_parent *parent) {
    char output[2048];
    char *const arguments[] = {"lfs", "getstripe", "-d", (char *)folder, NULL};
    if (run_lfs(arguments, output, sizeof output) != 0)
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

void sw_lustre_parent(const char *folder, struct sw_parent *parent) {
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
    parent->layout.kind = SW_IN_LUSTRE;
    if (!parent->composite && llapi.stripe_count_get(found, &count) == 0 && count < LLAPI_SPECIAL)
        parent->layout.stripe_count = (int64_t)count;
    if (!parent->composite && llapi.stripe_size_get(found, &size) == 0 && size < LLAPI_SPECIAL)
        parent->layout.stripe_unit = (int64_t)size;
    llapi.free(found);
}

bool sw_lustre_read(const char *path, struct sw_layout *layout) {
    if (!have_llapi())
        return read_with_lfs(path, layout);
    struct llapi_layout *found = llapi.get_by_path(path, 0);
    uint64_t count, size;
    if (!found)
        return false;
    *layout = (struct sw_layout){SW_IN_LUSTRE, -1, -1, -1};
    if (llapi.stripe_count_get(found, &count) == 0)
        layout->stripe_count = (int64_t)count;
    if (llapi.stripe_size_get(found, &size) == 0)
        layout->stripe_unit = (int64_t)size;
    llapi.free(found);
    return true;
}

static const struct {
    const char *key, *option; /* of lfs setstripe */
} keys[] = {
    {SW_KEY_STRIPE_COUNT, "-c"}, {SW_KEY_STRIPE_SIZE, "-S"}, {SW_KEY_OVERSTRIPE_COUNT, "-C"},
    {SW_KEY_START_OST, "-i"},    {SW_KEY_POOL, "-p"},
};
#define KEYS (sizeof keys / sizeof *keys)

const char *sw_lustre_hint(const char *key) {
    return strcmp(key, SW_KEY_STRIPE_COUNT) == 0  ? "striping_factor"
           : strcmp(key, SW_KEY_STRIPE_SIZE) == 0 ? "striping_unit"
           : strcmp(key, SW_KEY_START_OST) == 0   ? "start_iodevice"
                                                  : NULL;
}

static bool is_integer(const char *text) {
    char *end;
    strtoll(text, &end, 10);
    return end != text && !*end;
}

/* "-2" to "-32", so many stripes on every target, has no stable number in the library; lfs knows it. */
static bool only_lfs_can(const char *overstripe_count) {
    return overstripe_count && strtoll(overstripe_count, NULL, 10) < 0;
}

static int create_with_llapi(const char *path, const char *const values[KEYS]) {
    struct llapi_layout *layout = llapi.alloc();
    if (!layout)
        return -1;
    const char *count = values[2] ? values[2] : values[0];
    int failed = 0;
    if (count) {
        long long stripes = strtoll(count, NULL, 10);
        failed |= llapi.stripe_count_set(layout, stripes == -1 ? LLAPI_WIDE : (uint64_t)stripes);
    }
    if (values[1])
        failed |= llapi.stripe_size_set(layout, strtoull(values[1], NULL, 10));
    if (values[2])
        failed |= llapi.pattern_set(layout, LLAPI_OVERSTRIPING);
    if (values[3])
        failed |= llapi.ost_index_set(layout, 0, strtoull(values[3], NULL, 10));
    if (values[4])
        failed |= llapi.pool_name_set(layout, values[4]);
    int fd = failed ? -1 : llapi.file_create(path, O_WRONLY | O_EXCL, 0666, layout);
    int reason = errno;
    if (fd >= 0)
        close(fd);
    llapi.free(layout);
    errno = reason;
    return fd < 0 ? -1 : 0;
}

enum sw_layout_outcome sw_lustre_apply(const char *path, const struct sw_layout_setting *settings,
                                       size_t count, char *note, size_t note_size) {
    const char *values[KEYS] = {NULL};
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < KEYS && strcmp(keys[k].key, settings[i].key) != 0)
            k++;
        if (k == KEYS) {
            snprintf(note, note_size, SW_LAYOUT_LUSTRE " has no layout key \"%.60s\"", settings[i].key);
            return SW_LAYOUT_FAILED;
        }
        if (strcmp(keys[k].key, SW_KEY_POOL) != 0 && !is_integer(settings[i].value)) {
            snprintf(note, note_size, "%s is not an integer: \"%.60s\"", settings[i].key, settings[i].value);
            return SW_LAYOUT_FAILED;
        }
        values[k] = settings[i].value;
    }
    struct stat status;
    if (have_llapi() && !only_lfs_can(values[2])) {
        if (create_with_llapi(path, values) == 0)
            return SW_LAID_OUT;
        snprintf(note, note_size, "liblustreapi: %s", strerror(errno));
        return SW_LAYOUT_FAILED;
    }
    char *arguments[2 * KEYS + 4] = {"lfs", "setstripe"}, output[200];
    int used = 2;
    for (size_t k = 0; k < KEYS; k++)
        if (values[k] && !(k == 0 && values[2])) { /* -C replaces -c */
            arguments[used++] = (char *)keys[k].option;
            arguments[used++] = (char *)values[k];
        }
    arguments[used] = (char *)path;
    int code = run_lfs(arguments, output, sizeof output);
    if (code == 0 && stat(path, &status) == 0)
        return SW_LAID_OUT;
    output[strcspn(output, "\n")] = '\0';
    if (code < 0) {
        snprintf(note, note_size, "neither liblustreapi nor the lfs command is to be had");
        return values[2] || values[4] ? SW_LAYOUT_FAILED : SW_LAYOUT_BY_HINTS;
    }
    snprintf(note, note_size, "lfs setstripe failed with exit code %d: %s", code, output);
    return SW_LAYOUT_FAILED;
}
