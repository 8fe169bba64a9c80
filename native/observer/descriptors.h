/* SPDX-License-Identifier: BSD-3-Clause
 * What each descriptor of the process stands for. */
#ifndef STRIPEWISE_DESCRIPTORS_H
#define STRIPEWISE_DESCRIPTORS_H

#include "part.h"

#pragma GCC visibility push(hidden)

#define DESCRIPTORS 4096 /* higher ones are not followed */

struct descriptor {
    _Atomic(struct file_record *) owner; /* NULL: to be found out */
    atomic_bool chosen;                  /* settings are for the file; known as soon as the owner is */
    atomic_bool direct;                  /* a call went past the page cache */
    atomic_bool left_out;                /* its calls are not kept for a record */
    atomic_uint turn;                    /* which of the files that had the number */
    _Atomic(int64_t) ahead;              /* up to where the kernel was asked to read */
    _Atomic(int64_t) position;
    struct {
        _Atomic(int64_t) start, end, step;
    } last[2];
};
extern struct descriptor descriptors[DESCRIPTORS];
extern struct file_record nobody, none; /* owners: not a regular file; no part for it */

/* Finds out what a descriptor stands for. Leaves errno alone. */
struct file_record *look(int fd);

/* Notes what a descriptor stands for. */
void own(int fd, struct file_record *owner);

void forget(int fd);
void forget_all(unsigned first, unsigned last);

static inline struct descriptor *descriptor_of(int fd) {
    return fd >= 0 && fd < DESCRIPTORS ? &descriptors[fd] : NULL;
}

/* The record that a call on this descriptor belongs to, or NULL. */
static inline struct file_record *record_of(int fd) {
    struct descriptor *one = descriptor_of(fd);
    if (!one || !*prefix)
        return NULL;
    struct file_record *owner = atomic_load_explicit(&one->owner, memory_order_acquire);
    if (!owner)
        owner = look(fd);
    return owner == &nobody || owner == &none ? NULL : owner;
}

#pragma GCC visibility pop

#endif
