/* SPDX-License-Identifier: BSD-3-Clause
 * Room on storage for what a program goes on writing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "../observer/descriptors.h"
#include "accelerator.h"
#include "small_reads.h"

#define SMALL 16 /* no room is taken for less than this part of it */
#define SPARE 16 /* nor if the file system has not so many times as much left */
#define NEVER (-1)

/* Local ones, whose leases tell whether anybody has a file open, and that keep what is beyond its end until
 * it is cut off. */
static const uint32_t kept_until_cut[] = {
    0xef53u,     /* ext4 */
    0x58465342u, /* XFS */
    0xf2f52010u, /* F2FS */
};

/* Whether the end may be cut off later: that takes rights from programs that run with those of their owner.
 */
static bool may_be_cut(int fd) {
    struct stat about;
    return fstat(fd, &about) == 0 && about.st_uid == geteuid() && (about.st_mode & S_IWUSR) &&
           !(about.st_mode & (S_ISUID | S_ISGID)) && fgetxattr(fd, "security.capability", NULL, 0) < 0;
}

static bool has_plenty(int fd, int64_t size) {
    struct statfs about;
    return fstatfs(fd, &about) == 0 && (int64_t)about.f_bavail > (size / about.f_bsize + 1) * SPARE;
}

void allocate_ahead(int fd, struct file_record *record, int64_t end) {
    struct descriptor *one = &descriptors[fd];
    int64_t room = asked[SET_PREALLOCATE], from = one->allocated;
    if (from == NEVER || end < room / SMALL || end + room / 2 <= from)
        return;
    if (from < end)
        from = end;
    bool taken = one->empty && lies_on(fd, kept_until_cut, sizeof kept_until_cut / sizeof *kept_until_cut) &&
                 may_be_cut(fd) && has_plenty(fd, room) &&
                 syscall(SYS_fallocate, fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)room) == 0;
    if (taken)
        one->extended = true;
    one->allocated = taken ? from + room : NEVER;
    count_setting(record, SET_PREALLOCATE, taken);
}

int before_giving_back(int fd) {
    struct descriptor *one = descriptor_of(fd);
    struct file_record *owner = one ? atomic_load_explicit(&one->owner, memory_order_acquire) : NULL;
    /* A child has not looked at what it inherits. */
    if (!owner || !atomic_exchange(&one->extended, false) || getpid() != self)
        return -1;
    int kept = errno;
    int own = reopen(fd, O_WRONLY);
    errno = kept;
    return own;
}

/* Whoever opens the file meanwhile waits, and this process gets a signal, which ends it unless it is one that
 * is ignored. */
void give_back(int own) {
    struct stat about;
    if (own < 0)
        return;
    int kept = errno;
    if (syscall(SYS_fcntl, own, F_SETSIG, SIGURG) == 0 && syscall(SYS_fcntl, own, F_SETLEASE, F_WRLCK) == 0) {
        if (may_be_cut(own) && fstat(own, &about) == 0 && syscall(SYS_ftruncate, own, about.st_size) == 0) {
            struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, about.st_mtim};
            syscall(SYS_utimensat, own, NULL, times, 0);
        }
        syscall(SYS_fcntl, own, F_SETLEASE, F_UNLCK);
    }
    /* The program's own close let go of its record locks. */
    syscall(SYS_close, own);
    errno = kept;
}
