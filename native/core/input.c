/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "input.h"
#include "reserved.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define STACK 65536 /* of each child */
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

/* What the children are given, which share the memory of the program. */
struct command {
    char *const *arguments;
    sigset_t signals; /* that the program blocks */
    int output;
    mode_t mode;
    _Atomic(uint32_t) starts; /* 0: the command has begun, or cannot */
    _Alignas(16) char stacks[2][STACK];
    char *variables[];
};

typedef int (*clone_call)(int (*)(void *), void *, int, void *, ...);

/* Not the program's own function of this name. */
static clone_call clone_of_system(void) {
    return sw_clone ? sw_clone : clone;
}

/* In the child that becomes the command. Handlers of the program must not run there. Descriptors are changed
 * by system calls: those of the C library may be ours, which would take them for the program's. */
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
        pthread_sigmask(SIG_SETMASK, &command->signals, NULL) == 0)
        execvpe(command->arguments[0], command->arguments, command->variables);
    syscall(SYS_exit, NOT_RUN);
    return NOT_RUN;
}

/* In the program's own child, which waits for the command. The end of a child that has become another program
 * sends SIGCHLD, whatever clone was told, and any wait meets it: so the command is a child of this one. From
 * the command's beginning on, the program goes on beside: what fails here would set its errno. */
static int attend(void *given) {
    struct command *command = given;
    int status = 0;
    /* It has the memory and the descriptors of the program, and must not keep them when that is killed. */
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    /* Ignored, it would leave no status. */
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    pid_t child = clone_of_system()(replace, command->stacks[1] + STACK, CLONE_VM | CLONE_VFORK, command);
    atomic_store(&command->starts, 0);
    syscall(SYS_futex, &command->starts, FUTEX_WAKE, 1, NULL, NULL, 0);
    bool ended = child > 0 && syscall(SYS_wait4, child, &status, __WALL, NULL) == child;
    syscall(SYS_exit, ended && WIFEXITED(status) ? WEXITSTATUS(status) : NOT_RUN);
    return NOT_RUN;
}

/* The program's variables without those that would have the command watched, too. Another thread may be
 * adding some: there is room for so many. */
static void own_variables(char **to, size_t most) {
    for (char **variable = environ; variable && *variable && most > 1; variable++)
        if (strncmp(*variable, "LD_PRELOAD=", 11) != 0 && strncmp(*variable, "STRIPEWISE_", 11) != 0) {
            *to++ = *variable;
            most--;
        }
    *to = NULL;
}

/* Runs a command to its end, and gives its exit status, or NOT_RUN. */
static int run(char *const arguments[], mode_t mode, int output) {
    size_t count = 1;
    while (environ && environ[count - 1])
        count++;
    size_t size = sizeof(struct command) + count * sizeof *environ;
    struct command *command = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (command == MAP_FAILED)
        return NOT_RUN;
    command->arguments = arguments;
    command->output = output;
    command->mode = mode;
    command->starts = 1;
    own_variables(command->variables, count);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    command->signals = before;
    /* With the program's descriptors, so that it keeps none open that the program closes. If it is killed,
     * the kernel clears what is waited for. */
    const int shared = CLONE_VM | CLONE_FILES | CLONE_CHILD_CLEARTID;
    pid_t child =
        clone_of_system()(attend, command->stacks[0] + STACK, shared, command, NULL, NULL, &command->starts);
    while (child > 0 && atomic_load(&command->starts))
        syscall(SYS_futex, &command->starts, FUTEX_WAIT, 1, NULL, NULL, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    long ended = -1;
    int status = 0;
    /* Not waitpid, where the thread could be cancelled. */
    do
        ended = child > 0 ? syscall(SYS_wait4, child, &status, __WALL, NULL) : -1;
    while (child > 0 && ended < 0 && errno == EINTR);
    munmap(command, size);
    return ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : NOT_RUN;
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
    int fd = output_file();
    if (fd < 0)
        return -1;
    int status = run(arguments, mode, fd);
    size_t used = 0;
    while (status != NOT_RUN && used + 1 < size) {
        long got = syscall(SYS_pread64, fd, output + used, size - 1 - used, (off_t)used);
        if (got > 0)
            used += (size_t)got;
        else if (got == 0 || errno != EINTR)
            break;
    }
    output[used] = '\0';
    syscall(SYS_close, fd);
    return status == NOT_RUN ? -1 : status;
}
