/*
 * What the file holds: a function of the offset in the file and the seed alone, so that any rank can check
 * any byte, whichever rank wrote it. Word i (8 bytes, little-endian) is the i-th output of SplitMix64
 * (Steele, Lea and Flood, OOPSLA 2014) from the file's key.
 */
#include "kernel.h"

#include <string.h>

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

uint64_t content_key(uint64_t seed, int64_t file_index) {
    return mix64(seed + ((uint64_t)file_index + 1) * GOLDEN);
}

static uint64_t word_at(uint64_t key, uint64_t index) {
    return mix64(key + (index + 1) * GOLDEN);
}

static unsigned char byte_at(uint64_t key, int64_t offset) {
    return (unsigned char)(word_at(key, (uint64_t)offset / 8) >> (8 * ((uint64_t)offset % 8)));
}

static void store_word(unsigned char *at, uint64_t word) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    memcpy(at, &word, sizeof word);
}

static void fill_run(uint64_t key, int64_t offset, unsigned char *buffer, int64_t length) {
    int64_t i = 0;
    for (; i < length && (offset + i) % 8 != 0; i++)
        buffer[i] = byte_at(key, offset + i);
    for (; i + 8 <= length; i += 8)
        store_word(buffer + i, word_at(key, (uint64_t)(offset + i) / 8));
    for (; i < length; i++)
        buffer[i] = byte_at(key, offset + i);
}

/* Wrong bytes of a contiguous run; `first` becomes the file offset of the first one if it was -1. */
static int64_t check_run(uint64_t key, int64_t offset, const unsigned char *buffer, int64_t length,
                         int64_t *first) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < length;) {
        if ((offset + i) % 8 == 0 && i + 8 <= length) {
            unsigned char expected[8];
            store_word(expected, word_at(key, (uint64_t)(offset + i) / 8));
            if (memcmp(expected, buffer + i, 8) == 0) {
                i += 8;
                continue;
            }
        }
        if (buffer[i] != byte_at(key, offset + i)) {
            wrong++;
            if (*first < 0)
                *first = offset + i;
        }
        i++;
    }
    return wrong;
}

void content_fill(const struct pattern *pattern, uint64_t key, int64_t position, unsigned char *buffer,
                  int64_t length) {
    for (int64_t done = 0; done < length;) {
        int64_t offset;
        int64_t run = pattern_run(pattern, position + done, &offset);
        if (run > length - done)
            run = length - done;
        fill_run(key, offset, buffer + done, run);
        done += run;
    }
}

int64_t content_check(const struct pattern *pattern, uint64_t key, int64_t position,
                      const unsigned char *buffer, int64_t length, int64_t *first_wrong) {
    int64_t wrong = 0;
    for (int64_t done = 0; done < length;) {
        int64_t offset;
        int64_t run = pattern_run(pattern, position + done, &offset);
        if (run > length - done)
            run = length - done;
        wrong += check_run(key, offset, buffer + done, run, first_wrong);
        done += run;
    }
    return wrong;
}
