/* Where in the file the bytes of a rank's stream lie. Pure: no MPI, no state. */
#include <string.h>

#include "kernel.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

void pattern_init(struct pattern *pattern, const struct options *options, int64_t rank) {
    pattern->geometry = &options->geometry;
    pattern->owner = options->file_per_process ? 0 : rank;
    pattern->shuffle = mix64(options->seed ^ mix64((uint64_t)(options->file_per_process ? rank + 1 : 0)));
}

/*
 * A keyed permutation of [0, count): a balanced Feistel network over the next even number of bits, repeated
 * until the value falls into the range. It needs no memory, so the random layout covers files of any size
 * exactly once.
 */
static uint64_t permute(uint64_t value, uint64_t count, uint64_t key) {
    int half = 1;
    while (half < 32 && ((uint64_t)1 << (2 * half)) < count)
        half++;
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = value >> half, right = value & mask;
        for (uint64_t round = 0; round < 6; round++) {
            uint64_t next = left ^ (mix64(key ^ mix64(right + (round << 56))) & mask);
            left = right;
            right = next;
        }
        value = left << half | right;
    } while (value >= count);
    return value;
}

static int64_t tile_run(const struct pattern *pattern, int64_t position, int64_t *offset) {
    const struct tile *tile = &pattern->geometry->tile;
    const int64_t width = tile->tiles_x * (tile->size_x - tile->overlap_x) + tile->overlap_x;
    const int64_t height = tile->tiles_y * (tile->size_y - tile->overlap_y) + tile->overlap_y;
    const int64_t row_bytes = tile->size_x * tile->element;
    const int64_t array = position / pattern->geometry->block;
    const int64_t within = position % pattern->geometry->block;
    const int64_t x = pattern->owner % tile->tiles_x * (tile->size_x - tile->overlap_x);
    const int64_t y = pattern->owner / tile->tiles_x * (tile->size_y - tile->overlap_y) + within / row_bytes;
    *offset = ((array * height + y) * width + x) * tile->element + within % row_bytes;
    return row_bytes - within % row_bytes;
}

/*
 * Stores the file offset of the stream's byte `position` and returns how many bytes of the same call are
 * contiguous in the file from there on.
 */
int64_t pattern_run(const struct pattern *pattern, int64_t position, int64_t *offset) {
    const struct geometry *geometry = pattern->geometry;
    const int64_t call_left = geometry->transfer - position % geometry->transfer;
    switch (geometry->layout) {
    case LAYOUT_STRIDED: {
        int64_t turn = position / geometry->piece, within = position % geometry->piece;
        *offset = (turn * geometry->sharers + pattern->owner) * geometry->piece + within;
        return smaller(geometry->piece - within, call_left);
    }
    case LAYOUT_RANDOM: {
        uint64_t call = (uint64_t)(pattern->owner * geometry->calls + position / geometry->transfer);
        uint64_t place = permute(call, (uint64_t)(geometry->calls * geometry->sharers), pattern->shuffle);
        *offset = (int64_t)place * geometry->transfer + position % geometry->transfer;
        return call_left;
    }
    case LAYOUT_TILE:
        return smaller(tile_run(pattern, position, offset), call_left);
    default: {
        int64_t segment = position / geometry->block, within = position % geometry->block;
        *offset = (segment * geometry->sharers + pattern->owner) * geometry->block + within;
        return call_left;
    }
    }
}

/* ---- content ----
 * What the file holds: a function of the offset in the file and the seed alone, so that any rank can check
 * any byte, whichever rank wrote it. Word i (8 bytes, little-endian) is the i-th output of SplitMix64
 * (Steele, Lea and Flood, OOPSLA 2014) from the file's key. */

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
