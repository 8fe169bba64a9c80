/* SPDX-License-Identifier: BSD-3-Clause
 * The file of orders of stripewise_format.h: which settings the next phases of a family are to try. Somebody
 * else appends to it while the program runs, perhaps on another host, so the reader takes whole lines only,
 * and waits for nothing. An order is carried out once. */
#ifndef STRIPEWISE_ORDERS_H
#define STRIPEWISE_ORDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "plan.h"

#define SW_PATIENCE 8 /* looks after which a damaged line is passed over: it may still be arriving */

struct sw_order {
    uint32_t number; /* 0: none */
    bool write, taken;
    char *family;   /* file name, digits folded; freed with the order */
    char *settings; /* as sw_settings_print writes them; "" for the default */
};

struct sw_order_file {
    int64_t offset;     /* what of the file was read */
    unsigned stuck;     /* looks that ended at a damaged line */
    bool patient;       /* such a look does not count */
    bool more;          /* the last look ended before the end of the file */
    uint32_t damaged;   /* lines passed over */
    bool headed, alien; /* the header was read; it is another one */
    size_t count;
    struct sw_order waiting[SW_MAX_ORDERS_WAITING];
    uint8_t known[SW_MAX_ORDERS / 8]; /* read, or carried out by an earlier job */
};

/* An order with this number was carried out: it is passed over when it is read. */
void sw_orders_carried_out(struct sw_order_file *orders, double number);

/* Takes the whole lines at the beginning of text, as far as there is room. Returns how many bytes that are.
 */
size_t sw_orders_take(struct sw_order_file *orders, const char *text, size_t size);

/* Reads what was appended, SW_MAX_ORDERS_LOOK bytes at most. False with a reason if the file cannot be read;
 * one that is not there yet is empty. The lock (or NULL) is held while orders are taken, not while the file
 * is read. */
bool sw_orders_look(struct sw_order_file *orders, sw_lock *lock, const char *path, char *error,
                    size_t error_size);

/* The first waiting order of a family for an operation that the open allows, or NULL. */
struct sw_order *sw_orders_next(struct sw_order_file *orders, const char *family, bool reads, bool writes);

/* The waiting order of this number, or NULL. */
struct sw_order *sw_orders_find(struct sw_order_file *orders, uint32_t number);

/* The order was carried out. */
void sw_orders_remove(struct sw_order_file *orders, struct sw_order *order);

void sw_orders_close(struct sw_order_file *orders);

#endif
