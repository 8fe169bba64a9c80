/* SPDX-License-Identifier: BSD-3-Clause
 * Small reads: see small_reads.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "small_reads.h"

#ifndef MADV_POPULATE_WRITE /* headers of Linux before 5.14 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* Seconds. The coarsest clock of the file systems below counts in seconds, and those of nodes differ. */
#define REST 3
#define TRIES 200
#define PIECES 64 /* of one request; they are on the stack */

/* File systems that tell each reader of a change as soon as the write has ended, whoever wrote. Not here are
 * those that keep what they know of a file for some time, as NFS, BeeGFS and FUSE do. */
static const uint32_t coherent[] = {
    0xef53u,     /* ext2, ext3, ext4 */
    0x58465342u, /* XFS */
    0x9123683eu, /* Btrfs */
    0xf2f52010u, /* F2FS */
    0x2fc12fc1u, /* ZFS */
    0x01021994u, /* tmpfs */
    0x00c36400u, /* CephFS: its capabilities */
    0x0bd00bd0u, /* Lustre: its locks */
};

/* What is known of a file. */
enum { UNKNOWN, COHERENT, OWN_WRITES };

_Atomic(bool) accelerates;
struct small_reads small_reads;
static pid_t self; /* differs in a child of vfork, which shares this memory */
static bool alone; /* no other process writes what this one writes */
static struct windows all;
static size_t page; /* of memory; 0: the kernel cannot tell what can be written */
static atomic_bool held;
static _Atomic(uint64_t) started, ended; /* writes of this process */
static _Atomic(uint64_t) loose;          /* those whose file could not be told that it changed */

static bool take(int tries) {
    for (int i = 0; i < tries; i++) {
        if (!atomic_exchange_explicit(&held, true, memory_order_acquire))
            return true;
        if (i > TRIES)
            sched_yield();
    }
    return false;
}

static void give(void) {
    atomic_store_explicit(&held, false, memory_order_release);
}

/* ---- how a file is ---- */

struct stamp {
    uint64_t of[5];
};

static struct stamp stamp_of(const struct stat *now) {
    return (struct stamp){{(uint64_t)now->st_ctim.tv_sec, (uint64_t)now->st_ctim.tv_nsec,
                           (uint64_t)now->st_mtim.tv_sec, (uint64_t)now->st_mtim.tv_nsec,
                           (uint64_t)now->st_size}};
}

static bool is_at_rest(const struct stat *now) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec - now->st_ctim.tv_sec > REST;
}

bool lies_on(int fd, const uint32_t *magic, size_t count) {
    struct statfs about;
    if (fstatfs(fd, &about) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if ((uint32_t)about.f_type == magic[i])
            return true;
    return false;
}

/* The windows of a file, empty if it has changed; NULL where it is left alone. */
static struct window_file *current(int fd, const struct stat *now) {
    struct window_file *file = windows_file(&all, now->st_dev, now->st_ino);
    struct stamp stamp = stamp_of(now);
    if (!file || file->alone)
        return NULL;
    if (file->state == UNKNOWN) {
        file->alone = !lies_on(fd, coherent, sizeof coherent / sizeof *coherent);
        if (file->alone)
            return NULL;
        file->state = COHERENT;
    }
    uint64_t lost = atomic_load(&loose);
    if (file->loose != lost || memcmp(file->stamp, stamp.of, sizeof stamp.of) != 0) {
        windows_drop(&all, file);
        file->loose = lost;
        memcpy(file->stamp, stamp.of, sizeof stamp.of);
        file->state = COHERENT;
    }
    return file;
}

/* ---- reads ---- */

__attribute__((noinline)) static int64_t fetch_now(int fd, const struct window_fetch *fetch) {
    int64_t got = 0;
    struct iovec pieces[PIECES];
    while (got < fetch->length) {
        int count = 0;
        int64_t begun = got % WINDOW_BLOCK, at = got - begun, left = fetch->length - got;
        for (; count < PIECES && left > 0; count++, at += WINDOW_BLOCK, begun = 0) {
            int64_t length = WINDOW_BLOCK - begun < left ? WINDOW_BLOCK - begun : left;
            pieces[count].iov_base = windows_memory(&all, fetch->blocks[at / WINDOW_BLOCK]) + begun;
            pieces[count].iov_len = (size_t)length;
            left -= length;
        }
        ssize_t bytes = syscall(SYS_preadv, fd, pieces, count, fetch->start + got, 0);
        if (bytes <= 0)
            break;
        got += bytes;
    }
    return got;
}

static bool has_pool(void) {
    if (!all.pool) {
        void *memory = mmap(NULL, WINDOW_BLOCKS * WINDOW_BLOCK, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            accelerates = false;
            return false;
        }
        all.pool = memory;
    }
    return true;
}

static void store(_Atomic(uint64_t) *to, uint64_t amount) {
    atomic_store_explicit(to, amount, memory_order_relaxed);
}

/* With the windows held. */
static void tell(void) {
    store(&small_reads.fetches, all.fetches);
    store(&small_reads.fetched, all.fetched);
    store(&small_reads.used, all.used);
    store(&small_reads.memory, (uint64_t)(all.most * WINDOW_BLOCK));
}

static bool answer_at(int fd, const struct stat *now, void *data, int64_t size, int64_t offset) {
    struct window_fetch fetch;
    int64_t start = 0, length = 0;
    if (!take(TRIES))
        return false;
    struct window_file *file = current(fd, now);
    bool wanted = file && windows_note(&all, file, offset, size, &start, &length);
    bool answered = file && windows_get(&all, file, offset, size, data);
    if (answered)
        tell();
    /* A write that is under way has set the times already. */
    uint64_t writes = atomic_load(&ended);
    bool begun = wanted && !answered && atomic_load(&started) == writes &&
                 (file->state == OWN_WRITES || is_at_rest(now)) && has_pool() &&
                 windows_reserve(&all, file, start, length, now->st_size, &fetch);
    give();
    if (!begun)
        return answered;
    int64_t got = fetch_now(fd, &fetch);
    struct stat then;
    struct stamp before = stamp_of(now), after = before;
    if (fstat(fd, &then) == 0 && then.st_dev == now->st_dev && then.st_ino == now->st_ino)
        after = stamp_of(&then);
    else
        got = 0;
    /* Others hold it for a moment only: who holds it takes no signals' handlers here. */
    if (!take(1000000))
        return false;
    if (!file->filling) { /* this is a child, born in between by a handler */
        give();
        return false;
    }
    if (memcmp(before.of, after.of, sizeof before.of) != 0 || atomic_load(&started) != writes)
        file->stale = true;
    windows_filled(&all, file, &fetch, got);
    answered = windows_get(&all, file, offset, size, data);
    tell();
    give();
    return answered;
}

/* The read that moves the file's position, which other threads and processes may share: what is answered is
 * what the move itself claimed, in one step. */
static ssize_t answer_here(int fd, const struct stat *now, void *data, int64_t size) {
    off_t place = (off_t)syscall(SYS_lseek, fd, (off_t)0, SEEK_CUR);
    if (place < 0 || place > now->st_size - size || !answer_at(fd, now, data, size, place))
        return -1;
    off_t end = (off_t)syscall(SYS_lseek, fd, (off_t)size, SEEK_CUR);
    if (end == place + size)
        return (ssize_t)size;
    if (end < 0)
        return -1;
    ssize_t bytes = (ssize_t)syscall(SYS_pread64, fd, data, (size_t)size, end - size);
    if (bytes < size)
        syscall(SYS_lseek, fd, (off_t)((bytes < 0 ? 0 : bytes) - size), SEEK_CUR);
    return bytes;
}

bool is_small_read(size_t size) {
    return size && size <= (size_t)all.settings.binsize && size <= (size_t)all.settings.prefetch_size &&
           getpid() == self;
}

static bool can_answer(int fd, struct stat *now) {
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) != O_WRONLY && !(flags & (O_DIRECT | O_PATH)) &&
           fstat(fd, now) == 0 && S_ISREG(now->st_mode);
}

/* Whether the program's memory can be used so: else the call itself is to say that it cannot. Kernels before
 * 5.14 do not tell. */
static bool is_memory(const void *data, size_t size, int use) {
    if (!page)
        return true;
    size_t before = (uintptr_t)data % page;
    return madvise((char *)data - before, before + size, use) == 0;
}

size_t size_of_pieces(const struct iovec *pieces, int count) {
    int kept = errno;
    size_t size = 0;
    bool sound =
        count > 0 && count <= PIECES && is_memory(pieces, (size_t)count * sizeof *pieces, MADV_POPULATE_READ);
    for (int i = 0; sound && i < count; i++)
        sound = !__builtin_add_overflow(size, pieces[i].iov_len, &size); /* else the call itself refuses it */
    errno = kept;
    return sound ? size : 0;
}

ssize_t answer_pieces(int fd, const struct iovec *pieces, int count, size_t size, int64_t place) {
    int kept = errno;
    struct stat now;
    if (count == 1)
        return answer_read(fd, pieces->iov_base, pieces->iov_len, place);
    if (place == HERE)
        return -1; /* its position would have to be claimed for all at once */
    pthread_testcancel();
    /* All are answered from the same state of the file, as the call reads them. */
    bool answered = can_answer(fd, &now) && place >= 0 && place <= now.st_size - (int64_t)size;
    for (int i = 0; answered && i < count; i++) {
        if (pieces[i].iov_len)
            answered = is_memory(pieces[i].iov_base, pieces[i].iov_len, MADV_POPULATE_WRITE) &&
                       answer_at(fd, &now, pieces[i].iov_base, (int64_t)pieces[i].iov_len, place);
        place += (int64_t)pieces[i].iov_len;
    }
    errno = kept;
    return answered ? (ssize_t)size : -1;
}

ssize_t answer_read(int fd, void *data, size_t size, int64_t place) {
    int kept = errno;
    struct stat now;
    pthread_testcancel(); /* as the call itself does */
    ssize_t bytes = -1;
    if (can_answer(fd, &now) && is_memory(data, size, MADV_POPULATE_WRITE)) {
        if (place == HERE)
            bytes = answer_here(fd, &now, data, (int64_t)size);
        else if (place >= 0 && place <= now.st_size - (int64_t)size &&
                 answer_at(fd, &now, data, (int64_t)size, place))
            bytes = (ssize_t)size;
    }
    errno = kept;
    return bytes;
}

/* ---- writes of the program ---- */

static int64_t position(int fd) {
    return (int64_t)syscall(SYS_lseek, fd, (off_t)0, SEEK_CUR);
}

/* Only a write that no other of this process overlaps is followed: what two did to the times cannot be told
 * apart. */
void begin_write(struct own_write *own, int fd, int64_t place) {
    struct stat now;
    int kept = errno;
    own->number = atomic_fetch_add(&started, 1) + 1;
    own->file = NULL;
    if (!alone)
        return;
    own->sound = atomic_load(&ended) == own->number - 1;
    int flags = fcntl(fd, F_GETFL);
    if (own->sound && flags >= 0 && fstat(fd, &now) == 0 && S_ISREG(now.st_mode) && take(TRIES)) {
        own->file = current(fd, &now);
        give();
        own->appends = flags & O_APPEND;
        own->place = place < 0 ? position(fd) : place;
        own->size_before = now.st_size;
    }
    errno = kept;
}

/* Empties the windows of the file that was written, which begins anew at rest. */
static void forget_windows(int fd) {
    struct stat now;
    if (fstat(fd, &now) != 0 || !take(TRIES)) {
        atomic_fetch_add(&loose, 1);
        return;
    }
    struct window_file *file = windows_known(&all, now.st_dev, now.st_ino);
    if (file) {
        windows_drop(&all, file);
        file->state = file->state == OWN_WRITES ? COHERENT : file->state;
    }
    give();
}

void end_write(struct own_write *own, int fd, const void *data, ssize_t bytes, int64_t place) {
    struct stat now;
    int kept = errno;
    bool told = false;
    struct window_file *file = own->file;
    bool sound = file && data && bytes > 0 && own->sound && fstat(fd, &now) == 0;
    if (sound && own->appends)
        own->place = now.st_size - bytes;
    sound = sound && (!own->appends || own->place == own->size_before) &&
            (place >= 0 || own->place + bytes == position(fd));
    if (sound && take(TRIES)) {
        /* Nobody waits here: while the file was written, its place may have become another's. */
        if (file->device == now.st_dev && file->inode == now.st_ino && !file->alone &&
            atomic_load(&started) == own->number) {
            struct stamp stamp = stamp_of(&now);
            windows_wrote(&all, file, own->place, bytes, data);
            memcpy(file->stamp, stamp.of, sizeof stamp.of);
            file->state = OWN_WRITES;
            told = true;
        }
        give();
    }
    if (!told)
        forget_windows(fd);
    atomic_fetch_add(&ended, 1);
    errno = kept;
}

/* ---- the process ---- */

void mapped(int fd, int flags) {
    struct stat now;
    int kept = errno;
    if ((flags & MAP_SHARED) && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR && fstat(fd, &now) == 0 &&
        S_ISREG(now.st_mode)) {
        bool taken = take(1000000);
        struct window_file *file = taken ? windows_file(&all, now.st_dev, now.st_ino) : NULL;
        if (file) {
            windows_drop(&all, file);
            file->alone = true;
        } else {
            accelerates = false; /* it could not be remembered */
        }
        if (taken)
            give();
    }
    errno = kept;
}

void begin_small_reads(const struct window_settings *settings, bool sole_writer) {
    windows_begin(&all, settings, NULL);
    self = getpid();
    alone = sole_writer;
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    char *here = (char *)&size - (uintptr_t)&size % size;
    page = madvise(here, size, MADV_POPULATE_WRITE) == 0 ? size : 0;
    accelerates = true;
}

void leave_small_reads(void) {
    /* Another thread was changing them when this process came to be, and is not here to finish. */
    if (!accelerates || atomic_load(&held)) {
        accelerates = false;
        return;
    }
    windows_abandon(&all);
    all.fetches = all.fetched = all.used = 0; /* its parent's */
    all.most = 0;
    self = getpid();
    atomic_store(&started, 0);
    atomic_store(&ended, 0);
}
