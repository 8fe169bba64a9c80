/* SPDX-License-Identifier: BSD-3-Clause
 * Memory with a fixed limit: what the runtime keeps is carved from one reserved range, so its budget holds by
 * construction and the program's own allocator is never entered from an I/O call. Untouched pages cost
 * nothing. */
#ifndef STRIPEWISE_ARENA_H
#define STRIPEWISE_ARENA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A lock for a few instructions; never held across a call that may block. */
typedef atomic_flag sw_lock;

void sw_lock_wait(sw_lock *lock);

/* From here on a lock that is not given back within a second or so is taken away from its holder: the process
 * is about to end. */
void sw_lock_be_impatient(void);
bool sw_lock_is_impatient(void);

static inline void sw_lock_take(sw_lock *lock) {
    if (atomic_flag_test_and_set_explicit(lock, memory_order_acquire))
        sw_lock_wait(lock);
}

static inline void sw_lock_release(sw_lock *lock) {
    atomic_flag_clear_explicit(lock, memory_order_release);
}

#define SW_ARENA_CLASSES 15 /* blocks of 16 bytes to 256 KiB */
#define SW_INTERN_BUCKETS 256

struct sw_interned;

struct sw_arena {
    char *base;
    size_t size, used; /* used: of the range, once */
    size_t live;       /* bytes of blocks that are taken */
    sw_lock lock;
    void *free[SW_ARENA_CLASSES];
    struct sw_interned *interned[SW_INTERN_BUCKETS];
};

/* Reserves size bytes of address space. Returns false if the system refuses. */
bool sw_arena_open(struct sw_arena *arena, size_t size);
void sw_arena_close(struct sw_arena *arena);

/* Zeroed memory, or NULL when the arena is full (or size exceeds the largest class). Thread-safe. */
void *sw_arena_take(struct sw_arena *arena, size_t size);

/* Gives back what sw_arena_take returned for that size; NULL is allowed. */
void sw_arena_give(struct sw_arena *arena, void *memory, size_t size);

/* Bytes that are not taken. */
size_t sw_arena_left(struct sw_arena *arena);

/* One shared, never released copy of a string: hint values and file system names repeat in every file.
 * NULL for NULL or when the arena is full. Thread-safe. */
const char *sw_arena_intern(struct sw_arena *arena, const char *text);

/* A hash of a text (FNV-1a). */
uint32_t sw_hash(const char *text);

#endif
