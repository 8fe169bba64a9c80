/* SPDX-License-Identifier: BSD-3-Clause */
#include "mode_orders.h"

#include <stdio.h>
#include <stdlib.h>

#include "orders.h"
#include "setup.h"
#include "workload.h"

#define LOOK_SHARE 100 /* at most one part in so many of the time goes into looks */

static struct sw_order_file ordered;
static sw_lock ordered_lock = ATOMIC_FLAG_INIT;
static int64_t next_look;
static bool recalled;

static void recall_one(const struct sw_phase *phase, void *context) {
    sw_orders_carried_out(context, phase->order);
}

/* What an earlier job carried out. The lock is held. */
static void recall(void) {
    char error[160], *text = NULL;
    size_t size = 0;
    if (!sw_setup.journal)
        return;
    if (!sw_journal_read(sw_setup.journal, &text, &size, error, sizeof error))
        sw_complain("journal %.300s cannot be read: %s; orders may be carried out again", sw_setup.journal,
                    error);
    else
        sw_journal_each(text, size, recall_one, &ordered);
    free(text);
}

/* The lock is held. Where a look takes long, the next ones are rarer. */
static void look(void) {
    char error[160];
    int64_t start = sw_now();
    if (start < next_look)
        return;
    if (!recalled) {
        recalled = true;
        recall();
        start = sw_now();
    }
    if (!sw_orders_look(&ordered, sw_setup.orders, error, sizeof error))
        sw_complain("orders %.300s cannot be read: %s; running without them", sw_setup.orders, error);
    int64_t end = sw_now();
    next_look = end + LOOK_SHARE * (end - start);
}

void sw_order_choose(const struct sw_opening *opening, struct sw_orders *orders) {
    char site[SW_MAX_PATH];
    char *why = orders->decision.why;
    orders->decision.verdict = SW_KEPT;
    if (sw_runtime.silent) {
        snprintf(why, SW_WHY, "only rank 0 of the job carries out orders");
        return;
    }
    if (!sw_fold_digits(opening->path, site, sizeof site)) {
        snprintf(why, SW_WHY, "the path is too long to be a file family");
        return;
    }
    bool writes = !(opening->amode & MPI_MODE_RDONLY), reads = !(opening->amode & MPI_MODE_WRONLY);
    orders->tracked = true;
    orders->settle = sw_setup.settle && writes;
    sw_lock_take(&ordered_lock);
    look();
    const struct sw_order *order = sw_orders_next(&ordered, site, reads, writes);
    if (order) {
        orders->order = order->number;
        sw_settings_parse(order->settings, &orders->decision.chosen);
        orders->decision.verdict = orders->decision.chosen.count ? SW_CHANGED : SW_KEPT;
        snprintf(why, SW_WHY, "order %u: %s", (unsigned)order->number,
                 *order->settings ? order->settings : "the default");
    } else {
        snprintf(why, SW_WHY, "no order has come: the default");
    }
    sw_lock_release(&ordered_lock);
}

static struct sw_decided_set settings_of(uint32_t number) {
    struct sw_decided_set set = {.count = 0};
    if (!number)
        return set;
    sw_lock_take(&ordered_lock);
    const struct sw_order *order = sw_orders_find(&ordered, number);
    if (order)
        sw_settings_parse(order->settings, &set);
    sw_lock_release(&ordered_lock);
    return set;
}

uint32_t sw_order_missed(uint32_t number, struct sw_matches *matches) {
    struct sw_decided_set set = settings_of(number);
    return sw_matches_missed(matches, &set);
}

uint32_t sw_order_missed_hdf5(uint32_t number, struct sw_file *record) {
    struct sw_decided_set set = settings_of(number);
    return sw_hdf5_missed(record, &set);
}

bool sw_order_begin(uint32_t number) {
    sw_lock_take(&ordered_lock);
    struct sw_order *order = sw_orders_find(&ordered, number);
    bool free_yet = order && !order->taken;
    if (free_yet)
        order->taken = true;
    sw_lock_release(&ordered_lock);
    return free_yet;
}

bool sw_order_end(uint32_t number, const char *path, struct sw_phase *phase) {
    bool fits = phase && sw_fold_digits(path, phase->site, sizeof phase->site) && phase->bytes > 0 &&
                phase->seconds > 0;
    sw_lock_take(&ordered_lock);
    struct sw_order *order = sw_orders_find(&ordered, number);
    if (fits) {
        phase->order = number;
        phase->launch = (double)sw_runtime.start * 1e-9;
        snprintf(phase->settings, sizeof phase->settings, "%s", order ? order->settings : "");
    }
    if (order && fits)
        sw_orders_remove(&ordered, order);
    else if (order)
        order->taken = false;
    sw_lock_release(&ordered_lock);
    return fits;
}
