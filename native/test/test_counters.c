/* SPDX-License-Identifier: BSD-3-Clause */
#include "counters.h"

#include "check.h"

static void calls(void) {
    struct sw_calls a = {0}, b = {0}, none = {0};
    sw_calls_add(&a, 10, 5);
    sw_calls_add(&a, 0, 7);
    sw_calls_add(&b, 30, 100);
    CHECK(a.count == 2 && a.bytes == 10 && a.min_size == 0 && a.max_size == 10 && a.time_sum == 12 &&
          a.time_max == 12);
    sw_calls_merge(&a, &none);
    CHECK(a.count == 2 && a.min_size == 0);
    struct sw_calls same = a;
    sw_calls_merge(&a, &b);
    CHECK(a.count == 3 && a.bytes == 40 && a.min_size == 0 && a.max_size == 30);
    CHECK(a.time_sum == 112 && a.time_max == 100); /* the slower of two ranks */
    sw_calls_merge_same_rank(&same, &b);
    CHECK(same.time_sum == 112 && same.time_max == 112); /* one rank's total */
    sw_calls_merge(&none, &b);
    CHECK(none.min_size == 30);
}

static void add(struct sw_posix *posix, uint64_t size, unsigned during) {
    const struct sw_beneath_call call = {.size = size, .during = during, .time = 7};
    sw_posix_add(posix, &call);
}

static void posix(void) {
    struct sw_posix a = {0}, b = {0};
    add(&a, 100, 1u << SW_DURING_COLLECTIVE | 1u << SW_DURING_WRITE);
    add(&a, 50, 1u << SW_DURING_INDEPENDENT);
    add(&a, 50, 0);
    CHECK(a.count == 3 && a.bytes == 200 && a.min_size == 50 && a.max_size == 100 && a.ranks == 1);
    CHECK(a.during[SW_DURING_COLLECTIVE].count == 1 && a.during[SW_DURING_COLLECTIVE].bytes == 100);
    CHECK(a.during[SW_DURING_WRITE].max_size == 100 && a.during[SW_DURING_INDEPENDENT].count == 1);
    CHECK(a.sizes[0].size == 50 && a.sizes[0].count == 2 && a.sizes[1].size == 100);
    add(&b, 100, 1u << SW_DURING_COLLECTIVE);
    struct sw_posix same = a;
    sw_posix_merge(&a, &b);
    CHECK(a.ranks == 2 && a.during[SW_DURING_COLLECTIVE].ranks == 2 &&
          a.during[SW_DURING_INDEPENDENT].ranks == 1);
    CHECK(a.sizes[0].count == 2 && a.sizes[1].count == 2);
    CHECK(a.during[SW_DURING_COLLECTIVE].time == 14 && a.during[SW_DURING_INDEPENDENT].time == 7);
    sw_posix_merge_same_rank(&same, &b);
    CHECK(same.ranks == 1 && same.during[SW_DURING_COLLECTIVE].ranks == 1 && same.count == 4);
}

/* The frequent sizes survive any number of rare ones. */
static void frequent_sizes(void) {
    struct sw_posix a = {0};
    for (uint64_t i = 0; i < 10000; i++) {
        add(&a, 4096, 0);
        add(&a, i % 2 ? 65536 : 100000 + i, 0);
    }
    CHECK(a.sizes[0].size == 4096 && a.sizes[0].count == 10000);
    CHECK(a.sizes[1].size == 65536 && a.sizes[1].count >= 5000);
    for (int i = 1; i < SW_SIZES; i++)
        CHECK(a.sizes[i - 1].count >= a.sizes[i].count);
}

static void spans(void) {
    struct sw_span span = SW_EMPTY_SPAN;
    CHECK(sw_span_is_empty(span));
    sw_span_include(&span, SW_EMPTY_SPAN);
    CHECK(sw_span_is_empty(span));
    sw_span_include(&span, (struct sw_span){5, 9});
    sw_span_include(&span, (struct sw_span){2, 3});
    CHECK(span.start == 2 && span.end == 9);
}

static void operations(void) {
    CHECK_TEXT(sw_operations[SW_OP_write_at_all].name, "write_at_all");
    CHECK(sw_operations[SW_OP_write_at_all].kind == SW_WRITE &&
          sw_operations[SW_OP_write_at_all].mode == SW_COLLECTIVE);
    for (int op = 0; op < SW_OPERATIONS; op++) {
        const char *name = sw_operations[op].name;
        if (strstr(name, "_end"))
            CHECK(sw_operations[op].mode == SW_END);
        else if (strstr(name, "_all") || strstr(name, "_ordered"))
            CHECK(sw_operations[op].mode == SW_COLLECTIVE || strcmp(name, "preallocate") == 0);
        CHECK((sw_operations[op].kind == SW_READ) == (strstr(name, "read") != NULL));
        CHECK((sw_operations[op].kind == SW_WRITE) == (strstr(name, "write") != NULL));
    }
}

int main(void) {
    calls();
    posix();
    frequent_sizes();
    spans();
    operations();
    return failures;
}
