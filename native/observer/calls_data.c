/* SPDX-License-Identifier: BSD-3-Clause
 * Calls that move data through a descriptor, and others on one. */
#define _GNU_SOURCE
#include <aio.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "acts.h"
#include "calls.h"
#include "thread_calls.h"

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

/* A call on a descriptor that moves no data; NUMBER, of the record's line, may name its parameters. */
#define ON_FILE(NAME, RESULT, OP, LINE, NUMBER, PARAMETERS, TYPED, ...)                                      \
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
            did(fd, OP, 0, began);                                                                           \
        if ((LINE) != SW_LINES && keeps_calls() && result == 0)                                              \
            note_call(fd, LINE, NUMBER, began);                                                              \
        return result;                                                                                       \
    }

ON_FILE(fsync, int, SYNC, SW_LINE_posix_sync, 0, (int fd), TYPES(int), fd)
ON_FILE(fdatasync, int, SYNC, SW_LINE_posix_sync, 0, (int fd), TYPES(int), fd)
ON_FILE(sync_file_range, int, SYNC, SW_LINE_posix_sync, 0, (int fd, off64_t o, off64_t n, unsigned f),
        TYPES(int, off64_t, off64_t, unsigned), fd, o, n, f)
ON_FILE(ftruncate, int, TRUNCATE, SW_LINE_posix_truncate, n, (int fd, off_t n), TYPES(int, off_t), fd, n)
ON_FILE(ftruncate64, int, TRUNCATE, SW_LINE_posix_truncate, n, (int fd, off64_t n), TYPES(int, off64_t), fd,
        n)
ON_FILE(posix_fadvise, int, ADVISE, SW_LINES, 0, (int fd, off_t o, off_t n, int a),
        TYPES(int, off_t, off_t, int), fd, o, n, a)
ON_FILE(posix_fadvise64, int, ADVISE, SW_LINES, 0, (int fd, off64_t o, off64_t n, int a),
        TYPES(int, off64_t, off64_t, int), fd, o, n, a)
ON_FILE(readahead, ssize_t, ADVISE, SW_LINES, 0, (int fd, off64_t o, size_t n), TYPES(int, off64_t, size_t),
        fd, o, n)

#define SEEKS(NAME, OFFSET)                                                                                  \
    EXPORT OFFSET NAME(int fd, OFFSET to, int from) {                                                        \
        NEXT(#NAME, OFFSET, int, OFFSET, int)                                                                \
        uint64_t began = *prefix ? now() : 0;                                                                \
        OFFSET place = next(fd, to, from);                                                                   \
        if (*prefix) {                                                                                       \
            did(fd, SEEK, 0, began);                                                                         \
            if (place >= 0 && descriptor_of(fd))                                                             \
                descriptors[fd].position = place;                                                            \
            if (place >= 0 && keeps_calls())                                                                 \
                note_call(fd, SW_LINE_posix_seek, place, began);                                             \
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

/* ---- asynchronous calls ----
 * Asynchronous calls. They are counted when they are queued: threads of the C library, or the kernel, carry
 * them out unseen. */

#define ASYNCHRONOUS(NAME, OP, WRITES, BLOCK)                                                                \
    EXPORT int NAME(struct BLOCK *block) {                                                                   \
        NEXT(#NAME, int, struct BLOCK *)                                                                     \
        uint64_t began = *prefix ? now() : 0;                                                                \
        int fd = block->aio_fildes;                                                                          \
        ssize_t size = (ssize_t)block->aio_nbytes;                                                           \
        int64_t place = block->aio_offset;                                                                   \
        int code = next(block);                                                                              \
        if (*prefix && code == 0)                                                                            \
            moved(fd, OP, WRITES, size, place, began);                                                       \
        return code;                                                                                         \
    }

ASYNCHRONOUS(aio_read, AIO_READ, false, aiocb)
ASYNCHRONOUS(aio_read64, AIO_READ, false, aiocb64)
ASYNCHRONOUS(aio_write, AIO_WRITE, true, aiocb)
ASYNCHRONOUS(aio_write64, AIO_WRITE, true, aiocb64)

/* ---- several at once ---- */

#define AT_ONCE 64 /* they are on the stack */

/* What a block asked for. It may be another's as soon as it is queued. */
struct queued {
    int fd; /* -1: no data */
    bool writes;
    ssize_t size;
    int64_t place;
};

static void count_queued(const struct queued *queued, long count, uint64_t began) {
    for (long i = 0; i < count; i++) {
        const struct queued *one = &queued[i];
        if (one->fd >= 0)
            moved(one->fd, one->writes ? AIO_WRITE : AIO_READ, one->writes, one->size, one->place,
                  i ? now() : began); /* the time is the first one's */
    }
}

/* Of libaio. */
static struct queued asked_of_kernel(const struct iocb *block) {
    struct queued one = {-1, false, (ssize_t)block->aio_nbytes, block->aio_offset};
    bool pieces = block->aio_lio_opcode == IOCB_CMD_PREADV || block->aio_lio_opcode == IOCB_CMD_PWRITEV;
    one.writes = block->aio_lio_opcode == IOCB_CMD_PWRITE || block->aio_lio_opcode == IOCB_CMD_PWRITEV;
    if (!one.writes && !pieces && block->aio_lio_opcode != IOCB_CMD_PREAD)
        return one;
    one.fd = (int)block->aio_fildes;
    if (pieces) {
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): so the kernel is given it */
        const struct iovec *of = (const struct iovec *)(uintptr_t)block->aio_buf;
        uint64_t count = block->aio_nbytes;
        one.size = 0;
        for (uint64_t i = 0; i < count; i++)
            one.size += (ssize_t)of[i].iov_len;
    }
    return one;
}

typedef int submits(aio_context_t, long, struct iocb **);

static int submit(submits *next, aio_context_t context, long count, struct iocb **blocks) {
    if (next)
        return next(context, count, blocks);
    int kept = errno, code = (int)syscall(SYS_io_submit, context, count, blocks);
    code = code < 0 ? -errno : code;
    errno = kept;
    return code;
}

/* libaio's, which gives a negative error and leaves errno alone. A library that was loaded for itself alone
 * (dlopen) finds this one before its own: then the system call is made, as libaio does. Other libraries
 * may have a function of this name. */
EXPORT int io_submit(aio_context_t context, long count, struct iocb **blocks) {
    static _Atomic(int) whose; /* 1: libaio's or nobody's, 2: another's */
    static submits *_Atomic found;
    submits *next = atomic_load_explicit(&found, memory_order_relaxed);
    if (!atomic_load_explicit(&whose, memory_order_acquire)) {
        Dl_info about;
        next = (submits *)dlsym(RTLD_NEXT, "io_submit");
        bool ours = !next || (dladdr((void *)next, &about) && strstr(about.dli_fname, "libaio"));
        atomic_store_explicit(&found, next, memory_order_relaxed);
        atomic_store_explicit(&whose, ours ? 1 : 2, memory_order_release);
    }
    if (!*prefix || count <= 0 || atomic_load_explicit(&whose, memory_order_relaxed) == 2)
        return submit(next, context, count, blocks);
    struct queued queued[AT_ONCE];
    long done = 0;
    while (done < count) {
        long now_asked = count - done < AT_ONCE ? count - done : AT_ONCE;
        uint64_t began = now();
        for (long i = 0; i < now_asked; i++)
            queued[i] = asked_of_kernel(blocks[done + i]);
        int code = submit(next, context, now_asked, blocks + done);
        count_queued(queued, code, began);
        if (code < 0)
            return done ? (int)done : code;
        done += code;
        if (code < now_asked)
            break;
    }
    return (int)done;
}

/* The others are counted before the call: the last one's time is that of all. */
#define LISTS(NAME, BLOCK)                                                                                   \
    static bool asked_of_##BLOCK(const struct BLOCK *one, struct queued *queued) {                           \
        if (!one || one->aio_lio_opcode == LIO_NOP)                                                          \
            return false;                                                                                    \
        *queued = (struct queued){one->aio_fildes, one->aio_lio_opcode == LIO_WRITE,                         \
                                  (ssize_t)one->aio_nbytes, one->aio_offset};                                \
        return true;                                                                                         \
    }                                                                                                        \
    EXPORT int NAME(int mode, struct BLOCK *const blocks[], int count, struct sigevent *event) {             \
        NEXT(#NAME, int, int, struct BLOCK *const *, int, struct sigevent *)                                 \
        uint64_t began = *prefix ? now() : 0;                                                                \
        struct queued one, last = {-1, false, 0, 0};                                                         \
        for (int i = 0; *prefix && i < count; i++)                                                           \
            if (asked_of_##BLOCK(blocks[i], &one)) {                                                         \
                count_queued(&last, 1, now());                                                               \
                last = one;                                                                                  \
            }                                                                                                \
        int code = next(mode, blocks, count, event);                                                         \
        if (*prefix && code == 0)                                                                            \
            count_queued(&last, 1, began);                                                                   \
        return code;                                                                                         \
    }

LISTS(lio_listio, aiocb)
LISTS(lio_listio64, aiocb64)
