/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int sw_input_open(const char *path, off_t *size, char *error, size_t error_size) {
    /* O_NONBLOCK: a path that is a pipe without a writer must not hang the program. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    int reason = fd < 0 || fstat(fd, &status) != 0 ? errno : 0;
    if (!reason && S_ISREG(status.st_mode)) {
        *size = status.st_size;
        return fd;
    }
    snprintf(error, error_size, "%s", reason ? strerror(reason) : "not a regular file");
    if (fd >= 0)
        close(fd);
    errno = reason ? reason : EINVAL;
    return -1;
}

char *sw_input_read(int fd, off_t start, size_t *size, char *error, size_t error_size) {
    char *bytes = malloc(*size + 1);
    const char *reason = bytes ? NULL : "out of memory";
    size_t used = 0;
    while (!reason && used < *size) {
        ssize_t got = pread(fd, bytes + used, *size - used, start + (off_t)used);
        if (got == 0)
            break;
        if (got > 0)
            used += (size_t)got;
        else if (errno != EINTR)
            reason = strerror(errno);
    }
    close(fd);
    *size = used;
    if (!reason)
        return bytes;
    snprintf(error, error_size, "%s", reason);
    free(bytes);
    return NULL;
}
