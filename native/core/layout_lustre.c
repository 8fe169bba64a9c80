/* SPDX-License-Identifier: BSD-3-Clause
 * Lustre's layout is fixed when a file is created. liblustreapi does it where it can be loaded, else the lfs
 * command does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_system.h"
#include "input.h"

/* A part of a file with stripes of its own; a file that is not composite has one. A number that is 0 is the
 * file system's default. A component that grows is one with the room that it grows into. */
#define TO_THE_END INT64_MAX
struct component {
    int64_t start, end, count, size, extension;
    bool on_mdt, overstriped;
    char pool[16];
};

#define MOST_COMPONENTS 16 /* a folder that has more is left alone */
struct components {
    int count;
    bool composite, odd; /* odd: mirrored, or not understood */
    struct component all[MOST_COMPONENTS];
};

/* Adds the next component; extension: the room that the one before it may grow into. */
static void add_component(struct components *layout, const struct component *next, bool extension) {
    struct component *last = layout->count ? &layout->all[layout->count - 1] : NULL;
    bool next_mirror = last && next->start != last->end;
    if (last && extension && !next_mirror) {
        last->end = next->end;
        last->extension = next->extension;
    } else if (!next_mirror && layout->count < MOST_COMPONENTS) {
        layout->all[layout->count++] = *next;
    } else {
        layout->odd = true;
    }
}

/* ---- liblustreapi ---- */

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

/* X(result, name, parameters); optional ones exist since 2.11 and 2.13. */
#define LLAPI_FUNCTIONS(X, OPTIONAL)                                                                         \
    X(struct llapi_layout *, alloc, (void))                                                                  \
    X(void, free, (struct llapi_layout *))                                                                   \
    X(struct llapi_layout *, get_by_path, (const char *, uint32_t))                                          \
    X(int, stripe_count_get, (const struct llapi_layout *, uint64_t *))                                      \
    X(int, stripe_count_set, (struct llapi_layout *, uint64_t))                                              \
    X(int, stripe_size_get, (const struct llapi_layout *, uint64_t *))                                       \
    X(int, stripe_size_set, (struct llapi_layout *, uint64_t))                                               \
    X(int, pattern_get, (const struct llapi_layout *, uint64_t *))                                           \
    X(int, pattern_set, (struct llapi_layout *, uint64_t))                                                   \
    X(int, ost_index_set, (struct llapi_layout *, int, uint64_t))                                            \
    X(int, pool_name_get, (const struct llapi_layout *, char *, size_t))                                     \
    X(int, pool_name_set, (struct llapi_layout *, const char *))                                             \
    X(int, comp_use, (struct llapi_layout *, uint32_t))                                                      \
    X(int, comp_add, (struct llapi_layout *))                                                                \
    X(int, comp_extent_get, (const struct llapi_layout *, uint64_t *, uint64_t *))                           \
    X(int, comp_extent_set, (struct llapi_layout *, uint64_t, uint64_t))                                     \
    X(int, comp_flags_get, (const struct llapi_layout *, uint32_t *))                                        \
    X(int, file_create, (const char *, int, int, const struct llapi_layout *))                               \
    OPTIONAL(bool, is_composite, (struct llapi_layout *))                                                    \
    OPTIONAL(int, extension_size_get, (const struct llapi_layout *, uint64_t *))

static struct {
#define X(result, name, parameters) result(*name) parameters; /* NOLINT(bugprone-macro-parentheses) */
    LLAPI_FUNCTIONS(X, X)
#undef X
} llapi;

static bool llapi_found;

static void load_llapi(void) {
    void *library = dlopen("liblustreapi.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        library = dlopen("liblustreapi.so", RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return;
    llapi_found = true;
#define OPTIONAL(result, name, parameters) *(void **)&llapi.name = dlsym(library, "llapi_layout_" #name);
#define X(result, name, parameters) OPTIONAL(result, name, parameters) llapi_found &= llapi.name != NULL;
    LLAPI_FUNCTIONS(X, OPTIONAL)
#undef X
#undef OPTIONAL
}

bool sw_layout_by_commands;

/* Whether the library can be loaded, and may be. */
static bool has_api(void) {
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

static bool read_by_api(const char *path, bool folder, struct components *layout) {
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
        add_component(layout, &next, flags & LLAPI_EXTENSION);
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

/* start: the first target, or NULL. 0, or -1 with errno. */
static int create_by_api(const char *path, mode_t mode, const struct components *layout, const char *start) {
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

/* ---- the lfs command ---- */

/* What lfs getstripe prints, as YAML or on one line: labels, each with a value behind it. */
static bool parse_lfs(char *output, struct components *layout) {
    struct component next = {.end = TO_THE_END};
    bool extension = false, begun = false, told = false;
    char *rest = NULL, *label = strtok_r(output, " \t\n", &rest);
    while (label) {
        size_t length = strlen(label);
        char *value = NULL;
        bool is_label = length > 1 && label[length - 1] == ':';
        if (is_label) {
            label[length - 1] = '\0';
            value = strtok_r(NULL, " \t\n", &rest);
        }
        if (!is_label || !value) {
            label = value ? value : strtok_r(NULL, " \t\n", &rest);
            continue;
        }
        label += strncmp(label, "lmm_", 4) == 0 ? 4 : 0;
        size_t last = strlen(value) - 1;
        if (value[last] == ':') { /* a label without a value of its own */
            label = value;
            continue;
        }
        int64_t number = strtoll(value, NULL, 10);
        told |= strcmp(label, "stripe_count") == 0;
        layout->composite |= strncmp(label, "lcm", 3) == 0;
        if (strcmp(label, "lcme_id") == 0) {
            if (begun)
                add_component(layout, &next, extension);
            next = (struct component){.end = TO_THE_END};
            begun = true;
            extension = false;
        } else if (strcmp(label, "lcme_flags") == 0) {
            extension = strstr(value, "extension") != NULL;
        } else if (strcmp(label, "lcme_extent.e_start") == 0) {
            next.start = number;
        } else if (strcmp(label, "lcme_extent.e_end") == 0) {
            next.end = strcmp(value, "EOF") == 0 ? TO_THE_END : number;
        } else if (strcmp(label, "stripe_count") == 0) {
            next.count = number;
        } else if (strcmp(label, "stripe_size") == 0) {
            next.size = number;
        } else if (strcmp(label, "extension_size") == 0) {
            next.extension = number;
        } else if (strcmp(label, "pattern") == 0) {
            next.on_mdt = strstr(value, "mdt") != NULL;
            next.overstriped = strstr(value, "overstriped") != NULL;
        } else if (strcmp(label, "pool") == 0) {
            snprintf(next.pool, sizeof next.pool, "%s", value);
        }
        label = strtok_r(NULL, " \t\n", &rest);
    }
    if (told)
        add_component(layout, &next, extension);
    return told;
}

#define OUTPUT 262144 /* an object of a file takes about 70 bytes */

static bool read_by_command(const char *path, bool folder, struct components *layout) {
    char *output =
        mmap(NULL, OUTPUT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (output == MAP_FAILED)
        return false;
    char *const arguments[] = {"lfs", "getstripe", folder ? "-d" : "-y", (char *)path, NULL};
    bool found = sw_input_command(arguments, 0666, output, OUTPUT) == 0 && parse_lfs(output, layout);
    munmap(output, OUTPUT);
    return found;
}

/* The words of a command, the numbers among them in text. */
struct command {
    int count;
    size_t used;
    char *words[MOST_COMPONENTS * 12 + 8], text[MOST_COMPONENTS * 4 * 21];
};

static void add_word(struct command *command, const char *word) {
    command->words[command->count++] = (char *)word;
}

static void add_number(struct command *command, const char *option, int64_t number) {
    char *word = command->text + command->used;
    command->used +=
        (size_t)snprintf(word, sizeof command->text - command->used, "%lld", (long long)number) + 1;
    add_word(command, option);
    add_word(command, number == TO_THE_END ? "eof" : word);
}

static void say(struct command *command, const struct components *layout) {
    for (int i = 0; i < layout->count; i++) {
        const struct component *c = &layout->all[i];
        if (layout->composite)
            add_number(command, "-E", c->end);
        if (c->extension)
            add_number(command, "-z", c->extension);
        if (c->on_mdt) {
            add_word(command, "-L");
            add_word(command, "mdt");
            continue;
        }
        if (c->count)
            add_number(command, c->overstriped ? "-C" : "-c", c->count);
        if (c->size)
            add_number(command, "-S", c->size);
        if (*c->pool) {
            add_word(command, "-p");
            add_word(command, c->pool);
        }
    }
}

/* start: the first target, or NULL. template: a file that describes the layout, in place of all else; or
 * NULL. Answers as sw_input_command. */
static int create_by_command(const char *path, mode_t mode, const struct components *layout,
                             const char *start, const char *template, char *output, size_t size) {
    struct command command = {0};
    add_word(&command, "lfs");
    add_word(&command, "setstripe");
    if (template) {
        add_word(&command, "--yaml");
        add_word(&command, template);
    } else {
        say(&command, layout);
    }
    if (!template && start) {
        add_word(&command, "-i");
        add_word(&command, start);
    }
    add_word(&command, path);
    return sw_input_command(command.words, mode, output, size);
}

/* ---- layouts ---- */

static bool read_components(const char *path, bool folder, struct components *layout) {
    *layout = (struct components){0};
    return has_api() ? read_by_api(path, folder, layout) : read_by_command(path, folder, layout);
}

/* The keys of a layout. What the file begins with is of one form: mdt_size bytes on the metadata server, then
 * one stripe up to a sixteenth of head_size, then a few up to head_size. All other keys are of the last
 * component. */
enum { COUNT, SIZE, OVERSTRIPE, MDT, HEAD, EXTENSION, START, POOL, TEMPLATE, KEYS }; /* of sw_lustre.keys */
enum { HEAD_SHARE = 16, HEAD_STRIPES = 4 };

static void tell(const struct components *layout, int64_t numbers[SW_LAYOUT_NUMBERS]) {
    if (layout->count < 1)
        return;
    const struct component *first = &layout->all[0], *last = &layout->all[layout->count - 1];
    numbers[COUNT] = last->count ? last->count : -1;
    numbers[SIZE] = last->size ? last->size : -1;
    numbers[OVERSTRIPE] = last->overstriped ? last->count : 0;
    numbers[MDT] = first->on_mdt ? first->end : 0;
    numbers[HEAD] = last->start > numbers[MDT] ? last->start : 0;
    numbers[EXTENSION] = last->extension;
}

static void lustre_parent(const char *folder, struct sw_parent *parent) {
    struct components layout;
    if (!read_components(folder, true, &layout))
        return;
    parent->composite = layout.composite;
    for (int c = 0; c < layout.count; c++)
        parent->pooled |= *layout.all[c].pool;
    tell(&layout, parent->layout.numbers);
}

static bool lustre_read(const char *path, struct sw_layout *layout) {
    struct components found;
    if (!read_components(path, false, &found))
        return false;
    tell(&found, layout->numbers);
    return true;
}

/* What the values make of a folder's layout. A head that is asked for replaces the folder's, which else
 * stays. */
static void change(struct components *layout, const char *const values[SW_LAYOUT_KEYS]) {
    int64_t now[SW_LAYOUT_NUMBERS] = {0}, wanted[KEYS];
    tell(layout, now);
    for (int k = 0; k < KEYS; k++)
        wanted[k] = values[k] ? strtoll(values[k], NULL, 10) : k < SW_LAYOUT_NUMBERS ? now[k] : 0;
    bool new_head = values[MDT] || values[HEAD], was_composite = layout->composite;
    if (new_head) {
        struct component last = layout->count ? layout->all[layout->count - 1] : (struct component){0};
        const struct component head[] = {
            {.end = wanted[MDT], .on_mdt = true},
            {.end = wanted[HEAD] / HEAD_SHARE, .count = 1, .size = last.size},
            {.end = wanted[HEAD], .count = HEAD_STRIPES, .size = last.size},
        };
        layout->count = 0;
        last.start = 0;
        for (size_t c = 0; c < sizeof head / sizeof *head; c++)
            if (head[c].end > last.start) {
                layout->all[layout->count] = head[c];
                layout->all[layout->count++].start = last.start;
                last.start = head[c].end;
            }
        last.end = TO_THE_END;
        layout->all[layout->count++] = last;
        layout->composite = layout->count > 1;
    }
    if (!layout->composite && !was_composite) {
        /* What is not asked for is left to the file system. */
        *layout = (struct components){.count = 1, .all = {{.end = TO_THE_END}}};
        layout->composite = wanted[EXTENSION] > 0;
    }
    for (int c = new_head ? 0 : layout->count - 1; c < layout->count; c++) {
        if (values[SIZE])
            layout->all[c].size = wanted[SIZE];
        if (values[POOL])
            snprintf(layout->all[c].pool, sizeof layout->all[c].pool, "%s", values[POOL]);
    }
    struct component *last = &layout->all[layout->count - 1];
    if (values[OVERSTRIPE]) {
        last->count = wanted[OVERSTRIPE];
        last->overstriped = last->count != 0;
    } else if (values[COUNT]) {
        last->count = wanted[COUNT];
        last->overstriped = false;
    }
    if (values[EXTENSION])
        last->extension = wanted[EXTENSION];
}

/* Two things have no stable form in the library, but in lfs: stripes by the number of all targets (-2 to -32)
 * and components that grow. */
static bool only_lfs_can(const struct components *layout, const char *const values[SW_LAYOUT_KEYS]) {
    bool only = values[TEMPLATE];
    for (int c = 0; c < layout->count; c++)
        only |= layout->all[c].count < -1 || layout->all[c].extension;
    return only;
}

/* Why values cannot be a layout, or NULL. */
static const char *refusal(const struct components *folder, const char *const values[SW_LAYOUT_KEYS]) {
    int64_t mdt = values[MDT] ? strtoll(values[MDT], NULL, 10) : 0,
            head = values[HEAD] ? strtoll(values[HEAD], NULL, 10) : 0;
    bool others = false;
    for (int k = 0; k < TEMPLATE; k++)
        others |= values[k] != NULL;
    if (values[TEMPLATE])
        return others ? "template excludes all other keys" : NULL;
    if (folder->odd)
        return "the folder's layout is mirrored, or has more components than can be changed";
    if (mdt < 0 || mdt % 65536 || head < 0 || head % (INT64_C(65536) * HEAD_SHARE))
        return "mdt_size is not a multiple of 64 KiB, or head_size not one of 1 MiB";
    return head && head / HEAD_SHARE <= mdt ? "head_size is not more than 16 times mdt_size" : NULL;
}

static enum sw_layout_outcome lustre_apply(const char *path, mode_t mode, const struct sw_parent *parent,
                                           const char *const values[SW_LAYOUT_KEYS], char *note,
                                           size_t note_size) {
    char folder[SW_MAX_PATH], output[200];
    struct components layout = {0};
    struct stat status;
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    /* Else nothing of the folder's is needed. What was read of a layout in part is of no use. */
    if ((parent->composite || values[MDT] || values[HEAD]) && !read_components(folder, true, &layout))
        layout = (struct components){0};
    const char *wrong = refusal(&layout, values);
    if (wrong) {
        snprintf(note, note_size, "%s", wrong);
        return SW_LAYOUT_FAILED;
    }
    change(&layout, values);
    if (has_api() && !only_lfs_can(&layout, values)) {
        if (create_by_api(path, mode, &layout, values[START]) == 0)
            return SW_LAID_OUT;
        snprintf(note, note_size, "liblustreapi: %s", strerror(errno));
        return SW_LAYOUT_FAILED;
    }
    int code = create_by_command(path, mode, &layout, values[START], values[TEMPLATE], output, sizeof output);
    if (code == 0 && stat(path, &status) == 0)
        return SW_LAID_OUT;
    output[strcspn(output, "\n")] = '\0';
    if (code < 0) {
        snprintf(note, note_size, "%s",
                 has_api() ? "only the lfs command can lay out files so, and it was not found"
                           : "neither liblustreapi nor the lfs command was found");
        for (int k = 0; k < KEYS; k++)
            if (has_api() || (values[k] && !sw_lustre.keys[k].hints[0]))
                return SW_LAYOUT_FAILED;
        return SW_LAYOUT_BY_HINTS;
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
             {.name = SW_KEY_MDT_SIZE},
             {.name = SW_KEY_HEAD_SIZE},
             {.name = SW_KEY_EXTENSION_SIZE},
             {SW_KEY_START_OST, NULL, {"start_iodevice", "romio_lustre_start_iodevice"}, false},
             {.name = SW_KEY_POOL, .text = true},
             {.name = SW_KEY_TEMPLATE, .text = true}},
    .holds = lustre_holds,
    .read = lustre_read,
    .parent = lustre_parent,
    .fixed = lustre_fixed,
    .apply = lustre_apply,
};
