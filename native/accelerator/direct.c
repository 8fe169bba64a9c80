/* SPDX-License-Identifier: BSD-3-Clause
 * Large reads and writes past the page cache. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../observer/creating.h"
#include "../observer/descriptors.h"
#include "accelerator.h"
#include "small_reads.h"

#define LARGEST 0x7ffff000 /* what a call moves at most */

/* File systems that keep the page cache and such calls the same. Not Btrfs: a program that changes what it is
 * writing would leave a wrong checksum. */
static const uint32_t kept_the_same[] = {
    0xef53u,     /* ext2, ext3, ext4 */
    0x58465342u, /* XFS */
    0xf2f52010u, /* F2FS */
    0x00c36400u, /* CephFS */
    0x0bd00bd0u, /* Lustre */
};

/* Lustre takes such calls at any place, size and memory since 2.16, and answers EINVAL before. */
static const uint32_t takes_any[] = {0x0bd00bd0u};

static atomic_bool wants_pages; /* it has answered so */

#define TRIES 100000 /* a call lasts as long as the storage takes */

static atomic_bool mapped_for_stores;
static atomic_int under_way;

/* ---- descriptors of our own for files that the program has open ----
 * Another open file, with flags and a position of its own, so that nothing changes for whoever shares the
 * program's. They last for one call: a program may close whatever is open, and use the number again. A
 * process loses its record locks on a file with any descriptor that it closes. */

#define LOCK_TRIES 1000 /* a handler of signals may have interrupted the one that is waited for */

static atomic_bool locks;
static atomic_int closing_now;

static int reopen(int fd, int flags) {
    char link[40];
    link_of(fd, link);
    return (int)syscall(SYS_openat, AT_FDCWD, link, flags | O_CLOEXEC);
}

static void close_reopened(int fd) {
    atomic_fetch_add(&closing_now, 1);
    if (!atomic_load(&locks))
        syscall(SYS_close, fd);
    atomic_fetch_sub(&closing_now, 1);
}

void lock_beside_direct(void) {
    atomic_store(&locks, true);
    for (int i = 0; i < LOCK_TRIES && atomic_load(&closing_now); i++)
        sched_yield();
}

/* ---- calls ---- */

/* A descriptor for such calls; -1: there can be none. */
static int open_direct(int fd, bool writes) {
    struct rlimit largest;
    int flags = (int)syscall(SYS_fcntl, fd, F_GETFL), way = writes ? O_WRONLY : O_RDONLY;
    if (flags < 0 || (flags & (O_APPEND | O_DIRECT | O_PATH)) ||
        ((flags & O_ACCMODE) != way && (flags & O_ACCMODE) != O_RDWR) ||
        !lies_on(fd, kept_the_same, sizeof kept_the_same / sizeof *kept_the_same))
        return -1;
    /* A write that is too large is answered by a signal, which must not come twice. */
    if (writes && (getrlimit(RLIMIT_FSIZE, &largest) != 0 || largest.rlim_cur != RLIM_INFINITY))
        return -1;
    return reopen(fd, way | O_DIRECT | (flags & (O_SYNC | O_DSYNC | O_NOATIME)));
}

/* What such a call leaves, as on a full disk, is up to the plain one. */
static ssize_t move_at(int fd, int own, bool writes, void *data, size_t size, int64_t place) {
    if (!writes)
        return (ssize_t)syscall(SYS_pread64, own, data, size, (off_t)place);
    ssize_t done = (ssize_t)syscall(SYS_pwrite64, own, data, size, (off_t)place);
    if (done < 0 || (size_t)done == size)
        return done;
    ssize_t more =
        (ssize_t)syscall(SYS_pwrite64, fd, (char *)data + done, size - (size_t)done, (off_t)(place + done));
    return done + (more > 0 ? more : 0);
}

/* The call that moves the file's position, which other threads and processes may share: it moves the bytes at
 * the place that it claims for them, in one step. */
static ssize_t move_here(int fd, int own, bool writes, void *data, size_t size, size_t page, bool *direct) {
    off_t end = (off_t)syscall(SYS_lseek, fd, (off_t)size, SEEK_CUR), start = end - (off_t)size;
    if (end < 0)
        return -1;
    ssize_t done = (size_t)start % page == 0 ? move_at(fd, own, writes, data, size, start) : -1;
    *direct = done > 0;
    if (done < 0)
        done = (ssize_t)(writes ? syscall(SYS_pwrite64, fd, data, size, start)
                                : syscall(SYS_pread64, fd, data, size, start));
    off_t moved = done > 0 ? (off_t)done : 0;
    if (moved < (off_t)size)
        syscall(SYS_lseek, fd, moved - (off_t)size, SEEK_CUR);
    return done > 0 ? done : -1;
}

/* Reads at the end of the file are short: these are made as ever. */
static bool has_whole(int fd, size_t size, int64_t place) {
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && place <= about.st_size - (int64_t)size;
}

ssize_t go_direct(int fd, bool writes, void *data, size_t size, int64_t place) {
    if (size < (size_t)asked[SET_DIRECT] || size > LARGEST || (place < 0 && place != HERE))
        return -1;
    int kept = errno;
    struct file_record *record = record_of(fd);
    if (!record || !atomic_load_explicit(&descriptors[fd].chosen, memory_order_relaxed) || getpid() != self)
        return -1;
    pthread_testcancel(); /* as the call itself does */
    atomic_fetch_add(&under_way, 1);
    int64_t at = place == HERE ? (int64_t)syscall(SYS_lseek, fd, (off_t)0, SEEK_CUR) : place;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    bool pages = at >= 0 && ((uintptr_t)at | size | (uintptr_t)data) % page == 0;
    bool fits = at >= 0 && (pages || (!atomic_load(&wants_pages) && lies_on(fd, takes_any, 1))) &&
                (writes || has_whole(fd, size, at)) && !atomic_load(&mapped_for_stores) &&
                !atomic_load(&locks);
    int own = fits ? open_direct(fd, writes) : -1;
    ssize_t bytes = -1;
    bool direct = false;
    if (own >= 0) {
        bytes = place == HERE ? move_here(fd, own, writes, data, size, pages ? page : 1, &direct)
                              : move_at(fd, own, writes, data, size, place);
        direct = place == HERE ? direct : bytes > 0;
        if (!pages && !direct)
            atomic_store(&wants_pages, true);
        close_reopened(own);
    }
    atomic_fetch_sub(&under_way, 1);
    if (direct)
        atomic_store_explicit(&descriptors[fd].direct, true, memory_order_relaxed);
    count_setting(record, SET_DIRECT, direct);
    errno = kept;
    return bytes > 0 ? bytes : -1;
}

void mapped_beside_direct(int fd, int flags) {
    int kept = errno;
    if ((flags & MAP_SHARED) && ((int)syscall(SYS_fcntl, fd, F_GETFL) & O_ACCMODE) == O_RDWR && record_of(fd))
        atomic_store(&mapped_for_stores, true);
    for (int i = 0; i < TRIES && atomic_load(&mapped_for_stores) && atomic_load(&under_way); i++)
        sched_yield();
    errno = kept;
}

void leave_direct(void) {
    atomic_store(&under_way, 0);
    atomic_store(&closing_now, 0);
}
