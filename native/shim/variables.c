/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* RTLD_NOLOAD */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_symbols.h"
#include "variables.h"

#define FUNCTIONS(X)                                                                                         \
    X(init_thread)                                                                                           \
    X(cvar_get_num)                                                                                          \
    X(cvar_get_index) X(cvar_get_info) X(cvar_handle_alloc) X(cvar_handle_free) X(cvar_read)

static struct {
#define X(name) __typeof__(&MPI_T_##name) name; /* NOLINT(bugprone-macro-parentheses) */
    FUNCTIONS(X)
#undef X
} tools;
static bool usable;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The interface stays open: closing it would free what the program may read itself. */
static void start(void) {
    bool whole = true;
#define X(name)                                                                                              \
    tools.name = (__typeof__(tools.name))sw_next("MPI_T_" #name);                                            \
    whole &= tools.name != NULL;
    FUNCTIONS(X)
#undef X
    /* Open MPI takes the level that is asked for here for the one of all MPI: it stays what it is. */
    int level = MPI_THREAD_SINGLE, provided = 0, count = 0;
    sw_pmpi.Query_thread(&level);
    usable = whole && tools.init_thread(level, &provided) == MPI_SUCCESS &&
             tools.cvar_get_num(&count) == MPI_SUCCESS && count > 0;
}

static void print(MPI_Datatype type, const void *held, char *text, size_t size) {
    if (type == MPI_CHAR)
        snprintf(text, size, "%s", (const char *)held);
    else if (type == MPI_INT)
        snprintf(text, size, "%d", *(const int *)held);
    else if (type == MPI_UNSIGNED)
        snprintf(text, size, "%u", *(const unsigned *)held);
    else if (type == MPI_UNSIGNED_LONG)
        snprintf(text, size, "%lu", *(const unsigned long *)held);
    else if (type == MPI_UNSIGNED_LONG_LONG)
        snprintf(text, size, "%llu", *(const unsigned long long *)held);
    else if (type == MPI_DOUBLE)
        snprintf(text, size, "%g", *(const double *)held);
}

static bool read_tools(const char *name, bool *listed, char *text, size_t size) {
    pthread_once(&once, start);
    if (!usable)
        return false;
    int index = 0, level = 0, binding = 0, scope = 0, count = 0, no_name = 0, no_text = 0;
    int code = tools.cvar_get_index(name, &index);
    if (code != MPI_SUCCESS)
        return code == MPI_T_ERR_INVALID_NAME;
    *listed = true;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_T_enum words = MPI_T_ENUM_NULL;
    MPI_T_cvar_handle handle = NULL;
    if (tools.cvar_get_info(index, NULL, &no_name, &level, &type, &words, NULL, &no_text, &binding, &scope) !=
            MPI_SUCCESS ||
        tools.cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS)
        return true;
    /* A text has as many elements as it may have bytes; ranges have two numbers. */
    _Alignas(max_align_t) char held[8192] = "";
    bool fits = type == MPI_CHAR ? count > 0 && (size_t)count < sizeof held : count == 1;
    if (fits && tools.cvar_read(handle, held) == MPI_SUCCESS)
        print(type, held, text, size);
    tools.cvar_handle_free(&handle);
    return true;
}

/* A library that the program has loaded, whatever loaded it, or NULL; it stays. */
static void *find_loaded(const char *soname) {
    return dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
}

/* UCX reads its environment into a configuration that prints itself: this one is read as the program's was.
 * Variables of single transports are not in it. */
static bool read_ucx(const char *name, bool *listed, char *text, size_t size) {
    void *library = find_loaded("libucp.so.0");
    if (!library)
        return false;
    int (*read)(const char *, const char *, void **);
    void (*print)(const void *, FILE *, const char *, int);
    void (*release)(void *);
    *(void **)&read = dlsym(library, "ucp_config_read");
    *(void **)&print = dlsym(library, "ucp_config_print");
    *(void **)&release = dlsym(library, "ucp_config_release");
    void *held = NULL;
    if (!read || !print || !release || read(NULL, NULL, &held) != 0)
        return false;
    char *lines = NULL;
    size_t length = 0, long_name = strlen(name);
    FILE *stream = open_memstream(&lines, &length);
    if (stream) {
        print(held, stream, "", 1 | 8); /* values, the hidden ones, too */
        fclose(stream);
    }
    release(held);
    for (char *line = lines; line && *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, name, long_name) == 0 && line[long_name] == '=') {
            char *value = line + long_name + 1;
            snprintf(text, size, "%.*s", (int)strcspn(value, "\n"), value);
            *listed = true;
            break;
        }
    free(lines);
    return *listed;
}

/* struct fi_param of libfabric 1.x and 2.x. */
struct known_to_libfabric {
    const char *name;
    int type;
    const char *help, *value;
};

/* libfabric lists the variables that it and its providers have defined, with what it finds set. */
static bool read_libfabric(const char *name, bool *listed, char *text, size_t size) {
    void *library = find_loaded("libfabric.so.1");
    if (!library)
        return false;
    int (*list)(struct known_to_libfabric **, int *);
    void (*release)(struct known_to_libfabric *);
    *(void **)&list = dlsym(library, "fi_getparams");
    *(void **)&release = dlsym(library, "fi_freeparams");
    struct known_to_libfabric *known = NULL;
    int count = 0;
    if (!list || !release || list(&known, &count) != 0 || count == 0)
        return false;
    for (int i = 0; i < count && !*listed; i++)
        if (strcmp(known[i].name, name) == 0) {
            snprintf(text, size, "%s", known[i].value ? known[i].value : "");
            *listed = true;
        }
    release(known);
    return true;
}

bool sw_variable_read(const char *name, bool *listed, char *text, size_t size) {
    *text = '\0';
    *listed = false;
    if (strncmp(name, "UCX_", 4) == 0)
        return read_ucx(name, listed, text, size);
    if (strncmp(name, "FI_", 3) == 0)
        return read_libfabric(name, listed, text, size);
    if (strncmp(name, "MPIR_CVAR_", 10) == 0 || strncmp(name, "coll_", 5) == 0 || strcmp(name, "io") == 0)
        return read_tools(name, listed, text, size);
    return false;
}
