/* SPDX-License-Identifier: BSD-3-Clause
 * Read-ahead windows: see windows.h. */
#include "windows.h"

#include <string.h>

#define PROBES 8
#define NONE (-1)

static int64_t within(int64_t value, int64_t most) {
    return value < 1 ? 1 : value > most ? most : value;
}

void windows_begin(struct windows *all, const struct window_settings *settings, unsigned char *pool) {
    memset(all, 0, sizeof *all);
    all->settings.cluster_threshold = within(settings->cluster_threshold, WINDOW_SEQUENCE);
    all->settings.binsize = within(settings->binsize, INT64_C(1) << 40);
    all->settings.sequence_length = within(settings->sequence_length, WINDOW_SEQUENCE);
    all->settings.prefetch_size = within(settings->prefetch_size, (WINDOW_BLOCKS - 2) * WINDOW_BLOCK);
    all->pool = pool;
    for (int i = 0; i < WINDOW_HASHES; i++)
        all->heads[i] = NONE;
    for (int i = 0; i < WINDOW_BLOCKS; i++)
        all->blocks[i].file = NONE;
}

/* ---- files ---- */

static void renew(struct windows *all, struct window_file *file, uint64_t device, uint64_t inode) {
    windows_drop(all, file);
    memset(file, 0, sizeof *file);
    file->device = device;
    file->inode = inode;
    for (int i = 0; i < WINDOW_SEQUENCE; i++)
        file->bins[i] = NONE;
}

static uint64_t hash_of_file(uint64_t device, uint64_t inode) {
    return (inode ^ device * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9) >> 40;
}

struct window_file *windows_known(struct windows *all, uint64_t device, uint64_t inode) {
    uint64_t hash = hash_of_file(device, inode);
    for (uint64_t probe = 0; probe < PROBES; probe++) {
        struct window_file *file = &all->files[(hash + probe) % WINDOW_FILES];
        if (file->inode == inode && file->device == device)
            return file;
    }
    return NULL;
}

struct window_file *windows_file(struct windows *all, uint64_t device, uint64_t inode) {
    struct window_file *oldest = NULL;
    uint64_t hash = hash_of_file(device, inode);
    all->clock++;
    for (uint64_t probe = 0; probe < PROBES; probe++) {
        struct window_file *file = &all->files[(hash + probe) % WINDOW_FILES];
        if (file->inode == inode && file->device == device) {
            file->touched = all->clock;
            return file;
        }
        if (!file->filling && !file->alone && (!oldest || file->touched < oldest->touched))
            oldest = file;
    }
    if (!oldest || inode == 0)
        return NULL;
    renew(all, oldest, device, inode);
    oldest->touched = all->clock;
    return oldest;
}

/* ---- blocks ---- */

static unsigned hash_of(int file, int64_t index) {
    return (unsigned)(((uint64_t)index * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)file * 0x51ed27u) >> 32) %
           WINDOW_HASHES;
}

static int number_of(const struct windows *all, const struct window_file *file) {
    return (int)(file - all->files);
}

static struct window_block *find(struct windows *all, int file, int64_t index) {
    for (int at = all->heads[hash_of(file, index)]; at != NONE; at = all->blocks[at].next)
        if (all->blocks[at].file == file && all->blocks[at].index == index)
            return &all->blocks[at];
    return NULL;
}

static void release(struct windows *all, struct window_block *block) {
    int number = (int)(block - all->blocks);
    int16_t *link = &all->heads[hash_of(block->file, block->index)];
    while (*link != number)
        link = &all->blocks[*link].next;
    *link = block->next;
    all->files[block->file].blocks--;
    block->file = NONE;
}

void windows_drop(struct windows *all, struct window_file *file) {
    int number = number_of(all, file);
    if (file->filling)
        file->stale = true;
    for (int i = 0; i < WINDOW_BLOCKS && file->blocks; i++)
        if (all->blocks[i].file == number && !all->blocks[i].filling)
            release(all, &all->blocks[i]);
}

void windows_abandon(struct windows *all) {
    for (int i = 0; i < WINDOW_BLOCKS; i++)
        all->blocks[i].filling = false;
    for (int i = 0; i < WINDOW_FILES; i++) {
        windows_drop(all, &all->files[i]);
        all->files[i].filling = all->files[i].stale = false;
    }
}

/* A block that is free, or was not read for longest, and is not part of the fetch that needs it. */
static int room(struct windows *all, int file, int64_t first, int64_t last) {
    int oldest = NONE;
    for (int i = 0; i < WINDOW_BLOCKS; i++) {
        struct window_block *block = &all->blocks[i];
        if (block->file == NONE)
            return i;
        if (block->filling || (block->file == file && block->index >= first && block->index <= last))
            continue;
        if (oldest == NONE || block->touched < all->blocks[oldest].touched)
            oldest = i;
    }
    if (oldest != NONE)
        release(all, &all->blocks[oldest]);
    return oldest;
}

/* ---- reads ---- */

/* The part of [offset, offset + size) in a block: where it begins in the block, and its length. */
static int64_t part_of(int64_t index, int64_t offset, int64_t size, int64_t *begin) {
    int64_t low = index * WINDOW_BLOCK, high = low + WINDOW_BLOCK;
    int64_t from = offset > low ? offset : low, to = offset + size < high ? offset + size : high;
    *begin = from - low;
    return to - from;
}

bool windows_get(struct windows *all, struct window_file *file, int64_t offset, int64_t size, void *data) {
    int number = number_of(all, file);
    int64_t first = offset / WINDOW_BLOCK, last = (offset + size - 1) / WINDOW_BLOCK, begin;
    if (!file->blocks)
        return false;
    for (int64_t index = first; index <= last; index++) {
        struct window_block *block = find(all, number, index);
        int64_t length = part_of(index, offset, size, &begin);
        if (!block || block->filling || begin + length > block->length)
            return false;
    }
    all->clock++;
    for (int64_t index = first; index <= last; index++) {
        struct window_block *block = find(all, number, index);
        int64_t length = part_of(index, offset, size, &begin), left = block->length - block->used;
        if (data && all->pool)
            memcpy((unsigned char *)data + (index * WINDOW_BLOCK + begin - offset),
                   windows_memory(all, (int)(block - all->blocks)) + begin, (size_t)length);
        block->touched = all->clock;
        block->used += length < left ? length : left;
        all->used += (uint64_t)(length < left ? length : left);
    }
    return true;
}

bool windows_note(const struct windows *all, struct window_file *file, int64_t offset, int64_t size,
                  int64_t *start, int64_t *length) {
    const struct window_settings *by = &all->settings;
    if (size > by->binsize || size > by->prefetch_size)
        return false;
    int64_t bin = offset / by->binsize, seen = 0;
    file->bins[file->place] = bin;
    file->place = (int32_t)((file->place + 1) % by->sequence_length);
    for (int64_t i = 0; i < by->sequence_length; i++)
        seen += file->bins[i] == bin;
    if (seen < by->cluster_threshold)
        return false;
    *start = bin * by->binsize;
    *length = by->prefetch_size;
    /* It may be smaller than a bin: then it begins at the read, so that this one is answered by it. */
    if (offset + size > *start + *length)
        *start = offset;
    return true;
}

/* ---- fetches ---- */

static bool is_whole(struct windows *all, int number, int64_t index, int64_t end) {
    struct window_block *block = find(all, number, index);
    int64_t length = end - index * WINDOW_BLOCK;
    return block && !block->filling && block->length == (length < WINDOW_BLOCK ? length : WINDOW_BLOCK);
}

bool windows_reserve(struct windows *all, struct window_file *file, int64_t start, int64_t length,
                     int64_t end, struct window_fetch *fetch) {
    int number = number_of(all, file);
    if (file->filling || start >= end)
        return false;
    int64_t first = start / WINDOW_BLOCK;
    int64_t last = ((start + length < end ? start + length : end) - 1) / WINDOW_BLOCK;
    while (first <= last && is_whole(all, number, first, end))
        first++;
    while (last > first && is_whole(all, number, last, end))
        last--;
    if (first > last)
        return false;
    fetch->start = first * WINDOW_BLOCK;
    fetch->count = 0;
    for (int64_t index = first; index <= last && fetch->count < WINDOW_BLOCKS; index++) {
        struct window_block *block = find(all, number, index);
        if (block)
            release(all, block);
        int at = room(all, number, first, last);
        if (at == NONE)
            break;
        unsigned hash = hash_of(number, index);
        all->blocks[at] = (struct window_block){
            .file = (int16_t)number, .next = all->heads[hash], .filling = true, .index = index};
        all->heads[hash] = (int16_t)at;
        file->blocks++;
        fetch->blocks[fetch->count++] = (int16_t)at;
        if (at >= all->most)
            all->most = at + 1;
    }
    if (!fetch->count)
        return false;
    fetch->length = fetch->count * WINDOW_BLOCK;
    if (fetch->start + fetch->length > end)
        fetch->length = end - fetch->start;
    file->filling = true;
    file->stale = false;
    return true;
}

void windows_filled(struct windows *all, struct window_file *file, const struct window_fetch *fetch,
                    int64_t got) {
    all->clock++;
    all->fetches++;
    all->fetched += (uint64_t)got;
    for (int i = 0; i < fetch->count; i++) {
        struct window_block *block = &all->blocks[fetch->blocks[i]];
        int64_t length = got - i * WINDOW_BLOCK;
        if (!block->filling) /* given up in between: this is a child */
            continue;
        block->filling = false;
        block->touched = all->clock;
        block->length = length < 0 ? 0 : length < WINDOW_BLOCK ? length : WINDOW_BLOCK;
        if (file->stale || length <= 0)
            release(all, block);
    }
    file->filling = file->stale = false;
}

void windows_wrote(struct windows *all, struct window_file *file, int64_t offset, int64_t size,
                   const void *data) {
    int number = number_of(all, file);
    if (file->filling)
        file->stale = true;
    if (!file->blocks || size <= 0)
        return;
    int64_t last = (offset + size - 1) / WINDOW_BLOCK, begin;
    for (int64_t index = offset / WINDOW_BLOCK; index <= last; index++) {
        struct window_block *block = find(all, number, index);
        if (!block || block->filling)
            continue;
        int64_t length = part_of(index, offset, size, &begin);
        /* Beyond what was there, it would leave a hole whose bytes are not known. */
        if (begin + length > block->length)
            release(all, block);
        else if (all->pool)
            memcpy(windows_memory(all, (int)(block - all->blocks)) + begin,
                   (const unsigned char *)data + (index * WINDOW_BLOCK + begin - offset), (size_t)length);
    }
}
