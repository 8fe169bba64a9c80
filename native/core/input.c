/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define STACK 65536 /* of the child that is to be a command */
#define NOT_RUN 127

#ifndef MFD_CLOEXEC /* before glibc 2.27 */
#define MFD_CLOEXEC 1U
#endif

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

/* What the child is given: it shares the memory of its parent, which waits until it is replaced. */
struct command {
    char *const *arguments;
    char **variables;
    const sigset_t *signals; /* that the parent blocked before */
    int output;
    mode_t mode;
};

/* In the child. Handlers of the program must not run there. Descriptors are changed by system calls: those of
 * the C library may be ours, which would take them for the program's. */
static int replace(void *given) {
    const struct command *command = given;
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    }
    umask(umask(0777) | (0777 & ~command->mode));
    if (syscall(SYS_dup3, command->output, STDOUT_FILENO, 0) >= 0 &&
        syscall(SYS_dup3, command->output, STDERR_FILENO, 0) >= 0 &&
        pthread_sigmask(SIG_SETMASK, command->signals, NULL) == 0)
        execvpe(command->arguments[0], command->arguments, command->variables);
    syscall(SYS_exit, NOT_RUN);
    return NOT_RUN;
}

/* The program's variables without those that would have the command watched, too. Another thread may be
 * adding some: there is room for so many. */
static void own_variables(char **to, size_t most) {
    for (char **variable = environ; *variable && most > 1; variable++)
        if (strncmp(*variable, "LD_PRELOAD=", 11) != 0 && strncmp(*variable, "STRIPEWISE_", 11) != 0) {
            *to++ = *variable;
            most--;
        }
    *to = NULL;
}

/* Starts a command in a child without a signal at its end; -1 if it cannot be. */
static pid_t start(char *const arguments[], mode_t mode, int output) {
    size_t count = 1;
    while (environ[count - 1])
        count++;
    size_t size = STACK + count * sizeof *environ;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -1;
    sigset_t all, before;
    struct command command = {arguments, (char **)(void *)(memory + STACK), &before, output, mode};
    own_variables(command.variables, count);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t child = clone(replace, memory + STACK, CLONE_VM | CLONE_VFORK, &command);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    munmap(memory, size);
    return child;
}

/* A file in memory, or -1. Not a pipe: a child that another thread forks meanwhile holds its writing end,
 * too, and its end comes when that child ends. It is none of the descriptors that the command gets it as. */
static int output_file(void) {
    int fd = (int)syscall(SYS_memfd_create, "stripewise-command", MFD_CLOEXEC);
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int above = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    syscall(SYS_close, fd);
    return above;
}

int sw_input_command(char *const arguments[], mode_t mode, char *output, size_t size) {
    output[0] = '\0';
    int fd = output_file(), status = -1;
    if (fd < 0)
        return -1;
    pid_t child = start(arguments, mode, fd), ended;
    do
        ended = child > 0 ? waitpid(child, &status, __WALL) : -1;
    while (child > 0 && ended < 0 && errno == EINTR);
    size_t used = 0;
    while (ended > 0 && used + 1 < size) {
        long got = syscall(SYS_pread64, fd, output + used, size - 1 - used, (off_t)used);
        if (got > 0)
            used += (size_t)got;
        else if (got == 0 || errno != EINTR)
            break;
    }
    output[used] = '\0';
    syscall(SYS_close, fd);
    return ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) != NOT_RUN ? WEXITSTATUS(status) : -1;
}
