/* SPDX-License-Identifier: BSD-3-Clause
 * The record: whatever is folded into loops comes out as it went in, and what is regular is small. */
#define _GNU_SOURCE
#include "record.h"

#include <stdlib.h>

#include "check.h"

#define MOST 20000

static struct sw_items items;
static struct {
    enum sw_line line;
    int64_t numbers[SW_RECORD_NUMBERS];
} calls[MOST];
static int count;
static int64_t pauses;

static void add(enum sw_line line, int64_t a, int64_t b, int64_t c) {
    const int64_t numbers[SW_RECORD_NUMBERS] = {a, b, c};
    if (count == MOST || !sw_items_add(&items, line, numbers, count))
        return;
    pauses += count;
    calls[count].line = line;
    memcpy(calls[count++].numbers, numbers, sizeof numbers);
}

static void begin(void) {
    sw_items_close(&items);
    CHECK(sw_items_open(&items));
    count = 0;
    pauses = 0;
}

static void check_expands(void) {
    struct sw_walk walk = {.items = items.items, .count = items.count};
    int64_t numbers[SW_RECORD_NUMBERS], kept = 0;
    const struct sw_item *item;
    int wrong = 0, at = 0;
    for (; (item = sw_walk_next(&walk, numbers)); at++)
        wrong += at >= count || item->line != calls[at].line ||
                 memcmp(numbers, calls[at].numbers, sizeof numbers) != 0;
    for (uint32_t i = 0; i < items.count; i++)
        kept += items.items[i].pause;
    CHECK(wrong == 0 && at == count && kept == pauses && walk.depth == 0);
}

static void test_regular_calls_take_a_few_lines(void) {
    begin();
    for (int step = 0; step < 50; step++) {
        add(SW_LINE_open, 0, step, 0);
        for (int variable = 0; variable < 4; variable++) {
            add(SW_LINE_set_view, 0, variable * 1000, 8);
            for (int row = 0; row < 40; row++)
                add(SW_LINE_write_at_all, 0, row * 512 + step, 4096);
        }
        add(SW_LINE_close, 0, 0, 0);
    }
    CHECK(count == 50 * (4 * 41 + 2));
    CHECK(items.count < 20);
    check_expands();
}

static void test_irregular_calls_are_kept_too(void) {
    begin();
    for (int i = 0; i < 5000; i++)
        add(SW_LINE_read_at, 0, rand(), 4096);
    check_expands();
    for (int i = 0; i < 5000; i++) /* hardly a difference that repeats */
        add(SW_LINE_write, rand() % 3, rand() % 3, rand() % 2 ? INT64_MAX : INT64_MIN);
    check_expands();
}

/* Loops in loops with numbers that depend on their turns, now and then disturbed. */
static void put_random(int depth) {
    int turns = 1 + rand() % 6, length = 1 + rand() % 3, disturbed = rand() % 4;
    int steps[3][2], kinds[3], deep[3];
    for (int i = 0; i < length; i++) {
        kinds[i] = SW_LINE_read + rand() % 4;
        deep[i] = depth < 3 && rand() % 3 == 0;
        steps[i][0] = rand() % 1000;
        steps[i][1] = rand() % 3;
    }
    for (int turn = 0; turn < turns; turn++)
        for (int i = 0; i < length; i++) {
            unsigned seed = (unsigned)rand();
            if (deep[i]) {
                srand((unsigned)(steps[i][0] + depth));
                put_random(depth + 1);
                srand(seed);
            } else {
                add((enum sw_line)kinds[i], 0, turn * steps[i][0] + (disturbed == 0 && seed % 16 == 0),
                    turn * steps[i][1]);
            }
        }
}

static void test_what_is_folded_expands_to_itself(void) {
    for (unsigned seed = 0; seed < 300; seed++) {
        begin();
        srand(seed);
        for (int i = 0; i < 8 && count < 2000; i++)
            put_random(0);
        check_expands();
    }
}

static void test_a_full_record_refuses(void) {
    static const enum sw_line lines[] = {SW_LINE_read, SW_LINE_write, SW_LINE_sync};
    begin();
    const int64_t numbers[SW_RECORD_NUMBERS] = {0};
    bool room = true;
    int added = 0;
    srand(1);
    for (; room && added < 4 * SW_MAX_RECORD_ITEMS; added++) {
        const int64_t random[SW_RECORD_NUMBERS] = {rand(), rand()};
        room = sw_items_add(&items, lines[rand() % 3], random, 0);
    }
    CHECK(!room && items.count + 1 == SW_MAX_RECORD_ITEMS);
    CHECK(!sw_items_add(&items, SW_LINE_sync, numbers, 0));
}

/* ---- ranks ---- */

static char *text;
static size_t size;

static bool give(struct sw_group *group, int rank, const char *path, int64_t offset) {
    static struct sw_items own;
    struct sw_item named[] = {{.line = SW_LINE_comm, .numbers = {rank, 1}}, {.line = SW_LINE_file}};
    sw_items_close(&own);
    CHECK(sw_items_open(&own));
    for (int i = 0; i < 5; i++)
        sw_items_add(&own, SW_LINE_write_at, (const int64_t[SW_RECORD_NUMBERS]){0, offset + i * 10, 10, 0},
                     7);
    struct sw_part part = {named, own.items, 2, own.count, path, strlen(path) + 1};
    return rank == 4 || group->count == 0 ? sw_group_begin(group, rank, &part) : sw_group_take(group, &part);
}

static void test_ranks_that_do_the_same_are_one_group(void) {
    struct sw_group group = {.count = 0};
    uint32_t crc = 0;
    FILE *file = open_memstream(&text, &size);
    CHECK(give(&group, 4, "/a1/out.08", 1000) && give(&group, 5, "/a1/out.09", 1100) &&
          give(&group, 6, "/a1/out.10", 1200));
    CHECK(!give(&group, 7, "/a1/out.11", 1301));
    CHECK(!give(&group, 7, "/a1/out.9", 1300));
    sw_group_end(&group, file, &crc);
    fclose(file);
    CHECK_TEXT(text,
               "ranks 4 3\ncomm 4~1 1 0\nfile 0,1 /a1/out.08\nloop 5\nwrite_at 0 1000,10~100 10 7\nend\n");
    free(text);
}

static void test_a_rank_that_does_not_fit_leaves_no_steps(void) {
    struct sw_group group = {.count = 0};
    uint32_t crc = 0;
    FILE *file = open_memstream(&text, &size);
    CHECK(give(&group, 4, "/a1/out", 1000) && !give(&group, 5, "/b1/out", 1100));
    sw_group_end(&group, file, &crc);
    sw_record_print_text(file, &crc, "hint ", "a=%\n");
    fclose(file);
    CHECK_TEXT(
        text, "ranks 4 1\ncomm 4 1 0\nfile 0 /a1/out\nloop 5\nwrite_at 0 1000,10 10 7\nend\nhint a=%25%0a\n");
    free(text);
}

int main(void) {
    test_regular_calls_take_a_few_lines();
    test_irregular_calls_are_kept_too();
    test_what_is_folded_expands_to_itself();
    test_a_full_record_refuses();
    test_ranks_that_do_the_same_are_one_group();
    test_a_rank_that_does_not_fit_leaves_no_steps();
    return failures != 0;
}
