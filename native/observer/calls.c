/* SPDX-License-Identifier: BSD-3-Clause
 * Calls that move no data, and how all find the real ones: these are found when the library is loaded: dlsym
 * clears what dlerror would tell the program of a call that failed, and may not be called within handlers of
 * signals. */
#define _GNU_SOURCE
#include "calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "acts.h"
#include "caller.h"
#include "counting.h"
#include "part.h"
#include "thread_calls.h"

_Static_assert(sizeof(struct call) == 2 * sizeof(void *), "they would not lie one behind the other");

/* The linker's. */
extern struct call __start_stripewise_calls[] __attribute__((visibility("hidden")));
extern struct call __stop_stripewise_calls[] __attribute__((visibility("hidden")));

void *find_next(struct call *call) {
    void *next = dlsym(RTLD_NEXT, call->name);
    atomic_store_explicit(&call->next, next, memory_order_relaxed);
    return next;
}

__attribute__((constructor)) static void find_all(void) {
    for (struct call *call = __start_stripewise_calls; call < __stop_stripewise_calls; call++)
        find_next(call);
    dlerror(); /* of those that this C library does not have */
}

/* ---- record locks ----
 * Record locks, which a process loses with any descriptor of the file that it closes. */

static void about_to_lock(void) {
    const struct acts *by = acting();
    if (by && by->before_lock)
        by->before_lock();
}

#define COMMANDS(NAME)                                                                                       \
    EXPORT int NAME(int fd, int command, ...) {                                                              \
        NEXT(#NAME, int, int, int, ...)                                                                      \
        IF_THERE                                                                                             \
        va_list rest;                                                                                        \
        va_start(rest, command);                                                                             \
        void *argument = va_arg(rest, void *);                                                               \
        va_end(rest);                                                                                        \
        if (command == F_SETLK || command == F_SETLKW)                                                       \
            about_to_lock();                                                                                 \
        return next(fd, command, argument);                                                                  \
    }

#undef fcntl
COMMANDS(fcntl)
COMMANDS(fcntl64)

#define LOCKS(NAME, OFFSET)                                                                                  \
    EXPORT int NAME(int fd, int command, OFFSET size) {                                                      \
        NEXT(#NAME, int, int, int, OFFSET)                                                                   \
        about_to_lock();                                                                                     \
        return next(fd, command, size);                                                                      \
    }

LOCKS(lockf, off_t)
LOCKS(lockf64, off64_t)

/* ---- ends of a process ----
 * Ends of a process that run no destructors, and what forbids it to ask for the time. */

#define EXITS(NAME)                                                                                          \
    EXPORT void NAME(int code) {                                                                             \
        finish();                                                                                            \
        for (;;)                                                                                             \
            syscall(SYS_exit_group, code);                                                                   \
    }

EXITS(_exit)
EXITS(_Exit)

/* In strict mode any call but four ends the process, and so does reading the processor's counter. */
EXPORT int prctl(int option, ...) {
    NEXT("prctl", int, int, ...)
    unsigned long given[4];
    va_list rest;
    va_start(rest, option);
    for (int i = 0; i < 4; i++)
        given[i] = va_arg(rest, unsigned long);
    va_end(rest);
    if ((option == PR_SET_SECCOMP && given[0] == SECCOMP_MODE_STRICT) ||
        (option == PR_SET_TSC && given[0] == PR_TSC_SIGSEGV))
        stop();
    return next(option, given[0], given[1], given[2], given[3]);
}

/* ---- programs that leave the rights or the root with which they began ----
 * What they start then may not find this library, which lies in a folder of the user's, and ld.so would print
 * an error for each such program. */

static bool is_lost(const char *entry, size_t length) {
    static const char own[] = "/libstripewise";
    char path[PATH_MAX];
    if (length >= sizeof path)
        return false;
    memcpy(path, entry, length);
    path[length] = '\0';
    const char *name = strrchr(path, '/');
    return name && strncmp(name, own, sizeof own - 1) == 0 && syscall(SYS_access, path, R_OK) != 0;
}

/* Leaves out of LD_PRELOAD what no longer can be read. A child of vfork shares its parent's variables. */
static void leave_out_lost(void) {
    static const char variable[] = "LD_PRELOAD=";
    static char kept[PATH_MAX];
    const int error = errno;
    char **at = environ;
    while (at && *at && strncmp(*at, variable, sizeof variable - 1) != 0)
        at++;
    if (!at || !*at || *at == kept || getpid() != self || strlen(*at) >= sizeof kept)
        return;
    size_t used = sizeof variable - 1;
    bool lost = false;
    memcpy(kept, variable, used);
    for (const char *entry = *at + used; *entry; entry += strspn(entry, ": ")) {
        size_t length = strcspn(entry, ": ");
        if (is_lost(entry, length)) {
            lost = true;
        } else {
            if (used >= sizeof variable)
                kept[used++] = ':';
            memcpy(kept + used, entry, length);
            used += length;
        }
        entry += length;
    }
    kept[used] = '\0';
    if (lost)
        *at = kept;
    errno = error;
}

#define LEAVES(NAME, PARAMETERS, TYPED, ...)                                                                 \
    EXPORT int NAME PARAMETERS {                                                                             \
        NEXT(#NAME, int, TYPED)                                                                              \
        int result = next(__VA_ARGS__);                                                                      \
        if (result == 0)                                                                                     \
            leave_out_lost();                                                                                \
        return result;                                                                                       \
    }

LEAVES(setuid, (uid_t u), uid_t, u)
LEAVES(setreuid, (uid_t u, uid_t e), TYPES(uid_t, uid_t), u, e)
LEAVES(setresuid, (uid_t u, uid_t e, uid_t s), TYPES(uid_t, uid_t, uid_t), u, e, s)
LEAVES(chroot, (const char *path), const char *, path)
/* After pivot_root, which has no function. */
LEAVES(umount2, (const char *path, int flags), TYPES(const char *, int), path, flags)
LEAVES(setns, (int fd, int kind), TYPES(int, int), fd, kind)

/* ---- calls on paths ---- */

#define ASKS(NAME, KIND, LINE, AT, OTHER_AT, OTHER, PARAMETERS, TYPED, ...)                                  \
    EXPORT int NAME PARAMETERS {                                                                             \
        NEXT(#NAME, int, TYPED)                                                                              \
        IF_THERE                                                                                             \
        uint64_t began = *prefix ? now() : 0;                                                                \
        int result = next(__VA_ARGS__);                                                                      \
        if (!within(__builtin_return_address(0))) {                                                          \
            met(KIND, began);                                                                                \
            if (keeps_calls())                                                                               \
                note_path(LINE, AT, p, OTHER_AT, OTHER, result, began);                                      \
        }                                                                                                    \
        return result;                                                                                       \
    }
#define STATS(NAME, AT, PARAMETERS, TYPED, ...)                                                              \
    ASKS(NAME, STAT, SW_LINE_posix_stat, AT, 0, NULL, PARAMETERS, TYPES(TYPED), __VA_ARGS__)
#define CHANGES(NAME, LINE, AT, PARAMETERS, TYPED, ...)                                                      \
    ASKS(NAME, CHANGE, SW_LINE_posix_##LINE, AT, 0, NULL, PARAMETERS, TYPES(TYPED), __VA_ARGS__)
#define RENAMES(NAME, AT, OTHER_AT, PARAMETERS, TYPED, ...)                                                  \
    ASKS(NAME, CHANGE, SW_LINE_posix_rename, AT, OTHER_AT, b, PARAMETERS, TYPES(TYPED), __VA_ARGS__)

STATS(stat, AT_FDCWD, (const char *p, struct stat *s), TYPES(const char *, struct stat *), p, s)
STATS(stat64, AT_FDCWD, (const char *p, struct stat64 *s), TYPES(const char *, struct stat64 *), p, s)
STATS(lstat, AT_FDCWD, (const char *p, struct stat *s), TYPES(const char *, struct stat *), p, s)
STATS(lstat64, AT_FDCWD, (const char *p, struct stat64 *s), TYPES(const char *, struct stat64 *), p, s)
/* What programs call that were built with glibc 2.32 or older, as those of conda are. */
#define STATS_BEFORE(NAME, TYPE)                                                                             \
    STATS(NAME, AT_FDCWD, (int v, const char *p, struct TYPE *s), TYPES(int, const char *, struct TYPE *),   \
          v, p, s)
STATS_BEFORE(__xstat, stat)
STATS_BEFORE(__xstat64, stat64)
STATS_BEFORE(__lxstat, stat)
STATS_BEFORE(__lxstat64, stat64)
STATS(__fxstatat, d, (int v, int d, const char *p, struct stat *s, int f),
      TYPES(int, int, const char *, struct stat *, int), v, d, p, s, f)
STATS(__fxstatat64, d, (int v, int d, const char *p, struct stat64 *s, int f),
      TYPES(int, int, const char *, struct stat64 *, int), v, d, p, s, f)
STATS(fstatat, d, (int d, const char *p, struct stat *s, int f), TYPES(int, const char *, struct stat *, int),
      d, p, s, f)
STATS(fstatat64, d, (int d, const char *p, struct stat64 *s, int f),
      TYPES(int, const char *, struct stat64 *, int), d, p, s, f)
STATS(statx, d, (int d, const char *p, int f, unsigned m, struct statx *s),
      TYPES(int, const char *, int, unsigned, struct statx *), d, p, f, m, s)
STATS(access, AT_FDCWD, (const char *p, int m), TYPES(const char *, int), p, m)
CHANGES(unlink, unlink, AT_FDCWD, (const char *p), TYPES(const char *), p)
ASKS(unlinkat, CHANGE, f &AT_REMOVEDIR ? SW_LINE_posix_rmdir : SW_LINE_posix_unlink, d, 0, NULL,
     (int d, const char *p, int f), TYPES(int, const char *, int), d, p, f)
RENAMES(rename, AT_FDCWD, AT_FDCWD, (const char *p, const char *b), TYPES(const char *, const char *), p, b)
RENAMES(renameat, d, e, (int d, const char *p, int e, const char *b),
        TYPES(int, const char *, int, const char *), d, p, e, b)
RENAMES(renameat2, d, e, (int d, const char *p, int e, const char *b, unsigned f),
        TYPES(int, const char *, int, const char *, unsigned), d, p, e, b, f)
CHANGES(mkdir, mkdir, AT_FDCWD, (const char *p, mode_t m), TYPES(const char *, mode_t), p, m)
CHANGES(mkdirat, mkdir, d, (int d, const char *p, mode_t m), TYPES(int, const char *, mode_t), d, p, m)
CHANGES(rmdir, rmdir, AT_FDCWD, (const char *p), TYPES(const char *), p)

EXPORT DIR *opendir(const char *path) {
    NEXT("opendir", DIR *, const char *)
    uint64_t began = *prefix ? now() : 0;
    DIR *list = next(path);
    if (!within(__builtin_return_address(0)))
        met(LIST, began);
    return list;
}
