/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "script.h"

#define ARGUMENTS 4096 /* bytes of the command line that are looked at */

/* Options of one letter. After one of `code`, an argument holds the commands themselves; after one of
 * `module`, it names what is run; after one of `value`, it is the option's. They may stand at the end of
 * several letters. */
static const struct interpreter {
    const char *name, *code, *module, *value;
} interpreters[] = {
    {"python", "c", "m", "WX"}, {"pypy", "c", "m", "WX"}, {"bash", "c", "", "oO"},  {"dash", "c", "", "o"},
    {"zsh", "c", "", "o"},      {"ksh", "c", "", "o"},    {"sh", "c", "", "o"},     {"perl", "eE", "", ""},
    {"ruby", "e", "", "rI"},    {"lua", "e", "", "l"},    {"julia", "eE", "", "L"}, {"node", "ep", "", "r"},
};

static const char *base(const char *path) {
    const char *last = strrchr(path, '/');
    return last ? last + 1 : path;
}

/* By its name without a version: python3.11, lua5.4. */
static const struct interpreter *interpreter_of(const char *executable) {
    const char *name = base(executable);
    for (size_t i = 0; i < sizeof interpreters / sizeof *interpreters; i++) {
        size_t length = strlen(interpreters[i].name);
        if (strncmp(name, interpreters[i].name, length) == 0 &&
            name[length + strspn(name + length, "0123456789.-")] == '\0')
            return &interpreters[i];
    }
    return NULL;
}

static size_t command_line(char *text, size_t size) {
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    size_t length = 0;
    for (ssize_t got = 1; got > 0 && length < size; length += got > 0 ? (size_t)got : 0)
        got = syscall(SYS_read, fd, text + length, size - length);
    syscall(SYS_close, fd);
    return length;
}

static void keep(char *to, size_t size, const char *name) {
    size_t length = strlen(name);
    if (length >= size)
        length = size - 1;
    memcpy(to, name, length);
    to[length] = '\0';
}

void script_of(const char *executable, char *name, size_t size) {
    const struct interpreter *of = interpreter_of(executable);
    char text[ARGUMENTS + 1];
    name[0] = '\0';
    if (!of)
        return;
    size_t length = command_line(text, ARGUMENTS);
    text[length] = '\0';
    bool module = false;
    for (const char *at = text + strlen(text) + 1, *end = text + length; at < end; at += strlen(at) + 1) {
        if (at + strlen(at) >= end)
            return; /* cut off */
        if (module || at[0] != '-' || at[1] == '\0') {
            struct stat about;
            if (module || (at[0] != '-' && syscall(SYS_newfstatat, AT_FDCWD, at, &about, 0) == 0 &&
                           S_ISREG(about.st_mode)))
                keep(name, size, base(at));
            return;
        }
        if (at[1] == '-')
            continue;
        char last = at[strlen(at) - 1];
        if (strchr(of->code, last))
            return;
        module = strchr(of->module, last) != NULL;
        if (strchr(of->value, last))
            at += strlen(at) + 1;
    }
}
