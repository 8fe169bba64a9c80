/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "arena.h"

#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

struct sw_interned {
    struct sw_interned *next;
    char text[];
};

static atomic_bool impatient;

void sw_lock_be_impatient(void) {
    atomic_store(&impatient, true);
}

bool sw_lock_is_impatient(void) {
    return atomic_load(&impatient);
}

void sw_lock_wait(sw_lock *lock) {
    for (long turns = 0; atomic_flag_test_and_set_explicit(lock, memory_order_acquire); turns++) {
        if (turns > 1000000 && atomic_load_explicit(&impatient, memory_order_relaxed))
            return;
        sched_yield();
    }
}

bool sw_arena_open(struct sw_arena *arena, size_t size) {
    memset(arena, 0, sizeof *arena);
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return false;
    arena->base = base;
    arena->size = size;
    return true;
}

void sw_arena_close(struct sw_arena *arena) {
    if (arena->base)
        munmap(arena->base, arena->size);
    memset(arena, 0, sizeof *arena);
}

static size_t size_class(size_t size) {
    size_t class = 0;
    while (class < SW_ARENA_CLASSES && ((size_t)16 << class) < size)
        class++;
    return class;
}

static void *take_locked(struct sw_arena *arena, size_t class) {
    size_t size = (size_t)16 << class;
    void *memory = arena->free[class];
    if (memory) {
        arena->free[class] = *(void **)memory;
        memset(memory, 0, size);
    } else if (arena->size - arena->used >= size) {
        memory = arena->base + arena->used;
        arena->used += size;
    }
    if (memory)
        arena->live += size;
    return memory;
}

void *sw_arena_take(struct sw_arena *arena, size_t size) {
    size_t class = size_class(size);
    if (class == SW_ARENA_CLASSES)
        return NULL;
    sw_lock_take(&arena->lock);
    void *memory = take_locked(arena, class);
    sw_lock_release(&arena->lock);
    return memory;
}

void sw_arena_give(struct sw_arena *arena, void *memory, size_t size) {
    if (!memory)
        return;
    size_t class = size_class(size);
    sw_lock_take(&arena->lock);
    *(void **)memory = arena->free[class];
    arena->free[class] = memory;
    arena->live -= (size_t)16 << class;
    sw_lock_release(&arena->lock);
}

size_t sw_arena_left(struct sw_arena *arena) {
    sw_lock_take(&arena->lock);
    size_t left = arena->size - arena->live;
    sw_lock_release(&arena->lock);
    return left;
}

uint32_t sw_hash(const char *text) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

const char *sw_arena_intern(struct sw_arena *arena, const char *text) {
    if (!text)
        return NULL;
    struct sw_interned **bucket = &arena->interned[sw_hash(text) % SW_INTERN_BUCKETS];
    size_t length = strlen(text), class = size_class(sizeof **bucket + length + 1);
    if (class == SW_ARENA_CLASSES)
        return NULL;
    sw_lock_take(&arena->lock);
    struct sw_interned *entry = *bucket;
    while (entry && strcmp(entry->text, text) != 0)
        entry = entry->next;
    bool is_new = !entry;
    if (is_new)
        entry = take_locked(arena, class);
    if (is_new && entry) {
        memcpy(entry->text, text, length + 1);
        entry->next = *bucket;
        *bucket = entry;
    }
    sw_lock_release(&arena->lock);
    return entry ? entry->text : NULL;
}
