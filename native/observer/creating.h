/* SPDX-License-Identifier: BSD-3-Clause
 * Files that the program creates: their layout is told once they are there. */
#ifndef STRIPEWISE_CREATING_H
#define STRIPEWISE_CREATING_H

#include "acts.h"
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

/* Whether layouts of new files are told, as STRIPEWISE_LAYOUT asks by being there. */
void read_layouts_told(void);

/* Around a call that opens a path: caller as of opened, folder as of openat. Both leave errno alone. */
void before_create(struct creation *one, const void *caller, int folder, const char *path, int flags,
                   mode_t mode);
void after_create(struct creation *one, int fd);

/* Behind one that creates a file of a name that it makes up. */
void after_new(int fd);

/* The program's call found the file there: it is made once more, as the program asked, and with its errno. */
bool again(struct creation *one, int fd, int flags);

/* Notes why a file is not laid out. */
void say(struct creation *one, const char *why);

/* Whether a file can still be laid out when it has just been created. */
bool takes_empty(const struct sw_file_system *system);

/* The link of a descriptor in /proc. */
void link_of(int fd, char link[40]);

/* Writes down what the file has in the end, once for each file; by_commands: of its file system, too. */
void tell_layout(int fd, struct file_record *record, bool by_commands);

#pragma GCC visibility pop

#endif
