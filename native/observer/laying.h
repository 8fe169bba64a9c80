/* SPDX-License-Identifier: BSD-3-Clause
 * Layouts of the files that the program creates, by the rules of native/core/layout.h: a file that exists is
 * never changed, and who creates a file exclusively learns the truth.
 *
 * Where a file that is still empty can be laid out (CephFS), the program's own call creates it: exclusively
 * at first, so that it is known to be new, and as it asked if that finds the file there. Elsewhere (Lustre) a
 * command of the file system creates it before, with the permissions that the program asks for; where these
 * cannot be known, the file is left alone. */
#ifndef STRIPEWISE_LAYING_H
#define STRIPEWISE_LAYING_H

#include "part.h"

#pragma GCC visibility push(hidden)

/* One call that may create a file. */
struct creation {
    int flags;                           /* to open with in place of the program's */
    int error;                           /* errno before the call */
    bool creates, chosen, laid;          /* laid: before the call */
    bool failed;                         /* laying it out was tried in vain */
    bool added;                          /* O_EXCL, which the program did not ask for */
    const struct sw_file_system *system; /* of layouts; NULL: none */
    char why[MOST_NOTE];                 /* it is not laid out; "": no reason is known yet */
};

/* Reads STRIPEWISE_LAYOUT and STRIPEWISE_LAYOUT_ALLOW. */
void read_layouts(void);

/* Around a call that opens a path: caller as of opened, folder as of openat. Both leave errno alone. */
void before_create(struct creation *one, const void *caller, int folder, const char *path, int flags,
                   mode_t mode);
void after_create(struct creation *one, int fd);

/* Behind one that creates a file of a name that it makes up. */
void after_new(int fd);

/* The program's call found the file there: it is made once more, as the program asked, and with its errno. */
bool again(struct creation *one, int fd, int flags);

#pragma GCC visibility pop

#endif
