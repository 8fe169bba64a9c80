/* SPDX-License-Identifier: BSD-3-Clause */
#include "hdf5.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "files.h"
#include "hdf5_settings.h"
#include "wire.h"

static void patterns(void) {
    struct sw_pattern pattern = {.contiguous = 0};
    for (int i = 0; i < 4; i++) /* one after the other */
        sw_pattern_add(&pattern, 100, SW_RUN, 1000 + 100 * i);
    CHECK(pattern.contiguous == 4 && pattern.strided == 0 && pattern.random == 0);
    for (int i = 0; i < 4; i++) /* always as far apart */
        sw_pattern_add(&pattern, 4096, SW_RUN, 100000 + 10000 * i);
    CHECK(pattern.strided == 2 &&
          pattern.random == 2); /* the leap there, and the first of the new distance */
    sw_pattern_add(&pattern, 1, SW_SCATTERED, 0);
    sw_pattern_add(&pattern, 1, SW_RUN, SW_UNKNOWN_PLACE);
    sw_pattern_add(&pattern, 2000000000, SW_PIECES, 7);
    CHECK(pattern.random == 4 && pattern.strided == 3);
    CHECK(pattern.bins[0] == 6 && pattern.bins[2] == 4 && pattern.bins[SW_BINS - 1] == 1);
    CHECK(pattern.top[0].size == 100 && pattern.top[0].count == 4 && pattern.top[1].size == 4096);
    struct sw_pattern other = pattern;
    sw_pattern_merge(&other, &pattern);
    CHECK(other.top[0].count == 8 && other.bins[0] == 12);
}

static uint64_t calls_in(const struct sw_hdf5 *hdf5) {
    uint64_t calls = 0;
    for (const struct sw_dataset *dataset = hdf5->oldest; dataset; dataset = dataset->newer)
        calls += dataset->transfers[1] ? dataset->transfers[1]->calls : 0;
    return calls;
}

/* Beyond the limit the oldest that nobody holds are summed, and nothing is lost. */
static void limit(void) {
    struct sw_arena arena;
    CHECK(sw_arena_open(&arena, SW_MEMORY_BUDGET));
    struct sw_hdf5 *hdf5 = sw_hdf5_new(&arena);
    struct sw_dataset *held = sw_hdf5_dataset(&arena, hdf5, "/held", 4);
    const struct sw_transfer transfer = {.bytes = 8, .ended = 3, .selection = SW_SELECT_ALL};
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "/d%d", i);
        struct sw_dataset *dataset = sw_hdf5_dataset(&arena, hdf5, name, 4);
        CHECK_TEXT(dataset->name, name);
        sw_dataset_count(&arena, dataset, true, &transfer);
        sw_dataset_put(dataset);
    }
    CHECK(hdf5->count == 4 && calls_in(hdf5) == 20 && hdf5->other->transfers[1]->calls == 17);
    CHECK(sw_hdf5_dataset(&arena, hdf5, "/held", 4) == held);
    size_t live = arena.live;
    sw_hdf5_free(&arena, hdf5);
    CHECK(arena.live < live && arena.live == 0);
    sw_arena_close(&arena);
}

/* Over the wire and into the records of another node. */
static void travel(void) {
    struct sw_files here, merged;
    struct sw_job job = {.nodes = 1}, sum = {.nodes = 1};
    CHECK(sw_files_open(&here, SW_MEMORY_BUDGET, 10, 4) && sw_files_open(&merged, SW_MEMORY_BUDGET, 10, 4));
    struct sw_file *file = sw_files_get(&here, "/f.h5");
    sw_file_count_hdf5(&here, file, SW_H5_file_create, 5);
    struct sw_dataset *dataset = sw_hdf5_dataset(&here.arena, file->hdf5, "/d", 4);
    dataset->facts = (struct sw_dataset_facts){.known = true,
                                               .storage = SW_CHUNKED,
                                               .dimensions = 1,
                                               .ranks = 1,
                                               .nodes = 1,
                                               .size = {100},
                                               .chunk = {10}};
    const struct sw_transfer transfer = {
        .bytes = 80, .ended = 3, .selection = SW_SELECT_STRIDED, .collective = true};
    sw_dataset_count(&here.arena, dataset, false, &transfer);
    file->hdf5->driver = "mpio";
    struct sw_bytes bytes = {0};
    sw_wire_pack(&bytes, &job, &here);
    CHECK(!bytes.failed);
    CHECK(sw_wire_merge(bytes.data, bytes.size, &sum, &merged, SW_OTHER_NODE));
    CHECK(sw_wire_merge(bytes.data, bytes.size, &sum, &merged, SW_OTHER_NODE));
    for (size_t size = sizeof job; size < bytes.size;
         size += 7) /* cut short, it is refused or it ends between files */
        sw_wire_merge(bytes.data, size, &sum, &merged, SW_SAME_NODE);
    const struct sw_file *found = sw_files_get(&merged, "/f.h5");
    CHECK(found->hdf5 && found->hdf5->calls[SW_H5_file_create].count >= 2);
    CHECK_TEXT(found->hdf5->driver, "mpio");
    const struct sw_dataset *same = found->hdf5->oldest;
    CHECK(same && same->facts.known && same->facts.chunk[0] == 10 && same->facts.ranks >= 2);
    CHECK(same && same->transfers[0] && same->transfers[0]->collective >= 2 && !same->transfers[1]);
    free(bytes.data);
    sw_files_close(&here);
    sw_files_close(&merged);
}

/* A thousand files with all that one usually is told of fit the budget, each with a record of its own; of
 * twice as many the oldest are summed, and nothing is lost. */
static void thousand(void) {
    struct sw_files files;
    CHECK(sw_files_open(&files, SW_MEMORY_BUDGET, SW_MAX_FILES, SW_MAX_DATASETS));
    const struct sw_transfer transfer = {.bytes = 8, .ended = 3, .selection = SW_SELECT_ALL};
    const struct sw_event event = {.op = SW_OP_write_at, .bytes = 8, .moved = true, .place = 2048};
    const struct sw_beneath_call beneath = {.size = 8, .during = 1, .write = true};
    for (int i = 0; i < 2 * SW_MAX_FILES; i++) {
        char name[64];
        snprintf(name, sizeof name, "/scratch/project/run/checkpoint_%06d.h5", i);
        struct sw_file *file = sw_files_get(&files, name);
        sw_file_count(&files, file, SW_OP_open, 0, 5);
        sw_file_count_hdf5(&files, file, SW_H5_file_create, 5);
        sw_file_count_hdf5(&files, file, SW_H5_file_close, 5);
        sw_file_count_event(&files, file, &event, &beneath, 1);
        for (int d = 0; d < 2; d++) {
            struct sw_dataset *dataset =
                sw_hdf5_dataset(&files.arena, file->hdf5, d ? "/pressure" : "/velocity", SW_MAX_DATASETS);
            CHECK(dataset);
            sw_dataset_count(&files.arena, dataset, true, &transfer);
            sw_dataset_put(dataset);
        }
        sw_files_put(file);
        if (i == SW_MAX_FILES - 1)
            CHECK(files.count == SW_MAX_FILES && !sw_file_is_used(files.other));
    }
    CHECK(files.arena.live <= SW_MEMORY_BUDGET && files.count == SW_MAX_FILES);
    uint64_t calls = 0;
    for (const struct sw_file *file = files.oldest; file; file = file->newer)
        calls += file->hdf5 ? calls_in(file->hdf5) : 0;
    CHECK(calls == 4ul * SW_MAX_FILES);
    sw_files_close(&files);
}

/* Two ranks write halves of rows that share chunks or do not; what more than half of the calls select is
 * told. */
static void boxes(void) {
    for (int edge = 8; edge <= 16; edge += 8) {
        struct sw_arena arena;
        CHECK(sw_arena_open(&arena, SW_MEMORY_BUDGET));
        struct sw_hdf5 *ranks[2], *sum = sw_hdf5_new(&arena);
        const struct sw_dataset_facts facts = {.known = true,
                                               .storage = SW_CHUNKED,
                                               .dimensions = 2,
                                               .ranks = 1,
                                               .element_size = 8,
                                               .size = {4, 16},
                                               .chunk = {4, (uint64_t)edge}};
        for (uint64_t rank = 0; rank < 2; rank++) {
            ranks[rank] = sw_hdf5_new(&arena);
            struct sw_dataset *dataset = sw_hdf5_dataset(&arena, ranks[rank], "/d", 4);
            dataset->facts = facts;
            for (uint64_t row = 0; row < 4; row++) {
                const struct sw_transfer transfer = {.bytes = 64,
                                                     .selection = SW_SELECT_BLOCK,
                                                     .boxed = true,
                                                     .low = {row, 8 * rank},
                                                     .high = {row + 1, 8 * rank + 8}};
                sw_dataset_count(&arena, dataset, true, &transfer);
            }
            const struct sw_transfer other = {.bytes = 16 * 8 * 4, .selection = SW_SELECT_ALL};
            sw_dataset_count(&arena, dataset, false, &other);
            CHECK(sw_dataset_sharing(dataset, true) == 0); /* of one rank nothing is said */
        }
        for (int rank = 0; rank < 2; rank++)
            sw_hdf5_merge(&arena, sum, ranks[rank], rank ? SW_OTHER_NODE : SW_SAME_RANK, false, 4);
        const struct sw_dataset *dataset = sum->oldest;
        const struct sw_transfers *writes = dataset->transfers[1];
        CHECK(writes->box[0] == 1 && writes->box[1] == 8 && writes->box_votes == 8);
        CHECK(dataset->transfers[0]->box[0] == 4 && dataset->transfers[0]->box[1] == 16);
        CHECK(sw_dataset_sharing(dataset, true) == (edge == 8 ? 1 : 2) &&
              sw_dataset_sharing(dataset, false) == 2);
        /* What lies in other forms may be anywhere: nothing is said. */
        const struct sw_transfer points = {.bytes = 8, .selection = SW_SELECT_POINTS};
        sw_dataset_count(&arena, ranks[0]->oldest, true, &points);
        sw_hdf5_merge(&arena, sum, ranks[0], SW_OTHER_NODE, false, 4);
        CHECK(sw_dataset_sharing(dataset, true) == 0);
        sw_arena_close(&arena);
    }
}

static void shapes(void) {
    static const struct {
        const char *value, *name;
        enum sw_h5_shape found;
        unsigned long long size[3], most[3], chunk[3];
    } cases[] = {
        {"own", "/d", SW_H5_OWN_SHAPE, {8, 8, 8}, {8, 8, 8}, {0}},
        {"1x*x*", "/d", SW_H5_SHAPED, {8, 9, 10}, {8, 9, 10}, {1, 9, 10}},
        {"*/4x*/3x100", "/d", SW_H5_SHAPED, {10, 9, 10}, {10, 9, 10}, {3, 3, 10}},
        {"writers:1x*", "/d", SW_H5_NO_SHAPE, {8, 9, 10}, {8, 9, 10}, {0}},
        {"readers:a*=1x1x1,*x1x1", "/g/data", SW_H5_SHAPED, {8, 9, 10}, {8, 9, 10}, {8, 1, 1}},
        {"readers:d*=1x1x1,*x1x1", "/g/data", SW_H5_SHAPED, {8, 9, 10}, {8, 9, 10}, {1, 1, 1}},
        {"g/data=2x2x2", "/g/data", SW_H5_SHAPED, {8, 9, 10}, {8, 9, 10}, {2, 2, 2}},
        {"g/data=2x2x2", NULL, SW_H5_NO_SHAPE, {8, 9, 10}, {8, 9, 10}, {0}},
        /* what grows has no "all": the program's own 5, or as many as are asked for */
        {"*x1x1", "/d", SW_H5_SHAPED, {0, 9, 10}, {~0ull, 9, 10}, {5, 1, 1}},
        {"700x1x*/2", "/d", SW_H5_SHAPED, {0, 9, 10}, {~0ull, 9, 10}, {700, 1, 5}},
        {"", "/d", SW_H5_BAD_SHAPE, {8, 9, 10}, {8, 9, 10}, {0}},
        {"0x1x1", "/d", SW_H5_BAD_SHAPE, {8, 9, 10}, {8, 9, 10}, {0}},
        {"*/0x1x1", "/d", SW_H5_BAD_SHAPE, {8, 9, 10}, {8, 9, 10}, {0}},
        {"1x1x", "/d", SW_H5_BAD_SHAPE, {8, 9, 10}, {8, 9, 10}, {0}},
        {"1x1x1,", "/d", SW_H5_BAD_SHAPE, {8, 9, 10}, {8, 9, 10}, {0}},
        {"1x-1x1", "/d", SW_H5_BAD_SHAPE, {8, 9, 10}, {8, 9, 10}, {0}},
        {"*/1,2x1x1", "/d", SW_H5_SHAPED, {8, 9, 10}, {8, 9, 10}, {2, 1, 1}},
        {"sizes:1x1x1", "/d", SW_H5_BAD_SHAPE, {8, 9, 10}, {8, 9, 10}, {0}},
        {"writers", "/d", SW_H5_BAD_SHAPE, {8, 9, 10}, {8, 9, 10}, {0}},
    };
    const unsigned long long own[3] = {5, 5, 5};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned long long chunk[3] = {0};
        CHECK(sw_h5_chunk_shape(cases[i].value, cases[i].name, 3, cases[i].size, cases[i].most, own, chunk) ==
              cases[i].found);
        if (cases[i].found == SW_H5_SHAPED)
            CHECK(memcmp(chunk, cases[i].chunk, sizeof chunk) == 0);
    }
}

/* Texts of settings: only those that HDF5 can be given. */
static void settings(void) {
    static const struct {
        const char *key, *good, *bad;
    } texts[] = {{"alignment", "1048576", "1m"},
                 {"coll_metadata_write", "true", "1"},
                 {"chunk_size", "1", "0"},
                 {"chunk_size", "4294967295", "4294967296"},
                 {"deflate", "9", "10"},
                 {"scaleoffset", "0", "16"},
                 {"szip", "32", "31"},
                 {"szip", "2", "34"},
                 {"file_space_strategy", "page", "paged"},
                 {"libver_low", "v200", "latest"},
                 {"fill_time", "never", "later"},
                 {"chunk_slots", "521", "0"},
                 {"mdc_size", "134217728", "134217729"},
                 {"sieve_buf_size", "0", "-1"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint64_t value;
        char text[SW_H5_SPELLED];
        enum sw_h5_key key = sw_h5_key_of(texts[i].key);
        CHECK(sw_h5_parse(key, texts[i].good, &value));
        sw_h5_spell(key, value, text);
        CHECK_TEXT(text, texts[i].good);
        CHECK(!sw_h5_parse(key, texts[i].bad, &value));
    }
    CHECK(sw_h5_key_of("none") == SW_H5_KEYS);
    unsigned filter, values[SW_H5_PLUGIN_VALUES];
    CHECK(sw_h5_parse_plugin("32013,1,2", &filter, values) == 2 && filter == 32013 && values[1] == 2);
    CHECK(sw_h5_parse_plugin("255", &filter, values) == -1 && sw_h5_parse_plugin("", &filter, values) == -1);
    CHECK(sw_h5_parse_plugin("256", &filter, values) == 0 &&
          sw_h5_parse_plugin("256,", &filter, values) == -1);
    CHECK(sw_h5_parse_plugin("300,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20", &filter, values) ==
          20);
    CHECK(sw_h5_parse_plugin("300,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21", &filter, values) ==
          -1);
    CHECK(sw_h5_names("/a/b,p*", "/x/pressure") && sw_h5_names("/a/b", "/a/b") && !sw_h5_names("a", "/a/b"));
    const unsigned long long size[] = {10, 100, 8};
    unsigned long long chunk[3];
    sw_h5_divide(4096, 8, 3, size, chunk);
    CHECK(chunk[0] == 1 && chunk[1] == 64 && chunk[2] == 8);
    sw_h5_divide(1, 8, 3, size, chunk);
    CHECK(chunk[0] == 1 && chunk[1] == 1 && chunk[2] == 1);
    CHECK(sw_h5_slots(0, 521) == 521 && sw_h5_slots(1 << 20, 521) == 521 &&
          sw_h5_slots(8 << 20, 521) == 4177);
    CHECK(sw_h5_slots(8 << 20, 8191) == 8191 && sw_h5_slots(64 << 20, 8191) == 33347);
}

int main(void) {
    settings();
    shapes();
    boxes();
    thousand();
    patterns();
    limit();
    travel();
    return failures;
}
