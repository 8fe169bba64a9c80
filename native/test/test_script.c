/* SPDX-License-Identifier: BSD-3-Clause
 * The name of what an interpreter runs, by its command line; no other argument is taken for it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "../observer/script.h"
#include "check.h"

/* Words are separated by bars. */
static void check(const char *executable, const char *words, const char *expected) {
    char line[256] = "", name[16];
    size_t length = strlen(words) + 1;
    memcpy(line, words, length);
    for (size_t at = 0; at < length; at++)
        if (line[at] == '|')
            line[at] = '\0';
    script_in(executable, line, length, name, sizeof name);
    CHECK_TEXT(name, expected);
}

int main(void) {
    char folder[] = "/tmp/test_script.XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return EXIT_FAILURE;
    static const char *const files[] = {"s", "data", "-s"};
    for (int i = 0; i < 3; i++)
        close(open(files[i], O_CREAT | O_WRONLY, 0600));

    check("/usr/bin/python3.11", "python|s|data", "s");
    check("/usr/bin/python3.11", "python|./s|data", "s");
    check("/usr/bin/python3.11", "python|missing|data", "");
    check("/usr/bin/python3.11", "python|-uW|ignore|-Xdev|s", "s");
    check("/usr/bin/python3.11", "python|--check-hash-based-pycs|data|s", "s");
    check("/usr/bin/python3.11", "python|-c|s|data", "");
    check("/usr/bin/python3.11", "python|-cs|data", "");
    check("/usr/bin/python3.11", "python|-|s", "");
    check("/usr/bin/python3.11", "python|--|-s", "-s");
    check("/usr/bin/python3.11", "python|-m|pkg.train|data", "pkg.train");
    check("/usr/bin/python3.11", "python|-mpkg.train|data", "pkg.train");
    check("/usr/bin/python3.11", "python|-um|pkg.train|data", "pkg.train");
    check("/usr/bin/python3.11", "python|-m|mpi4py|s|data", "s");
    check("/usr/bin/python3.11", "python|-mmpi4py|-m|pkg|data", "pkg");
    check("/usr/bin/python3.11", "python|-m|mpi4py|-c|data", "mpi4py");
    check("/usr/bin/python3.11", "python|-m|cProfile|-o|data|s", "s");
    check("/usr/bin/perl", "perl|-es/x/y/|data", "");
    check("/usr/bin/perl", "perl|-lne|print|data", "");
    check("/usr/bin/perl", "perl|-0777pe|s|data", "");
    check("/usr/bin/perl", "perl|-de|1|data", "");
    check("/usr/bin/perl", "perl|-I|lib|-w|s", "s");
    check("/usr/bin/perl", "perl|-Ilib|-MList::Util|-d:Prof|s", "s");
    check("/usr/bin/bash", "bash|-euo|pipefail|s", "s");
    check("/usr/bin/bash", "bash|-oe|pipefail|+x|s", "s");
    check("/usr/bin/bash", "bash|--rcfile|data|s", "s");
    check("/usr/bin/bash", "bash|-s|data", "");
    check("/usr/bin/bash", "bash|-ec|s|data", "");
    check("/usr/bin/ruby3.1", "ruby|-rset|-I|lib|-W0|s", "s");
    check("/usr/bin/ruby3.1", "ruby|-ne|s|data", "");
    check("/usr/bin/julia", "julia|-O3|-t|4|--project|s", "s");
    check("/usr/bin/julia", "julia|--threads|4|s", "s");
    check("/usr/bin/node", "node|--eval|s|data", "");
    check("/usr/bin/node", "node|-r|data|s", "s");
    check("/usr/bin/cat", "cat|s", "");

    /* A command line that was cut off tells nothing of its last word. */
    char name[16];
    script_in("/usr/bin/python3", "python\0s", 8, name, sizeof name);
    CHECK_TEXT(name, "");
    for (int i = 0; i < 3; i++)
        unlink(files[i]);
    rmdir(folder);
    return failures;
}
