/* SPDX-License-Identifier: BSD-3-Clause
 * Many threads at one set of records, for the thread sanitizer and for the sums. */
#include <pthread.h>
#include <stdio.h>

#include "check.h"
#include "files.h"

#define THREADS 4
#define ROUNDS 3000

static struct sw_files files;

static void one_round(int thread, int round) {
    char path[64], title[32];
    snprintf(path, sizeof path, "/scratch/%d", round % 40);
    struct sw_file *file = sw_files_get(&files, path);
    if (!file)
        return;
    struct sw_event event = {.op = SW_OP_write_at,
                             .moved = true,
                             .bytes = 100,
                             .place = 100 * round,
                             .began = round,
                             .ended = round + 1};
    struct sw_beneath_call beneath = {100, 1u << SW_DURING_INDEPENDENT, true, 0};
    sw_file_count_event(&files, file, &event, &beneath, 1);
    sw_file_count_hdf5(&files, file, SW_H5_dataset_write, 1);
    snprintf(title, sizeof title, "/step%d", (round + thread) % 20);
    sw_lock_take(&file->lock);
    struct sw_hdf5 *hdf5 = sw_file_hdf5(&files, file);
    struct sw_dataset *dataset =
        hdf5 ? sw_hdf5_dataset(&files.arena, hdf5, title, files.dataset_limit) : NULL;
    struct sw_transfer transfer = {.bytes = 100, .ended = 1, .selection = SW_SELECT_BLOCK};
    if (dataset) {
        sw_dataset_count(&files.arena, dataset, true, &transfer);
        sw_dataset_put(dataset);
    }
    sw_lock_release(&file->lock);
    sw_arena_intern(&files.arena, title);
    sw_files_put(file);
}

static void *work(void *number) {
    for (int round = 0; round < ROUNDS; round++)
        one_round((int)(intptr_t)number, round);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    CHECK(sw_files_open(&files, SW_MEMORY_BUDGET, 10, 8)); /* few, so that records are summed all the time */
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    uint64_t calls = 0, written = 0, beneath = 0, transfers = 0;
    for (const struct sw_file *file = files.oldest; file; file = file->newer) {
        calls += file->calls[SW_OP_write_at] ? file->calls[SW_OP_write_at]->count : 0;
        beneath += file->posix[1] ? file->posix[1]->count : 0;
        written += file->hdf5 ? file->hdf5->calls[SW_H5_dataset_write].count : 0;
        for (const struct sw_dataset *set = file->hdf5 ? file->hdf5->oldest : NULL; set; set = set->newer)
            transfers += set->transfers[1] ? set->transfers[1]->calls : 0;
    }
    CHECK(calls == THREADS * ROUNDS && beneath == calls && written == calls && transfers == calls);
    CHECK(files.arena.used <= SW_MEMORY_BUDGET);
    sw_files_close(&files);
    return failures;
}
