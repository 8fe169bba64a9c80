/* SPDX-License-Identifier: BSD-3-Clause
 * Calls on streams. */
#define _GNU_SOURCE
#include "calls.h"
#include "creating.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
        before_create(&one, __builtin_return_address(0), AT_FDCWD, path, *exclusive ? flags : 0, 0666);      \
        FILE *stream = next(path, one.added ? exclusive : mode);                                             \
        if (!stream && again(&one, -1, flags))                                                               \
            stream = next(path, mode);                                                                       \
        opened(stream ? fileno(stream) : -1, began, __builtin_return_address(0));                            \
        after_create(&one, stream ? fileno(stream) : -1);                                                    \
        opened_stream(stream, mode);                                                                         \
        return stream;                                                                                       \
    }

STREAMS(fopen)
STREAMS(fopen64)

/* Often of standard output: the number stays, the file is another. */
#define REOPENS(NAME)                                                                                        \
    EXPORT FILE *NAME(const char *path, const char *mode, FILE *stream) {                                    \
        NEXT(#NAME, FILE *, const char *, const char *, FILE *)                                              \
        struct file_record *record = *prefix ? closing(fileno(stream)) : NULL;                               \
        uint64_t began = *prefix ? now() : 0;                                                                \
        FILE *again = next(path, mode, stream);                                                              \
        int kept = errno;                                                                                    \
        closed(record, began);                                                                               \
        errno = kept;                                                                                        \
        opened(again ? fileno(again) : -1, began, __builtin_return_address(0));                              \
        return again;                                                                                        \
    }

REOPENS(freopen)
REOPENS(freopen64)

EXPORT int fclose(FILE *stream) {
    NEXT("fclose", int, FILE *)
    const struct acts *by = stream ? acting() : NULL;
    int own = by && by->before_close ? by->before_close(fileno(stream)) : -1;
    struct file_record *record = *prefix && stream ? closing(fileno(stream)) : NULL;
    int buffer = by && by->before_stream_close ? by->before_stream_close(stream) : -1;
    uint64_t began = record ? now() : 0;
    int code = next(stream);
    int kept = errno;
    if (buffer >= 0)
        by->after_stream_close(buffer);
    closed(record, began);
    errno = kept;
    if (own >= 0)
        by->after_close(own);
    return code;
}

/* It writes what was counted before: only its time is added. */
EXPORT int fflush(FILE *stream) {
    NEXT("fflush", int, FILE *)
    uint64_t began = *prefix ? now() : 0;
    int code = next(stream);
    int kept = errno;
    struct file_record *record = *prefix && stream ? record_of(fileno(stream)) : NULL;
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
        RESULT result = next(__VA_ARGS__);                                                                   \
        int kept = errno;                                                                                    \
        if (*prefix)                                                                                         \
            moved(fileno(stream), OP, WRITES, (ssize_t)(BYTES), -1, began);                                  \
        errno = kept;                                                                                        \
        return result;                                                                                       \
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
