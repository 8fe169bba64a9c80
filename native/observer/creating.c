/* SPDX-License-Identifier: BSD-3-Clause
 * Files that the program creates. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "caller.h"
#include "creating.h"
#include "descriptors.h"

#include "../core/layout.h"

_Atomic(const struct acts *) acts;
static bool told;

void read_layouts_told(void) {
    told = getenv("STRIPEWISE_LAYOUT") != NULL;
}

void link_of(int fd, char link[40]) {
    memcpy(link, "/proc/self/fd/", 14);
    link[14 + decimal(link + 14, (uint64_t)fd)] = '\0';
}

bool takes_empty(const struct sw_file_system *system) {
    return system->fixed && !system->fixed(&(struct stat){.st_mode = S_IFREG});
}

void say(struct creation *one, const char *why) {
    size_t length = strlen(why), most = sizeof one->why - 1;
    memcpy(one->why, why, length < most ? length : most);
}

static bool may_look(void) {
    return told && *prefix && !inside && getpid() == self && has_stack();
}

void before_create(struct creation *one, const void *caller, int folder, const char *path, int flags,
                   mode_t mode) {
    one->error = errno;
    one->flags = flags;
    /* With O_PATH, nothing is created. */
    one->creates = told && (flags & (O_CREAT | O_PATH)) == O_CREAT && may_look() && !within(caller);
    one->chosen = one->laid = one->failed = one->added = false;
    one->system = NULL;
    memset(one->why, 0, sizeof one->why);
    const struct acts *by = acting();
    if (!one->creates || !by || !by->before_create)
        return;
    inside = true;
    by->before_create(one, folder, path, mode);
    inside = false;
    errno = one->error;
}

bool again(struct creation *one, int fd, int flags) {
    if (fd >= 0 || !one->added || errno != EEXIST)
        return false;
    one->flags = flags;
    one->system = NULL;
    say(one, "the file exists");
    errno = one->error;
    return true;
}

void tell_layout(int fd, struct file_record *record, bool by_commands) {
    char link[40], path[PATH_MAX];
    struct sw_layout layout;
    uint32_t nothing = 0;
    if (!atomic_compare_exchange_strong(&record->told, &nothing, 1))
        return;
    link_of(fd, link);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = '\0';
    const struct sw_file_system *system = sw_layout_place(path);
    if (!system || (!takes_empty(system) && !by_commands) || !sw_layout_read(path, &layout))
        return;
    for (int i = 0; i < SW_LAYOUT_NUMBERS; i++)
        record->layout[i] = layout.numbers[i];
    record->place = layout.place;
}

void after_create(struct creation *one, int fd) {
    if (!one->creates || fd < 0)
        return;
    int kept = errno;
    struct file_record *record = record_of(fd);
    if (record) {
        const struct acts *by = acting();
        inside = true;
        if (by && by->after_create)
            by->after_create(one, fd, record);
        else
            tell_layout(fd, record, false);
        inside = false;
    }
    errno = kept;
}

void after_new(int fd) {
    struct creation one = {.creates = may_look()};
    int kept = errno;
    if (!one.creates || fd < 0 || !record_of(fd))
        return;
    const struct acts *by = acting();
    if (by && by->made_up) {
        inside = true;
        by->made_up(&one, fd);
        inside = false;
    }
    errno = kept;
    after_create(&one, fd);
}
