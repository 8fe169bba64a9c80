/* A synthetic program: makes its file, then reads and writes small pieces of it, and prints a digest of all
 * it read.
 *
 *     synthetic FILE SEED OPERATIONS READ_RATIO SIZE FILE_SIZE SPREAD BURST STRAY
 *
 * The same arguments give the same digest, with the accelerator and without, or the accelerator is wrong. */
#define _GNU_SOURCE
#include "pattern.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (1 << 20)

static int fail(const char *what) {
    perror(what);
    return 1;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int fill(int file, const struct pattern *pattern, unsigned char *data) {
    for (int64_t offset = 0; offset < pattern->file_size; offset += CHUNK) {
        int64_t size = pattern->file_size - offset < CHUNK ? pattern->file_size - offset : CHUNK;
        /* One drawn byte a page is enough to tell pages apart. */
        for (int64_t i = 0; i < size; i += 4096)
            memset(data + i, pattern_byte(pattern->seed, offset + i),
                   (size_t)(size - i < 4096 ? size - i : 4096));
        if (pwrite(file, data, (size_t)size, offset) != size)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 10) {
        fprintf(stderr, "usage: %s FILE SEED OPERATIONS READ_RATIO SIZE FILE_SIZE SPREAD BURST STRAY\n",
                argv[0]);
        return 2;
    }
    struct pattern pattern = {
        .seed = strtoull(argv[2], NULL, 10),
        .operations = atoll(argv[3]),
        .read_ratio = atof(argv[4]),
        .size = atoll(argv[5]),
        .file_size = atoll(argv[6]),
        .spread = atoll(argv[7]),
        .burst = atoll(argv[8]),
        .stray = atof(argv[9]),
    };
    size_t room = pattern.size > CHUNK ? (size_t)pattern.size : CHUNK;
    unsigned char *data = calloc(1, room);
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (data == NULL || file < 0)
        return fail(argv[1]);
    /* A file of the right size is taken as it is: a tuner runs the program a hundred times. */
    if (lseek(file, 0, SEEK_END) != pattern.file_size && fill(file, &pattern, data) != 0)
        return fail(argv[1]);
    if (fsync(file) != 0)
        return fail(argv[1]);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    /* Reads that nobody else announces: what the kernel reads ahead is not what is measured. */
    posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);

    double begin = now();
    uint64_t digest = UINT64_C(1469598103934665603);
    struct walk walk = walk_begin(&pattern);
    struct access access;
    while (walk_next(&walk, &access)) {
        if (access.read) {
            ssize_t got = pread(file, data, (size_t)access.size, access.offset);
            if (got != access.size)
                return fail("read");
            for (ssize_t i = 0; i < got; i += 61)
                digest = (digest ^ data[i]) * UINT64_C(1099511628211);
        } else {
            memset(data, pattern_byte(pattern.seed, access.offset), (size_t)access.size);
            if (pwrite(file, data, (size_t)access.size, access.offset) != access.size)
                return fail("write");
        }
    }
    printf("seconds: %.6f\ndigest: %016" PRIx64 "\n", now() - begin, digest);
    free(data);
    return close(file) != 0 ? fail(argv[1]) : 0;
}
