/* SPDX-License-Identifier: BSD-3-Clause
 * Calls that move data through a descriptor, and others on one. */
#define _GNU_SOURCE
#include "acts.h"
#include "calls.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

/* A call that moves data through a descriptor. ANSWER: the bytes that were moved in another way, or -1; DATA:
 * what is written, NULL if it is not one piece. */
#define MOVES(NAME, OP, WRITES, PLACE, DATA, ANSWER, PARAMETERS, TYPED, ...)                                 \
    EXPORT ssize_t NAME PARAMETERS {                                                                         \
        NEXT(#NAME, ssize_t, TYPED)                                                                          \
        IF_THERE                                                                                             \
        struct own_write own;                                                                                \
        uint64_t began = *prefix ? now() : 0;                                                                \
        const struct acts *by = acting();                                                                    \
        bool follows = (WRITES) && by && by->after_write;                                                    \
        if (follows)                                                                                         \
            by->before_write(&own, fd, PLACE);                                                               \
        ssize_t bytes = ANSWER;                                                                              \
        if (bytes < 0)                                                                                       \
            bytes = next(__VA_ARGS__);                                                                       \
        if (follows)                                                                                         \
            by->after_write(&own, fd, DATA, bytes, PLACE);                                                   \
        if (*prefix)                                                                                         \
            moved(fd, OP, WRITES, bytes, PLACE, began);                                                      \
        return bytes;                                                                                        \
    }

#define TRANSFER(NAME, OP, WRITES, PLACE, PARAMETERS, TYPED, ...)                                            \
    MOVES(NAME, OP, WRITES, PLACE, NULL, -1, PARAMETERS, TYPES(TYPED), __VA_ARGS__)
#define READS(NAME, OP, PLACE, PARAMETERS, TYPED, ...)                                                       \
    MOVES(NAME, OP, false, PLACE, NULL, by && by->read ? by->read(fd, b, n, PLACE) : -1, PARAMETERS,         \
          TYPES(TYPED), __VA_ARGS__)
#define READS_PIECES(NAME, OP, PLACE, FLAGS, PARAMETERS, TYPED, ...)                                         \
    MOVES(NAME, OP, false, PLACE, NULL,                                                                      \
          !(FLAGS) && by && by->read_pieces ? by->read_pieces(fd, v, n, PLACE) : -1, PARAMETERS,             \
          TYPES(TYPED), __VA_ARGS__)
/* AT: as PLACE, but HERE for the file's own position. */
#define WRITES(NAME, OP, PLACE, AT, PARAMETERS, TYPED, ...)                                                  \
    MOVES(NAME, OP, true, PLACE, b, by && by->write ? by->write(fd, b, n, AT) : -1, PARAMETERS,              \
          TYPES(TYPED), __VA_ARGS__)

READS(read, READ, HERE, (int fd, void *b, size_t n), TYPES(int, void *, size_t), fd, b, n)
WRITES(write, WRITE, -1, HERE, (int fd, const void *b, size_t n), TYPES(int, const void *, size_t), fd, b, n)
READS(pread, PREAD, o, (int fd, void *b, size_t n, off_t o), TYPES(int, void *, size_t, off_t), fd, b, n, o)
READS(pread64, PREAD, o, (int fd, void *b, size_t n, off64_t o), TYPES(int, void *, size_t, off64_t), fd, b,
      n, o)
WRITES(pwrite, PWRITE, o, o, (int fd, const void *b, size_t n, off_t o),
       TYPES(int, const void *, size_t, off_t), fd, b, n, o)
WRITES(pwrite64, PWRITE, o, o, (int fd, const void *b, size_t n, off64_t o),
       TYPES(int, const void *, size_t, off64_t), fd, b, n, o)
READS_PIECES(readv, READ, HERE, 0, (int fd, const struct iovec *v, int n),
             TYPES(int, const struct iovec *, int), fd, v, n)
TRANSFER(writev, WRITE, true, -1, (int fd, const struct iovec *v, int n),
         TYPES(int, const struct iovec *, int), fd, v, n)
READS_PIECES(preadv, PREAD, o, 0, (int fd, const struct iovec *v, int n, off_t o),
             TYPES(int, const struct iovec *, int, off_t), fd, v, n, o)
READS_PIECES(preadv64, PREAD, o, 0, (int fd, const struct iovec *v, int n, off64_t o),
             TYPES(int, const struct iovec *, int, off64_t), fd, v, n, o)
TRANSFER(pwritev, PWRITE, true, o, (int fd, const struct iovec *v, int n, off_t o),
         TYPES(int, const struct iovec *, int, off_t), fd, v, n, o)
TRANSFER(pwritev64, PWRITE, true, o, (int fd, const struct iovec *v, int n, off64_t o),
         TYPES(int, const struct iovec *, int, off64_t), fd, v, n, o)
#define WRITES_FLAGS(NAME, OFFSET)                                                                           \
    TRANSFER(NAME, PWRITE, true, o, (int fd, const struct iovec *v, int n, OFFSET o, int f),                 \
             TYPES(int, const struct iovec *, int, OFFSET, int), fd, v, n, o, f)
#define READS_FLAGS(NAME, OFFSET)                                                                            \
    READS_PIECES(NAME, PREAD, o, f, (int fd, const struct iovec *v, int n, OFFSET o, int f),                 \
                 TYPES(int, const struct iovec *, int, OFFSET, int), fd, v, n, o, f)
READS_FLAGS(preadv2, off_t)
READS_FLAGS(preadv64v2, off64_t)
WRITES_FLAGS(pwritev2, off_t)
WRITES_FLAGS(pwritev64v2, off64_t)
#define CHECKED(NAME, OP, PLACE, PARAMETERS, TYPED, ...)                                                     \
    MOVES(NAME, OP, false, PLACE, NULL, n <= s && by && by->read ? by->read(fd, b, n, PLACE) : -1,           \
          PARAMETERS, TYPES(TYPED), __VA_ARGS__)
/* Checked forms, which programs compiled with _FORTIFY_SOURCE call. */
CHECKED(__read_chk, READ, HERE, (int fd, void *b, size_t n, size_t s), TYPES(int, void *, size_t, size_t), fd,
        b, n, s)
CHECKED(__pread_chk, PREAD, o, (int fd, void *b, size_t n, off_t o, size_t s),
        TYPES(int, void *, size_t, off_t, size_t), fd, b, n, o, s)
CHECKED(__pread64_chk, PREAD, o, (int fd, void *b, size_t n, off64_t o, size_t s),
        TYPES(int, void *, size_t, off64_t, size_t), fd, b, n, o, s)

/* Copies within the kernel: read from one file and written to the other. */
#define COPY(NAME, IN, OUT, PARAMETERS, TYPED, ...)                                                          \
    EXPORT ssize_t NAME PARAMETERS {                                                                         \
        NEXT(#NAME, ssize_t, TYPED)                                                                          \
        IF_THERE                                                                                             \
        struct own_write own;                                                                                \
        uint64_t began = *prefix ? now() : 0;                                                                \
        const struct acts *by = acting();                                                                    \
        bool follows = by && by->after_write;                                                                \
        if (follows)                                                                                         \
            by->before_write(&own, OUT, -1);                                                                 \
        ssize_t bytes = next(__VA_ARGS__);                                                                   \
        if (follows)                                                                                         \
            by->after_write(&own, OUT, NULL, bytes, -1);                                                     \
        if (*prefix && bytes > 0) {                                                                          \
            moved(IN, COPY_IN, false, bytes, -1, began);                                                     \
            moved(OUT, COPY_OUT, true, bytes, -1, now()); /* its time is in the other */                     \
        }                                                                                                    \
        return bytes;                                                                                        \
    }

COPY(copy_file_range, in, out, (int in, off64_t *i, int out, off64_t *o, size_t n, unsigned flags),
     TYPES(int, off64_t *, int, off64_t *, size_t, unsigned), in, i, out, o, n, flags)
COPY(sendfile, in, out, (int out, int in, off_t *o, size_t n), TYPES(int, int, off_t *, size_t), out, in, o,
     n)
COPY(sendfile64, in, out, (int out, int in, off64_t *o, size_t n), TYPES(int, int, off64_t *, size_t), out,
     in, o, n)

/* A call on a descriptor that moves no data; BYTES may name its parameters. */
#define ON_FILE(NAME, RESULT, OP, BYTES, PARAMETERS, TYPED, ...)                                             \
    EXPORT RESULT NAME PARAMETERS {                                                                          \
        NEXT(#NAME, RESULT, TYPED)                                                                           \
        struct own_write own;                                                                                \
        uint64_t began = *prefix ? now() : 0;                                                                \
        const struct acts *by = acting();                                                                    \
        bool follows = (OP) == TRUNCATE && by && by->after_write;                                            \
        if (follows)                                                                                         \
            by->before_write(&own, fd, -1);                                                                  \
        RESULT result = next(__VA_ARGS__);                                                                   \
        if (follows)                                                                                         \
            by->after_write(&own, fd, NULL, 0, -1);                                                          \
        if (*prefix)                                                                                         \
            did(fd, OP, BYTES, began);                                                                       \
        return result;                                                                                       \
    }

ON_FILE(fsync, int, SYNC, 0, (int fd), TYPES(int), fd)
ON_FILE(fdatasync, int, SYNC, 0, (int fd), TYPES(int), fd)
ON_FILE(sync_file_range, int, SYNC, 0, (int fd, off64_t o, off64_t n, unsigned f),
        TYPES(int, off64_t, off64_t, unsigned), fd, o, n, f)
ON_FILE(ftruncate, int, TRUNCATE, 0, (int fd, off_t n), TYPES(int, off_t), fd, n)
ON_FILE(ftruncate64, int, TRUNCATE, 0, (int fd, off64_t n), TYPES(int, off64_t), fd, n)
ON_FILE(posix_fadvise, int, ADVISE, 0, (int fd, off_t o, off_t n, int a), TYPES(int, off_t, off_t, int), fd,
        o, n, a)
ON_FILE(posix_fadvise64, int, ADVISE, 0, (int fd, off64_t o, off64_t n, int a),
        TYPES(int, off64_t, off64_t, int), fd, o, n, a)
ON_FILE(readahead, ssize_t, ADVISE, 0, (int fd, off64_t o, size_t n), TYPES(int, off64_t, size_t), fd, o, n)

#define SEEKS(NAME, OFFSET)                                                                                  \
    EXPORT OFFSET NAME(int fd, OFFSET to, int from) {                                                        \
        NEXT(#NAME, OFFSET, int, OFFSET, int)                                                                \
        uint64_t began = *prefix ? now() : 0;                                                                \
        OFFSET place = next(fd, to, from);                                                                   \
        if (*prefix) {                                                                                       \
            did(fd, SEEK, 0, began);                                                                         \
            if (place >= 0 && descriptor_of(fd))                                                             \
                descriptors[fd].position = place;                                                            \
        }                                                                                                    \
        return place;                                                                                        \
    }

SEEKS(lseek, off_t)
SEEKS(lseek64, off64_t)

/* Allocators map memory before dlsym may be called. */
#define MAPS(NAME, OFFSET)                                                                                   \
    EXPORT void *NAME(void *at, size_t size, int protection, int flags, int fd, OFFSET offset) {             \
        if (fd < 0 || (flags & MAP_ANONYMOUS) || !*prefix)                                                   \
            return map(at, size, protection, flags, fd, offset);                                             \
        NEXT(#NAME, void *, void *, size_t, int, int, int, OFFSET)                                           \
        uint64_t began = now();                                                                              \
        void *memory = next(at, size, protection, flags, fd, offset);                                        \
        const struct acts *by = acting();                                                                    \
        if (by && by->mapped)                                                                                \
            by->mapped(fd, flags);                                                                           \
        did(fd, MMAP, memory == MAP_FAILED ? 0 : size, began);                                               \
        return memory;                                                                                       \
    }

MAPS(mmap, off_t)
MAPS(mmap64, off64_t)
