/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "plan.h"

const struct sw_file_system *const sw_file_systems[SW_FILE_SYSTEMS] = {&sw_lustre, &sw_cephfs, &sw_beegfs};

/* Magic numbers of statfs(2); see linux/magic.h and each file system's documentation. */
static const struct {
    uint32_t magic;
    const char *name;
} file_systems[] = {
    {0x01021994, "tmpfs"},     {0xef53, "ext4"},         {0x58465342, "xfs"},   {0x9123683e, "btrfs"},
    {0x0bd00bd0, "lustre"},    {0x00c36400, "ceph"},     {0x6969, "nfs"},       {0x47504653, "gpfs"},
    {0x19830326, "beegfs"},    {0x20030528, "orangefs"}, {0x65735546, "fuse"},  {0x794c7630, "overlay"},
    {0x2fc12fc1, "zfs"},       {0xff534d42, "cifs"},     {0xfe534d42, "smb2"},  {0x858458f6, "ramfs"},
    {0xaad7aaea, "panfs"},     {0x01161970, "gfs2"},     {0x7461636f, "ocfs2"}, {0xf2f52010, "f2fs"},
    {0x958458f6, "hugetlbfs"}, {0x01021997, "9p"},       {0x4d44, "vfat"},
};

/* The folder that holds path. */
static bool folder_of(const char *path, char folder[SW_MAX_PATH]) {
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (length + 2 > SW_MAX_PATH)
        return false;
    memcpy(folder, path, length);
    memcpy(folder + length, slash ? "/" : ".", 2);
    return true;
}

/* statfs of the path, or of its folder while the file does not exist. */
static bool magic_of(const char *path, uint32_t *magic) {
    struct statfs status;
    int failed = statfs(path, &status);
    if (failed && errno == ENOENT) {
        char folder[SW_MAX_PATH];
        if (!folder_of(path, folder))
            return false;
        failed = statfs(folder, &status);
    }
    *magic = failed ? 0 : (uint32_t)status.f_type;
    return !failed;
}

/* What statfs says of a path. */
static void kind_of(const char *path, char *name, size_t size) {
    uint32_t magic;
    if (!magic_of(path, &magic)) {
        snprintf(name, size, "unknown");
        return;
    }
    for (size_t i = 0; i < sizeof file_systems / sizeof *file_systems; i++)
        if (file_systems[i].magic == magic) {
            snprintf(name, size, "%s", file_systems[i].name);
            return;
        }
    snprintf(name, size, "0x%x", magic);
}

const struct sw_file_system *sw_layout_place(const char *path) {
    char name[32], folder[SW_MAX_PATH];
    kind_of(path, name, sizeof name);
    if (!folder_of(path, folder))
        return NULL;
    for (int i = 0; i < SW_FILE_SYSTEMS; i++)
        if (sw_file_systems[i]->holds(path, name, folder))
            return sw_file_systems[i];
    return NULL;
}

/* As mounts do: all of FUSE is one kind to statfs. */
void sw_file_system_name(const char *path, char *name, size_t size) {
    kind_of(path, name, size);
    const struct sw_file_system *system = strcmp(name, "fuse") == 0 ? sw_layout_place(path) : NULL;
    if (system)
        snprintf(name, size, "fuse.%s", system->name);
}

const struct sw_file_system *sw_file_system_named(const char *name, size_t length) {
    for (int i = 0; i < SW_FILE_SYSTEMS; i++)
        if (strlen(sw_file_systems[i]->name) == length && memcmp(name, sw_file_systems[i]->name, length) == 0)
            return sw_file_systems[i];
    return NULL;
}

static int key_place(const struct sw_file_system *system, const char *key) {
    for (int i = 0; i < SW_LAYOUT_KEYS && system->keys[i].name; i++)
        if (strcmp(system->keys[i].name, key) == 0)
            return i;
    return -1;
}

const struct sw_layout_key *sw_layout_key(const char *setting) {
    size_t length = strcspn(setting, " ");
    const struct sw_file_system *system = sw_file_system_named(setting, length);
    int place = system && setting[length] ? key_place(system, setting + length + 1) : -1;
    return place < 0 ? NULL : &system->keys[place];
}

const struct sw_file_system *sw_layout_system(const struct sw_layout *layout) {
    return layout->place && layout->place <= SW_FILE_SYSTEMS ? sw_file_systems[layout->place - 1] : NULL;
}

int64_t sw_layout_number(const struct sw_layout *layout, const char *key) {
    const struct sw_file_system *system = sw_layout_system(layout);
    int place = system ? key_place(system, key) : -1;
    return place < 0 || place >= SW_LAYOUT_NUMBERS ? -1 : layout->numbers[place];
}

/* An empty layout of a file system. */
static struct sw_layout layout_on(const struct sw_file_system *system) {
    struct sw_layout layout = SW_NO_LAYOUT;
    for (uint32_t i = 0; i < SW_FILE_SYSTEMS; i++)
        if (sw_file_systems[i] == system)
            layout.place = i + 1;
    return layout;
}

bool sw_layout_read(const char *path, struct sw_layout *layout) {
    const struct sw_file_system *system = sw_layout_place(path);
    *layout = layout_on(system);
    if (system && system->read(path, layout))
        return true;
    *layout = SW_NO_LAYOUT;
    return false;
}

void sw_layout_parent(const struct sw_file_system *system, const char *path, struct sw_parent *parent) {
    char folder[SW_MAX_PATH];
    *parent = (struct sw_parent){.layout = SW_NO_LAYOUT};
    if (!system || !folder_of(path, folder))
        return;
    parent->layout = layout_on(system);
    system->parent(folder, parent);
    bool told = false;
    for (int i = 0; i < SW_LAYOUT_NUMBERS; i++)
        told |= parent->layout.numbers[i] != -1;
    if (!told)
        parent->layout = SW_NO_LAYOUT;
}

/* Does the folder's own layout stay in force? */
static bool is_reserved(const struct sw_parent *parent, unsigned allow, char *why, size_t size) {
    bool composite = parent->composite && !(allow & SW_ALLOW_COMPOSITE),
         pooled = parent->pooled && !(allow & SW_ALLOW_POOL);
    if (composite || pooled)
        snprintf(
            why, size,
            "the folder's layout %s, which the site file does not allow to be replaced: it stays in force",
            composite ? "is composite" : "names a pool");
    return composite || pooled;
}

/* An access list or an attribute of a user's own would be lost with the file. */
static bool has_attributes(const char *path) {
    char names[4096];
    ssize_t size = listxattr(path, names, sizeof names);
    if (size < 0)
        return errno != ENOTSUP;
    for (ssize_t at = 0; at < size; at += (ssize_t)strlen(names + at) + 1)
        if (strncmp(names + at, "user.", 5) == 0 || strncmp(names + at, "system.posix_acl", 16) == 0)
            return true;
    return false;
}

/* May the file be replaced by a new one, because it holds nothing and nothing else names it? */
static bool can_be_made_anew(const char *path, unsigned allow) {
    struct stat status;
    return allow & SW_ALLOW_EMPTY && lstat(path, &status) == 0 && S_ISREG(status.st_mode) &&
           status.st_size == 0 && status.st_nlink == 1 && status.st_uid == geteuid() && !has_attributes(path);
}

static bool is_possible(const struct sw_file_system *system, const char *path, bool create, bool exclusive,
                        unsigned allow, struct sw_parent *parent, char *why, size_t size) {
    struct stat status;
    const char *reason = NULL;
    if (!create)
        reason = "the file is not opened to be created";
    else if (exclusive)
        reason = "the application creates the file exclusively";
    else if (!system)
        reason = "the file system has no layouts";
    else if (!system->apply)
        reason = system->instead;
    else if (stat(path, &status) == 0 && system->fixed(&status) && !can_be_made_anew(path, allow))
        reason = system->fixed(&status);
    if (reason) {
        snprintf(why, size, "%s", reason);
        return false;
    }
    sw_layout_parent(system, path, parent);
    return !is_reserved(parent, allow, why, size);
}

bool sw_layout_possible(const struct sw_file_system *system, const char *path, bool create, bool exclusive,
                        unsigned allow, char *why, size_t size) {
    struct sw_parent parent;
    return is_possible(system, path, create, exclusive, allow, &parent, why, size);
}

static bool is_integer(const char *text) {
    char *end;
    strtoll(text, &end, 10);
    return end != text && !*end;
}

/* Makes an empty file anew, where a layout is fixed when a file is created:
 * 1. a new file with the layout comes to be beside the old one;
 * 2. it gets the old one's group and permissions;
 * 3. if the old one is still empty, the new one takes its name.
 * Who has the old file open writes to a file without a name from then on: hence only where the plan allows
 * it. */
static enum sw_layout_outcome make_anew(const struct sw_file_system *system, const char *path,
                                        const struct sw_parent *parent,
                                        const char *const values[SW_LAYOUT_KEYS], unsigned allow, char *note,
                                        size_t note_size) {
    char beside[SW_MAX_PATH];
    struct stat old, made;
    if (stat(path, &old) != 0 ||
        snprintf(beside, sizeof beside, "%s.stripewise-%d", path, (int)getpid()) >= (int)sizeof beside) {
        snprintf(note, note_size, "the empty file could not be made anew");
        return SW_LAYOUT_FAILED;
    }
    enum sw_layout_outcome outcome =
        system->apply(beside, old.st_mode & 0777, parent, values, note, note_size);
    if (outcome != SW_LAID_OUT)
        return outcome;
    bool alike = stat(beside, &made) == 0 &&
                 (made.st_gid == old.st_gid || chown(beside, (uid_t)-1, old.st_gid) == 0) &&
                 chmod(beside, old.st_mode & 07777) == 0;
    if (alike && can_be_made_anew(path, allow) && rename(beside, path) == 0)
        return SW_LAID_OUT;
    snprintf(note, note_size, "the empty file could not be made anew: %s",
             alike ? "it is in use" : strerror(errno));
    unlink(beside);
    return SW_LAYOUT_FAILED;
}

enum sw_layout_outcome sw_layout_apply(const struct sw_file_system *system, const char *path, mode_t mode,
                                       unsigned allow, const struct sw_layout_setting *settings, size_t count,
                                       char *note, size_t note_size) {
    const char *values[SW_LAYOUT_KEYS] = {NULL};
    struct sw_parent parent;
    char name[32];
    kind_of(path, name, sizeof name);
    *note = '\0';
    if (!(system->may_hold ? system->may_hold(name) : strcmp(name, system->name) == 0)) {
        snprintf(note, note_size, "the file is on %s, not on %s", name, system->name);
        return SW_LAYOUT_IMPOSSIBLE;
    }
    if (!is_possible(system, path, true, false, allow, &parent, note, note_size))
        return SW_LAYOUT_IMPOSSIBLE;
    for (size_t i = 0; i < count; i++) {
        int place = key_place(system, settings[i].key);
        if (place < 0)
            snprintf(note, note_size, "%s has no layout key \"%.60s\"", system->name, settings[i].key);
        else if (!system->keys[place].text && !is_integer(settings[i].value))
            snprintf(note, note_size, "%s is not an integer: \"%.60s\"", settings[i].key, settings[i].value);
        else
            values[place] = settings[i].value;
        if (*note)
            return SW_LAYOUT_FAILED;
    }
    struct stat status;
    if (stat(path, &status) == 0 && system->fixed(&status))
        return make_anew(system, path, &parent, values, allow, note, note_size);
    return system->apply(path, mode, &parent, values, note, note_size);
}
