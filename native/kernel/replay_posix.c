/* Carries out the calls of the C library that a program without MPI made, on files of its own. What the
 * program found is brought about before a call, outside of its time: calls that a record does not hold may
 * have made or deleted a file. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "replay.h"

#define ALIGNED 4096 /* for calls past the page cache */
#define SECOND 1000000000

struct replay_posix {
    const struct replay *replay;
    char *data;
    int fds[REPLAY_SLOTS];                /* -1: not open */
    int64_t made[REPLAY_SLOTS][SW_LINES]; /* calls since it was opened */
    int64_t began;
};

struct replay_posix *replay_posix_new(const struct replay *replay) {
    struct replay_posix *posix = replay_grow(NULL, 0, sizeof *posix);
    memset(posix, 0, sizeof *posix);
    posix->replay = replay;
    for (int slot = 0; slot < REPLAY_SLOTS; slot++)
        posix->fds[slot] = -1;
    void *data = NULL;
    const size_t size = (size_t)replay->largest + sizeof(uint64_t);
    if (posix_memalign(&data, ALIGNED, size) != 0)
        replay_die("no memory for a call of %" PRId64 " bytes", replay->largest);
    posix->data = data;
    for (size_t at = 0; at + sizeof(uint64_t) <= size; at += sizeof(uint64_t)) {
        const uint64_t word = mix64((uint64_t)replay->rank << 40 ^ at);
        memcpy(posix->data + at, &word, sizeof word);
    }
    return posix;
}

void replay_posix_free(struct replay_posix *posix) {
    for (int slot = 0; slot < REPLAY_SLOTS; slot++)
        if (posix->fds[slot] >= 0)
            close(posix->fds[slot]);
    free(posix->data);
    free(posix);
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * SECOND + time.tv_nsec;
}

static void begin(struct replay_posix *posix) {
    posix->began = now();
}

static void end(const struct replay_posix *posix, struct replay_done *done) {
    done->nanoseconds += now() - posix->began;
}

/* ---- files ---- */

static const char *path_at(const struct replay_posix *posix, int64_t number) {
    if (number < 0 || number >= posix->replay->file_count)
        replay_die("the record is damaged: file %" PRId64 " is not defined", number);
    return posix->replay->files[number].path;
}

static bool is_there(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0;
}

/* Folders were made beforehand for files that lie in them. */
static void make_folder_be_there(const struct replay_posix *posix, const char *path, bool there) {
    if (!there)
        replay_remove_empty(path);
    else if (mkdir(path, 0777) != 0 && errno == ENOENT) {
        replay_make_folders(posix->replay, path);
        (void)!mkdir(path, 0777);
    }
}

/* ---- opens ---- */

enum { CREATES = 4, EXCLUSIVE = 8, TRUNCATES = 16, APPENDS = 32, DIRECT = 64, SYNCHRONOUS = 128 };

static int flags_of(int64_t bits) {
    static const int accesses[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDWR};
    int flags = accesses[bits & 3] | O_CLOEXEC;
    flags |= bits & CREATES ? O_CREAT : 0;
    flags |= bits & EXCLUSIVE ? O_EXCL : 0;
    flags |= bits & TRUNCATES ? O_TRUNC : 0;
    flags |= bits & APPENDS ? O_APPEND : 0;
    flags |= bits & DIRECT ? O_DIRECT : 0;
    return flags | (bits & SYNCHRONOUS ? O_DSYNC : 0);
}

static int slot_at(int64_t slot) {
    if (slot < 0 || slot >= REPLAY_SLOTS)
        replay_die("the record is damaged: slot %" PRId64, slot);
    return (int)slot;
}

static void open_in_vain(struct replay_posix *posix, const char *path, int flags, struct replay_done *done) {
    const bool exclusive = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    replay_make_be_there(posix->replay, path, exclusive);
    begin(posix);
    const int fd = open(path, exclusive ? flags : flags & ~O_CREAT, 0666);
    end(posix, done);
    if (fd >= 0)
        close(fd);
}

static void open_file(struct replay_posix *posix, enum sw_line line, const int64_t *numbers,
                      struct replay_done *done) {
    const char *path = path_at(posix, numbers[1]);
    const int flags = flags_of(numbers[2]);
    if (line == SW_LINE_posix_open && numbers[3]) {
        open_in_vain(posix, path, flags, done);
        return;
    }
    const int slot = slot_at(numbers[0]);
    if (posix->fds[slot] >= 0)
        close(posix->fds[slot]);
    memset(posix->made[slot], 0, sizeof posix->made[slot]);
    if ((flags & (O_CREAT | O_EXCL)) != O_CREAT)
        replay_make_be_there(posix->replay, path, !(flags & O_CREAT));
    begin(posix);
    int fd = open(path, flags, 0666);
    if (fd < 0 && errno == ENOENT) {
        replay_make_folders(posix->replay, path);
        begin(posix);
        fd = open(path, flags, 0666);
    }
    if (fd < 0 && errno == EINVAL && flags & O_DIRECT) /* this file system has none */
        fd = open(path, flags & ~O_DIRECT, 0666);
    if (line == SW_LINE_posix_open)
        end(posix, done);
    if (fd < 0)
        replay_die("open of %s: %s", path, strerror(errno));
    if (line == SW_LINE_posix_hold)
        lseek(fd, (off_t)numbers[3], SEEK_SET);
    posix->fds[slot] = fd;
}

/* ---- calls ---- */

/* A record has calls that moved less than was asked: what follows would be elsewhere in the file. */
static void move_data(struct replay_posix *posix, enum sw_line line, int fd, const int64_t *numbers,
                      struct replay_done *done) {
    const bool places = line == SW_LINE_posix_pread || line == SW_LINE_posix_pwrite;
    const bool writes = line == SW_LINE_posix_write || line == SW_LINE_posix_pwrite;
    const int64_t bytes = numbers[places ? 2 : 1];
    if (bytes < 0 || bytes > posix->replay->largest)
        replay_die("the record is damaged: a call of %" PRId64 " bytes", bytes);
    const size_t size = (size_t)bytes;
    ssize_t moved = 0;
    begin(posix);
    if (places)
        moved = writes ? pwrite(fd, posix->data, size, (off_t)numbers[1])
                       : pread(fd, posix->data, size, (off_t)numbers[1]);
    else
        moved = writes ? write(fd, posix->data, size) : read(fd, posix->data, size);
    end(posix, done);
    if (moved < 0)
        replay_die("%s of %" PRId64 " bytes: %s", sw_line_forms[line].name + 6, bytes, strerror(errno));
    *(writes ? &done->written : &done->read) += moved;
}

static bool call_descriptor(struct replay_posix *posix, enum sw_line line, const int64_t *numbers,
                            struct replay_done *done) {
    const int slot = slot_at(numbers[0]), fd = posix->fds[slot];
    const int64_t most = posix->replay->options.repetitions;
    if (fd < 0)
        replay_die("the record is damaged: a call on a file that is not open");
    if (line != SW_LINE_posix_close && most != 0 && posix->made[slot][line]++ >= most)
        return false;
    if (line == SW_LINE_posix_read || line == SW_LINE_posix_pread || line == SW_LINE_posix_write ||
        line == SW_LINE_posix_pwrite) {
        move_data(posix, line, fd, numbers, done);
        return true;
    }
    int code = 0;
    begin(posix);
    if (line == SW_LINE_posix_close)
        code = close(fd);
    else if (line == SW_LINE_posix_seek)
        code = lseek(fd, (off_t)numbers[1], SEEK_SET) < 0;
    else if (line == SW_LINE_posix_sync)
        code = fsync(fd);
    else
        code = ftruncate(fd, (off_t)numbers[1]);
    end(posix, done);
    if (line == SW_LINE_posix_close)
        posix->fds[slot] = -1;
    if (code != 0)
        replay_die("%s: %s", sw_line_forms[line].name + 6, strerror(errno));
    return true;
}

/* What these answer is not judged: other files than the program's may be in a folder. */
static void call_path(struct replay_posix *posix, enum sw_line line, const int64_t *numbers,
                      struct replay_done *done) {
    const char *path = path_at(posix, numbers[0]),
               *other = line == SW_LINE_posix_rename ? path_at(posix, numbers[1]) : NULL;
    const bool fails = numbers[other ? 2 : 1];
    struct stat status;
    int code = 0;
    if (line == SW_LINE_posix_mkdir || line == SW_LINE_posix_rmdir)
        make_folder_be_there(posix, path, fails == (line == SW_LINE_posix_mkdir));
    else if (line != SW_LINE_posix_stat && !(fails && is_there(path) && other))
        replay_make_be_there(posix->replay, path, !fails);
    begin(posix);
    switch (line) {
    case SW_LINE_posix_unlink:
        code = unlink(path);
        break;
    case SW_LINE_posix_rename:
        code = rename(path, other);
        break;
    case SW_LINE_posix_mkdir:
        code = mkdir(path, 0777);
        break;
    case SW_LINE_posix_rmdir:
        code = rmdir(path);
        break;
    default:
        code = stat(path, &status);
    }
    end(posix, done);
    (void)code;
}

bool replay_posix_call(struct replay_posix *posix, enum sw_line line, const int64_t *numbers,
                       struct replay_done *done) {
    switch (line) {
    case SW_LINE_posix_open:
    case SW_LINE_posix_hold:
        open_file(posix, line, numbers, done);
        return line == SW_LINE_posix_open;
    case SW_LINE_posix_unlink:
    case SW_LINE_posix_rename:
    case SW_LINE_posix_mkdir:
    case SW_LINE_posix_rmdir:
    case SW_LINE_posix_stat:
        call_path(posix, line, numbers, done);
        return true;
    default:
        return call_descriptor(posix, line, numbers, done);
    }
}
