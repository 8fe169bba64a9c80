/* SPDX-License-Identifier: BSD-3-Clause */
#include "hdf5.h"

#include <string.h>

const char *const sw_h5_operation_names[SW_H5_OPERATIONS] = {
#define OPERATION(name) #name,
#include "h5_operations.def"
#undef OPERATION
};
const char *const sw_storage_names[SW_STORAGES] = {"compact", "contiguous", "chunked", "virtual"};
const char *const sw_filter_names[SW_FILTERS] = {"deflate", "shuffle",     "fletcher32", "szip",
                                                 "nbit",    "scaleoffset", "other"};

struct sw_hdf5 *sw_hdf5_new(struct sw_arena *arena) {
    return sw_arena_take(arena, sizeof(struct sw_hdf5));
}

static void free_dataset(struct sw_arena *arena, struct sw_dataset *dataset) {
    for (int way = 0; way < 2; way++)
        sw_arena_give(arena, dataset->transfers[way], sizeof *dataset->transfers[way]);
    sw_arena_give(arena, (void *)dataset->name, strlen(dataset->name) + 1);
    sw_arena_give(arena, dataset, sizeof *dataset);
}

void sw_hdf5_free(struct sw_arena *arena, struct sw_hdf5 *hdf5) {
    if (!hdf5)
        return;
    for (struct sw_dataset *dataset = hdf5->oldest, *next; dataset; dataset = next) {
        next = dataset->newer;
        free_dataset(arena, dataset);
    }
    sw_arena_give(arena, hdf5, sizeof *hdf5);
}

void sw_hdf5_count(struct sw_hdf5 *hdf5, enum sw_h5_op op, int64_t time) {
    struct sw_h5_calls *calls = &hdf5->calls[op];
    calls->count++;
    calls->time_sum += time;
    calls->time_max += time;
}

static struct sw_dataset *new_dataset(struct sw_arena *arena, struct sw_hdf5 *hdf5, const char *name,
                                      uint32_t hash) {
    size_t length = strlen(name) + 1;
    struct sw_dataset *dataset = sw_arena_take(arena, sizeof *dataset);
    char *copy = sw_arena_take(arena, length);
    if (!dataset || !copy) {
        sw_arena_give(arena, dataset, sizeof *dataset);
        sw_arena_give(arena, copy, length);
        return NULL;
    }
    dataset->name = memcpy(copy, name, length);
    dataset->hash = hash;
    dataset->facts.address = -1;
    *(hdf5->newest ? &hdf5->newest->newer : &hdf5->oldest) = dataset;
    hdf5->newest = dataset;
    return dataset;
}

static bool make_other(struct sw_arena *arena, struct sw_hdf5 *hdf5) {
    if (!hdf5->other)
        hdf5->other = new_dataset(arena, hdf5, SW_OTHER_DATASETS, 0);
    return hdf5->other != NULL;
}

static struct sw_transfers *transfers_of(struct sw_arena *arena, struct sw_dataset *dataset, bool write) {
    if (!dataset->transfers[write])
        dataset->transfers[write] = sw_arena_take(arena, sizeof *dataset->transfers[write]);
    return dataset->transfers[write];
}

static void merge_facts(struct sw_dataset_facts *into, const struct sw_dataset_facts *from, int distance,
                        bool summed) {
    into->creates += from->creates;
    into->opens += from->opens;
    into->ranks = distance == SW_SAME_RANK ? 1 : into->ranks + from->ranks;
    if (distance == SW_OTHER_NODE)
        into->nodes += from->nodes;
    else if (from->nodes > into->nodes)
        into->nodes = from->nodes;
    if (summed || !from->known)
        return;
    /* Of a dataset that grows, the largest size; of one made anew in each file of a series, the first. */
    bool larger = !into->known;
    for (uint32_t i = 0; into->known && i < SW_DIMENSIONS && !larger; i++)
        larger = from->size[i] > into->size[i];
    if (larger) {
        memcpy(into->size, from->size, sizeof into->size);
        memcpy(into->chunk, from->chunk, sizeof into->chunk);
        into->storage = from->storage;
        into->filters = from->filters;
        into->dimensions = from->dimensions;
        into->cache_bytes = from->cache_bytes;
        into->cache_slots = from->cache_slots;
        into->element_size = from->element_size;
        into->known = true;
    }
    if (into->address < 0)
        into->address = from->address;
}

/* Chunks that the box around all transfers of one rank touches, which fill it; 0: not known. */
static uint64_t count_chunks(const struct sw_dataset_facts *facts, const struct sw_transfers *transfers) {
    double chunks = 1, bytes = (double)facts->element_size;
    if (transfers->loose || !facts->known || facts->storage != SW_CHUNKED ||
        facts->dimensions > SW_BOX_DIMENSIONS)
        return 0;
    for (uint32_t i = 0; i < facts->dimensions; i++) {
        if (!facts->chunk[i] || transfers->high[i] <= transfers->low[i])
            return 0;
        bytes *= (double)(transfers->high[i] - transfers->low[i]);
        uint64_t across =
            (transfers->high[i] - 1) / facts->chunk[i] - transfers->low[i] / facts->chunk[i] + 1;
        chunks *= (double)across;
    }
    return chunks < 0x1p63 && bytes <= (double)transfers->bytes ? (uint64_t)chunks : 0;
}

double sw_dataset_sharing(const struct sw_dataset *dataset, bool write) {
    const struct sw_transfers *transfers = dataset->transfers[write];
    if (!transfers || !transfers->touched || transfers->loose)
        return 0;
    uint64_t all = count_chunks(&dataset->facts, transfers);
    return all ? (double)transfers->touched / (double)all : 0;
}

static void vote(struct sw_transfers *into, const uint64_t box[SW_BOX_DIMENSIONS], uint64_t votes) {
    if (memcmp(into->box, box, sizeof into->box) == 0) {
        into->box_votes += votes;
    } else if (into->box_votes >= votes) {
        into->box_votes -= votes;
    } else {
        memcpy(into->box, box, sizeof into->box);
        into->box_votes = votes - into->box_votes;
    }
}

/* Before the bytes of the other are added. */
static void merge_boxes(struct sw_transfers *into, const struct sw_dataset_facts *into_facts,
                        const struct sw_transfers *from, const struct sw_dataset_facts *from_facts,
                        bool same_rank) {
    if (!from->bytes)
        return;
    uint64_t theirs = from->touched ? from->touched : count_chunks(from_facts, from);
    uint64_t ours = into->touched ? into->touched : count_chunks(into_facts, into);
    bool alone = into->bytes == 0;
    into->loose |= from->loose || (same_rank && !alone && (from->touched || into->touched)) ||
                   (!same_rank && (!theirs || !(alone || ours)));
    if (!same_rank)
        into->touched = into->loose ? 0 : theirs + (alone ? 0 : ours);
    vote(into, from->box, from->box_votes);
    for (int i = 0; i < SW_BOX_DIMENSIONS; i++) {
        if (alone || from->low[i] < into->low[i])
            into->low[i] = from->low[i];
        if (alone || from->high[i] > into->high[i])
            into->high[i] = from->high[i];
    }
}

static void merge_transfers(struct sw_transfers *into, const struct sw_transfers *from, bool same_rank) {
    into->calls += from->calls;
    into->bytes += from->bytes;
    into->collective += from->collective;
    into->independent += from->independent;
    into->broken += from->broken;
    into->cause |= from->cause;
    for (int i = 0; i < SW_SELECTIONS; i++)
        into->selections[i] += from->selections[i];
    into->time_sum += from->time_sum;
    if (same_rank)
        into->time_max += from->time_max;
    else if (from->time_max > into->time_max)
        into->time_max = from->time_max;
    sw_pattern_merge(&into->pattern, &from->pattern);
}

static void merge_dataset(struct sw_arena *arena, struct sw_dataset *into, const struct sw_dataset *from,
                          int distance, bool summed) {
    const struct sw_dataset_facts before = into->facts.known ? into->facts : from->facts;
    merge_facts(&into->facts, &from->facts, distance, summed);
    for (int way = 0; way < 2; way++)
        if (from->transfers[way] && transfers_of(arena, into, way)) {
            into->transfers[way]->loose |= summed;
            merge_boxes(into->transfers[way], &before, from->transfers[way], &from->facts,
                        distance == SW_SAME_RANK);
            merge_transfers(into->transfers[way], from->transfers[way], distance == SW_SAME_RANK);
        }
}

/* Sums the oldest dataset that nobody holds into the summed one. */
static bool evict_oldest(struct sw_arena *arena, struct sw_hdf5 *hdf5) {
    struct sw_dataset *before = NULL, *dataset = hdf5->oldest;
    while (dataset && (dataset->holders || dataset == hdf5->other)) {
        before = dataset;
        dataset = dataset->newer;
    }
    if (!dataset || !make_other(arena, hdf5))
        return false;
    merge_dataset(arena, hdf5->other, dataset, SW_SAME_RANK, true);
    *(before ? &before->newer : &hdf5->oldest) = dataset->newer;
    if (hdf5->newest == dataset)
        hdf5->newest = before;
    hdf5->count--;
    free_dataset(arena, dataset);
    return true;
}

struct sw_dataset *sw_hdf5_dataset(struct sw_arena *arena, struct sw_hdf5 *hdf5, const char *name,
                                   uint32_t limit) {
    bool summed = strcmp(name, SW_OTHER_DATASETS) == 0;
    uint32_t hash = summed ? 0 : sw_hash(name);
    struct sw_dataset *dataset = summed ? NULL : hdf5->oldest;
    while (dataset && (dataset == hdf5->other || dataset->hash != hash || strcmp(dataset->name, name) != 0))
        dataset = dataset->newer;
    if (!dataset && !summed) {
        if (hdf5->count >= limit)
            evict_oldest(arena, hdf5);
        if (hdf5->count < limit)
            while (!(dataset = new_dataset(arena, hdf5, name, hash)) && evict_oldest(arena, hdf5))
                ;
        hdf5->count += dataset != NULL;
    }
    if (!dataset && make_other(arena, hdf5))
        dataset = hdf5->other;
    if (dataset)
        dataset->holders++;
    return dataset;
}

void sw_dataset_put(struct sw_dataset *dataset) {
    dataset->holders--;
}

static void count_box(const struct sw_dataset *dataset, struct sw_transfers *transfers,
                      const struct sw_transfer *transfer) {
    static const uint64_t none[SW_BOX_DIMENSIONS];
    const struct sw_dataset_facts *facts = &dataset->facts;
    bool all = transfer->selection == SW_SELECT_ALL;
    const uint64_t *low = all ? none : transfer->low, *high = all ? facts->size : transfer->high;
    uint64_t box[SW_BOX_DIMENSIONS] = {0};
    if (!transfer->bytes)
        return;
    bool boxed = facts->known && facts->dimensions <= SW_BOX_DIMENSIONS && (all || transfer->boxed);
    transfers->loose |= !boxed;
    for (uint32_t i = 0; boxed && i < facts->dimensions; i++) {
        box[i] = high[i] - low[i];
        if (!transfers->bytes || low[i] < transfers->low[i])
            transfers->low[i] = low[i];
        if (!transfers->bytes || high[i] > transfers->high[i])
            transfers->high[i] = high[i];
    }
    vote(transfers, box, 1);
}

void sw_dataset_count(struct sw_arena *arena, struct sw_dataset *dataset, bool write,
                      const struct sw_transfer *transfer) {
    static const enum sw_shape shapes[SW_SELECTIONS] = {[SW_SELECT_ALL] = SW_RUN,
                                                        [SW_SELECT_BLOCK] = SW_RUN,
                                                        [SW_SELECT_STRIDED] = SW_PIECES,
                                                        [SW_SELECT_IRREGULAR] = SW_SCATTERED,
                                                        [SW_SELECT_POINTS] = SW_SCATTERED};
    struct sw_transfers *transfers = transfers_of(arena, dataset, write);
    if (!transfers)
        return;
    int64_t time = transfer->ended - transfer->began;
    count_box(dataset, transfers, transfer);
    transfers->calls++;
    transfers->bytes += transfer->bytes;
    transfers->collective += transfer->collective;
    transfers->independent += !transfer->collective;
    transfers->selections[transfer->selection]++;
    transfers->time_sum += time;
    transfers->time_max += time;
    if (transfer->selection != SW_SELECT_NONE)
        sw_pattern_add(&transfers->pattern, transfer->bytes, shapes[transfer->selection], transfer->place);
}

/* Bytes of the whole dataset, unpacked; the most there can be where that is not known. */
static uint64_t extent_of(const struct sw_dataset_facts *facts) {
    double bytes = (double)facts->element_size;
    if (!facts->known || facts->dimensions >= SW_DIMENSIONS)
        return UINT64_MAX;
    for (uint32_t i = 0; i < facts->dimensions; i++)
        bytes *= (double)facts->size[i];
    return bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX;
}

struct sw_hdf5_moved sw_hdf5_sum(const struct sw_hdf5 *hdf5) {
    struct sw_hdf5_moved moved = {.flat = true};
    for (int op = 0; op < SW_H5_OPERATIONS; op++)
        moved.time += hdf5->calls[op].time_sum;
    for (const struct sw_dataset *dataset = hdf5->oldest; dataset; dataset = dataset->newer)
        for (int write = 0; write < 2; write++) {
            const struct sw_transfers *transfers = dataset->transfers[write];
            if (!transfers)
                continue;
            moved.bytes[write] += transfers->bytes;
            moved.calls[write] += transfers->calls - transfers->selections[SW_SELECT_NONE];
            moved.strided[write] += transfers->selections[SW_SELECT_STRIDED];
            moved.collective += transfers->collective;
            moved.independent += transfers->independent;
            moved.flat &= dataset->facts.dimensions == 1;
            if (write || !transfers->bytes)
                continue;
            moved.packed |=
                (dataset->facts.filters & ~(uint32_t)(SW_FILTER_SHUFFLE | SW_FILTER_FLETCHER32)) != 0;
            uint64_t extent = extent_of(&dataset->facts);
            moved.extent = extent > UINT64_MAX - moved.extent ? UINT64_MAX : moved.extent + extent;
        }
    return moved;
}

void sw_dataset_broken(struct sw_dataset *dataset, bool write, uint32_t cause) {
    struct sw_transfers *transfers = dataset->transfers[write];
    if (!transfers)
        return;
    transfers->broken++;
    transfers->cause |= cause;
}

void sw_hdf5_merge(struct sw_arena *arena, struct sw_hdf5 *into, const struct sw_hdf5 *from, int distance,
                   bool summed, uint32_t limit) {
    for (int op = 0; op < SW_H5_OPERATIONS; op++) {
        struct sw_h5_calls *sum = &into->calls[op];
        sum->count += from->calls[op].count;
        sum->time_sum += from->calls[op].time_sum;
        if (distance == SW_SAME_RANK)
            sum->time_max = sum->time_sum;
        else if (from->calls[op].time_max > sum->time_max)
            sum->time_max = from->calls[op].time_max;
    }
    if (!into->driver)
        into->driver = sw_arena_intern(arena, from->driver);
    if (!into->library)
        into->library = sw_arena_intern(arena, from->library);
    if (!into->properties && !summed)
        into->properties = sw_arena_intern(arena, from->properties);
    for (const struct sw_dataset *dataset = from->oldest; dataset; dataset = dataset->newer) {
        const char *name = summed ? SW_OTHER_DATASETS : dataset->name;
        struct sw_dataset *same = sw_hdf5_dataset(arena, into, name, limit);
        if (!same)
            return;
        merge_dataset(arena, same, dataset, distance, same == into->other);
        sw_dataset_put(same);
    }
}
