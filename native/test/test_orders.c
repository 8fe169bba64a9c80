/* SPDX-License-Identifier: BSD-3-Clause
 * Orders: each is taken once, in its order; half lines wait, damaged ones are passed over after a while. */
#define _GNU_SOURCE
#include "orders.h"

#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "journal.h"

static struct sw_order_file orders;
static char text[1 << 20];

static void begin(void) {
    sw_orders_close(&orders);
    memset(&orders, 0, sizeof orders);
    snprintf(text, sizeof text, "%s\n", SW_ORDERS_HEADER);
}

static void add(uint32_t number, const char *site, bool write, const char *settings) {
    struct sw_phase phase = {.pattern = '?', .write = write, .order = number};
    size_t used = strlen(text);
    snprintf(phase.site, sizeof phase.site, "%s", site);
    snprintf(phase.settings, sizeof phase.settings, "%s", settings);
    size_t length = sw_journal_line(&phase, text + used, SW_MAX_JOURNAL_LINE);
    text[used + length] = '\0';
}

static void test_each_is_taken_once_and_in_order(void) {
    begin();
    add(1, "/a#", true, "hint cb_nodes 4");
    add(2, "/b#", true, "");
    add(3, "/a#", false, "hint cb_nodes 2");
    add(1, "/a#", true, "hint cb_nodes 8");
    sw_orders_carried_out(&orders, 2);
    CHECK(sw_orders_take(&orders, text, strlen(text)) == strlen(text));
    CHECK(orders.count == 2 && !sw_orders_next(&orders, "/b#", true, true));
    struct sw_order *first = sw_orders_next(&orders, "/a#", true, true);
    CHECK(first && first->number == 1);
    CHECK_TEXT(first->settings, "hint cb_nodes 4");
    first->taken = true;
    CHECK(sw_orders_next(&orders, "/a#", true, true)->number == 3);
    CHECK(!sw_orders_next(&orders, "/a#", false, true));
    CHECK(sw_orders_find(&orders, 1) == first);
    sw_orders_remove(&orders, first);
    CHECK(!sw_orders_find(&orders, 1) && sw_orders_find(&orders, 3)->number == 3);
}

static void test_lines_arrive_in_pieces(void) {
    begin();
    add(1, "/a#", true, "");
    size_t first = strlen(text);
    add(2, "/a#", true, "hint cb_nodes 4");
    CHECK(sw_orders_take(&orders, text, 5) == 0 && !orders.alien);
    size_t taken = sw_orders_take(&orders, text, strlen(text) - 3);
    CHECK(taken == first && orders.count == 1);
    CHECK(sw_orders_take(&orders, text + taken, strlen(text) - taken) == strlen(text) - taken);
    CHECK(orders.count == 2 && !orders.damaged);
}

static void test_a_damaged_line_is_read_again_then_passed_over(void) {
    begin();
    size_t header = strlen(text);
    add(1, "/a#", true, "");
    size_t first = strlen(text);
    add(2, "/a#", true, "");
    text[header + 12] ^= 1;
    CHECK(sw_orders_take(&orders, text, strlen(text)) == header);
    for (int look = 2; look < SW_PATIENCE; look++)
        CHECK(sw_orders_take(&orders, text + header, strlen(text) - header) == 0);
    text[header + 12] ^= 1; /* it has arrived after all */
    CHECK(sw_orders_take(&orders, text + header, first - header) == first - header && orders.count == 1);
    text[first + 12] ^= 1;
    size_t end = strlen(text);
    add(3, "/a#", true, "");
    for (int look = 1; look < SW_PATIENCE; look++)
        CHECK(sw_orders_take(&orders, text + first, strlen(text) - first) == 0);
    CHECK(sw_orders_take(&orders, text + first, strlen(text) - first) == strlen(text) - first);
    CHECK(orders.damaged == 1 && orders.count == 2 && sw_orders_find(&orders, 3) && end > first);
}

static void test_bounds(void) {
    begin();
    add(SW_MAX_ORDERS, "/a#", true, "");
    for (int look = 1; look < SW_PATIENCE; look++)
        CHECK(sw_orders_take(&orders, text, strlen(text)) < strlen(text));
    begin();
    for (uint32_t number = 1; number <= SW_MAX_ORDERS_WAITING + 1; number++)
        add(number, "/a#", true, "");
    size_t taken = sw_orders_take(&orders, text, strlen(text));
    CHECK(orders.count == SW_MAX_ORDERS_WAITING && taken < strlen(text));
    sw_orders_remove(&orders, sw_orders_next(&orders, "/a#", false, true));
    CHECK(sw_orders_take(&orders, text + taken, strlen(text) - taken) == strlen(text) - taken);
    CHECK(sw_orders_find(&orders, SW_MAX_ORDERS_WAITING + 1) != NULL);
}

static void test_file(void) {
    char path[] = "/tmp/test_orders.XXXXXX", error[160] = "";
    begin();
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    unlink(path);
    CHECK(sw_orders_look(&orders, NULL, path, error, sizeof error) && !orders.offset);
    add(1, "/a#", true, "hint cb_nodes 4");
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    if (!file)
        return;
    fputs(text, file);
    fflush(file);
    CHECK(sw_orders_look(&orders, NULL, path, error, sizeof error) && orders.count == 1);
    CHECK(orders.offset == (int64_t)strlen(text));
    CHECK(sw_orders_look(&orders, NULL, path, error, sizeof error) && orders.count == 1);
    /* A line without an end is passed over in pieces; the next whole one counts. */
    for (int i = 0; i < 2 * SW_MAX_ORDERS_LOOK; i++)
        fputc('x', file);
    fputc('\n', file);
    begin();
    add(2, "/a#", true, "");
    fputs(strchr(text, '\n') + 1, file);
    fclose(file);
    for (int look = 0; look < 4 + SW_PATIENCE; look++)
        CHECK(sw_orders_look(&orders, NULL, path, error, sizeof error));
    CHECK(orders.count == 2 && orders.damaged > 0);
    begin();
    file = fopen(path, "w");
    CHECK(file != NULL);
    if (!file)
        return;
    fputs("hint cb_nodes 4\n", file);
    fclose(file);
    CHECK(!sw_orders_look(&orders, NULL, path, error, sizeof error) && strstr(error, SW_ORDERS_HEADER));
    CHECK(!sw_orders_look(&orders, NULL, "/", error, sizeof error));
    unlink(path);
    close(fd);
}

int main(void) {
    test_each_is_taken_once_and_in_order();
    test_lines_arrive_in_pieces();
    test_a_damaged_line_is_read_again_then_passed_over();
    test_bounds();
    test_file();
    sw_orders_close(&orders);
    return failures != 0;
}
