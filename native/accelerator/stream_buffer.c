/* SPDX-License-Identifier: BSD-3-Clause
 * Larger buffers for streams. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "../observer/descriptors.h"
#include "accelerator.h"

#define STREAMS 64
#define MOST_MEMORY (32u << 20) /* of all buffers of a process */

static struct {
    _Atomic(FILE *) stream; /* NULL: free */
    void *memory;
    size_t size;
} buffered[STREAMS];
static _Atomic(size_t) used;
static FILE closing_one; /* in place of a stream whose address may soon be another's */

/* A stream that reads would show what its buffer held, after others have written. Streams that append or read
 * and write may share their file with others, who would see the difference. */
static bool may_be_buffered(const char *mode) {
    return *mode == 'w' && !strchr(mode, '+');
}

static bool give_buffer(FILE *stream, size_t size) {
    for (int i = 0; i < STREAMS; i++) {
        FILE *nothing = NULL;
        if (!atomic_compare_exchange_strong(&buffered[i].stream, &nothing, stream))
            continue;
        bool fits = atomic_fetch_add(&used, size) + size <= MOST_MEMORY;
        void *memory =
            fits ? map(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
        if (memory != MAP_FAILED && setvbuf(stream, memory, _IOFBF, size) == 0) {
            buffered[i].memory = memory;
            buffered[i].size = size;
            return true;
        }
        if (memory != MAP_FAILED)
            munmap(memory, size);
        atomic_fetch_sub(&used, size);
        atomic_store(&buffered[i].stream, NULL);
        return false;
    }
    return false;
}

void buffer_stream(FILE *stream, const char *mode) {
    int fd = fileno(stream), kept = errno;
    struct file_record *record = record_of(fd);
    if (record && descriptors[fd].chosen)
        count_setting(record, SET_STREAM_BUFFER,
                      may_be_buffered(mode) && give_buffer(stream, (size_t)asked[SET_STREAM_BUFFER]));
    errno = kept;
}

int take_buffer(FILE *stream) {
    for (int i = 0; i < STREAMS; i++) {
        FILE *wanted = stream;
        if (atomic_compare_exchange_strong(&buffered[i].stream, &wanted, &closing_one))
            return i;
    }
    return -1;
}

void free_buffer(int which) {
    if (which < 0)
        return;
    int kept = errno;
    munmap(buffered[which].memory, buffered[which].size);
    atomic_fetch_sub(&used, buffered[which].size);
    atomic_store(&buffered[which].stream, NULL);
    errno = kept;
}
