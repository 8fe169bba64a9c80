/* The accelerator of small reads as a library of its own to preload: Stripewise's (native/accelerator) under
 * variables that Stripewise does not know.
 *
 * Settings: SMALLREAD_CLUSTER_THRESHOLD, SMALLREAD_BINSIZE, SMALLREAD_SEQUENCE_LENGTH,
 * SMALLREAD_PREFETCH_SIZE. */
#define _GNU_SOURCE
#include "../../native/accelerator/small_reads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static int64_t setting(const char *name, int64_t otherwise) {
    const char *text = getenv(name);
    char *end;
    if (text == NULL || *text == '\0')
        return otherwise;
    long long value = strtoll(text, &end, 10);
    return *end == '\0' && value > 0 ? value : otherwise;
}

__attribute__((constructor)) static void begin(void) {
    const struct window_settings settings = {
        .cluster_threshold = setting("SMALLREAD_CLUSTER_THRESHOLD", 2),
        .binsize = setting("SMALLREAD_BINSIZE", 1 << 20),
        .sequence_length = setting("SMALLREAD_SEQUENCE_LENGTH", 100),
        .prefetch_size = setting("SMALLREAD_PREFETCH_SIZE", 20 << 20),
    };
    begin_small_reads(&settings, true);
    pthread_atfork(NULL, NULL, leave_small_reads);
}

/* The call behind ours. */
#define NEXT(RESULT, NAME, ...)                                                                              \
    static RESULT (*next)(__VA_ARGS__);                                                                      \
    if (next == NULL)                                                                                        \
        *(void **)&next = dlsym(RTLD_NEXT, #NAME);

/* A write to a pipe or a terminal may last. */
static bool is_regular(int fd) {
    struct stat about;
    return accelerates && fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

#define READS(NAME, PLACE, PARAMETERS, TYPES, ...)                                                           \
    EXPORT ssize_t NAME PARAMETERS {                                                                         \
        NEXT(ssize_t, NAME, TYPES)                                                                           \
        ssize_t bytes = accelerates && is_small_read(size) ? answer_read(fd, data, size, PLACE) : -1;        \
        return bytes < 0 ? next(__VA_ARGS__) : bytes;                                                        \
    }
#define LIST(...) __VA_ARGS__
READS(read, HERE, (int fd, void *data, size_t size), LIST(int, void *, size_t), fd, data, size)
READS(pread, place, (int fd, void *data, size_t size, off_t place), LIST(int, void *, size_t, off_t), fd,
      data, size, place)
READS(pread64, place, (int fd, void *data, size_t size, off64_t place), LIST(int, void *, size_t, off64_t),
      fd, data, size, place)

/* A call that changes a file. DATA: what is written, NULL if it is not one piece. */
#define CHANGES(NAME, RESULT, DATA, BYTES, PLACE, PARAMETERS, TYPES, ...)                                    \
    EXPORT RESULT NAME PARAMETERS {                                                                          \
        NEXT(RESULT, NAME, TYPES)                                                                            \
        struct own_write own;                                                                                \
        bool follows = is_regular(fd);                                                                       \
        if (follows)                                                                                         \
            begin_write(&own, fd, PLACE);                                                                    \
        RESULT result = next(__VA_ARGS__);                                                                   \
        if (follows)                                                                                         \
            end_write(&own, fd, DATA, BYTES, PLACE);                                                         \
        return result;                                                                                       \
    }
CHANGES(write, ssize_t, data, result, -1, (int fd, const void *data, size_t size),
        LIST(int, const void *, size_t), fd, data, size)
CHANGES(pwrite, ssize_t, data, result, place, (int fd, const void *data, size_t size, off_t place),
        LIST(int, const void *, size_t, off_t), fd, data, size, place)
CHANGES(pwrite64, ssize_t, data, result, place, (int fd, const void *data, size_t size, off64_t place),
        LIST(int, const void *, size_t, off64_t), fd, data, size, place)
CHANGES(writev, ssize_t, NULL, result, -1, (int fd, const struct iovec *pieces, int count),
        LIST(int, const struct iovec *, int), fd, pieces, count)
CHANGES(pwritev, ssize_t, NULL, result, place, (int fd, const struct iovec *pieces, int count, off_t place),
        LIST(int, const struct iovec *, int, off_t), fd, pieces, count, place)
CHANGES(pwritev64, ssize_t, NULL, result, place,
        (int fd, const struct iovec *pieces, int count, off64_t place),
        LIST(int, const struct iovec *, int, off64_t), fd, pieces, count, place)
CHANGES(ftruncate, int, NULL, 0, -1, (int fd, off_t size), LIST(int, off_t), fd, size)
CHANGES(ftruncate64, int, NULL, 0, -1, (int fd, off64_t size), LIST(int, off64_t), fd, size)

#define MAPS(NAME, OFFSET)                                                                                   \
    EXPORT void *NAME(void *at, size_t size, int protection, int flags, int fd, OFFSET place) {              \
        NEXT(void *, NAME, void *, size_t, int, int, int, OFFSET)                                            \
        void *memory = next(at, size, protection, flags, fd, place);                                         \
        if (accelerates && fd >= 0 && (flags & MAP_ANONYMOUS) == 0)                                          \
            mapped(fd, flags);                                                                               \
        return memory;                                                                                       \
    }
MAPS(mmap, off_t)
MAPS(mmap64, off64_t)
