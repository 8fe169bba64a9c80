/* SPDX-License-Identifier: BSD-3-Clause
 * What each descriptor of the process stands for. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "acts.h"
#include "caller.h"
#include "descriptors.h"

struct descriptor descriptors[DESCRIPTORS];
struct file_record nobody, none;
static _Atomic(int) highest = -1;

void own(int fd, struct file_record *owner) {
    int before = atomic_load_explicit(&highest, memory_order_relaxed);
    while (fd > before && !atomic_compare_exchange_weak(&highest, &before, fd))
        ;
    atomic_fetch_add_explicit(&descriptors[fd].turn, 1, memory_order_relaxed);
    atomic_store_explicit(&descriptors[fd].owner, owner, memory_order_release);
}

void forget(int fd) {
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
    struct descriptor *one = &descriptors[fd];
    const struct acts *by = acting();
    one->chosen = by && by->is_chosen(path);
    /* It may be a copy of another, or was there before. */
    off_t place = (off_t)syscall(SYS_lseek, fd, (off_t)0, SEEK_CUR);
    one->position = one->ahead = place < 0 ? 0 : place;
    one->direct = false;
    for (int way = 0; way < 2; way++) {
        one->last[way].start = one->last[way].end = one->position;
        one->last[way].step = 0;
    }
    struct part *in = the_part();
    return in ? record_of_path(in, path) : atomic_load(&broken) ? &nobody : &none;
}

struct file_record *look(int fd) {
    struct stat about;
    int kept = errno;
    struct file_record *owner = &nobody;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
        owner = on_small_stack() ? &none : regular_file(fd);
    if (owner != &none)
        own(fd, owner);
    errno = kept;
    return owner;
}

void forget_all(unsigned first, unsigned last) {
    int most = atomic_load(&highest);
    for (unsigned fd = first; most >= 0 && fd <= (unsigned)most && fd <= last; fd++)
        forget((int)fd);
}
