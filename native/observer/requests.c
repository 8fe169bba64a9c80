/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "requests.h"

atomic_bool requests_wanted;

static _Atomic(struct requests *) kept;
static atomic_bool failed;

void begin_requests(void) {
    atomic_store(&requests_wanted, secure_getenv("STRIPEWISE_TRACE") != NULL);
}

static struct requests *all_kept(void) {
    struct requests *found = atomic_load_explicit(&kept, memory_order_acquire);
    if (found || atomic_load_explicit(&failed, memory_order_relaxed))
        return found;
    struct requests *made = make_mapped(".requests", sizeof *made, sizeof *made);
    if (!made) {
        atomic_store(&failed, true);
        return NULL;
    }
    made->size = sizeof(struct request);
    memcpy(made->magic, REQUESTS_MAGIC, sizeof REQUESTS_MAGIC);
    /* Of two threads that begin at once, the second one's stays empty. */
    return atomic_compare_exchange_strong(&kept, &found, made) ? made : found;
}

void note_request(uint32_t hash, bool writes, uint64_t bytes, int64_t place, uint64_t began, uint64_t ended) {
    const int error = errno;
    const pid_t own = getpid();
    struct requests *in = own == self && *prefix ? all_kept() : NULL;
    /* Parents and children share it: unlike what one process counts, this is never added to in two steps. */
    uint64_t at = in ? atomic_fetch_add_explicit(&in->count, 1, memory_order_relaxed) : REQUESTS;
    if (at < REQUESTS) {
        struct request *one = &in->of[at];
        one->began = began;
        one->bytes = bytes;
        one->place = place;
        one->pid = (int32_t)own;
        one->writes = writes;
        one->hash = hash;
        atomic_store_explicit(&one->ended, ended, memory_order_release);
    }
    errno = error;
}
