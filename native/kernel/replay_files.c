/* The files of a replay: those that the program found are made before it, and all are deleted after it. */
#include "replay.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "kernel.h"

#define CHUNK (1u << 20)

static bool is_input(const struct replay *replay, const char *path) {
    int64_t low = 0, high = replay->input_count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = strcmp(path, replay->inputs[middle].path);
        if (order == 0)
            return true;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

void replay_make_folders(const struct replay *replay, const char *path) {
    char folder[REPLAY_PATH];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + strlen(replay->options.directory) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            replay_die("cannot make the folder %s: %s", folder, strerror(errno));
        *slash = '/';
    }
}

void replay_remove_empty(const char *path) {
    if (rmdir(path) == 0 || errno != ENOTEMPTY)
        return;
    DIR *listing = opendir(path);
    char inner[REPLAY_PATH];
    for (const struct dirent *entry; listing != NULL && (entry = readdir(listing)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) < (int)sizeof inner &&
            (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN))
            replay_remove_empty(inner); /* NOLINT(misc-no-recursion): as deep as its paths are long */
    if (listing != NULL)
        closedir(listing);
    (void)rmdir(path);
}

void replay_make_be_there(const struct replay *replay, const char *path, bool there) {
    struct stat status;
    if ((lstat(path, &status) == 0) == there)
        return;
    if (!there) {
        if (unlink(path) == 0 || errno == ENOENT)
            return;
        if (errno != EISDIR && errno != EPERM)
            replay_die("cannot delete %s: %s", path, strerror(errno));
        replay_remove_empty(path);
        return;
    }
    replay_make_folders(replay, path);
    const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0 || close(fd) != 0)
        replay_die("cannot write %s: %s", path, strerror(errno));
}

static void delete_folders(const struct replay *replay, const char *path) {
    char folder[REPLAY_PATH];
    snprintf(folder, sizeof folder, "%s", path);
    replay_remove_empty(folder); /* a path may be one of a folder */
    char *slash;
    const size_t own = strlen(replay->options.directory);
    while ((slash = strrchr(folder, '/')) != NULL && (size_t)(slash - folder) > own) {
        *slash = '\0';
        if (rmdir(folder) != 0)
            return; /* another file is in it */
    }
}

/* Data that do not shrink where a file system compresses. */
static void make_input(const struct replay_input *input) {
    struct stat status;
    if (stat(input->path, &status) == 0 && status.st_size == input->size)
        return;
    uint64_t *data = replay_grow(NULL, CHUNK, 1);
    int fd = open(input->path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0666);
    bool good = fd >= 0;
    for (int64_t at = 0; good && at < input->size;) {
        for (size_t i = 0; i < CHUNK / sizeof *data; i++)
            data[i] = mix64((uint64_t)at + i);
        const int64_t left = input->size - at;
        const ssize_t wrote = write(fd, data, left < CHUNK ? (size_t)left : CHUNK);
        good = wrote > 0;
        at += wrote;
    }
    if (fd >= 0)
        good &= close(fd) == 0;
    if (!good)
        replay_die("cannot write the input file %s: %s", input->path, strerror(errno));
    free(data);
}

static void delete_files(const struct replay *replay, bool inputs) {
    for (int64_t i = 0; i < replay->file_count; i++)
        if (replay->files[i].own && !is_input(replay, replay->files[i].path) &&
            unlink(replay->files[i].path) != 0 && errno != ENOENT && errno != ENOTDIR && errno != EISDIR)
            replay_die("cannot delete %s: %s", replay->files[i].path, strerror(errno));
    for (int64_t i = replay->rank; inputs && i < replay->input_count; i += replay->ranks)
        if (unlink(replay->inputs[i].path) != 0 && errno != ENOENT && errno != ENOTDIR)
            replay_die("cannot delete %s: %s", replay->inputs[i].path, strerror(errno));
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- the folder ---- */

/* Another user could put links into a folder of theirs. */
static int open_folder(const struct replay *replay) {
    const char *name = replay->options.directory;
    const int folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat status;
    if (folder < 0 || fstat(folder, &status) != 0)
        replay_die("cannot open the folder %s: %s", name, strerror(errno));
    if (status.st_uid != geteuid())
        replay_die("the folder %s belongs to another user: name one of your own", name);
    return folder;
}

/* Whether there is nothing in the folder but perhaps the mark. */
static bool is_bare(const struct replay *replay, int folder) {
    const int copy = dup(folder);
    DIR *listing = copy < 0 ? NULL : fdopendir(copy);
    if (listing == NULL)
        replay_die("cannot list the folder %s: %s", replay->options.directory, strerror(errno));
    rewinddir(listing);
    bool bare = true;
    for (const struct dirent *entry; bare && (entry = readdir(listing)) != NULL;)
        bare = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
               strcmp(entry->d_name, SW_REPLAY_MARK) == 0;
    closedir(listing);
    return bare;
}

static bool is_marked(int folder) {
    struct stat status;
    return fstatat(folder, SW_REPLAY_MARK, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
}

/* A group could put links into a folder that it can write: it gets its right back in the end. */
static mode_t given;

static void keep_others_out(int folder) {
    struct stat status;
    if (fstat(folder, &status) == 0 && status.st_mode & (S_IWGRP | S_IWOTH)) {
        given = status.st_mode & 07777;
        (void)fchmod(folder, given & ~(mode_t)(S_IWGRP | S_IWOTH));
    }
}

static void give_rights_back(int folder) {
    if (given != 0)
        (void)fchmod(folder, given);
}

void replay_claim(const struct replay *replay) {
    if (replay->rank == 0) {
        if (mkdir(replay->options.directory, 0755) != 0 && errno != EEXIST)
            replay_die("cannot make the folder %s: %s", replay->options.directory, strerror(errno));
        const int folder = open_folder(replay);
        keep_others_out(folder);
        if (!is_marked(folder)) {
            if (!is_bare(replay, folder)) {
                give_rights_back(folder);
                replay_die(
                    "the folder %s holds files that no replay made, and a replay overwrites and deletes "
                    "files: name an empty folder, or one that does not exist",
                    replay->options.directory);
            }
            const int mark = openat(folder, SW_REPLAY_MARK, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
            if (mark < 0 || close(mark) != 0)
                replay_die("cannot write into the folder %s: %s", replay->options.directory, strerror(errno));
        }
        close(folder);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Takes the mark away, so that the folder is left empty and as it was. */
static void give_back(const struct replay *replay) {
    const int folder = open_folder(replay);
    if (is_bare(replay, folder) && unlinkat(folder, SW_REPLAY_MARK, 0) != 0 && errno != ENOENT)
        replay_die("cannot delete %s/" SW_REPLAY_MARK ": %s", replay->options.directory, strerror(errno));
    give_rights_back(folder);
    close(folder);
}

void replay_check_room(const struct replay *replay, int64_t needed) {
    struct statvfs status;
    if (needed == 0 || statvfs(replay->options.directory, &status) != 0)
        return;
    const double room = (double)status.f_bavail * (double)status.f_frsize;
    if ((double)needed > room)
        replay_die("the files that the program found have %.3g bytes, and %s has room for %.3g",
                   (double)needed, replay->options.directory, room);
}

static int64_t bytes_of_inputs(const struct replay *replay) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < replay->input_count; i++)
        if (__builtin_add_overflow(bytes, replay->inputs[i].size, &bytes))
            bytes = INT64_MAX;
    return bytes;
}

void replay_prepare(struct replay *replay) {
    delete_files(replay, false);
    for (int64_t i = 0; i < replay->file_count; i++)
        if (replay->files[i].own)
            replay_make_folders(replay, replay->files[i].path);
    if (replay->rank == 0)
        replay_check_room(replay, bytes_of_inputs(replay));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int64_t i = replay->rank; i < replay->input_count; i += replay->ranks) {
        replay_make_folders(replay, replay->inputs[i].path);
        make_input(&replay->inputs[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    replay_hdf5_prepare(replay);
}

void replay_clean(const struct replay *replay) {
    delete_files(replay, true);
    for (int64_t i = 0; i < replay->file_count; i++)
        if (replay->files[i].own)
            delete_folders(replay, replay->files[i].path);
    for (int64_t i = replay->rank; i < replay->input_count; i += replay->ranks)
        delete_folders(replay, replay->inputs[i].path);
    MPI_Barrier(MPI_COMM_WORLD);
    if (replay->rank == 0)
        give_back(replay);
}
