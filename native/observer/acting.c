/* SPDX-License-Identifier: BSD-3-Clause
 * What is done to chosen files beside the program's own calls. By system calls: those of the C library are
 * counted as the program's. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "acting.h"
#include "allocating.h"
#include "descriptors.h"
#include "settings.h"

/* Whether a file is in memory, where the kernel takes any advice and follows none. */
static bool in_memory(int fd) {
    struct statfs about;
    return fstatfs(fd, &about) == 0 && (about.f_type == TMPFS_MAGIC || about.f_type == RAMFS_MAGIC);
}

static bool advise(int fd) {
    static const int advice[] = {POSIX_FADV_NORMAL, POSIX_FADV_SEQUENTIAL, POSIX_FADV_RANDOM,
                                 POSIX_FADV_WILLNEED};
    return (fcntl(fd, F_GETFL) & O_ACCMODE) != O_WRONLY && !in_memory(fd) &&
           syscall(SYS_fadvise64, fd, (off_t)0, (off_t)0, advice[asked[SET_ADVICE]]) == 0;
}

void act_at_open(int fd, struct file_record *record) {
    int kept = errno;
    for (int i = 0; i < SETTINGS; i++) {
        if (!asked[i] && is_refused((enum setting)i))
            count_setting(record, (enum setting)i, false);
    }
    if (asked[SET_ADVICE])
        count_setting(record, SET_ADVICE, advise(fd));
    errno = kept;
}

#define READAHEAD_PIECE 131072 /* the kernel may read no more at a call, whatever it is asked for */

static void read_ahead(int fd, struct file_record *record, int64_t end) {
    struct descriptor *one = &descriptors[fd];
    int64_t room = asked[SET_READAHEAD], ahead = one->ahead;
    struct stat about;
    if (ahead < end || ahead > end + room)
        ahead = end;
    if (ahead - end > room - room / 4 || fstat(fd, &about) != 0)
        return;
    int64_t until = end + room < about.st_size ? end + room : about.st_size;
    if (ahead >= until)
        return; /* the file ends before */
    bool taken = !(fcntl(fd, F_GETFL) & O_DIRECT) && !in_memory(fd);
    for (int64_t size; taken && ahead < until; ahead += size) {
        size = until - ahead < READAHEAD_PIECE ? until - ahead : READAHEAD_PIECE;
        taken = syscall(SYS_readahead, fd, (off_t)ahead, (size_t)size) == 0;
    }
    one->ahead = ahead;
    count_setting(record, SET_READAHEAD, taken);
}

static void write_behind(int fd, struct file_record *record, int64_t place, int64_t end) {
    struct descriptor *one = &descriptors[fd];
    int64_t from = one->written;
    if (from > place)
        one->written = from = place;
    if (end - from < asked[SET_WRITE_BEHIND])
        return;
    one->written = end;
    count_setting(
        record, SET_WRITE_BEHIND,
        !(fcntl(fd, F_GETFL) & O_DIRECT) && !in_memory(fd) &&
            syscall(SYS_sync_file_range, fd, (off_t)from, (off_t)(end - from), SYNC_FILE_RANGE_WRITE) == 0);
}

void act_after(int fd, struct file_record *record, bool writes, bool sequential, int64_t place,
               int64_t bytes) {
    enum setting which = writes ? SET_WRITE_BEHIND : SET_READAHEAD;
    int kept = errno;
    if (writes && sequential && asked[SET_PREALLOCATE])
        allocate_ahead(fd, record, place + bytes);
    if (asked[which] && (!sequential || descriptors[fd].direct)) {
        count_setting(record, which, false);
        if (writes)
            descriptors[fd].written = place;
    } else if (asked[which] && writes)
        write_behind(fd, record, place, place + bytes);
    else if (asked[which])
        read_ahead(fd, record, place + bytes);
    errno = kept;
}
