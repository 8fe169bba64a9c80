/* SPDX-License-Identifier: BSD-3-Clause
 * Which reads and writes really reached the file: the libc calls that an MPI library makes from within
 * MPI-IO. A descriptor is the file's if it was opened under the file's name during MPI_File_open, or else if
 * fstat says so; all others (sockets of the transport, ROMIO's shared file pointer) are not counted. Outside
 * MPI-IO each call costs one look into a table. */
#define _GNU_SOURCE
#include "runtime.h"

#include <aio.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "call.h"
#include "stripewise_beside.h"

#define DESCRIPTORS 8192 /* higher ones are asked by fstat each time */

static _Atomic(struct sw_file *) owners[DESCRIPTORS];
static struct sw_file nobody; /* owner of descriptors known to be none of ours */

void sw_posix_forget(struct sw_file *file) {
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        if (owners[fd] == file)
            owners[fd] = NULL;
}

static void own(int fd, struct sw_file *owner) {
    if (fd >= 0 && fd < DESCRIPTORS)
        atomic_store_explicit(&owners[fd], owner, memory_order_release);
}

static bool is_same_file(int fd, const char *path) {
    struct stat here, there;
    return fstat(fd, &here) == 0 && S_ISREG(here.st_mode) && stat(path, &there) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/* The record a transfer on this descriptor belongs to, or NULL. Leaves errno alone. */
static struct sw_file *owner_of(int fd) {
    struct sw_file *owner = NULL;
    if (fd < 0)
        return NULL;
    if (fd < DESCRIPTORS)
        owner = atomic_load_explicit(&owners[fd], memory_order_acquire);
    if (!owner && sw_thread.file) {
        int kept = errno;
        owner = is_same_file(fd, sw_thread.file->path) ? sw_thread.file : &nobody;
        own(fd, owner);
        errno = kept;
    }
    return owner == &nobody ? NULL : owner;
}

/* Is there anything to find out about this descriptor? The only cost where MPI-IO is not at work. */
static inline bool concerns(int fd) {
    return sw_thread.file ||
           ((unsigned)fd < DESCRIPTORS && atomic_load_explicit(&owners[fd], memory_order_relaxed));
}

/* began: of sw_tick, or 0 where the time is not known. */
static void count(int fd, bool write, ssize_t moved, int64_t began) {
    if (moved <= 0 || !atomic_load_explicit(&sw_runtime.active, memory_order_relaxed))
        return;
    struct sw_file *file = owner_of(fd);
    if (!file)
        return;
    bool ours = sw_thread.file == file;
    unsigned during = ours ? sw_thread.during : atomic_load_explicit(&file->pending, memory_order_relaxed);
    struct sw_beneath_call call = {(uint64_t)moved, during, write, began ? sw_tick() - began : 0};
    if (!ours || !sw_thread.collects) {
        sw_file_count_posix(&sw_runtime.files, file, &call, 1);
        return;
    }
    if (sw_thread.calls == SW_COLLECTED) {
        sw_file_count_posix(&sw_runtime.files, file, sw_thread.beneath, sw_thread.calls);
        sw_thread.calls = 0;
    }
    sw_thread.beneath[sw_thread.calls++] = call;
}

static void *libc_function(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

#define NEXT(pointer, found, name) SW_RESOLVE_BY(libc_function, pointer, found, name)

#define TRANSFER(NAME, WRITES, PARAMETERS, ...)                                                              \
    SW_EXPORT ssize_t NAME PARAMETERS {                                                                      \
        static ssize_t(*_Atomic found) PARAMETERS;                                                           \
        NEXT(next, found, #NAME);                                                                            \
        int64_t began = sw_thread.file ? sw_tick() : 0;                                                      \
        ssize_t moved = next(__VA_ARGS__);                                                                   \
        if (concerns(fd))                                                                                    \
            count(fd, WRITES, moved, began);                                                                 \
        return moved;                                                                                        \
    }

TRANSFER(read, false, (int fd, void *buf, size_t size), fd, buf, size)
TRANSFER(write, true, (int fd, const void *buf, size_t size), fd, buf, size)
TRANSFER(pread, false, (int fd, void *buf, size_t size, off_t offset), fd, buf, size, offset)
TRANSFER(pwrite, true, (int fd, const void *buf, size_t size, off_t offset), fd, buf, size, offset)
TRANSFER(pread64, false, (int fd, void *buf, size_t size, off64_t offset), fd, buf, size, offset)
TRANSFER(pwrite64, true, (int fd, const void *buf, size_t size, off64_t offset), fd, buf, size, offset)
TRANSFER(readv, false, (int fd, const struct iovec *iov, int parts), fd, iov, parts)
TRANSFER(writev, true, (int fd, const struct iovec *iov, int parts), fd, iov, parts)
TRANSFER(preadv, false, (int fd, const struct iovec *iov, int parts, off_t offset), fd, iov, parts, offset)
TRANSFER(pwritev, true, (int fd, const struct iovec *iov, int parts, off_t offset), fd, iov, parts, offset)
TRANSFER(preadv64, false, (int fd, const struct iovec *iov, int parts, off64_t offset), fd, iov, parts,
         offset)
TRANSFER(pwritev64, true, (int fd, const struct iovec *iov, int parts, off64_t offset), fd, iov, parts,
         offset)

/* Asynchronous ones are counted when they are queued, with the size asked for: libc's helper threads carry
 * them out unseen. */
#define ASYNCHRONOUS(NAME, WRITES, BLOCK)                                                                    \
    SW_EXPORT int NAME(struct BLOCK *block) {                                                                \
        static int (*_Atomic found)(struct BLOCK *);                                                         \
        NEXT(next, found, #NAME);                                                                            \
        int fd = block->aio_fildes;                                                                          \
        ssize_t size = (ssize_t)block->aio_nbytes;                                                           \
        int code = next(block);                                                                              \
        if (code == 0 && concerns(fd))                                                                       \
            count(fd, WRITES, size, 0);                                                                      \
        return code;                                                                                         \
    }

ASYNCHRONOUS(aio_read, false, aiocb)
ASYNCHRONOUS(aio_write, true, aiocb)
ASYNCHRONOUS(aio_read64, false, aiocb64)
ASYNCHRONOUS(aio_write64, true, aiocb64)

/* A descriptor opened while MPI opens a file, under its name, is the file's, whatever that number stood for
 * before. */
static void opened(int fd, const char *path, void *caller) {
    if (fd < 0)
        return;
    bool ours = sw_thread.file && sw_thread.path &&
                (strcmp(path, sw_thread.path) == 0 || strcmp(path, sw_thread.file->path) == 0);
    if (ours || concerns(fd))
        own(fd, ours ? sw_thread.file : NULL);
    Dl_info library;
    if (ours && dladdr(caller, &library))
        sw_thread.opener = library.dli_fname;
}

static __thread const void *open_caller __attribute__((tls_model("initial-exec")));

SW_EXPORT sw_open_caller stripewise_open_caller;
SW_EXPORT const void *stripewise_open_caller(void) {
    return open_caller;
}

#define OPEN(NAME)                                                                                           \
    SW_EXPORT int NAME(const char *path, int flags, ...) {                                                   \
        static int (*_Atomic found)(const char *, int, ...);                                                 \
        mode_t mode = 0;                                                                                     \
        if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {                                         \
            va_list rest;                                                                                    \
            va_start(rest, flags);                                                                           \
            mode = va_arg(rest, mode_t);                                                                     \
            va_end(rest);                                                                                    \
        }                                                                                                    \
        NEXT(next, found, #NAME);                                                                            \
        const void *before = open_caller;                                                                    \
        open_caller = __builtin_return_address(0);                                                           \
        int fd = next(path, flags, mode);                                                                    \
        open_caller = before;                                                                                \
        opened(fd, path, __builtin_return_address(0));                                                       \
        return fd;                                                                                           \
    }

OPEN(open)
OPEN(open64)

SW_EXPORT int close(int fd) {
    static int (*_Atomic found)(int);
    NEXT(next, found, "close");
    /* Before the call: afterwards the number may already be another thread's. */
    if ((unsigned)fd < DESCRIPTORS && atomic_load_explicit(&owners[fd], memory_order_relaxed))
        own(fd, NULL);
    return next(fd);
}

/* ---- messages ----
 * What ROMIO sends from within MPI-IO calls. Its two-phase exchange makes no system call on the file, but it
 * calls the MPI library by the names of the profiling interface. Each of these calls is counted with the
 * MPI-IO call that made it. The names MPI_* are left alone: a program's own messages do not pass here. */

#define COUNTED(NAME, PARAMETERS, ...)                                                                       \
    SW_EXPORT int NAME PARAMETERS {                                                                          \
        static int(*_Atomic found) PARAMETERS;                                                               \
        SW_RESOLVE_OR_FAIL(next, found, #NAME);                                                              \
        if (sw_thread.file)                                                                                  \
            sw_thread.messages++;                                                                            \
        return next(__VA_ARGS__);                                                                            \
    }

COUNTED(PMPI_Allgather,
        (const void *sent, int count, MPI_Datatype type, void *got, int got_count, MPI_Datatype got_type,
         MPI_Comm comm),
        sent, count, type, got, got_count, got_type, comm)
COUNTED(PMPI_Allreduce, (const void *sent, void *got, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
        sent, got, count, type, op, comm)
COUNTED(PMPI_Alltoall,
        (const void *sent, int count, MPI_Datatype type, void *got, int got_count, MPI_Datatype got_type,
         MPI_Comm comm),
        sent, count, type, got, got_count, got_type, comm)
COUNTED(PMPI_Alltoallv,
        (const void *sent, const int *counts, const int *places, MPI_Datatype type, void *got,
         const int *got_counts, const int *got_places, MPI_Datatype got_type, MPI_Comm comm),
        sent, counts, places, type, got, got_counts, got_places, got_type, comm)
COUNTED(PMPI_Barrier, (MPI_Comm comm), comm)
COUNTED(PMPI_Bcast, (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm), buffer, count,
        type, root, comm)
COUNTED(PMPI_Isend,
        (const void *sent, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
         MPI_Request *request),
        sent, count, type, to, tag, comm, request)
