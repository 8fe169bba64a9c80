/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "mode_orders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "helper.h"
#include "orders.h"
#include "setup.h"
#include "workload.h"

#define MILLISECOND INT64_C(1000000)
#define LOOK_SHARE 10        /* at most one part in so many of the helper's time goes into looks */
#define LOOK_SHARE_ALONE 100 /* of the program's time, where there is no helper */
#define MOST_ANSWERS 256     /* with more, the program waits for the file system */

static struct sw_order_file ordered; /* waiting, count and known: under the lock */
static sw_lock ordered_lock = ATOMIC_FLAG_INIT;
static atomic_bool looked; /* at least once */
static atomic_uint ended;
static _Atomic(int64_t) last_end;

static void recall_one(const struct sw_phase *phase, void *context) {
    sw_orders_carried_out(context, phase->order);
}

/* What an earlier job carried out: before the first look. */
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

/* Returns how many nanoseconds it took. Never two at a time. */
static int64_t look(void) {
    static unsigned counted;
    char error[160];
    int64_t start = sw_now();
    if (!atomic_load(&looked))
        recall();
    unsigned phases = atomic_load(&ended);
    ordered.patient = atomic_load(&looked) && phases == counted;
    counted = phases;
    if (!sw_orders_look(&ordered, &ordered_lock, sw_setup.orders, error, sizeof error))
        sw_complain("orders %.300s cannot be read: %s; running without them", sw_setup.orders, error);
    atomic_store(&looked, true);
    return sw_now() - start;
}

/* ---- the helper: writes answers and looks for orders, so that no rank waits for the file system ---- */

struct answer {
    struct answer *next;
    struct sw_phase *phase;
};
static struct answer *first_answer, **last_answer = &first_answer;
static sw_lock answers_lock = ATOMIC_FLAG_INIT;
static atomic_int answers;

static void write_answers(void) {
    sw_lock_take(&answers_lock);
    struct answer *answer = first_answer;
    first_answer = NULL;
    last_answer = &first_answer;
    sw_lock_release(&answers_lock);
    while (answer) {
        struct answer *next = answer->next;
        sw_phase_note(answer->phase);
        free(answer->phase);
        free(answer);
        atomic_fetch_sub(&answers, 1);
        answer = next;
    }
}

/* After a phase the next order comes soon, or late. A phase that goes on tells nothing: its file may stay
 * open while those of others come and go. */
static int64_t pause_after_look(void) {
    int64_t pause = (sw_now() - atomic_load(&last_end)) / 16;
    if (ordered.more || pause < MILLISECOND)
        return MILLISECOND;
    return pause < 1000 * MILLISECOND ? pause : 1000 * MILLISECOND;
}

static int64_t serve(bool last) {
    static int64_t not_before;
    write_answers();
    if (last)
        return 0;
    int64_t now = sw_now();
    if (now < not_before)
        return not_before - now;
    int64_t took = look(), pause = pause_after_look();
    not_before = now + LOOK_SHARE * took;
    return pause > LOOK_SHARE * took ? pause : LOOK_SHARE * took;
}

static void look_alone(void) {
    static atomic_flag looks = ATOMIC_FLAG_INIT;
    static int64_t not_before;
    int64_t now = sw_now();
    if (atomic_flag_test_and_set(&looks))
        return;
    if (now >= not_before)
        not_before = now + LOOK_SHARE_ALONE * look();
    atomic_flag_clear(&looks);
}

/* What has come by now, and at the first open what is there. */
static void read_orders(void) {
    if (!sw_helper_start(serve))
        look_alone();
    while (!atomic_load(&looked) && sw_helper_start(serve))
        nanosleep(&(struct timespec){.tv_nsec = MILLISECOND / 20}, NULL);
}

void sw_phase_note(const struct sw_phase *phase) {
    if (sw_setup.journal && !sw_journal_append(sw_setup.journal, phase))
        sw_complain("journal %.300s cannot be written: %s", sw_setup.journal, strerror(errno));
}

void sw_order_answer(struct sw_phase *phase) {
    while (atomic_load(&answers) >= MOST_ANSWERS && sw_helper_start(serve))
        nanosleep(&(struct timespec){.tv_nsec = MILLISECOND}, NULL);
    struct answer *answer = sw_helper_start(serve) ? malloc(sizeof *answer) : NULL;
    if (!answer) {
        sw_phase_note(phase);
        free(phase);
        return;
    }
    *answer = (struct answer){.phase = phase};
    atomic_fetch_add(&answers, 1);
    sw_lock_take(&answers_lock);
    *last_answer = answer;
    last_answer = &answer->next;
    sw_lock_release(&answers_lock);
}

void sw_order_phase_ended(void) {
    atomic_fetch_add(&ended, 1);
    atomic_store(&last_end, sw_now());
    sw_helper_ring();
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
    read_orders();
    sw_lock_take(&ordered_lock);
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
