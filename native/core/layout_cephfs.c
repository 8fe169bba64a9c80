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

#include "layout.h"
#include "stripewise_format.h"

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
    *layout =
        (struct sw_layout){SW_IN_CEPHFS, number_after(text, SW_KEY_STRIPE_COUNT),
                           number_after(text, SW_KEY_STRIPE_UNIT), number_after(text, SW_KEY_OBJECT_SIZE)};
    return true;
}

bool sw_cephfs_read(const char *path, struct sw_layout *layout) {
    return read_attribute(path, ATTRIBUTE, layout);
}

bool sw_cephfs_is_folder(const char *folder) {
    char text[64];
    return getxattr(folder, "ceph.dir.entries", text, sizeof text) > 0;
}

/* A folder without a layout of its own passes on that of the folder above. */
void sw_cephfs_parent(const char *folder, struct sw_parent *parent) {
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
    parent->layout = (struct sw_layout){SW_IN_CEPHFS, 1, DEFAULT_SIZE, DEFAULT_SIZE};
}

/* One attribute with all values: set one after the other, a valid goal could pass through an invalid layout.
 */
static bool join(const struct sw_layout_setting *settings, size_t count, char *text, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        int length =
            snprintf(text + used, size - used, "%s%s=%s", i ? " " : "", settings[i].key, settings[i].value);
        if (length < 0 || (size_t)length >= size - used)
            return false;
        used += (size_t)length;
    }
    return true;
}

enum sw_layout_outcome sw_cephfs_apply(const char *path, const struct sw_layout_setting *settings,
                                       size_t count, char *note, size_t note_size) {
    char text[512];
    for (size_t i = 0; i < count; i++)
        if (strcmp(settings[i].key, SW_KEY_STRIPE_COUNT) != 0 &&
            strcmp(settings[i].key, SW_KEY_STRIPE_UNIT) != 0 &&
            strcmp(settings[i].key, SW_KEY_OBJECT_SIZE) != 0) {
            snprintf(note, note_size, SW_LAYOUT_CEPHFS " has no layout key \"%.60s\"", settings[i].key);
            return SW_LAYOUT_FAILED;
        }
    if (!join(settings, count, text, sizeof text)) {
        snprintf(note, note_size, "the values are too long");
        return SW_LAYOUT_FAILED;
    }
    struct stat status;
    if (stat(path, &status) != 0) {
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
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
