/* SPDX-License-Identifier: BSD-3-Clause
 * What is done to chosen files beside the program's own calls. By system calls: those of the C library are
 * counted as the program's. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "../observer/descriptors.h"
#include "accelerator.h"
#include "small_reads.h"

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

static void act_at_open(int fd, struct file_record *record) {
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

static void act_after(int fd, struct file_record *record, bool sequential, int64_t end) {
    int kept = errno;
    if (sequential && !descriptors[fd].direct)
        read_ahead(fd, record, end);
    else
        count_setting(record, SET_READAHEAD, false);
    errno = kept;
}

/* ---- small reads ---- */

/* The record of a file whose reads of this size may be answered; else NULL. */
static struct file_record *concerned(int fd, size_t size) {
    struct file_record *record = record_of(fd);
    return record && is_small_read(size) &&
                   atomic_load_explicit(&descriptors[fd].chosen, memory_order_relaxed)
               ? record
               : NULL;
}

static ssize_t count_answer(struct file_record *record, ssize_t bytes) {
    struct part *in = atomic_load_explicit(&part, memory_order_acquire);
    for (int i = SET_CLUSTER_THRESHOLD; i <= SET_PREFETCH_SIZE; i++)
        if (asked[i])
            count_setting(record, (enum setting)i, bytes >= 0);
    if (in) {
        put(&in->windows.fetches, value(&small_reads.fetches));
        put(&in->windows.fetched, value(&small_reads.fetched));
        put(&in->windows.used, value(&small_reads.used));
        put(&in->windows.memory, value(&small_reads.memory));
    }
    return bytes;
}

static ssize_t read_otherwise(int fd, void *data, size_t size, int64_t place) {
    struct file_record *record =
        atomic_load_explicit(&accelerates, memory_order_relaxed) ? concerned(fd, size) : NULL;
    ssize_t bytes = record ? count_answer(record, answer_read(fd, data, size, place)) : -1;
    return bytes < 0 && asked[SET_DIRECT] ? go_direct(fd, false, data, size, place) : bytes;
}

static ssize_t read_pieces_otherwise(int fd, const struct iovec *pieces, int count, int64_t place) {
    if (!atomic_load_explicit(&accelerates, memory_order_relaxed) || (place == HERE && count != 1))
        return -1;
    size_t size = size_of_pieces(pieces, count);
    struct file_record *record = concerned(fd, size);
    return record ? count_answer(record, answer_pieces(fd, pieces, count, size, place)) : -1;
}

static ssize_t write_otherwise(int fd, const void *data, size_t size, int64_t place) {
    return go_direct(fd, true, (void *)data, size, place);
}

static void before_write(struct own_write *own, int fd, int64_t place) {
    own->number = 0;
    /* A write to a pipe or a terminal may last. */
    if (fd >= 0 && (!descriptor_of(fd) || record_of(fd)) &&
        atomic_load_explicit(&accelerates, memory_order_relaxed))
        begin_write(own, fd, place);
}

static void after_write(struct own_write *own, int fd, const void *data, ssize_t bytes, int64_t place) {
    if (own->number)
        end_write(own, fd, data, bytes, place);
}

/* ---- the process ---- */

static void mapped_somewhere(int fd, int flags) {
    if (atomic_load_explicit(&accelerates, memory_order_relaxed))
        mapped(fd, flags);
    if (asked[SET_DIRECT])
        mapped_beside_direct(fd, flags);
}

static void leave_all(void) {
    leave_small_reads();
    leave_direct();
}

static void read_small_reads(void) {
    static const int64_t usual[] = {2, 1 << 20, 100, 20 << 20};
    const char *sole = getenv("STRIPEWISE_SOLE_WRITER");
    int64_t of[4];
    for (int i = 0; i < 4; i++)
        of[i] = asked[SET_CLUSTER_THRESHOLD + i] ? asked[SET_CLUSTER_THRESHOLD + i] : usual[i];
    begin_small_reads(&(struct window_settings){of[0], of[1], of[2], of[3]}, sole && strcmp(sole, "1") == 0);
}

const struct acts *read_acts(void) {
    static struct acts all;
    read_settings();
    const bool lays = read_layouts(), small = asked[SET_CLUSTER_THRESHOLD], direct = asked[SET_DIRECT];
    if (!any_asked)
        return NULL;
    if (small)
        read_small_reads();
    all = (struct acts){
        .is_chosen = is_chosen,
        .opened = act_at_open,
        .read_on = asked[SET_READAHEAD] ? act_after : NULL,
        .read = small || direct ? read_otherwise : NULL,
        .read_pieces = small ? read_pieces_otherwise : NULL,
        .write = direct ? write_otherwise : NULL,
        .before_write = before_write,
        .after_write = small ? after_write : NULL,
        .mapped = small || direct ? mapped_somewhere : NULL,
        .before_lock = direct ? lock_beside_direct : NULL,
        .before_create = lays ? lay_before : NULL,
        .after_create = lays ? lay_after : NULL,
        .made_up = lays ? lay_made_up : NULL,
        .opened_stream = asked[SET_STREAM_BUFFER] ? buffer_stream : NULL,
        .before_stream_close = asked[SET_STREAM_BUFFER] ? take_buffer : NULL,
        .after_stream_close = free_buffer,
        .in_child = leave_all,
    };
    return &all;
}
