/* The accelerator as a library to preload: small reads of regular files are answered from larger ones.
 *
 * What a program reads is byte for byte what it would have read. Its own writes are brought into what is
 * kept; where anybody else has changed a file (its time or size says so) everything kept of it is forgotten.
 * Files that are mapped, opened for direct I/O or locked are left alone. On any failure the plain call is
 * made and its answer returned.
 *
 * Settings: SMALLREAD_CLUSTER_THRESHOLD, SMALLREAD_BINSIZE, SMALLREAD_SEQUENCE_LENGTH,
 * SMALLREAD_PREFETCH_SIZE. */
#define _GNU_SOURCE
#include "smallread.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_DESCRIPTORS 4096
#define EXPORT __attribute__((visibility("default")))

/* A file, whatever descriptors lead to it. */
struct open_file {
    dev_t device;
    ino_t inode;
    struct timespec changed;
    off_t size;
    struct smallread *reads;
    int descriptors;
    bool alone; /* never answered from memory */
    struct open_file *next;
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct open_file *files;
static struct open_file *by_descriptor[MOST_DESCRIPTORS];
static struct smallread_settings settings = {2, 1 << 20, 100, 20 << 20};

static ssize_t (*real_read)(int, void *, size_t);
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);
static int (*real_open)(const char *, int, ...);
static int (*real_openat)(int, const char *, int, ...);
static int (*real_close)(int);
static int (*real_dup)(int);
static int (*real_dup2)(int, int);
static int (*real_dup3)(int, int, int);
static int (*real_ftruncate)(int, off_t);
static void *(*real_mmap)(void *, size_t, int, int, int, off_t);

static void find(void *to, const char *name) {
    *(void **)to = dlsym(RTLD_NEXT, name);
}

static int64_t setting(const char *name, int64_t otherwise) {
    const char *text = getenv(name);
    char *end;
    if (text == NULL || *text == '\0')
        return otherwise;
    long long value = strtoll(text, &end, 10);
    return *end == '\0' && value > 0 ? value : otherwise;
}

static void in_child(void) {
    /* The parent's other threads are gone, and may have held the guard. */
    pthread_mutex_init(&guard, NULL);
}

__attribute__((constructor)) static void begin(void) {
    find(&real_read, "read"), find(&real_pread, "pread64"), find(&real_write, "write");
    find(&real_pwrite, "pwrite64"), find(&real_writev, "writev"), find(&real_pwritev, "pwritev64");
    find(&real_open, "open64"), find(&real_openat, "openat64"), find(&real_close, "close");
    find(&real_dup, "dup"), find(&real_dup2, "dup2"), find(&real_dup3, "dup3");
    find(&real_ftruncate, "ftruncate64"), find(&real_mmap, "mmap64");
    settings.cluster_threshold = setting("SMALLREAD_CLUSTER_THRESHOLD", settings.cluster_threshold);
    settings.binsize = setting("SMALLREAD_BINSIZE", settings.binsize);
    settings.sequence_length = setting("SMALLREAD_SEQUENCE_LENGTH", settings.sequence_length);
    settings.prefetch_size = setting("SMALLREAD_PREFETCH_SIZE", settings.prefetch_size);
    pthread_atfork(NULL, NULL, in_child);
}

/* Another library's constructor may call before ours has run. */
#define READY(pointer)                                                                                       \
    do {                                                                                                     \
        if ((pointer) == NULL)                                                                               \
            begin();                                                                                         \
    } while (0)

/* -- which descriptor leads to which file: all with the guard held -- */

static struct open_file *file_of(int descriptor) {
    return descriptor >= 0 && descriptor < MOST_DESCRIPTORS ? by_descriptor[descriptor] : NULL;
}

static void leave(int descriptor) {
    struct open_file *file = file_of(descriptor);
    if (file == NULL)
        return;
    by_descriptor[descriptor] = NULL;
    if (--file->descriptors > 0)
        return;
    for (struct open_file **link = &files; *link != NULL; link = &(*link)->next) {
        if (*link == file) {
            *link = file->next;
            break;
        }
    }
    smallread_free(file->reads);
    free(file);
}

static void enter(int descriptor, struct open_file *file) {
    leave(descriptor);
    if (file == NULL || descriptor < 0 || descriptor >= MOST_DESCRIPTORS)
        return;
    by_descriptor[descriptor] = file;
    file->descriptors++;
}

/* Whether the file is as it was when something was last kept of it; if not, everything kept is forgotten. */
static bool refresh(struct open_file *file, int descriptor) {
    struct stat now;
    if (fstat(descriptor, &now) != 0)
        return false;
    bool same = now.st_mtim.tv_sec == file->changed.tv_sec && now.st_mtim.tv_nsec == file->changed.tv_nsec &&
                now.st_size == file->size;
    if (!same)
        smallread_drop(file->reads);
    file->changed = now.st_mtim;
    file->size = now.st_size;
    return true;
}

static void opened(int descriptor, int flags) {
    struct stat now;
    int kept = errno;
    if (descriptor >= 0 && descriptor < MOST_DESCRIPTORS && fstat(descriptor, &now) == 0 &&
        S_ISREG(now.st_mode)) {
        pthread_mutex_lock(&guard);
        struct open_file *file = files;
        while (file != NULL && (file->device != now.st_dev || file->inode != now.st_ino))
            file = file->next;
        if (file == NULL && (file = calloc(1, sizeof *file)) != NULL) {
            *file = (struct open_file){.device = now.st_dev, .inode = now.st_ino, .next = files};
            file->changed = now.st_mtim, file->size = now.st_size;
            file->reads = smallread_new(&settings);
            file->alone = file->reads == NULL;
            files = file;
        }
        if (file != NULL && (flags & O_DIRECT) != 0)
            file->alone = true;
        if (file != NULL && file->reads != NULL && (flags & O_TRUNC) != 0)
            smallread_drop(file->reads);
        enter(descriptor, file);
        pthread_mutex_unlock(&guard);
    }
    errno = kept;
}

/* -- reading and writing -- */

/* A descriptor that may not be read must fail as ever. */
static bool write_only(int descriptor) {
    return (fcntl(descriptor, F_GETFL) & O_ACCMODE) == O_WRONLY;
}

static ssize_t read_at(struct open_file *file, int descriptor, void *data, size_t size, off_t offset) {
    int64_t start, length;
    if (file->alone || size == 0 || size > (size_t)INT64_MAX / 2 || offset < 0 || write_only(descriptor) ||
        !refresh(file, descriptor))
        return real_pread(descriptor, data, size, offset);
    bool fetch = smallread_note(file->reads, offset, (int64_t)size, &start, &length);
    if (smallread_get(file->reads, offset, (int64_t)size, data))
        return (ssize_t)size;
    char *more = fetch ? malloc((size_t)length) : NULL;
    if (more == NULL)
        return real_pread(descriptor, data, size, offset);
    int64_t got = 0;
    while (got < length) {
        ssize_t part = real_pread(descriptor, more + got, (size_t)(length - got), start + got);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            break;
        got += part;
    }
    smallread_keep(file->reads, start, got, more);
    if (smallread_get(file->reads, offset, (int64_t)size, data))
        return (ssize_t)size;
    /* At the file's end or on an error: as if we were not there. */
    return real_pread(descriptor, data, size, offset);
}

static void wrote(struct open_file *file, int descriptor, const void *data, ssize_t size, off_t offset) {
    int kept = errno;
    struct stat now;
    if (file->reads != NULL && size > 0) {
        if (offset >= 0)
            smallread_wrote(file->reads, offset, size, data);
        else
            smallread_drop(file->reads);
        if (fstat(descriptor, &now) == 0)
            file->changed = now.st_mtim, file->size = now.st_size;
        else
            smallread_drop(file->reads);
    }
    errno = kept;
}

EXPORT ssize_t pread64(int descriptor, void *data, size_t size, off_t offset) {
    READY(real_pread);
    pthread_mutex_lock(&guard);
    struct open_file *file = file_of(descriptor);
    ssize_t got = file != NULL ? read_at(file, descriptor, data, size, offset) : -2;
    pthread_mutex_unlock(&guard);
    return file != NULL ? got : real_pread(descriptor, data, size, offset);
}

EXPORT ssize_t pread(int descriptor, void *data, size_t size, off_t offset) {
    return pread64(descriptor, data, size, offset);
}

EXPORT ssize_t read(int descriptor, void *data, size_t size) {
    READY(real_read);
    pthread_mutex_lock(&guard);
    struct open_file *file = file_of(descriptor);
    off_t offset = file != NULL && !file->alone ? lseek(descriptor, 0, SEEK_CUR) : -1;
    ssize_t got = 0;
    bool ours = offset >= 0 && !write_only(descriptor);
    if (ours) {
        got = read_at(file, descriptor, data, size, offset);
        if (got > 0)
            lseek(descriptor, offset + got, SEEK_SET);
    }
    pthread_mutex_unlock(&guard);
    return ours ? got : real_read(descriptor, data, size);
}

EXPORT ssize_t pwrite64(int descriptor, const void *data, size_t size, off_t offset) {
    READY(real_pwrite);
    pthread_mutex_lock(&guard);
    struct open_file *file = file_of(descriptor);
    if (file != NULL && file->reads != NULL)
        refresh(file, descriptor);
    ssize_t done = real_pwrite(descriptor, data, size, offset);
    if (file != NULL)
        /* With O_APPEND, Linux writes at the end whatever the offset. */
        wrote(file, descriptor, data, done, (fcntl(descriptor, F_GETFL) & O_APPEND) != 0 ? -1 : offset);
    pthread_mutex_unlock(&guard);
    return done;
}

EXPORT ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset) {
    return pwrite64(descriptor, data, size, offset);
}

EXPORT ssize_t write(int descriptor, const void *data, size_t size) {
    READY(real_write);
    pthread_mutex_lock(&guard);
    struct open_file *file = file_of(descriptor);
    if (file != NULL && file->reads != NULL)
        refresh(file, descriptor);
    ssize_t done = file != NULL ? real_write(descriptor, data, size) : 0;
    if (file != NULL) {
        off_t end = lseek(descriptor, 0, SEEK_CUR);
        wrote(file, descriptor, data, done, end >= done && done > 0 ? end - done : -1);
    }
    pthread_mutex_unlock(&guard);
    return file != NULL ? done : real_write(descriptor, data, size);
}

/* Writes of several pieces, and whatever else changes a file through us: forget it. */
static void changed(int descriptor) {
    int kept = errno;
    pthread_mutex_lock(&guard);
    struct open_file *file = file_of(descriptor);
    if (file != NULL && file->reads != NULL)
        smallread_drop(file->reads);
    pthread_mutex_unlock(&guard);
    errno = kept;
}

EXPORT ssize_t writev(int descriptor, const struct iovec *pieces, int count) {
    READY(real_writev);
    ssize_t done = real_writev(descriptor, pieces, count);
    changed(descriptor);
    return done;
}

EXPORT ssize_t pwritev64(int descriptor, const struct iovec *pieces, int count, off_t offset) {
    READY(real_pwritev);
    ssize_t done = real_pwritev(descriptor, pieces, count, offset);
    changed(descriptor);
    return done;
}

EXPORT ssize_t pwritev(int descriptor, const struct iovec *pieces, int count, off_t offset) {
    return pwritev64(descriptor, pieces, count, offset);
}

EXPORT int ftruncate64(int descriptor, off_t size) {
    READY(real_ftruncate);
    int done = real_ftruncate(descriptor, size);
    changed(descriptor);
    return done;
}

EXPORT int ftruncate(int descriptor, off_t size) {
    return ftruncate64(descriptor, size);
}

/* Stores into a shared mapping change the file long before its time says so. */
EXPORT void *mmap64(void *address, size_t size, int protection, int flags, int descriptor, off_t offset) {
    READY(real_mmap);
    void *got = real_mmap(address, size, protection, flags, descriptor, offset);
    if ((flags & MAP_SHARED) != 0 && descriptor >= 0) {
        int kept = errno;
        pthread_mutex_lock(&guard);
        struct open_file *file = file_of(descriptor);
        if (file != NULL)
            file->alone = true;
        pthread_mutex_unlock(&guard);
        errno = kept;
    }
    return got;
}

EXPORT void *mmap(void *address, size_t size, int protection, int flags, int descriptor, off_t offset) {
    return mmap64(address, size, protection, flags, descriptor, offset);
}

/* -- opening and closing -- */

static mode_t mode_of(int flags, va_list more) {
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0;
}

EXPORT int open64(const char *path, int flags, ...) {
    READY(real_open);
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    int descriptor = real_open(path, flags, mode);
    opened(descriptor, flags);
    return descriptor;
}

EXPORT int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return open64(path, flags, mode);
}

EXPORT int openat64(int folder, const char *path, int flags, ...) {
    READY(real_openat);
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    int descriptor = real_openat(folder, path, flags, mode);
    opened(descriptor, flags);
    return descriptor;
}

EXPORT int openat(int folder, const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return openat64(folder, path, flags, mode);
}

EXPORT int close(int descriptor) {
    READY(real_close);
    pthread_mutex_lock(&guard);
    leave(descriptor);
    pthread_mutex_unlock(&guard);
    return real_close(descriptor);
}

static int copied(int from, int to) {
    int kept = errno;
    if (to >= 0 && from != to) {
        pthread_mutex_lock(&guard);
        enter(to, file_of(from));
        pthread_mutex_unlock(&guard);
    }
    errno = kept;
    return to;
}

EXPORT int dup(int descriptor) {
    READY(real_dup);
    return copied(descriptor, real_dup(descriptor));
}

EXPORT int dup2(int descriptor, int other) {
    READY(real_dup2);
    return copied(descriptor, real_dup2(descriptor, other));
}

EXPORT int dup3(int descriptor, int other, int flags) {
    READY(real_dup3);
    return copied(descriptor, real_dup3(descriptor, other, flags));
}
