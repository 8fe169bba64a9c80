/* SPDX-License-Identifier: BSD-3-Clause
 * Calls that open and close descriptors. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "calls.h"
#include "creating.h"
#include "thread_calls.h"

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
        const int64_t size = size_before(AT_FDCWD, path, flags);                                             \
        before_create(&one, caller, AT_FDCWD, path, flags, mode);                                            \
        int fd = next(path, one.flags, mode);                                                                \
        if (again(&one, fd, flags))                                                                          \
            fd = next(path, flags, mode);                                                                    \
        opened(fd, began, caller);                                                                           \
        note_open(fd, AT_FDCWD, path, flags, size, began);                                                   \
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
        const int64_t size = size_before(folder, path, flags);                                               \
        before_create(&one, __builtin_return_address(0), folder, path, flags, mode);                         \
        int fd = next(folder, path, one.flags, mode);                                                        \
        if (again(&one, fd, flags))                                                                          \
            fd = next(folder, path, flags, mode);                                                            \
        opened(fd, began, __builtin_return_address(0));                                                      \
        note_open(fd, folder, path, flags, size, began);                                                     \
        after_create(&one, fd);                                                                              \
        return fd;                                                                                           \
    }
/* Other calls whose result is a descriptor. */
#define MAKES(NAME, FOLDER, PARAMETERS, TYPED, ...)                                                          \
    EXPORT int NAME PARAMETERS {                                                                             \
        NEXT(#NAME, int, TYPED)                                                                              \
        uint64_t began = *prefix ? now() : 0;                                                                \
        int fd = next(__VA_ARGS__);                                                                          \
        opened(fd, began, __builtin_return_address(0));                                                      \
        note_open(fd, FOLDER, path, flags, -1, began);                                                       \
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

MAKES(__open_2, AT_FDCWD, (const char *path, int flags), TYPES(const char *, int), path, flags)
MAKES(__open64_2, AT_FDCWD, (const char *path, int flags), TYPES(const char *, int), path, flags)
MAKES(__openat_2, at, (int at, const char *path, int flags), TYPES(int, const char *, int), at, path, flags)
MAKES(__openat64_2, at, (int at, const char *path, int flags), TYPES(int, const char *, int), at, path, flags)
/* Calls that make up the name of a new file. */
#define NAMES(NAME, PARAMETERS, TYPED, ...)                                                                  \
    EXPORT int NAME PARAMETERS {                                                                             \
        NEXT(#NAME, int, TYPED)                                                                              \
        uint64_t began = *prefix ? now() : 0;                                                                \
        int fd = next(__VA_ARGS__);                                                                          \
        opened(fd, began, __builtin_return_address(0));                                                      \
        note_open(fd, AT_FDCWD, path, O_CREAT | O_EXCL | O_RDWR, -1, began);                                 \
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
    const bool noted = keeps_calls() && note_closing(fd);
    struct file_record *record = closing(fd);
    uint64_t began = record ? now() : 0;
    int code = next(fd);
    int kept = errno;
    closed(record, began);
    if (noted && record)
        note_closed(fd, began);
    errno = kept;
    return code;
}

EXPORT int dup2(int from, int to) {
    NEXT("dup2", int, int, int)
    if (from != to) {
        note_copy(from, to);
        forget(to);
    }
    return next(from, to);
}

EXPORT int dup3(int from, int to, int flags) {
    NEXT("dup3", int, int, int, int)
    note_copy(from, to);
    forget(to);
    return next(from, to, flags);
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

/* ---- streams ----
 * Calls on streams. */

/* Macros of the C library where it optimises. */
#undef fread_unlocked
#undef fwrite_unlocked

/* The flags of open that a mode of fopen stands for, and the mode that also asks for O_EXCL; exclusive is ""
 * if there is no room for that. */
static int flags_of(const char *mode, char exclusive[16]) {
    size_t letters = strcspn(mode, ","), length = strlen(mode);
    *exclusive = '\0';
    if (*mode != 'w' && *mode != 'a')
        return 0;
    if (letters < 6 && length + 2 <= 16) { /* the C library reads seven letters */
        exclusive[0] = *mode;
        exclusive[1] = 'x';
        memcpy(exclusive + 2, mode + 1, length);
    }
    return O_CREAT | (memchr(mode, 'x', letters) ? O_EXCL : 0);
}

/* All of them. */
static int all_flags_of(const char *mode) {
    const bool both = strchr(mode, '+') != NULL, exclusive = strchr(mode, 'x') != NULL;
    const int access = both ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
    return access | (*mode == 'r' ? 0 : O_CREAT) | (*mode == 'w' ? O_TRUNC : 0) |
           (*mode == 'a' ? O_APPEND : 0) | (exclusive && *mode != 'r' ? O_EXCL : 0);
}

static void opened_stream(FILE *stream, const char *mode) {
    const struct acts *by = acting();
    if (by && by->opened_stream && stream)
        by->opened_stream(stream, mode);
}

#define STREAMS(NAME)                                                                                        \
    EXPORT FILE *NAME(const char *path, const char *mode) {                                                  \
        NEXT(#NAME, FILE *, const char *, const char *)                                                      \
        uint64_t began = *prefix ? now() : 0;                                                                \
        char exclusive[16];                                                                                  \
        struct creation one;                                                                                 \
        int flags = flags_of(mode, exclusive);                                                               \
        const int64_t size = size_before(AT_FDCWD, path, flags);                                             \
        before_create(&one, __builtin_return_address(0), AT_FDCWD, path, *exclusive ? flags : 0, 0666);      \
        FILE *stream = next(path, one.added ? exclusive : mode);                                             \
        if (!stream && again(&one, -1, flags))                                                               \
            stream = next(path, mode);                                                                       \
        opened(stream ? number_of(stream) : -1, began, __builtin_return_address(0));                         \
        if (keeps_calls()) {                                                                                 \
            note_open(stream ? number_of(stream) : -1, AT_FDCWD, path, all_flags_of(mode), size, began);     \
            note_stream_opened(stream ? number_of(stream) : -1);                                             \
        }                                                                                                    \
        after_create(&one, stream ? number_of(stream) : -1);                                                 \
        opened_stream(stream, mode);                                                                         \
        return stream;                                                                                       \
    }

STREAMS(fopen)
STREAMS(fopen64)

/* Often of standard output: the number stays, the file is another. */
#define REOPENS(NAME)                                                                                        \
    EXPORT FILE *NAME(const char *path, const char *mode, FILE *stream) {                                    \
        NEXT(#NAME, FILE *, const char *, const char *, FILE *)                                              \
        struct file_record *record = *prefix ? closing(number_of(stream)) : NULL;                            \
        uint64_t began = *prefix ? now() : 0;                                                                \
        FILE *again = next(path, mode, stream);                                                              \
        int kept = errno;                                                                                    \
        closed(record, began);                                                                               \
        errno = kept;                                                                                        \
        opened(again ? number_of(again) : -1, began, __builtin_return_address(0));                           \
        return again;                                                                                        \
    }

REOPENS(freopen)
REOPENS(freopen64)

EXPORT int fclose(FILE *stream) {
    NEXT("fclose", int, FILE *)
    const struct acts *by = stream ? acting() : NULL;
    const int fd = stream && keeps_calls() ? number_of(stream) : -1;
    const bool noted = fd >= 0 && note_closing(fd);
    if (noted)
        note_stream_leaves(stream, true);
    struct file_record *record = *prefix && stream ? closing(number_of(stream)) : NULL;
    int buffer = by && by->before_stream_close ? by->before_stream_close(stream) : -1;
    uint64_t began = record ? now() : 0;
    int code = next(stream);
    int kept = errno;
    if (buffer >= 0)
        by->after_stream_close(buffer);
    closed(record, began);
    if (noted && record)
        note_closed(fd, began);
    errno = kept;
    return code;
}

/* It writes what was counted before: only its time is added. */
EXPORT int fflush(FILE *stream) {
    NEXT("fflush", int, FILE *)
    uint64_t began = *prefix ? now() : 0;
    const struct stream_state before = state_of(stream);
    int code = next(stream);
    int kept = errno;
    if (before.pending)
        note_streamed(stream, &before, true, 0, began);
    struct file_record *record = *prefix && stream ? record_of(number_of(stream)) : NULL;
    if (record && value(&record->way[1].first)) {
        uint64_t ended = now();
        add(&record->calls[FWRITE].time, since(began, ended));
        put(&record->way[1].last, ended);
    }
    errno = kept;
    return code;
}

#define STREAMED(NAME, RESULT, OP, WRITES, BYTES, PARAMETERS, TYPED, ...)                                    \
    EXPORT RESULT NAME PARAMETERS {                                                                          \
        NEXT(#NAME, RESULT, TYPED)                                                                           \
        uint64_t began = *prefix ? now() : 0;                                                                \
        const struct stream_state before = state_of(stream);                                                 \
        RESULT result = next(__VA_ARGS__);                                                                   \
        int kept = errno;                                                                                    \
        if (*prefix)                                                                                         \
            moved(number_of(stream), OP, WRITES, (ssize_t)(BYTES), -1, began);                               \
        if (keeps_calls())                                                                                   \
            note_streamed(stream, &before, WRITES, (int64_t)(BYTES), began);                                 \
        errno = kept;                                                                                        \
        return result;                                                                                       \
    }

/* They write what is in the buffer, and read another. */
#define SOUGHT(NAME, OFFSET)                                                                                 \
    EXPORT int NAME(FILE *stream, OFFSET to, int from) {                                                     \
        NEXT(#NAME, int, FILE *, OFFSET, int)                                                                \
        if (keeps_calls())                                                                                   \
            note_stream_leaves(stream, false);                                                               \
        const struct stream_state before = state_of(stream);                                                 \
        uint64_t began = keeps_calls() ? now() : 0;                                                          \
        int code = next(stream, to, from);                                                                   \
        if (keeps_calls())                                                                                   \
            note_stream_sought(stream, &before, began);                                                      \
        return code;                                                                                         \
    }

SOUGHT(fseek, long)
SOUGHT(fseeko, off_t)
SOUGHT(fseeko64, off64_t)

EXPORT void rewind(FILE *stream) {
    NEXT("rewind", void, FILE *)
    if (keeps_calls())
        note_stream_leaves(stream, false);
    const struct stream_state before = state_of(stream);
    uint64_t began = keeps_calls() ? now() : 0;
    next(stream);
    if (keeps_calls())
        note_stream_sought(stream, &before, began);
}

STREAMED(fread, size_t, FREAD, false, result *size, (void *b, size_t size, size_t n, FILE *stream),
         TYPES(void *, size_t, size_t, FILE *), b, size, n, stream)
STREAMED(fread_unlocked, size_t, FREAD, false, result *size, (void *b, size_t size, size_t n, FILE *stream),
         TYPES(void *, size_t, size_t, FILE *), b, size, n, stream)
STREAMED(__fread_chk, size_t, FREAD, false, result *size,
         (void *b, size_t s, size_t size, size_t n, FILE *stream),
         TYPES(void *, size_t, size_t, size_t, FILE *), b, s, size, n, stream)
STREAMED(fwrite, size_t, FWRITE, true, result *size, (const void *b, size_t size, size_t n, FILE *stream),
         TYPES(const void *, size_t, size_t, FILE *), b, size, n, stream)
STREAMED(fwrite_unlocked, size_t, FWRITE, true, result *size,
         (const void *b, size_t size, size_t n, FILE *stream), TYPES(const void *, size_t, size_t, FILE *), b,
         size, n, stream)
STREAMED(fgets, char *, FREAD, false, result ? strlen(result) : 0, (char *b, int n, FILE *stream),
         TYPES(char *, int, FILE *), b, n, stream)
STREAMED(__fgets_chk, char *, FREAD, false, result ? strlen(result) : 0,
         (char *b, size_t s, int n, FILE *stream), TYPES(char *, size_t, int, FILE *), b, s, n, stream)
STREAMED(getline, ssize_t, FREAD, false, result, (char **b, size_t *n, FILE *stream),
         TYPES(char **, size_t *, FILE *), b, n, stream)
STREAMED(getdelim, ssize_t, FREAD, false, result, (char **b, size_t *n, int end_of, FILE *stream),
         TYPES(char **, size_t *, int, FILE *), b, n, end_of, stream)
/* What an optimised program calls for getline. */
STREAMED(__getdelim, ssize_t, FREAD, false, result, (char **b, size_t *n, int end_of, FILE *stream),
         TYPES(char **, size_t *, int, FILE *), b, n, end_of, stream)
STREAMED(fputs, int, FWRITE, true, result < 0 ? 0 : strlen(b), (const char *b, FILE *stream),
         TYPES(const char *, FILE *), b, stream)
STREAMED(vfprintf, int, FWRITE, true, result, (FILE * stream, const char *form, va_list rest),
         TYPES(FILE *, const char *, va_list), stream, form, rest)
STREAMED(__vfprintf_chk, int, FWRITE, true, result, (FILE * stream, int flag, const char *form, va_list rest),
         TYPES(FILE *, int, const char *, va_list), stream, flag, form, rest)

EXPORT int fprintf(FILE *stream, const char *form, ...) {
    va_list rest;
    va_start(rest, form);
    int written = vfprintf(stream, form, rest);
    va_end(rest);
    return written;
}

int __vfprintf_chk(FILE *stream, int flag, const char *form, va_list rest);
EXPORT int __fprintf_chk(FILE *stream, int flag, const char *form, ...) {
    va_list rest;
    va_start(rest, form);
    int written = __vfprintf_chk(stream, flag, form, rest);
    va_end(rest);
    return written;
}
