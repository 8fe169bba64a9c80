/* SPDX-License-Identifier: BSD-3-Clause
 * Layouts of the files that the program creates. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "../core/layout.h"
#include "../core/plan.h"
#include "../observer/creating.h"
#include "../observer/descriptors.h"
#include "accelerator.h"

#define MOST_LAYOUTS (MOST_SETTINGS - SETTINGS)
#define CLOCKS_APART 2 /* seconds: of the nodes, and of the file system */

static unsigned allowed;
static int count; /* of the settings below */
static struct {
    char text[MOST_NAME]; /* "FILESYSTEM KEY" */
    size_t skip;          /* of the file system's name */
} wanted[MOST_LAYOUTS];

/* ---- what is asked for ---- */

static void read_layout(const char *entry, size_t length) {
    const char *equals = memchr(entry, '=', length);
    size_t name = equals ? (size_t)(equals - entry) : 0, size = equals ? length - name - 1 : 0;
    struct asked_setting *asked_for = &asked_settings[SETTINGS + count];
    if (count == MOST_LAYOUTS || !size || name >= sizeof wanted->text || size >= sizeof asked_for->value) {
        misread++;
        return;
    }
    memcpy(wanted[count].text, entry, name);
    wanted[count].text[name] = '\0';
    if (!sw_layout_key(wanted[count].text)) {
        misread++;
        return;
    }
    wanted[count].skip = strcspn(wanted[count].text, " ");
    memcpy(asked_for->name, wanted[count].text, name + 1);
    memcpy(asked_for->value, equals + 1, size);
    asked_for->state = SETTING_GIVEN;
    count++;
}

bool read_layouts(void) {
    const char *given = getenv("STRIPEWISE_LAYOUT"), *allow = getenv("STRIPEWISE_LAYOUT_ALLOW");
    for (const char *end; given && *given; given = *end ? end + 1 : end) {
        end = strchrnul(given, ',');
        read_layout(given, (size_t)(end - given));
    }
    allowed = (allow && strstr(allow, "composite") ? SW_ALLOW_COMPOSITE : 0u) |
              (allow && strstr(allow, "pool") ? SW_ALLOW_POOL : 0u);
    any_asked |= count > 0;
    sw_layout_by_commands = true;
    return count > 0;
}

static size_t settings_of(const struct sw_file_system *system, struct sw_layout_setting *found) {
    size_t used = 0;
    for (int i = 0; i < count; i++)
        if (sw_file_system_named(wanted[i].text, wanted[i].skip) == system)
            found[used++] = (struct sw_layout_setting){wanted[i].text + wanted[i].skip + 1,
                                                       asked_settings[SETTINGS + i].value};
    return used;
}

/* ---- a file ---- */

/* Whether the program's pointer leads to a path. Only the kernel may find out: its answer is what the call
 * gives. */
static bool is_path(int folder, const char *path) {
    return syscall(SYS_faccessat, folder, path, F_OK) == 0 || (errno != EFAULT && errno != ENAMETOOLONG);
}

/* The path of a file that may not exist yet, its folder's links followed. */
static bool whole_path(int folder, const char *path, char whole[PATH_MAX]) {
    char link[40];
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t length = slash ? (size_t)(slash - path) + 1 : 0, rest = strlen(base);
    if (!rest || length + 2 > PATH_MAX)
        return false;
    memcpy(whole, slash ? path : ".", slash ? length : 1);
    whole[slash ? length : 1] = '\0';
    int fd = (int)syscall(SYS_openat, folder, whole, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    link_of(fd, link);
    ssize_t size = readlink(link, whole, PATH_MAX);
    syscall(SYS_close, fd);
    if (size <= 0 || size >= PATH_MAX || rest + 2 > PATH_MAX - (size_t)size)
        return false;
    char *end = size == 1 ? whole : whole + size; /* the root has a slash already */
    *end = '/';
    memcpy(end + 1, base, rest + 1);
    return true;
}

static bool lay_out(struct creation *one, const char *path, mode_t mode) {
    struct sw_layout_setting settings[MOST_LAYOUTS];
    char note[300] = "";
    size_t used = settings_of(one->system, settings);
    enum sw_layout_outcome outcome =
        sw_layout_apply(one->system, path, mode, allowed, settings, used, note, sizeof note);
    say(one, note);
    one->failed = outcome == SW_LAYOUT_FAILED || outcome == SW_LAYOUT_BY_HINTS;
    return outcome == SW_LAID_OUT;
}

/* The permissions that a new file gets, or -1. Asking umask for them would change it for other threads. */
static int permissions(mode_t mode) {
    char text[512];
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : (ssize_t)syscall(SYS_read, fd, text, sizeof text - 1);
    if (fd >= 0)
        syscall(SYS_close, fd);
    text[size > 0 ? size : 0] = '\0';
    const char *mask = strstr(text, "\nUmask:\t");
    return mask ? (int)(mode & ~(mode_t)strtoul(mask + 8, NULL, 8)) : -1;
}

static bool passes_on_permissions(const char *path) {
    char folder[PATH_MAX];
    size_t length = (size_t)(strrchr(path, '/') - path) + 1;
    memcpy(folder, path, length);
    folder[length] = '\0';
    return getxattr(folder, "system.posix_acl_default", NULL, 0) > 0;
}

/* Gives a file that was just made its permissions. Who may write its folder may have put another file of the
 * user's in its place, which keeps its own: a link, or an older file. Another process of the program may have
 * written to it by now. */
static bool permit(const char *path, mode_t permitted, time_t began) {
    struct stat about;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool done = fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_nlink == 1 &&
                about.st_mtime + CLOCKS_APART >= began &&
                ((about.st_mode & 07777) == permitted ||
                 (about.st_uid == geteuid() && syscall(SYS_fchmod, fd, permitted) == 0));
    if (fd >= 0)
        syscall(SYS_close, fd);
    return done;
}

/* By a command, with what of the permissions it gives. */
static void make(struct creation *one, const char *path, mode_t permitted) {
    struct stat about;
    struct timespec began;
    clock_gettime(CLOCK_REALTIME, &began);
    if (!lay_out(one, path, permitted)) {
        one->failed &= lstat(path, &about) != 0; /* else another process was first */
        return;
    }
    one->laid = permit(path, permitted, began.tv_sec);
    one->failed = !one->laid;
    if (one->failed)
        say(one, "the permissions of the new file could not be set");
}

/* Creates the file before the program does. Until it has its permissions, it has fewer. */
static void create(struct creation *one, const char *path, mode_t mode) {
    struct stat about;
    int permitted = permissions(mode);
    if (one->flags & O_EXCL)
        say(one, "the application creates the file exclusively");
    else if (lstat(path, &about) == 0)
        say(one, "the file exists");
    else if (permitted < 0 || (permitted & ~0777) || (permitted & 0600) != 0600)
        say(one, "the file is created with unusual permissions");
    else if (passes_on_permissions(path))
        say(one, "the folder passes on permissions of its own");
    else
        make(one, path, (mode_t)permitted);
}

void lay_before(struct creation *one, int folder, const char *path, mode_t mode) {
    char whole[PATH_MAX];
    struct sw_layout_setting settings[MOST_LAYOUTS];
    one->chosen = is_path(folder, path) && whole_path(folder, path, whole) && is_chosen(whole);
    one->system = one->chosen ? sw_layout_place(whole) : NULL;
    if (one->system && (!one->system->apply || !settings_of(one->system, settings))) {
        say(one, one->system->apply ? "" : one->system->instead);
        one->system = NULL;
    }
    if (one->system && takes_empty(one->system)) {
        one->added = !(one->flags & O_EXCL);
        one->flags |= O_EXCL;
    } else if (one->system) {
        create(one, whole, mode);
    }
}

static void count_layouts(struct creation *one, struct file_record *record, bool acted) {
    if (!*one->why)
        say(one, "the file is on another file system");
    for (int i = 0; i < count; i++) {
        bool ours = one->system && sw_file_system_named(wanted[i].text, wanted[i].skip) == one->system;
        add(acted && ours ? &record->effects[SETTINGS + i].acted : &record->effects[SETTINGS + i].missed, 1);
        if (one->failed && ours)
            add(&record->effects[SETTINGS + i].failed, 1);
        if (!(acted && ours) && (!record->note[0] || (one->failed && ours)))
            memcpy(record->note, one->why, sizeof one->why);
    }
}

void lay_made_up(struct creation *one, int fd) {
    char link[40];
    one->chosen = descriptors[fd].chosen;
    link_of(fd, link);
    one->system = one->chosen ? sw_layout_place(link) : NULL;
    if (one->system && !takes_empty(one->system)) {
        say(one, one->system->apply ? "the application creates the file exclusively" : one->system->instead);
        one->system = NULL;
    }
}

/* To lay out an open file, CephFS takes the rights to write it from this client, and gives them back when
 * asked: by an open, but not by a write, which would wait for up to 20 seconds until the client renews all
 * its rights. */
static void ask_for_rights(const char *link) {
    int fd = (int)syscall(SYS_openat, AT_FDCWD, link, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        syscall(SYS_close, fd);
}

void lay_after(struct creation *one, int fd, struct file_record *record) {
    char link[40];
    bool laid = one->laid, by_link = one->chosen && one->system && takes_empty(one->system);
    link_of(fd, link);
    if (by_link)
        laid = lay_out(one, link, 0600);
    if (one->chosen)
        count_layouts(one, record, laid);
    tell_layout(fd, record, true);
    if (laid && by_link)
        ask_for_rights(link);
}
