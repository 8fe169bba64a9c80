/* POSIX: one pwrite or pread a contiguous run; a strided or tile call writes its pieces one by one. */
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct posix_file {
    int descriptor;
};

static int posix_open(struct session *session, void **handle, struct fault *fault) {
    struct posix_file *file = malloc(sizeof *file);
    if (file == NULL)
        return fault_set(fault, "malloc", session->path, "out of memory");
    const int flags = session->operation == OPERATION_WRITE ? O_CREAT | O_WRONLY : O_RDONLY;
    file->descriptor = open(session->path, flags | O_CLOEXEC, 0666);
    if (file->descriptor < 0) {
        free(file);
        return fault_set(fault, "open", session->path, "%s", strerror(errno));
    }
    *handle = file;
    return 0;
}

/* A single system call moves at most 2 GiB and may move less than asked. */
static int move_run(struct session *session, int descriptor, unsigned char *buffer, int64_t length,
                    int64_t offset, struct fault *fault) {
    const bool writing = session->operation == OPERATION_WRITE;
    while (length > 0) {
        ssize_t moved = writing ? pwrite(descriptor, buffer, (size_t)length, offset)
                                : pread(descriptor, buffer, (size_t)length, offset);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0)
            return fault_set(fault, writing ? "pwrite" : "pread", session->path, "at offset %lld: %s",
                             (long long)offset, strerror(errno));
        if (moved == 0)
            return fault_set(fault, writing ? "pwrite" : "pread", session->path,
                             "at offset %lld: %s; %lld bytes are missing", (long long)offset,
                             writing ? "nothing was written" : "the file ends here", (long long)length);
        buffer += moved;
        offset += moved;
        length -= moved;
    }
    return 0;
}

static int posix_transfer(struct session *session, void *handle, int64_t call, void *buffer,
                          struct fault *fault) {
    const struct posix_file *file = handle;
    const int64_t transfer = session->options->geometry.transfer;
    for (int64_t done = 0; done < transfer;) {
        int64_t offset;
        int64_t run = pattern_run(&session->pattern, call * transfer + done, &offset);
        if (move_run(session, file->descriptor, (unsigned char *)buffer + done, run, offset, fault) != 0)
            return -1;
        done += run;
    }
    return 0;
}

static int posix_sync(struct session *session, void *handle, struct fault *fault) {
    const struct posix_file *file = handle;
    if (fsync(file->descriptor) != 0)
        return fault_set(fault, "fsync", session->path, "%s", strerror(errno));
    return 0;
}

static int posix_close(struct session *session, void *handle, struct fault *fault) {
    struct posix_file *file = handle;
    const int failed = close(file->descriptor);
    free(file);
    return failed != 0 ? fault_set(fault, "close", session->path, "%s", strerror(errno)) : 0;
}

static int posix_remove(const char *path, struct fault *fault) {
    if (unlink(path) != 0 && errno != ENOENT)
        return fault_set(fault, "unlink", path, "%s", strerror(errno));
    return 0;
}

const struct backend backend_posix = {
    .name = "posix",
    .collective = false,
    .stores = true,
    .open = posix_open,
    .transfer = posix_transfer,
    .sync = posix_sync,
    .close = posix_close,
    .remove = posix_remove,
};
