/* SPDX-License-Identifier: BSD-3-Clause
 * CephFS keeps a file's layout in the virtual attribute ceph.file.layout, which may be set while the file is
 * empty. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "file_system.h"

enum { KEYS = 3 }; /* of sw_cephfs.keys */
#define ATTRIBUTE "ceph.file.layout"
#define DEFAULT_SIZE 4194304 /* of objects and stripes, where no folder above has a layout of its own */

static int64_t number_after(const char *text, const char *key) {
    const char *found = strstr(text, key);
    return found && found[strlen(key)] == '=' ? strtoll(found + strlen(key) + 1, NULL, 10) : -1;
}

static bool read_attribute(const char *path, const char *attribute, struct sw_layout *layout) {
    char text[512];
    ssize_t size = getxattr(path, attribute, text, sizeof text - 1);
    if (size <= 0)
        return false;
    text[size] = '\0';
    for (int i = 0; i < KEYS; i++)
        layout->numbers[i] = number_after(text, sw_cephfs.keys[i].name);
    return true;
}

static bool cephfs_read(const char *path, struct sw_layout *layout) {
    return read_attribute(path, ATTRIBUTE, layout);
}

/* A folder without a layout of its own passes on that of the folder above. */
static void cephfs_parent(const char *folder, struct sw_parent *parent) {
    char path[SW_MAX_PATH];
    snprintf(path, sizeof path, "%s", folder);
    for (;;) {
        if (read_attribute(path, "ceph.dir.layout", &parent->layout))
            return;
        char *slash = strrchr(path, '/');
        if (!slash || slash == path)
            break;
        *slash = '\0';
    }
    parent->layout.numbers[0] = 1;
    parent->layout.numbers[1] = parent->layout.numbers[2] = DEFAULT_SIZE;
}

/* One attribute with all values: set one after the other, a valid goal could pass through an invalid layout.
 */
static enum sw_layout_outcome cephfs_apply(const char *path, mode_t mode, const struct sw_parent *parent,
                                           const char *const values[SW_LAYOUT_KEYS], char *note,
                                           size_t note_size) {
    (void)parent;
    char text[512];
    size_t used = 0;
    for (int i = 0; i < KEYS; i++)
        if (values[i] && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=%s", used ? " " : "",
                                     sw_cephfs.keys[i].name, values[i]);
    if (used >= sizeof text) {
        snprintf(note, note_size, "the values are too long");
        return SW_LAYOUT_FAILED;
    }
    struct stat status;
    if (stat(path, &status) != 0) {
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd < 0) {
            snprintf(note, note_size, "cannot create the file to lay it out: %s", strerror(errno));
            return SW_LAYOUT_FAILED;
        }
        close(fd);
    }
    if (setxattr(path, ATTRIBUTE, text, strlen(text), 0) != 0) {
        snprintf(note, note_size, "setting " ATTRIBUTE " to \"%.200s\" failed: %s", text, strerror(errno));
        return SW_LAYOUT_FAILED;
    }
    return SW_LAID_OUT;
}

/* ceph-fuse is plain "fuse" to statfs, so it is asked for an attribute that only it has. */
static bool cephfs_holds(const char *path, const char *name, const char *folder) {
    struct sw_layout layout;
    char text[64];
    return strcmp(name, "ceph") == 0 ||
           (strcmp(name, "fuse") == 0 &&
            (cephfs_read(path, &layout) || getxattr(folder, "ceph.dir.entries", text, sizeof text) > 0));
}

/* A new file on ceph-fuse cannot always be told from one on another fuse before it exists: try, it is only an
 * attribute. */
static bool cephfs_may_hold(const char *name) {
    return strcmp(name, "ceph") == 0 || strcmp(name, "fuse") == 0;
}

static const char *cephfs_fixed(const struct stat *status) {
    return S_ISREG(status->st_mode) && status->st_size == 0 ? NULL : "the file exists and is not empty";
}

const struct sw_file_system sw_cephfs = {
    .name = SW_LAYOUT_CEPHFS,
    .keys = {{.name = SW_KEY_STRIPE_COUNT, .role = "stripe_count"},
             {.name = SW_KEY_STRIPE_UNIT, .role = "stripe_size"},
             {.name = SW_KEY_OBJECT_SIZE}},
    .holds = cephfs_holds,
    .may_hold = cephfs_may_hold,
    .read = cephfs_read,
    .parent = cephfs_parent,
    .fixed = cephfs_fixed,
    .apply = cephfs_apply,
};
