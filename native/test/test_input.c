/* SPDX-License-Identifier: BSD-3-Clause
 * Commands: what they print, what they are given, and that no other process is waited for. */
#define _GNU_SOURCE
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
    return failures;
}
