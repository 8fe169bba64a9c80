/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "caller.h"
#include "places.h"
#include "stripewise_beside.h"

#define RAW 64      /* frames that are unwound: HDF5 above MPI-IO takes thirty of them */
#define EVERY 512   /* calls that are all looked at */
#define ONE_IN 61   /* of the later ones; a prime, so that loops do not always show the same call */
#define ATTEMPTS 16 /* entries of the table that are looked at */

atomic_bool places_wanted;

static int (*unwind)(void **, int); /* glibc's backtrace, which musl lacks */
static _Atomic(struct places *) table;
static atomic_bool failed;
static counter calls;
static _Thread_local bool noting __attribute__((tls_model("initial-exec")));

void begin_places(void) {
    if (!secure_getenv("STRIPEWISE_WHERE"))
        return;
    *(void **)&unwind = dlsym(RTLD_DEFAULT, "backtrace");
    dlerror(); /* is not for the program */
    void *frames[4];
    atomic_store(&places_wanted, unwind && unwind(frames, 4) > 0);
}

static struct places *the_table(void) {
    struct places *found = atomic_load_explicit(&table, memory_order_acquire);
    if (found || atomic_load_explicit(&failed, memory_order_relaxed))
        return found;
    struct places *made = make_mapped(".where", sizeof *made, sizeof *made);
    if (!made) {
        atomic_store(&failed, true);
        return NULL;
    }
    made->place_size = sizeof(struct place);
    memcpy(made->magic, PLACES_MAGIC, sizeof PLACES_MAGIC);
    /* Of two threads that begin at once, the second one's stays empty. */
    return atomic_compare_exchange_strong(&table, &found, made) ? made : found;
}

static uint64_t mix(uint64_t hash, uint64_t next) {
    hash = (hash ^ next) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint32_t module_of(struct places *in, const Dl_info *about) {
    const uint64_t base = (uintptr_t)about->dli_fbase;
    for (uint32_t at = 0; at < MODULES; at++) {
        uint64_t found = atomic_load_explicit(&in->modules[at].base, memory_order_relaxed);
        if (found == base)
            return at;
        if (found == 0 && atomic_compare_exchange_strong(&in->modules[at].base, &found, base)) {
            char *path = in->modules[at].path;
            /* The program's own name is what it was started by. */
            if (about->dli_fname && about->dli_fname[0] == '/')
                strncpy(path, about->dli_fname, PART_PATH - 1);
            else if (readlink("/proc/self/exe", path, PART_PATH - 1) < 0)
                path[0] = '\0';
            return at;
        }
    }
    return MODULES;
}

/* Leaves out this library, and those that move the program's data for it. */
static void describe(struct places *in, struct place *one, void **frames, int count) {
    int kept = 0;
    for (int at = 0; at < count && kept < PLACE_FRAMES; at++) {
        Dl_info about;
        if (is_of_io(frames[at]) || !dladdr(frames[at], &about))
            continue;
        uint32_t module = module_of(in, &about);
        if (module == MODULES)
            continue;
        one->modules[kept] = module;
        one->frames[kept++] = (uintptr_t)frames[at];
    }
}

static void keep(struct places *in, void **frames, int count, const char *path, bool writes, uint64_t weight,
                 uint64_t bytes) {
    uint64_t key = mix(14695981039346656037u, writes);
    for (const char *c = path; *c; c++)
        key = mix(key, (unsigned char)*c);
    for (int at = 0; at < count; at++)
        key = mix(key, (uintptr_t)frames[at]);
    key |= 1;
    for (uint64_t probe = 0; probe < ATTEMPTS; probe++) {
        struct place *one = &in->places[(key / 2 + probe) % PLACES];
        uint64_t found = atomic_load_explicit(&one->key, memory_order_acquire);
        if (found == 0 && atomic_compare_exchange_strong(&one->key, &found, key)) {
            size_t length = strlen(path), cut = length < PART_PATH ? 0 : length - PART_PATH + 1;
            memcpy(one->path, path + cut, length - cut);
            one->writes = writes;
            describe(in, one, frames, count);
            atomic_store_explicit(&one->ready, 1, memory_order_release);
            found = key;
        }
        if (found == key) {
            add(&one->calls, weight);
            add(&one->bytes, bytes * weight);
            return;
        }
    }
}

void note_place(const char *path, bool writes, uint64_t bytes) {
    const int kept = errno;
    const uint64_t number = value(&calls);
    add(&calls, 1);
    if (number >= EVERY && number % ONE_IN)
        return;
    if (noting || !*prefix || on_small_stack() || !has_stack() || getpid() != self)
        return;
    noting = true; /* a handler of signals may interrupt the unwinder, and read or write */
    struct places *in = the_table();
    if (in) {
        void *frames[RAW];
        int count = unwind(frames, RAW);
        if (count > 0)
            keep(in, frames, count, path, writes, number < EVERY ? 1 : ONE_IN, bytes);
    }
    noting = false;
    errno = kept;
}

/* What the runtime calls for MPI-IO. */
__attribute__((visibility("default"))) sw_moved_from stripewise_moved_from;
__attribute__((visibility("default"))) void stripewise_moved_from(const char *path, int writes,
                                                                  uint64_t bytes) {
    if (atomic_load_explicit(&places_wanted, memory_order_relaxed))
        note_place(path, writes, bytes);
}
