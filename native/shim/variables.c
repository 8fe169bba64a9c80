/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <stdio.h>

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
    int provided = 0, count = 0;
    usable = whole && tools.init_thread(MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS &&
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

bool sw_variable_read(const char *name, bool *listed, char *text, size_t size) {
    pthread_once(&once, start);
    *text = '\0';
    *listed = false;
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
