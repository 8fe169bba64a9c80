/* SPDX-License-Identifier: BSD-3-Clause
 * Read-ahead windows against a plain copy of the files: what they answer is what the file holds, whatever was
 * fetched, written and forgotten before, and the pool never grows. */
#include <stdlib.h>

#include "../accelerator/windows.h"
#include "check.h"

#define FILES 3
#define SIZE (INT64_C(9) << 20)

static struct windows all;
static unsigned char *model[FILES];
static uint64_t state;

static int64_t draw(int64_t below) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((state >> 33) % (uint64_t)below);
}

static void fill(const struct window_fetch *fetch, int number, int64_t got) {
    for (int64_t at = 0; at < got; at += WINDOW_BLOCK)
        memcpy(windows_memory(&all, fetch->blocks[at / WINDOW_BLOCK]), model[number] + fetch->start + at,
               (size_t)(got - at < WINDOW_BLOCK ? got - at : WINDOW_BLOCK));
}

static void random_calls(const struct window_settings *settings, unsigned char *pool) {
    static unsigned char data[3 << 20];
    struct window_fetch fetch;
    int64_t ends[FILES] = {SIZE, SIZE - 12345, 777}, answered = 0;
    windows_begin(&all, settings, pool);
    for (int step = 0; step < 20000; step++) {
        int number = (int)draw(FILES);
        int64_t start, length, offset = draw(ends[number]);
        int64_t size = 1 + draw(draw(50) ? 70000 : 2 << 20);
        struct window_file *file = windows_file(&all, 7, (uint64_t)number + 1);
        CHECK(file != NULL);
        if (!file)
            return;
        if (size > ends[number] - offset)
            size = ends[number] - offset;
        if (draw(100) < 85) {
            bool fetches = windows_note(&all, file, offset, size, &start, &length);
            if (windows_get(&all, file, offset, size, data)) {
                answered++;
                CHECK(memcmp(data, model[number] + offset, (size_t)size) == 0);
            } else if (fetches && windows_reserve(&all, file, start, length, ends[number], &fetch)) {
                CHECK(fetch.start + fetch.length <= ends[number]);
                CHECK(!windows_get(&all, file, offset, size, data) || fetch.start > offset ||
                      fetch.start + fetch.length <= offset);
                int64_t got = draw(20) ? fetch.length : draw(fetch.length);
                fill(&fetch, number, got);
                if (draw(20) == 0) {
                    memset(model[number] + offset, step, (size_t)size);
                    windows_wrote(&all, file, offset, size, model[number] + offset);
                }
                windows_filled(&all, file, &fetch, got);
                CHECK(!windows_get(&all, file, offset, size, data) ||
                      memcmp(data, model[number] + offset, (size_t)size) == 0);
            }
        } else if (draw(100) < 95) {
            memset(model[number] + offset, step, (size_t)size);
            windows_wrote(&all, file, offset, size, model[number] + offset);
        } else if (draw(2)) {
            windows_drop(&all, file);
        } else {
            windows_abandon(&all);
        }
    }
    int64_t kept = 0, used = 0;
    for (int i = 0; i < WINDOW_BLOCKS; i++)
        kept += all.blocks[i].file >= 0;
    for (int i = 0; i < WINDOW_FILES; i++)
        used += all.files[i].blocks;
    CHECK(kept == used && all.most <= WINDOW_BLOCKS);
    CHECK(answered > 500 && all.used <= all.fetched);
}

static void files_that_are_left_alone_stay(void) {
    windows_begin(&all, &(struct window_settings){1, 4096, 10, 4096}, NULL);
    windows_file(&all, 1, 1)->alone = true;
    for (uint64_t inode = 2; inode < 5000; inode++) {
        struct window_file *file = windows_file(&all, 1, inode);
        CHECK(file && !file->alone);
    }
    CHECK(windows_file(&all, 1, 1)->alone);
}

static void a_cluster_is_fetched_from_its_bin(void) {
    int64_t start, length;
    windows_begin(&all, &(struct window_settings){3, 1 << 20, 5, 2 << 20}, NULL);
    struct window_file *file = windows_file(&all, 1, 1);
    CHECK(!windows_note(&all, file, 5 << 20, 100, &start, &length));
    CHECK(!windows_note(&all, file, (5 << 20) + 9000, 100, &start, &length));
    CHECK(!windows_note(&all, file, 5 << 20, 2 << 20, &start, &length)); /* not small */
    CHECK(windows_note(&all, file, (5 << 20) + 500, 100, &start, &length));
    CHECK(start == 5 << 20 && length == 2 << 20);
    for (int64_t i = 0; i < 5; i++)
        CHECK(!windows_note(&all, file, i * (20 << 20), 100, &start, &length));
    CHECK(!windows_note(&all, file, 5 << 20, 100, &start, &length)); /* forgotten */
}

int main(void) {
    unsigned char *pool = malloc((size_t)(WINDOW_BLOCKS * WINDOW_BLOCK));
    for (int i = 0; i < FILES; i++) {
        model[i] = malloc((size_t)SIZE);
        for (int64_t at = 0; at < SIZE; at++)
            model[i][at] = (unsigned char)(at * 31 + at / 4096 + i);
    }
    const struct window_settings settings[] = {
        {1, 65536, 100, 200000},
        {2, 1 << 20, 100, 20 << 20},
        {1, 1 << 20, 50, 100000},
        {3, 2 << 20, 5, INT64_C(99) << 30},
        {0, 0, 0, 0},
    };
    for (int i = 0; i < 4; i++) {
        state = (uint64_t)i;
        random_calls(&settings[i], pool);
    }
    windows_begin(&all, &settings[4], pool);
    CHECK(all.settings.binsize == 1 && all.settings.sequence_length == 1);
    files_that_are_left_alone_stay();
    a_cluster_is_fetched_from_its_bin();
    for (int i = 0; i < FILES; i++)
        free(model[i]);
    free(pool);
    return failures;
}
