/* SPDX-License-Identifier: BSD-3-Clause
 * The reader of orders on any bytes, which arrive in two pieces. Checksums are put right first, so that what
 * is behind them is reached. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "journal.h"
#include "orders.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition) {
    if (!condition)
        abort();
}

static void check(struct sw_order_file *orders) {
    demand(orders->count <= SW_MAX_ORDERS_WAITING);
    for (size_t i = 0; i < orders->count; i++) {
        struct sw_order *order = &orders->waiting[i];
        struct sw_decided_set set;
        demand(order->number > 0 && order->number < SW_MAX_ORDERS && *order->family);
        demand(sw_settings_parse(order->settings, &set));
        demand(sw_orders_find(orders, order->number) == order); /* each once */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sw_order_file *orders = calloc(1, sizeof *orders);
    size_t header = strlen(SW_ORDERS_HEADER) + 1, whole = header + size, half = whole / 2;
    char *text = malloc(whole);
    if (!text || !orders)
        exit(1);
    memcpy(text, SW_ORDERS_HEADER "\n", header);
    memcpy(text + header, data, size);
    for (size_t at = header; at < whole;) {
        const char *newline = memchr(text + at, '\n', whole - at);
        size_t length = newline ? (size_t)(newline - (text + at)) : whole - at;
        if (length >= 10)
            sw_journal_seal(text + at, length);
        at += length + 1;
    }
    size_t at = sw_orders_take(orders, text, half);
    demand(at <= half);
    for (int look = 0; look < 3 * SW_PATIENCE && at < whole; look++) {
        at += sw_orders_take(orders, text + at, whole - at);
        demand(at <= whole);
        check(orders);
        if (orders->count)
            sw_orders_remove(orders, &orders->waiting[orders->count / 2]);
    }
    sw_orders_close(orders);
    free(orders);
    free(text);
    return 0;
}
