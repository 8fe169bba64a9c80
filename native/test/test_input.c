/* SPDX-License-Identifier: BSD-3-Clause
 * Commands: what they print, what they are given, and that no other process is waited for. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "input.h"

static int shell(const char *line, char *output, size_t size) {
    char *const arguments[] = {"sh", "-c", (char *)line, NULL};
    return sw_input_command(arguments, 0640, output, size);
}

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static volatile sig_atomic_t told;

static void tell(int signal) {
    (void)signal;
    told = 1;
}

/* Waits for whatever child there is, as programs do that start several. */
static void *wait_for_any(void *ends) {
    void *met = NULL;
    while (!atomic_load((atomic_bool *)ends))
        if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
            met = ends;
    return met;
}

static void *hold(void *line) {
    char output[64];
    CHECK(shell(line, output, sizeof output) == 0);
    return NULL;
}

/* While a command runs, nobody else has the program's descriptors. */
static void check_descriptors(void) {
    int ends[2] = {-1, -1}, wait[2] = {-1, -1};
    char line[64], byte;
    pthread_t thread;
    CHECK(pipe2(ends, O_CLOEXEC) == 0 && pipe(wait) == 0);
    struct pollfd end = {.fd = ends[0]};
    snprintf(line, sizeof line, "exec %d>&-; read x <&%d; exit 0", wait[1], wait[0]);
    CHECK(pthread_create(&thread, NULL, hold, line) == 0);
    while (waitpid(-1, NULL, __WALL | WNOHANG) != 0) /* until it has begun */
        ;
    close(ends[1]);
    CHECK(poll(&end, 1, 10000) == 1 && read(ends[0], &byte, 1) == 0);
    close(wait[1]);
    pthread_join(thread, NULL);
    close(ends[0]);
    close(wait[0]);
}

/* What is killed while a command runs leaves nothing of its own behind. */
static void check_killed(void) {
    int ends[2] = {-1, -1}, wait[2] = {-1, -1}, begun[2] = {-1, -1};
    char line[64], byte;
    CHECK(pipe2(ends, O_CLOEXEC) == 0 && pipe(wait) == 0 && pipe(begun) == 0);
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        snprintf(line, sizeof line, "exec %d>&-; echo x >&%d; read x <&%d", wait[1], begun[1], wait[0]);
        hold(line);
        _exit(0);
    }
    close(ends[1]);
    CHECK(read(begun[0], &byte, 1) == 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK(poll(&end, 1, 10000) == 1);
    const int left[] = {ends[0], wait[0], wait[1], begun[0], begun[1]};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        close(left[i]);
}

/* The program learns nothing of a command. */
static void check_unnoticed(void) {
    char output[64];
    pthread_t waiter;
    atomic_bool ends = false;
    void *met = &ends;
    CHECK(signal(SIGCHLD, tell) != SIG_ERR);
    CHECK(pthread_create(&waiter, NULL, wait_for_any, &ends) == 0);
    for (int i = 0; i < 20; i++)
        CHECK(shell("exit 5", output, sizeof output) == 5);
    atomic_store(&ends, true);
    pthread_join(waiter, &met);
    CHECK(!met && !told);
    signal(SIGCHLD, SIG_IGN);
    CHECK(shell("echo said; exit 6", output, sizeof output) == 6 && strcmp(output, "said\n") == 0);
    signal(SIGCHLD, SIG_DFL);
    CHECK(waitpid(-1, NULL, __WALL | WNOHANG) == -1 && errno == ECHILD);
}

int main(void) {
    char output[64];
    CHECK(shell("echo said; echo of >&2; exit 3", output, sizeof output) == 3 &&
          strcmp(output, "said\nof\n") == 0);
    CHECK(shell("umask", output, sizeof output) == 0 && strtol(output, NULL, 8) == 0137);
    CHECK(shell("kill -9 $$", output, sizeof output) == -1 && !*output);
    /* More than there is room for. */
    CHECK(shell("printf '%200s' x", output, sizeof output) == 0 && strlen(output) == sizeof output - 1);
    char *const missing[] = {"/nowhere/lfs", NULL};
    CHECK(sw_input_command(missing, 0640, output, sizeof output) == -1);

    setenv("STRIPEWISE_MODE", "apply", 1);
    CHECK(shell("echo ${STRIPEWISE_MODE-none}", output, sizeof output) == 0 && strcmp(output, "none\n") == 0);

    /* Another process holds what the command prints to, as the children of other threads may. */
    double began = seconds();
    CHECK(shell("sleep 10 & echo said", output, sizeof output) == 0 && strcmp(output, "said\n") == 0);
    CHECK(seconds() - began < 8);

    /* A program without standard input and output. */
    pid_t child = fork();
    if (child == 0) {
        close(0);
        close(1);
        _exit(shell("echo said", output, sizeof output) == 0 && strcmp(output, "said\n") == 0 ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);

    check_unnoticed();
    check_descriptors();
    check_killed();
    char *const printenv[] = {"/usr/bin/env", NULL};
    clearenv();
    CHECK(sw_input_command(printenv, 0640, output, sizeof output) == 0 && !*output);
    return failures;
}
