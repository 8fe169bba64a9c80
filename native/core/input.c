/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

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

int sw_input_command(char *const arguments[], char *output, size_t size) {
    int pipe_ends[2];
    if (pipe2(pipe_ends, O_CLOEXEC) != 0)
        return -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDERR_FILENO);
    pid_t child;
    int failed = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_ends[1]);
    size_t used = 0;
    while (!failed) {
        char rest[256];
        bool room = used + 1 < size;
        ssize_t got = read(pipe_ends[0], room ? output + used : rest, room ? size - 1 - used : sizeof rest);
        if (got > 0 && room)
            used += (size_t)got;
        else if (got == 0 || (got < 0 && errno != EINTR))
            break;
    }
    output[used] = '\0';
    close(pipe_ends[0]);
    int status = -1;
    /* ECHILD where the program ignores SIGCHLD: the result is then unknown, and its effect is checked by the
     * caller. */
    while (!failed && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 0;
    return !failed && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
