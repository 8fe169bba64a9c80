/* SPDX-License-Identifier: BSD-3-Clause
 * Calls on paths. */
#define _GNU_SOURCE
#include "calls.h"
#include "within.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define ASKS(NAME, KIND, PARAMETERS, TYPED, ...)                                                             \
    EXPORT int NAME PARAMETERS {                                                                             \
        NEXT(#NAME, int, TYPED)                                                                              \
        IF_THERE                                                                                             \
        uint64_t began = *prefix ? now() : 0;                                                                \
        int result = next(__VA_ARGS__);                                                                      \
        if (!within(__builtin_return_address(0)))                                                            \
            met(KIND, began);                                                                                \
        return result;                                                                                       \
    }

ASKS(stat, STAT, (const char *p, struct stat *s), TYPES(const char *, struct stat *), p, s)
ASKS(stat64, STAT, (const char *p, struct stat64 *s), TYPES(const char *, struct stat64 *), p, s)
ASKS(lstat, STAT, (const char *p, struct stat *s), TYPES(const char *, struct stat *), p, s)
ASKS(lstat64, STAT, (const char *p, struct stat64 *s), TYPES(const char *, struct stat64 *), p, s)
/* What programs call that were built with glibc 2.32 or older, as those of conda are. */
#define ASKS_BEFORE(NAME, TYPE)                                                                              \
    ASKS(NAME, STAT, (int v, const char *p, struct TYPE *s), TYPES(int, const char *, struct TYPE *), v, p, s)
ASKS_BEFORE(__xstat, stat)
ASKS_BEFORE(__xstat64, stat64)
ASKS_BEFORE(__lxstat, stat)
ASKS_BEFORE(__lxstat64, stat64)
ASKS(__fxstatat, STAT, (int v, int d, const char *p, struct stat *s, int f),
     TYPES(int, int, const char *, struct stat *, int), v, d, p, s, f)
ASKS(__fxstatat64, STAT, (int v, int d, const char *p, struct stat64 *s, int f),
     TYPES(int, int, const char *, struct stat64 *, int), v, d, p, s, f)
ASKS(fstatat, STAT, (int d, const char *p, struct stat *s, int f),
     TYPES(int, const char *, struct stat *, int), d, p, s, f)
ASKS(fstatat64, STAT, (int d, const char *p, struct stat64 *s, int f),
     TYPES(int, const char *, struct stat64 *, int), d, p, s, f)
ASKS(statx, STAT, (int d, const char *p, int f, unsigned m, struct statx *s),
     TYPES(int, const char *, int, unsigned, struct statx *), d, p, f, m, s)
ASKS(access, STAT, (const char *p, int m), TYPES(const char *, int), p, m)
ASKS(unlink, CHANGE, (const char *p), TYPES(const char *), p)
ASKS(unlinkat, CHANGE, (int d, const char *p, int f), TYPES(int, const char *, int), d, p, f)
ASKS(rename, CHANGE, (const char *a, const char *b), TYPES(const char *, const char *), a, b)
ASKS(mkdir, CHANGE, (const char *p, mode_t m), TYPES(const char *, mode_t), p, m)
ASKS(rmdir, CHANGE, (const char *p), TYPES(const char *), p)

EXPORT DIR *opendir(const char *path) {
    NEXT("opendir", DIR *, const char *)
    uint64_t began = *prefix ? now() : 0;
    DIR *list = next(path);
    if (!within(__builtin_return_address(0)))
        met(LIST, began);
    return list;
}
