/* SPDX-License-Identifier: BSD-3-Clause
 * Calls that open and close descriptors. */
#define _GNU_SOURCE
#include "calls.h"
#include "creating.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MODE_OF(flags)                                                                                       \
    mode_t mode = 0;                                                                                         \
    if (((flags) & O_CREAT) || ((flags) & O_TMPFILE) == O_TMPFILE) {                                         \
        va_list rest;                                                                                        \
        va_start(rest, flags);                                                                               \
        mode = va_arg(rest, mode_t);                                                                         \
        va_end(rest);                                                                                        \
    }

#define OPENS(NAME)                                                                                          \
    static int NAME##_for(const void *caller, const char *path, int flags, mode_t mode) {                    \
        NEXT(#NAME, int, const char *, int, ...)                                                             \
        struct creation one;                                                                                 \
        uint64_t began = *prefix ? now() : 0;                                                                \
        before_create(&one, caller, AT_FDCWD, path, flags, mode);                                            \
        int fd = next(path, one.flags, mode);                                                                \
        if (again(&one, fd, flags))                                                                          \
            fd = next(path, flags, mode);                                                                    \
        opened(fd, began, caller);                                                                           \
        after_create(&one, fd);                                                                              \
        return fd;                                                                                           \
    }                                                                                                        \
    EXPORT int NAME(const char *path, int flags, ...) {                                                      \
        MODE_OF(flags)                                                                                       \
        return NAME##_for(__builtin_return_address(0), path, flags, mode);                                   \
    }
#define OPENS_AT(NAME)                                                                                       \
    EXPORT int NAME(int folder, const char *path, int flags, ...) {                                          \
        MODE_OF(flags)                                                                                       \
        NEXT(#NAME, int, int, const char *, int, ...)                                                        \
        struct creation one;                                                                                 \
        uint64_t began = *prefix ? now() : 0;                                                                \
        before_create(&one, __builtin_return_address(0), folder, path, flags, mode);                         \
        int fd = next(folder, path, one.flags, mode);                                                        \
        if (again(&one, fd, flags))                                                                          \
            fd = next(folder, path, flags, mode);                                                            \
        opened(fd, began, __builtin_return_address(0));                                                      \
        after_create(&one, fd);                                                                              \
        return fd;                                                                                           \
    }
/* Other calls whose result is a descriptor. */
#define MAKES(NAME, PARAMETERS, TYPED, ...)                                                                  \
    EXPORT int NAME PARAMETERS {                                                                             \
        NEXT(#NAME, int, TYPED)                                                                              \
        uint64_t began = *prefix ? now() : 0;                                                                \
        int fd = next(__VA_ARGS__);                                                                          \
        opened(fd, began, __builtin_return_address(0));                                                      \
        return fd;                                                                                           \
    }

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)
EXPORT int creat(const char *path, mode_t mode) {
    return open_for(__builtin_return_address(0), path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

EXPORT int creat64(const char *path, mode_t mode) {
    return open64_for(__builtin_return_address(0), path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

MAKES(__open_2, (const char *path, int flags), TYPES(const char *, int), path, flags)
MAKES(__open64_2, (const char *path, int flags), TYPES(const char *, int), path, flags)
MAKES(__openat_2, (int at, const char *path, int flags), TYPES(int, const char *, int), at, path, flags)
MAKES(__openat64_2, (int at, const char *path, int flags), TYPES(int, const char *, int), at, path, flags)
/* Calls that make up the name of a new file. */
#define NAMES(NAME, PARAMETERS, TYPED, ...)                                                                  \
    EXPORT int NAME PARAMETERS {                                                                             \
        NEXT(#NAME, int, TYPED)                                                                              \
        uint64_t began = *prefix ? now() : 0;                                                                \
        int fd = next(__VA_ARGS__);                                                                          \
        opened(fd, began, __builtin_return_address(0));                                                      \
        after_new(fd);                                                                                       \
        return fd;                                                                                           \
    }

NAMES(mkstemp, (char *path), TYPES(char *), path)
NAMES(mkstemp64, (char *path), TYPES(char *), path)
NAMES(mkostemp, (char *path, int flags), TYPES(char *, int), path, flags)
NAMES(mkostemp64, (char *path, int flags), TYPES(char *, int), path, flags)

/* What lies there is memory. */
EXPORT int shm_open(const char *name, int flags, mode_t mode) {
    NEXT("shm_open", int, const char *, int, mode_t)
    int fd = next(name, flags, mode);
    if (*prefix && descriptor_of(fd))
        own(fd, &nobody);
    return fd;
}

EXPORT int close(int fd) {
    NEXT("close", int, int)
    const struct acts *by = acting();
    int own = by && by->before_close ? by->before_close(fd) : -1;
    struct file_record *record = closing(fd);
    uint64_t began = record ? now() : 0;
    int code = next(fd);
    int kept = errno;
    closed(record, began);
    errno = kept;
    if (own >= 0)
        by->after_close(own);
    return code;
}

/* What room is taken for has to be seen while it is empty. Shells and dd write to copies. */
static int copied(int fd) {
    const struct acts *by = acting();
    if (by && by->before_close && *prefix && !inside && getpid() == self && descriptor_of(fd))
        look(fd);
    return fd;
}

EXPORT int dup2(int from, int to) {
    NEXT("dup2", int, int, int)
    if (from != to)
        forget(to);
    return copied(next(from, to));
}

EXPORT int dup3(int from, int to, int flags) {
    NEXT("dup3", int, int, int, int)
    forget(to);
    return copied(next(from, to, flags));
}

EXPORT int close_range(unsigned first, unsigned last, int flags) {
    NEXT("close_range", int, unsigned, unsigned, int)
    IF_THERE
    forget_all(first, last);
    return next(first, last, flags);
}

EXPORT void closefrom(int first) {
    NEXT("closefrom", void, int)
    forget_all(first < 0 ? 0 : (unsigned)first, DESCRIPTORS);
    if (next)
        next(first);
    for (long fd = first < 0 ? 0 : first, most = sysconf(_SC_OPEN_MAX); !next && fd < most; fd++)
        syscall(SYS_close, (int)fd);
}
