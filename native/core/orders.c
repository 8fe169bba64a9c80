/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "orders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input.h"
#include "journal.h"

static bool is_known(const struct sw_order_file *orders, uint32_t number) {
    return orders->known[number / 8] >> number % 8 & 1;
}

void sw_orders_carried_out(struct sw_order_file *orders, double number) {
    if (number >= 1 && number < SW_MAX_ORDERS)
        orders->known[(uint32_t)number / 8] |= (uint8_t)(1u << (uint32_t)number % 8);
}

/* False if the line is damaged. */
static bool take_line(struct sw_order_file *orders, const char *line, size_t length) {
    struct sw_phase phase;
    struct sw_decided_set set;
    if (!sw_journal_fields(line, length, &phase) || !*phase.site || phase.order < 1 ||
        phase.order >= SW_MAX_ORDERS || !sw_settings_parse(phase.settings, &set))
        return false;
    if (is_known(orders, phase.order))
        return true;
    struct sw_order *order = &orders->waiting[orders->count];
    *order = (struct sw_order){.number = phase.order,
                               .write = phase.write,
                               .family = strdup(phase.site),
                               .settings = strdup(phase.settings)};
    if (!order->family || !order->settings) {
        free(order->family);
        free(order->settings);
        return true; /* as if it had not come */
    }
    sw_orders_carried_out(orders, phase.order);
    orders->count++;
    return true;
}

/* One whole line. False: nothing behind it is to be taken now. */
static bool take(struct sw_order_file *orders, const char *line, size_t length) {
    static const char header[] = SW_ORDERS_HEADER;
    bool is_header = length == sizeof header - 1 && memcmp(line, header, length) == 0;
    if (!orders->headed) {
        orders->headed = is_header;
        orders->alien = !is_header;
        return is_header;
    }
    if (!length || is_header)
        return true;
    if (orders->count == SW_MAX_ORDERS_WAITING)
        return false;
    if (take_line(orders, line, length)) {
        orders->stuck = 0;
        return true;
    }
    /* On a file system of several hosts bytes may arrive after those behind them: the line is read again. */
    if (orders->patient || ++orders->stuck < SW_PATIENCE)
        return false;
    orders->stuck = 0;
    orders->damaged++;
    return true;
}

size_t sw_orders_take(struct sw_order_file *orders, const char *text, size_t size) {
    size_t at = 0;
    while (at < size) {
        const char *newline = memchr(text + at, '\n', size - at);
        size_t length = newline ? (size_t)(newline - (text + at)) : 0;
        if (!newline || !take(orders, text + at, length))
            break;
        at += length + 1;
    }
    return at;
}

bool sw_orders_look(struct sw_order_file *orders, sw_lock *lock, const char *path, char *error,
                    size_t error_size) {
    off_t there = 0;
    orders->more = false;
    int fd = sw_input_open(path, &there, error, error_size);
    if (fd < 0)
        return errno == ENOENT;
    if (there <= orders->offset) {
        close(fd);
        return true;
    }
    size_t size = (size_t)(there - orders->offset);
    bool whole = size <= SW_MAX_ORDERS_LOOK;
    size = whole ? size : SW_MAX_ORDERS_LOOK;
    char *text = sw_input_read(fd, (off_t)orders->offset, &size, error, error_size);
    if (!text)
        return false;
    if (lock)
        sw_lock_take(lock);
    size_t taken = sw_orders_take(orders, text, size);
    if (lock)
        sw_lock_release(lock);
    orders->more = taken && !whole;
    /* No line is this long: what follows its end may be orders again. */
    if (!taken && !whole && !memchr(text, '\n', size)) {
        taken = size;
        orders->damaged++;
    }
    orders->offset += (int64_t)taken;
    free(text);
    if (orders->alien)
        snprintf(error, error_size, "it does not begin with \"" SW_ORDERS_HEADER "\"");
    return !orders->alien;
}

struct sw_order *sw_orders_next(struct sw_order_file *orders, const char *family, bool reads, bool writes) {
    for (size_t i = 0; i < orders->count; i++) {
        struct sw_order *order = &orders->waiting[i];
        if (!order->taken && (order->write ? writes : reads) && strcmp(order->family, family) == 0)
            return order;
    }
    return NULL;
}

struct sw_order *sw_orders_find(struct sw_order_file *orders, uint32_t number) {
    for (size_t i = 0; i < orders->count; i++)
        if (orders->waiting[i].number == number)
            return &orders->waiting[i];
    return NULL;
}

void sw_orders_remove(struct sw_order_file *orders, struct sw_order *order) {
    size_t at = (size_t)(order - orders->waiting);
    free(order->family);
    free(order->settings);
    orders->count--;
    memmove(order, order + 1, (orders->count - at) * sizeof *order);
}

void sw_orders_close(struct sw_order_file *orders) {
    while (orders->count)
        sw_orders_remove(orders, &orders->waiting[orders->count - 1]);
}
