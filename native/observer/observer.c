/* SPDX-License-Identifier: BSD-3-Clause
 * What a process without MPI does to regular files, by the calls of the C library. Preloaded, it forwards
 * each call and counts it in the process's part. It holds no lock, allocates nothing and keeps no descriptor,
 * so that it may be entered from signal handlers, after fork and vfork, and in programs that close whatever
 * is open. A process that opens no regular file leaves no part. */
#define _GNU_SOURCE
/* Or headers of the C library define some of the calls below themselves. */
#undef _FORTIFY_SOURCE
#ifndef __NO_INLINE__
#define __NO_INLINE__ 1
#endif
#include <aio.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "part.h"

/* Macros of the C library where it optimises. */
#undef fread_unlocked
#undef fwrite_unlocked

#ifndef MADV_POPULATE_WRITE /* headers of Linux before 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

_Static_assert(sizeof(void *) == 8, "mmap is called with an offset in bytes");

#define EXPORT __attribute__((visibility("default")))
#define DESCRIPTORS 4096 /* higher ones are not followed */
#define PROBES 64

static char prefix[PATH_MAX]; /* of the parts' names; empty: nothing is counted */
static pid_t self;            /* differs in a child of vfork, which shares this memory */
static int rank, ranks;       /* -1: unknown */
static _Atomic(struct part *) part;
static atomic_bool broken;              /* the part cannot be made */
static atomic_bool roomy[PART_FILES];   /* its records that can be written */
static struct file_record nobody, none; /* owners: not a regular file; no part for it */

struct descriptor {
    _Atomic(struct file_record *) owner; /* NULL: to be found out */
    _Atomic(int64_t) position;
    struct {
        _Atomic(int64_t) start, end, step;
    } last[2];
};
static struct descriptor descriptors[DESCRIPTORS];
static _Atomic(int) highest = -1;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t value(counter *of) {
    return atomic_load_explicit(of, memory_order_relaxed);
}

static void put(counter *to, uint64_t amount) {
    atomic_store_explicit(to, amount, memory_order_relaxed);
}

/* Of glibc 2.32 and newer: no other thread is there that could count at the same time. */
extern char __libc_single_threaded __attribute__((weak));

static void add(counter *to, uint64_t amount) {
    if (&__libc_single_threaded && __libc_single_threaded)
        put(to, value(to) + amount);
    else
        atomic_fetch_add_explicit(to, amount, memory_order_relaxed);
}

/* ---- the part ---- */

static size_t decimal(char *to, uint64_t amount) {
    char digits[24];
    size_t count = 0, length;
    do
        digits[count++] = (char)('0' + amount % 10);
    while (amount /= 10);
    for (length = 0; count; length++)
        to[length] = digits[--count];
    return length;
}

static void *map(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the address is what the system call returns */
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

/* Whether there is room for what is mapped there: where a disk or quota is full, the first write to a page
 * would end the process by SIGBUS. Kernels before 5.14 cannot tell. */
static bool has_room(void *at, size_t size) {
    size_t before = (uintptr_t)at % (size_t)sysconf(_SC_PAGESIZE);
    return madvise((char *)at - before, before + size, MADV_POPULATE_WRITE) == 0 ||
           (errno != EFAULT && errno != ENOMEM);
}

__attribute__((noinline)) static struct part *make_part(void) {
    char name[PATH_MAX + 64];
    struct timespec real;
    struct rlimit largest;
    /* A larger file than allowed would end the process by SIGXFSZ. */
    if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < sizeof(struct part))
        return NULL;
    size_t length = strlen(prefix);
    uint64_t start = now();
    memcpy(name, prefix, length);
    length += decimal(name + length, (uint64_t)getpid());
    name[length++] = '-';
    length += decimal(name + length, start);
    name[length] = '\0';
    int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    void *memory = MAP_FAILED;
    if (syscall(SYS_ftruncate, fd, sizeof(struct part)) == 0)
        memory = map(NULL, sizeof(struct part), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (memory != MAP_FAILED && !has_room(memory, offsetof(struct part, files[1]))) {
        munmap(memory, sizeof(struct part));
        memory = MAP_FAILED;
    }
    if (memory == MAP_FAILED) {
        syscall(SYS_unlinkat, AT_FDCWD, name, 0);
        return NULL;
    }
    struct part *made = memory;
    made->record_size = sizeof(struct file_record);
    made->records = PART_FILES;
    made->pid = (int32_t)getpid();
    made->parent = (int32_t)getppid();
    made->rank = rank;
    made->ranks = ranks;
    clock_gettime(CLOCK_REALTIME, &real);
    made->real = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
    made->start = start;
    gethostname(made->host, sizeof made->host - 1);
    ssize_t size = readlink("/proc/self/exe", made->executable, sizeof made->executable - 1);
    made->executable[size > 0 ? size : 0] = '\0';
    atomic_store(&made->files[0].state, 2);
    memcpy(made->magic, PART_MAGIC, sizeof PART_MAGIC);
    return made;
}

static struct part *the_part(void) {
    struct part *found = atomic_load_explicit(&part, memory_order_acquire);
    if (found || !*prefix || atomic_load_explicit(&broken, memory_order_relaxed) || getpid() != self)
        return found;
    struct part *made = make_part();
    if (!made) {
        atomic_store(&broken, true);
        return NULL;
    }
    /* Of two threads that begin at once, the second one's part stays empty. */
    return atomic_compare_exchange_strong(&part, &found, made) ? made : found;
}

static struct file_record *record_of_path(struct part *in, const char *path) {
    uint32_t hash = 2166136261u;
    size_t length = strlen(path), cut = length < PART_PATH ? 0 : length - PART_PATH + 1;
    for (const char *c = path; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    for (uint32_t probe = 0; probe < PROBES; probe++) {
        uint32_t at = 1 + (hash + probe) % (PART_FILES - 1);
        struct file_record *record = &in->files[at];
        if (!atomic_load_explicit(&roomy[at], memory_order_relaxed)) {
            if (!has_room(record, sizeof *record))
                break;
            atomic_store_explicit(&roomy[at], true, memory_order_relaxed);
        }
        uint32_t state = atomic_load_explicit(&record->state, memory_order_acquire);
        if (state == 0 && atomic_compare_exchange_strong(&record->state, &state, 1)) {
            memcpy(record->path, path + cut, length - cut + 1);
            record->hash = hash;
            atomic_store_explicit(&record->state, 2, memory_order_release);
            return record;
        }
        if (state == 2 && record->hash == hash && strcmp(record->path, path + cut) == 0)
            return record;
    }
    return &in->files[0];
}

/* ---- descriptors ---- */

static struct descriptor *descriptor_of(int fd) {
    return fd >= 0 && fd < DESCRIPTORS ? &descriptors[fd] : NULL;
}

static void own(int fd, struct file_record *owner) {
    int before = atomic_load_explicit(&highest, memory_order_relaxed);
    while (fd > before && !atomic_compare_exchange_weak(&highest, &before, fd))
        ;
    atomic_store_explicit(&descriptors[fd].owner, owner, memory_order_release);
}

static void forget(int fd) {
    struct descriptor *one = descriptor_of(fd);
    if (one)
        atomic_store_explicit(&one->owner, NULL, memory_order_release);
}

/* Where the kernel's own files and devices are, whose size and content are made up, and memory is. */
static bool is_made_up(const char *path) {
    return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0 ||
           strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/memfd:", 7) == 0;
}

__attribute__((noinline)) static struct file_record *regular_file(int fd) {
    char link[40] = "/proc/self/fd/", path[PATH_MAX];
    link[14 + decimal(link + 14, (uint64_t)fd)] = '\0';
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = '\0';
    if (size <= 0 || (is_made_up(path) && strncmp(path, "/dev/shm/", 9) != 0))
        return &nobody;
    struct part *in = the_part();
    return in ? record_of_path(in, path) : atomic_load(&broken) ? &nobody : &none;
}

/* Finds out what a descriptor stands for. Leaves errno alone. Handlers of signals write to terminals and
 * pipes, on stacks of 8 KiB: these are not burdened with the paths above. */
static struct file_record *look(int fd) {
    struct stat about;
    int kept = errno;
    struct file_record *owner = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? regular_file(fd) : &nobody;
    if (owner != &none)
        own(fd, owner);
    errno = kept;
    return owner;
}

/* The record that a call on this descriptor belongs to, or NULL. */
static inline struct file_record *record_of(int fd) {
    struct descriptor *one = descriptor_of(fd);
    if (!one || !*prefix)
        return NULL;
    struct file_record *owner = atomic_load_explicit(&one->owner, memory_order_acquire);
    if (!owner)
        owner = look(fd);
    return owner == &nobody || owner == &none ? NULL : owner;
}

/* ---- counting ---- */

static void count(struct file_record *record, enum operation op, uint64_t bytes, uint64_t began,
                  uint64_t ended) {
    struct calls *calls = &record->calls[op];
    add(&calls->count, 1);
    add(&calls->time, ended - began);
    if (bytes) {
        uint64_t least = value(&calls->least);
        add(&calls->bytes, bytes);
        if (!least || bytes + 1 < least)
            put(&calls->least, bytes + 1);
        if (bytes > value(&calls->most))
            put(&calls->most, bytes);
    }
}

static void count_sizes(struct direction *way, uint64_t bytes, uint64_t began, uint64_t ended) {
    static const uint64_t limits[SIZE_BINS - 1] = {100,     1024,     10240,     102400,    1048576,
                                                   4194304, 10485760, 104857600, 1073741824};
    int bin = 0;
    while (bin < SIZE_BINS - 1 && bytes > limits[bin])
        bin++;
    add(&way->bins[bin], 1);
    for (int i = 0; i < TOP; i++) {
        uint64_t size = value(&way->top[i].size);
        if (!size) {
            put(&way->top[i].size, bytes);
            size = bytes;
        }
        if (size == bytes) {
            add(&way->top[i].count, 1);
            break;
        }
    }
    if (!value(&way->first))
        put(&way->first, began);
    put(&way->last, ended);
}

static void count_order(struct direction *way, struct descriptor *one, int writes, int64_t place,
                        uint64_t bytes) {
    int64_t start = one->last[writes].start, step = place - start;
    if (place == one->last[writes].end)
        add(&way->contiguous, 1);
    else if (step && step == one->last[writes].step)
        add(&way->strided, 1);
    else
        add(&way->random, 1);
    one->last[writes].start = place;
    one->last[writes].end = place + (int64_t)bytes;
    one->last[writes].step = step;
}

/* place: -1 where the file's own position counts. */
static void moved(int fd, enum operation op, bool writes, ssize_t bytes, int64_t place, uint64_t began) {
    struct file_record *record = record_of(fd);
    if (!record)
        return;
    uint64_t ended = now();
    count(record, op, bytes > 0 ? (uint64_t)bytes : 0, began, ended);
    if (bytes <= 0)
        return;
    struct descriptor *one = &descriptors[fd];
    if (place < 0) {
        place = one->position;
        one->position = place + bytes;
    }
    count_sizes(&record->way[writes], (uint64_t)bytes, began, ended);
    count_order(&record->way[writes], one, writes, place, (uint64_t)bytes);
}

static void did(int fd, enum operation op, uint64_t bytes, uint64_t began) {
    struct file_record *record = record_of(fd);
    if (record)
        count(record, op, bytes, began, now());
}

static void met(enum metadata kind, uint64_t began) {
    struct part *in = *prefix ? atomic_load_explicit(&part, memory_order_acquire) : NULL;
    if (in) {
        add(&in->metadata[kind].count, 1);
        add(&in->metadata[kind].time, now() - began);
    }
}

static void opened(int fd, uint64_t began) {
    int kept = errno;
    struct descriptor *one = descriptor_of(fd);
    if (*prefix && fd < 0)
        met(FAILED_OPEN, began);
    if (!*prefix || !one || getpid() != self)
        return;
    uint64_t ended = now();
    struct file_record *record = look(fd);
    one->position = 0;
    for (int way = 0; way < 2; way++)
        one->last[way].start = one->last[way].end = one->last[way].step = 0;
    if (record != &nobody && record != &none)
        count(record, OPEN, 0, began, ended);
    errno = kept;
}

/* Before the call, because afterwards the number may already be another thread's. */
static struct file_record *closing(int fd) {
    struct descriptor *one = descriptor_of(fd);
    if (!one || !*prefix)
        return NULL;
    struct file_record *owner = atomic_load_explicit(&one->owner, memory_order_acquire);
    forget(fd);
    return !owner || owner == &nobody || owner == &none || getpid() != self ? NULL : owner;
}

static void closed(struct file_record *record, uint64_t began) {
    if (!record)
        return;
    uint64_t ended = now();
    count(record, CLOSE, 0, began, ended);
    for (int way = 0; way < 2; way++)
        if (value(&record->way[way].first))
            put(&record->way[way].last, ended);
}

/* ---- the process ---- */

static void forget_all(unsigned first, unsigned last) {
    int most = atomic_load(&highest);
    for (unsigned fd = first; most >= 0 && fd <= (unsigned)most && fd <= last; fd++)
        forget((int)fd);
}

/* A child has descriptors of its own, and a part of its own as soon as it does something. */
static void in_child(void) {
    atomic_store(&part, NULL);
    atomic_store(&broken, false);
    for (int i = 0; i < PART_FILES; i++)
        atomic_store_explicit(&roomy[i], false, memory_order_relaxed);
    self = getpid();
    forget_all(0, DESCRIPTORS);
}

static int number(const char *const *names) {
    for (; *names; names++) {
        const char *text = getenv(*names);
        if (text && *text >= '0' && *text <= '9')
            return (int)strtol(text, NULL, 10);
    }
    return -1;
}

/* Variables are read here: later, another thread may be changing them. */
__attribute__((constructor)) static void begin(void) {
    const char *given = getenv("STRIPEWISE_PROCESSES");
    size_t length = given ? strlen(given) : 0;
    if (!given || *given != '/' || length >= sizeof prefix)
        return;
    self = getpid();
    rank = number((const char *[]){"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID",
                                   "FLUX_TASK_RANK", "PALS_RANKID", "RANK", NULL});
    ranks = number((const char *[]){"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS",
                                    "SLURM_NTASKS", "WORLD_SIZE", NULL});
    pthread_atfork(NULL, NULL, in_child);
    /* Threads of other libraries may be there: they begin to count when all else is ready. */
    for (size_t at = 1; at <= length; at++)
        prefix[at] = given[at];
    atomic_thread_fence(memory_order_release);
    *prefix = '/';
}

__attribute__((destructor)) static void end(void) {
    struct part *in = atomic_load(&part);
    if (in && getpid() == self)
        put(&in->end, now());
}

/* ---- the calls ---- */

#define NEXT(NAME, RESULT, ...)                                                                              \
    static RESULT (*_Atomic found)(__VA_ARGS__);                                                             \
    RESULT (*next)(__VA_ARGS__) = atomic_load_explicit(&found, memory_order_relaxed);                        \
    if (!next) {                                                                                             \
        next = (RESULT (*)(__VA_ARGS__))dlsym(RTLD_NEXT, NAME);                                              \
        atomic_store_explicit(&found, next, memory_order_relaxed);                                           \
    }

/* Of newer calls: programs look them up, find these, and then do without them. */
#define IF_THERE                                                                                             \
    if (!next) {                                                                                             \
        errno = ENOSYS;                                                                                      \
        return -1;                                                                                           \
    }

#define TYPES(...) __VA_ARGS__

/* A call that moves data through a descriptor. */
#define TRANSFER(NAME, OP, WRITES, PLACE, PARAMETERS, TYPED, ...)                                            \
    EXPORT ssize_t NAME PARAMETERS {                                                                         \
        NEXT(#NAME, ssize_t, TYPED)                                                                          \
        IF_THERE                                                                                             \
        uint64_t began = *prefix ? now() : 0;                                                                \
        ssize_t bytes = next(__VA_ARGS__);                                                                   \
        if (*prefix)                                                                                         \
            moved(fd, OP, WRITES, bytes, PLACE, began);                                                      \
        return bytes;                                                                                        \
    }

TRANSFER(read, READ, false, -1, (int fd, void *b, size_t n), TYPES(int, void *, size_t), fd, b, n)
TRANSFER(write, WRITE, true, -1, (int fd, const void *b, size_t n), TYPES(int, const void *, size_t), fd, b,
         n)
TRANSFER(pread, PREAD, false, o, (int fd, void *b, size_t n, off_t o), TYPES(int, void *, size_t, off_t), fd,
         b, n, o)
TRANSFER(pread64, PREAD, false, o, (int fd, void *b, size_t n, off64_t o),
         TYPES(int, void *, size_t, off64_t), fd, b, n, o)
TRANSFER(pwrite, PWRITE, true, o, (int fd, const void *b, size_t n, off_t o),
         TYPES(int, const void *, size_t, off_t), fd, b, n, o)
TRANSFER(pwrite64, PWRITE, true, o, (int fd, const void *b, size_t n, off64_t o),
         TYPES(int, const void *, size_t, off64_t), fd, b, n, o)
TRANSFER(readv, READ, false, -1, (int fd, const struct iovec *v, int n),
         TYPES(int, const struct iovec *, int), fd, v, n)
TRANSFER(writev, WRITE, true, -1, (int fd, const struct iovec *v, int n),
         TYPES(int, const struct iovec *, int), fd, v, n)
TRANSFER(preadv, PREAD, false, o, (int fd, const struct iovec *v, int n, off_t o),
         TYPES(int, const struct iovec *, int, off_t), fd, v, n, o)
TRANSFER(preadv64, PREAD, false, o, (int fd, const struct iovec *v, int n, off64_t o),
         TYPES(int, const struct iovec *, int, off64_t), fd, v, n, o)
TRANSFER(pwritev, PWRITE, true, o, (int fd, const struct iovec *v, int n, off_t o),
         TYPES(int, const struct iovec *, int, off_t), fd, v, n, o)
TRANSFER(pwritev64, PWRITE, true, o, (int fd, const struct iovec *v, int n, off64_t o),
         TYPES(int, const struct iovec *, int, off64_t), fd, v, n, o)
#define TRANSFER_FLAGS(NAME, OP, WRITES, OFFSET)                                                             \
    TRANSFER(NAME, OP, WRITES, o, (int fd, const struct iovec *v, int n, OFFSET o, int f),                   \
             TYPES(int, const struct iovec *, int, OFFSET, int), fd, v, n, o, f)
TRANSFER_FLAGS(preadv2, PREAD, false, off_t)
TRANSFER_FLAGS(preadv64v2, PREAD, false, off64_t)
TRANSFER_FLAGS(pwritev2, PWRITE, true, off_t)
TRANSFER_FLAGS(pwritev64v2, PWRITE, true, off64_t)
/* Checked forms, which programs compiled with _FORTIFY_SOURCE call. */
TRANSFER(__read_chk, READ, false, -1, (int fd, void *b, size_t n, size_t s),
         TYPES(int, void *, size_t, size_t), fd, b, n, s)
TRANSFER(__pread_chk, PREAD, false, o, (int fd, void *b, size_t n, off_t o, size_t s),
         TYPES(int, void *, size_t, off_t, size_t), fd, b, n, o, s)
TRANSFER(__pread64_chk, PREAD, false, o, (int fd, void *b, size_t n, off64_t o, size_t s),
         TYPES(int, void *, size_t, off64_t, size_t), fd, b, n, o, s)

/* Copies within the kernel: read from one file and written to the other. */
#define COPY(NAME, IN, OUT, PARAMETERS, TYPED, ...)                                                          \
    EXPORT ssize_t NAME PARAMETERS {                                                                         \
        NEXT(#NAME, ssize_t, TYPED)                                                                          \
        IF_THERE                                                                                             \
        uint64_t began = *prefix ? now() : 0;                                                                \
        ssize_t bytes = next(__VA_ARGS__);                                                                   \
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

/* Counted when they are queued: threads of the C library carry them out unseen. */
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

/* A call on a descriptor that moves no data; BYTES may name its parameters. */
#define ON_FILE(NAME, RESULT, OP, BYTES, PARAMETERS, TYPED, ...)                                             \
    EXPORT RESULT NAME PARAMETERS {                                                                          \
        NEXT(#NAME, RESULT, TYPED)                                                                           \
        uint64_t began = *prefix ? now() : 0;                                                                \
        RESULT result = next(__VA_ARGS__);                                                                   \
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
        did(fd, MMAP, size, began);                                                                          \
        return memory;                                                                                       \
    }

MAPS(mmap, off_t)
MAPS(mmap64, off64_t)

/* ---- opening and closing ---- */

#define MODE_OF(flags)                                                                                       \
    mode_t mode = 0;                                                                                         \
    if (((flags) & O_CREAT) || ((flags) & O_TMPFILE) == O_TMPFILE) {                                         \
        va_list rest;                                                                                        \
        va_start(rest, flags);                                                                               \
        mode = va_arg(rest, mode_t);                                                                         \
        va_end(rest);                                                                                        \
    }

#define OPENS(NAME)                                                                                          \
    EXPORT int NAME(const char *path, int flags, ...) {                                                      \
        MODE_OF(flags)                                                                                       \
        NEXT(#NAME, int, const char *, int, ...)                                                             \
        uint64_t began = *prefix ? now() : 0;                                                                \
        int fd = next(path, flags, mode);                                                                    \
        opened(fd, began);                                                                                   \
        return fd;                                                                                           \
    }
#define OPENS_AT(NAME)                                                                                       \
    EXPORT int NAME(int folder, const char *path, int flags, ...) {                                          \
        MODE_OF(flags)                                                                                       \
        NEXT(#NAME, int, int, const char *, int, ...)                                                        \
        uint64_t began = *prefix ? now() : 0;                                                                \
        int fd = next(folder, path, flags, mode);                                                            \
        opened(fd, began);                                                                                   \
        return fd;                                                                                           \
    }
/* Other calls whose result is a descriptor. */
#define MAKES(NAME, PARAMETERS, TYPED, ...)                                                                  \
    EXPORT int NAME PARAMETERS {                                                                             \
        NEXT(#NAME, int, TYPED)                                                                              \
        uint64_t began = *prefix ? now() : 0;                                                                \
        int fd = next(__VA_ARGS__);                                                                          \
        opened(fd, began);                                                                                   \
        return fd;                                                                                           \
    }

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)
MAKES(creat, (const char *path, mode_t mode), TYPES(const char *, mode_t), path, mode)
MAKES(creat64, (const char *path, mode_t mode), TYPES(const char *, mode_t), path, mode)
MAKES(__open_2, (const char *path, int flags), TYPES(const char *, int), path, flags)
MAKES(__open64_2, (const char *path, int flags), TYPES(const char *, int), path, flags)
MAKES(__openat_2, (int at, const char *path, int flags), TYPES(int, const char *, int), at, path, flags)
MAKES(__openat64_2, (int at, const char *path, int flags), TYPES(int, const char *, int), at, path, flags)
MAKES(mkstemp, (char *path), TYPES(char *), path)
MAKES(mkstemp64, (char *path), TYPES(char *), path)
MAKES(mkostemp, (char *path, int flags), TYPES(char *, int), path, flags)
MAKES(mkostemp64, (char *path, int flags), TYPES(char *, int), path, flags)

EXPORT int close(int fd) {
    NEXT("close", int, int)
    struct file_record *record = closing(fd);
    uint64_t began = record ? now() : 0;
    int code = next(fd);
    int kept = errno;
    closed(record, began);
    errno = kept;
    return code;
}

EXPORT int dup2(int from, int to) {
    NEXT("dup2", int, int, int)
    if (from != to)
        forget(to);
    return next(from, to);
}

EXPORT int dup3(int from, int to, int flags) {
    NEXT("dup3", int, int, int, int)
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

/* ---- streams ---- */

#define STREAMS(NAME)                                                                                        \
    EXPORT FILE *NAME(const char *path, const char *mode) {                                                  \
        NEXT(#NAME, FILE *, const char *, const char *)                                                      \
        uint64_t began = *prefix ? now() : 0;                                                                \
        FILE *stream = next(path, mode);                                                                     \
        opened(stream ? fileno(stream) : -1, began);                                                         \
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
        opened(again ? fileno(again) : -1, began);                                                           \
        return again;                                                                                        \
    }

REOPENS(freopen)
REOPENS(freopen64)

EXPORT int fclose(FILE *stream) {
    NEXT("fclose", int, FILE *)
    struct file_record *record = *prefix && stream ? closing(fileno(stream)) : NULL;
    uint64_t began = record ? now() : 0;
    int code = next(stream);
    int kept = errno;
    closed(record, began);
    errno = kept;
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
        add(&record->calls[FWRITE].time, ended - began);
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

/* ---- ends without destructors ---- */

#define EXITS(NAME)                                                                                          \
    EXPORT void NAME(int code) {                                                                             \
        end();                                                                                               \
        for (;;)                                                                                             \
            syscall(SYS_exit_group, code);                                                                   \
    }

EXITS(_exit)
EXITS(_Exit)

/* ---- metadata ---- */

#define ASKS(NAME, KIND, PARAMETERS, TYPED, ...)                                                             \
    EXPORT int NAME PARAMETERS {                                                                             \
        NEXT(#NAME, int, TYPED)                                                                              \
        IF_THERE                                                                                             \
        uint64_t began = *prefix ? now() : 0;                                                                \
        int result = next(__VA_ARGS__);                                                                      \
        met(KIND, began);                                                                                    \
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
    met(LIST, began);
    return list;
}
