/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "layout.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "plan.h"

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

void sw_file_system_name(const char *path, char *name, size_t size) {
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

enum sw_layout_kind sw_layout_place(const char *path) {
    char name[32], folder[SW_MAX_PATH];
    struct sw_layout layout;
    sw_file_system_name(path, name, sizeof name);
    if (strcmp(name, "lustre") == 0)
        return SW_IN_LUSTRE;
    /* ceph-fuse is plain "fuse" to statfs, so it is asked for an attribute that only it has. */
    if (strcmp(name, "ceph") == 0 ||
        (strcmp(name, "fuse") == 0 &&
         (sw_cephfs_read(path, &layout) || (folder_of(path, folder) && sw_cephfs_is_folder(folder)))))
        return SW_IN_CEPHFS;
    return SW_NO_LAYOUT;
}

bool sw_layout_read(const char *path, struct sw_layout *layout) {
    *layout = (struct sw_layout){SW_NO_LAYOUT, -1, -1, -1};
    switch (sw_layout_place(path)) {
    case SW_IN_CEPHFS:
        return sw_cephfs_read(path, layout);
    case SW_IN_LUSTRE:
        return sw_lustre_read(path, layout);
    default:
        return false;
    }
}

void sw_layout_parent(enum sw_layout_kind kind, const char *path, struct sw_parent *parent) {
    char folder[SW_MAX_PATH];
    *parent = (struct sw_parent){.layout = {SW_NO_LAYOUT, -1, -1, -1}};
    if (!folder_of(path, folder))
        return;
    if (kind == SW_IN_LUSTRE)
        sw_lustre_parent(folder, parent);
    else if (kind == SW_IN_CEPHFS)
        sw_cephfs_parent(folder, parent);
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

bool sw_layout_possible(enum sw_layout_kind kind, const char *path, bool create, bool exclusive,
                        unsigned allow, char *why, size_t size) {
    struct stat status;
    struct sw_parent parent;
    if (!create) {
        snprintf(why, size, "the file is not opened to be created");
    } else if (exclusive) {
        snprintf(why, size, "the application creates the file exclusively");
    } else if (kind == SW_NO_LAYOUT) {
        snprintf(why, size, "the file system has no layouts");
    } else if (stat(path, &status) == 0 &&
               (kind == SW_IN_LUSTRE || !S_ISREG(status.st_mode) || status.st_size > 0)) {
        snprintf(why, size,
                 kind == SW_IN_LUSTRE ? "the file exists; on Lustre the layout is fixed at creation"
                                      : "the file exists and is not empty");
    } else {
        sw_layout_parent(kind, path, &parent);
        return !is_reserved(&parent, allow, why, size);
    }
    return false;
}

enum sw_layout_outcome sw_layout_apply(enum sw_layout_kind kind, const char *path, unsigned allow,
                                       const struct sw_layout_setting *settings, size_t count, char *note,
                                       size_t note_size) {
    char name[32];
    sw_file_system_name(path, name, sizeof name);
    /* A new file on ceph-fuse cannot always be told from one on another fuse before it exists: try, it is
     * only an attribute. */
    bool here = kind == SW_IN_LUSTRE ? strcmp(name, "lustre") == 0
                                     : strcmp(name, "ceph") == 0 || strcmp(name, "fuse") == 0;
    *note = '\0';
    if (!here) {
        snprintf(note, note_size, "the file is on %s, not on %s", name,
                 kind == SW_IN_LUSTRE ? SW_LAYOUT_LUSTRE : SW_LAYOUT_CEPHFS);
        return SW_LAYOUT_IMPOSSIBLE;
    }
    if (!sw_layout_possible(kind, path, true, false, allow, note, note_size))
        return SW_LAYOUT_IMPOSSIBLE;
    return (kind == SW_IN_LUSTRE ? sw_lustre_apply : sw_cephfs_apply)(path, settings, count, note, note_size);
}
