/* SPDX-License-Identifier: BSD-3-Clause
 * Asynchronous calls. They are counted when they are queued: threads of the C library, or the kernel, carry
 * them out unseen. */
#define _GNU_SOURCE
#include "calls.h"

#include <aio.h>
#include <dlfcn.h>
#include <linux/aio_abi.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

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
