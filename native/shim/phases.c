/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "phases.h"
#include "../core/reserved.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "evidence.h"
#include "families.h"
#include "journal.h"
#include "mode_orders.h"
#include "mpi_comm.h"
#include "setup.h"

#define MOST_OPEN 64 /* phases measured at a time: each holds a communicator, of which MPI has few */

static atomic_int open_phases;

struct sw_tracking {
    struct sw_file *record; /* held by the handle */
    struct sw_seen before;
    struct sw_evidence evidence; /* in the mode orders: what was there before it */
    bool tracked, created, ordered, settle;
    bool doubled; /* it has the settings of an order that another thread's phase carries out */
    uint32_t family, candidate, missed, ranks, nodes;
    uint32_t wanted, order; /* of an order: to be carried out from when all ranks follow, and carried out */
    MPI_Comm comm;          /* MPI_COMM_NULL where a rank is alone */
    int root;               /* the rank in it of the file's rank 0 */
};

/* The phase that waits for the layer above to agree on it. */
static __thread struct sw_tracking *waiting __attribute__((tls_model("initial-exec")));

/* What all ranks did in a phase, in one call: sums and maxima. */
struct cost {
    double bytes[2], held, slowest[2]; /* below and of the datasets */
    struct sw_evidence evidence;
};
#define COST_NUMBERS (sizeof(struct cost) / sizeof(double))

static MPI_Datatype cost_type;
static MPI_Op cost_op;
static bool cost_known;

/* The parameters are MPI's. NOLINTNEXTLINE(readability-non-const-parameter) */
static void add_costs(void *from, void *into, int *count, MPI_Datatype *type) {
    const struct cost *one = from;
    struct cost *all = into;
    (void)type;
    for (int i = 0; i < *count; i++) {
        all[i].held += one[i].held;
        sw_evidence_add(&all[i].evidence, &one[i].evidence);
        for (int level = 0; level < 2; level++) {
            all[i].bytes[level] += one[i].bytes[level];
            all[i].slowest[level] = sw_fmax(all[i].slowest[level], one[i].slowest[level]);
        }
    }
}

static void describe_costs(void) {
    cost_known = sw_pmpi.Type_contiguous((int)COST_NUMBERS, MPI_DOUBLE, &cost_type) == MPI_SUCCESS &&
                 sw_pmpi.Type_commit(&cost_type) == MPI_SUCCESS &&
                 sw_pmpi.Op_create(add_costs, 1, &cost_op) == MPI_SUCCESS;
}

void sw_phase_choose(const struct sw_opening *opening, struct sw_matches *matches, struct sw_orders *orders) {
    bool room = atomic_load(&open_phases) < MOST_OPEN;
    if (opening->mode == SW_RUN_ONLINE)
        sw_family_choose(opening, matches, orders);
    else if (room)
        sw_order_choose(opening, orders);
    orders->tracked &= room;
}

struct sw_seen sw_seen_of(struct sw_file *record) {
    struct sw_seen seen = {0};
    sw_lock_take(&record->lock);
    for (int op = 0; op < SW_OPERATIONS; op++) {
        const struct sw_calls *calls = record->calls[op];
        const struct sw_operation *operation = &sw_operations[op];
        if (!calls)
            continue;
        seen.time += calls->time_sum;
        if (operation->kind == SW_META || operation->mode == SW_END)
            continue;
        seen.bytes[operation->kind == SW_WRITE] += calls->bytes;
        seen.calls[operation->kind == SW_WRITE] += calls->count;
        seen.collective += operation->mode == SW_COLLECTIVE ? calls->count : 0;
    }
    if (record->hdf5)
        seen.hdf5 = sw_hdf5_sum(record->hdf5);
    seen.size = record->facts.size;
    seen.layout = record->facts.layout;
    seen.driver = record->driver;
    for (int write = 0; write < 2; write++) {
        const struct sw_pattern *pattern = record->patterns[write];
        seen.strided[write] = record->facts.view.in_pieces > record->facts.view.in_one ||
                              (pattern && pattern->strided > pattern->contiguous + pattern->random);
    }
    sw_lock_release(&record->lock);
    return seen;
}

/* On all ranks: the phase is measured from here on. */
static void start(struct sw_tracking *tracking, MPI_Comm comm, int size) {
    struct sw_file *record = tracking->record;
    if (size > 1)
        tracking->comm = sw_comm_own(comm, size, &tracking->root);
    tracking->tracked = size == 1 || tracking->comm != MPI_COMM_NULL;
    if (!tracking->tracked)
        return;
    atomic_fetch_add(&open_phases, 1);
    if (tracking->ordered) {
        sw_lock_take(&record->lock);
        sw_evidence_from(record, &tracking->evidence);
        sw_lock_release(&record->lock);
    }
    tracking->doubled = tracking->wanted && !sw_order_begin(tracking->wanted);
    tracking->order = tracking->doubled ? 0 : tracking->wanted;
}

struct sw_tracking *sw_phase_reserve(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, describe_costs);
    /* Of a file that is never closed it stays to the end of the process. */
    return cost_known ? sw_arena_take(&sw_runtime.files.arena, sizeof(struct sw_tracking)) : NULL;
}

void sw_phase_give(struct sw_tracking *tracking) {
    sw_arena_give(&sw_runtime.files.arena, tracking, sizeof *tracking);
}

void sw_phase_begin(struct sw_tracking *tracking, const struct sw_opening *opening,
                    const struct sw_orders *orders, struct sw_seen before, struct sw_file *record,
                    uint32_t missed) {
    int here = tracking != NULL, everywhere = here;
    bool waits = orders->tracked && opening->led && opening->size > 1;
    bool known = orders->agreed && sw_comm_has_own(opening->size);
    /* All ranks or none: at the close they meet again. */
    if (orders->tracked && !waits && !known && opening->size > 1)
        sw_pmpi.Allreduce(&here, &everywhere, 1, MPI_INT, MPI_LAND, opening->comm);
    if (tracking)
        *tracking = (struct sw_tracking){.record = record,
                                         .before = before,
                                         .created = opening->amode & MPI_MODE_CREATE,
                                         .family = orders->family,
                                         .candidate = orders->candidate,
                                         .wanted = orders->order,
                                         .missed = missed,
                                         .settle = orders->settle,
                                         .ordered = opening->mode == SW_RUN_ORDERS,
                                         .ranks = (uint32_t)opening->size,
                                         .nodes = (uint32_t)opening->nodes,
                                         .comm = MPI_COMM_NULL};
    if (waits)
        waiting = tracking;
    else if (tracking && orders->tracked && everywhere)
        start(tracking, opening->comm, opening->size);
}

bool sw_phase_waits(void) {
    return waiting != NULL;
}

void sw_phase_agree(bool everywhere, MPI_Comm comm, int size) {
    if (waiting && everywhere)
        start(waiting, comm, size);
    waiting = NULL;
}

bool sw_phase_settles(const struct sw_tracking *tracking) {
    return tracking && tracking->tracked && tracking->settle;
}

static void print_layout(const struct sw_layout *layout, char *text, size_t size) {
    const struct sw_file_system *system = sw_layout_system(layout);
    size_t used = 0;
    *text = '\0';
    for (int i = 0; system && i < SW_LAYOUT_NUMBERS && used < size; i++)
        if (layout->numbers[i] > 0)
            used += (size_t)snprintf(text + used, size - used, "%s%s=%lld", used ? " " : "",
                                     system->keys[i].name, (long long)layout->numbers[i]);
}

static const char *program_name(char *path, size_t size) {
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    path[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* On rank 0: the learner or its order, and the journal, receive the phase. */
static void learn(const struct sw_tracking *tracking, const struct sw_seen *now, const struct sw_use *use,
                  const struct sw_opening *again, const struct cost *all, int level) {
    struct sw_file *record = tracking->record;
    struct sw_phase *phase = calloc(1, sizeof *phase);
    struct sw_workload workload;
    char exe[SW_MAX_PATH];
    struct timespec clock;
    if (!phase)
        return;
    char pattern = use->collective == 1 ? 'c' : 'i';
    phase->pattern = use->strided ? (char)(pattern - 'a' + 'A') : pattern;
    phase->write = use->write;
    phase->ranks = tracking->ranks;
    phase->nodes = tracking->nodes;
    phase->bytes = all->bytes[level];
    phase->seconds = all->slowest[level];
    if (tracking->order)
        phase->missed = tracking->missed + sw_order_missed_hdf5(tracking->order, record);
    if (tracking->ordered) {
        sw_lock_take(&record->lock);
        sw_evidence_print(&all->evidence, record, phase->evidence, sizeof phase->evidence);
        sw_lock_release(&record->lock);
    }
    clock_gettime(CLOCK_REALTIME, &clock);
    phase->time = (double)clock.tv_sec + (double)clock.tv_nsec * 1e-9;
    print_layout(&now->layout, phase->layout, sizeof phase->layout);
    snprintf(phase->driver, sizeof phase->driver, "%s", now->driver ? now->driver : "");
    snprintf(phase->program, sizeof phase->program, "%.*s", (int)sizeof phase->program - 1,
             program_name(exe, sizeof exe));
    sw_known_workload(again, &workload);
    sw_workload_text(&workload, SW_WORD_OPERATION, use->write ? "write" : "read");
    sw_workload_print(&workload, phase->workload, sizeof phase->workload);
    bool worth = tracking->ordered
                     ? sw_order_end(tracking->order, again->path, phase)
                     : sw_family_measured(tracking->family, tracking->candidate, again->path, phase);
    if (worth && tracking->ordered) {
        sw_order_answer(phase);
        return;
    }
    if (worth)
        sw_phase_note(phase);
    free(phase);
}

static __thread int64_t within __attribute__((tls_model("initial-exec")));

void sw_phase_within(int64_t began) {
    within = began;
}

/* What this process did in a phase at one level. held: the bytes that the program has in the file, as far as
 * its calls tell. */
struct done {
    double bytes, seconds, held;
    bool packed; /* which may be more than the file's size on storage */
    struct sw_use use;
};

static struct done in_mpi_io(const struct sw_seen *before, const struct sw_seen *now) {
    double moved[2] = {(double)(now->bytes[0] - before->bytes[0]),
                       (double)(now->bytes[1] - before->bytes[1])};
    bool write = moved[1] >= moved[0];
    uint64_t calls = now->calls[write] - before->calls[write],
             collective = now->collective - before->collective,
             both = calls + now->calls[!write] - before->calls[!write];
    signed char collectively = 0;
    if (collective)
        collectively = collective == both ? 1 : -1;
    return (struct done){.bytes = moved[0] + moved[1],
                         .seconds = (double)(now->time - before->time) * 1e-9,
                         .use = {.write = write,
                                 .strided = now->strided[write],
                                 .collective = collectively,
                                 .transfer_size = calls ? moved[write] / (double)calls : 0}};
}

/* The datasets' transfers, as a program of HDF5 knows them: settings change how many bytes move below. */
static struct done in_hdf5(const struct sw_hdf5_moved *before, const struct sw_hdf5_moved *now) {
    double moved[2] = {(double)(now->bytes[0] - before->bytes[0]),
                       (double)(now->bytes[1] - before->bytes[1])};
    bool write = moved[1] >= moved[0];
    uint64_t calls = now->calls[write] - before->calls[write],
             strided = now->strided[write] - before->strided[write];
    bool together = now->collective > before->collective, alone = now->independent > before->independent;
    int64_t closing = within ? sw_tick() - within : 0;
    return (struct done){.bytes = moved[0] + moved[1],
                         .seconds = (double)(now->time - before->time + closing) * 1e-9,
                         /* What is read again is there only once. */
                         .held = write ? moved[0] + moved[1] : sw_fmin(moved[0], (double)now->extent),
                         .packed = !write && now->packed,
                         .use = {.write = write,
                                 .strided = 2 * strided > calls,
                                 .shapeless = !now->flat || (strided && strided < calls),
                                 .collective = together && alone ? -1 : together,
                                 .transfer_size = calls ? moved[write] / (double)calls : 0}};
}

void sw_phase_end(struct sw_tracking *tracking, bool root) {
    struct sw_file *record = tracking->record;
    enum { BELOW, DATASETS, LEVELS };
    struct sw_seen now = sw_seen_of(record);
    struct done done[LEVELS] = {in_mpi_io(&tracking->before, &now),
                                in_hdf5(&tracking->before.hdf5, &now.hdf5)};
    struct cost own = {.bytes = {done[BELOW].bytes, done[DATASETS].bytes},
                       .held = done[DATASETS].held,
                       .slowest = {done[BELOW].seconds, done[DATASETS].seconds}};
    bool tracked = tracking->tracked;
    if (tracked && tracking->ordered) {
        sw_lock_take(&record->lock);
        sw_evidence_until(record, &own.evidence);
        sw_lock_release(&record->lock);
        sw_evidence_since(&own.evidence, &tracking->evidence);
    }
    struct cost all = own;
    if (waiting == tracking) /* the open failed above MPI-IO */
        waiting = NULL;
    if (tracked && tracking->comm != MPI_COMM_NULL) {
        tracked =
            sw_pmpi.Reduce(&own, &all, 1, cost_type, cost_op, tracking->root, tracking->comm) == MPI_SUCCESS;
        sw_comm_disown(&tracking->comm);
    }
    if (tracking->tracked)
        atomic_fetch_sub(&open_phases, 1);
    int level = own.bytes[DATASETS] > 0 ? DATASETS : BELOW;
    if (root && own.bytes[level] > 0 && strcmp(record->path, SW_OTHER_FILES) != 0) {
        struct sw_use *use = &done[level].use;
        use->bytes = own.bytes[level];
        use->file_size = use->stored = (double)now.size;
        /* Alignment and chunks make a file larger than what the program puts into it, filters smaller than
         * what it gets out of it; a model is asked of that. */
        double held = tracked ? all.held : own.held * tracking->ranks;
        if (level == DATASETS && use->write ? tracking->created && held < use->file_size
                                            : done[level].packed && held > use->file_size)
            use->file_size = held;
        sw_choice_learn(record->path, use);
        struct sw_opening again = {.comm = MPI_COMM_SELF,
                                   .size = (int)tracking->ranks,
                                   .nodes = (int)tracking->nodes,
                                   .path = record->path,
                                   .amode = use->write ? MPI_MODE_WRONLY : MPI_MODE_RDONLY,
                                   .info = MPI_INFO_NULL,
                                   .hdf5 = level == DATASETS};
        if (tracked && !tracking->doubled)
            learn(tracking, &now, use, &again, &all, level);
    }
    if (tracking->order) /* the phase moved nothing, or could not be measured */
        sw_order_end(tracking->order, record->path, NULL);
    if (tracking->tracked && tracking->ordered)
        sw_order_phase_ended();
    sw_phase_give(tracking);
}
