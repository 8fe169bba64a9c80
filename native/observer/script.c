/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "script.h"

#define ARGUMENTS 4096 /* bytes of the command line that are looked at */

/* Options. Several of one letter may stand in one argument. One of `code` means that there is no script; one
 * of `module` is followed by the name of what is run, one of `value` by a value: the rest of the argument, or
 * else the next one. One of `next` always has its value there, one of `attached` in the rest, which may be
 * empty, and one of `digits` in the digits behind it. Long ones of `words` have a value in the next argument.
 */
struct interpreter {
    const char *name, *code, *module, *value, *next, *attached, *digits, *words;
};

static const struct interpreter interpreters[] = {
    {"python", .code = "c", .module = "m", .value = "WX", .words = "check-hash-based-pycs"},
    {"pypy", .code = "c", .module = "m", .value = "WX", .words = "jit"},
    {"bash", .code = "cs", .next = "oO", .words = "rcfile init-file"},
    {"dash", .code = "cs", .next = "o"},
    {"zsh", .code = "cs", .next = "o", .words = "emulate"},
    {"ksh", .code = "cs", .next = "o"},
    {"sh", .code = "cs", .next = "oO"},
    {"perl", .code = "eE", .value = "I", .attached = "CDFimMx:=", .digits = "0l"},
    {"ruby", .code = "e", .value = "rICE", .attached = "FKTWix", .digits = "0",
     .words = "encoding enable disable"},
    {"lua", .code = "e", .value = "l"},
    {"julia", .code = "eE", .module = "m", .value = "LpJtHC", .attached = "Og",
     .words = "load procs sysimage threads machine-file cpu-target home"},
    {"node", .code = "ep", .next = "rC",
     .words = "require import loader experimental-loader conditions env-file"},
};

/* Modules of Python that run a script or another module, with options of their own. */
static const struct interpreter runners[] = {
    {"mpi4py", .code = "c", .module = "m"},
    {"mpi4py.run", .code = "c", .module = "m"},
    {"mpi4py.futures", .code = "c", .module = "m"},
    {"cProfile", .module = "m", .value = "os"},
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

static bool has(const char *letters, char one) {
    return letters && strchr(letters, one);
}

/* Whether a word is one of those with blanks between them. */
static bool lists(const char *words, const char *one) {
    size_t length = strlen(one);
    for (const char *at = words; at && *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == length && memcmp(at, one, length) == 0)
            return true;
    return false;
}

/* What comes behind an argument with options. */
enum behind { MORE, VALUE, MODULE, NOTHING };

/* rest: of a module, its name if that is in the argument. */
static enum behind read_options(const struct interpreter *of, const char *argument, const char **rest) {
    *rest = "";
    if (argument[0] == '-' && argument[1] == '-')
        return lists(of->words, argument + 2) ? VALUE : lists("eval print", argument + 2) ? NOTHING : MORE;
    enum behind found = MORE;
    for (const char *at = argument + 1; *at; at++) {
        if (has(of->code, *at))
            return NOTHING;
        if (has(of->module, *at)) {
            *rest = at + 1;
            return MODULE;
        }
        if (has(of->value, *at))
            return at[1] ? found : VALUE;
        if (has(of->attached, *at))
            return found;
        if (has(of->next, *at))
            found = VALUE;
        if (has(of->digits, *at))
            at += strspn(at + 1, "01234567");
    }
    return found;
}

static bool is_file(const char *path) {
    struct stat about;
    return syscall(SYS_newfstatat, AT_FDCWD, path, &about, 0) == 0 && S_ISREG(about.st_mode);
}

static const struct interpreter *runner_of(const char *module) {
    for (size_t i = 0; i < sizeof runners / sizeof *runners; i++)
        if (strcmp(runners[i].name, module) == 0)
            return &runners[i];
    return NULL;
}

void script_in(const char *executable, const char *line, size_t length, char *name, size_t size) {
    const struct interpreter *of = interpreter_of(executable);
    bool module = false, options = true;
    name[0] = '\0';
    if (!of || !length)
        return;
    for (const char *at = line + strlen(line) + 1, *end = line + length; at < end; at += strlen(at) + 1) {
        if (at + strlen(at) >= end)
            return; /* cut off */
        const char *found = at;
        if (options && !module && strcmp(at, "--") == 0) {
            options = false;
            continue;
        }
        if (options && !module && at[0] && at[1] && (at[0] == '-' || (at[0] == '+' && of->next))) {
            enum behind behind = read_options(of, at, &found);
            if (behind == VALUE)
                at += strlen(at) + 1;
            if (behind == NOTHING || at >= end)
                return;
            module = behind == MODULE;
            if (!module || !*found)
                continue;
        }
        if (module || is_file(found))
            keep(name, size, base(found));
        of = module ? runner_of(found) : NULL;
        if (!of)
            return;
        module = false;
    }
}

void script_of(const char *executable, char *name, size_t size) {
    name[0] = '\0';
    if (!interpreter_of(executable))
        return;
    /* Not on the stack, which may be small. */
    char *line = mmap(NULL, ARGUMENTS + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (line == MAP_FAILED)
        return;
    script_in(executable, line, command_line(line, ARGUMENTS), name, size);
    munmap(line, ARGUMENTS + 1);
}
