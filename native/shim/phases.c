/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "phases.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "journal.h"
#include "ordered.h"
#include "setup.h"
#include "sites.h"

#define MOST_OPEN 64 /* phases measured at a time: each holds a communicator, of which MPI has few */

static atomic_int open_phases;

struct sw_tracking {
    struct sw_seen before;
    bool tracked, created, ordered, settle;
    bool doubled; /* it has the settings of an order that another thread's phase carries out */
    uint32_t site, candidate, order, missed, ranks, nodes;
    MPI_Comm comm; /* MPI_COMM_NULL where a rank is alone */
};

void sw_phase_choose(const struct sw_opening *opening, struct sw_matches *matches, struct sw_orders *orders) {
    bool room = atomic_load(&open_phases) < MOST_OPEN;
    if (opening->mode == SW_RUN_ONLINE)
        sw_site_choose(opening, matches, orders);
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
    for (int write = 0; write < 2; write++) {
        const struct sw_pattern *pattern = record->patterns[write];
        seen.strided[write] = record->facts.view.in_pieces > record->facts.view.in_one ||
                              (pattern && pattern->strided > pattern->contiguous + pattern->random);
    }
    sw_lock_release(&record->lock);
    return seen;
}

struct sw_tracking *sw_phase_begin(const struct sw_opening *opening, const struct sw_orders *orders,
                                   struct sw_seen before, bool here_too, uint32_t missed) {
    /* Of a file that is never closed it stays to the end of the process. */
    struct sw_tracking *tracking = here_too ? sw_arena_take(&sw_runtime.files.arena, sizeof *tracking) : NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    int here = tracking != NULL, everywhere = here;
    if (orders->tracked && opening->size > 1) {
        /* All ranks or none: at the close they meet again. */
        sw_pmpi.Allreduce(&here, &everywhere, 1, MPI_INT, MPI_LAND, opening->comm);
        if (everywhere && sw_pmpi.Comm_dup(opening->comm, &comm) != MPI_SUCCESS)
            everywhere = 0;
    }
    if (!tracking)
        return NULL;
    *tracking = (struct sw_tracking){.before = before,
                                     .tracked = orders->tracked && everywhere,
                                     .created = opening->amode & MPI_MODE_CREATE,
                                     .site = orders->site,
                                     .candidate = orders->candidate,
                                     .missed = missed,
                                     .settle = orders->settle,
                                     .ordered = opening->mode == SW_RUN_ORDERS,
                                     .ranks = (uint32_t)opening->size,
                                     .nodes = (uint32_t)opening->nodes,
                                     .comm = comm};
    if (tracking->tracked) {
        atomic_fetch_add(&open_phases, 1);
        tracking->doubled = orders->order && !sw_order_begin(orders->order);
        tracking->order = tracking->doubled ? 0 : orders->order;
    }
    return tracking;
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

static void note(const struct sw_phase *phase) {
    if (sw_setup.journal && !sw_journal_append(sw_setup.journal, phase))
        sw_complain("journal %.300s cannot be written: %s", sw_setup.journal, strerror(errno));
}

static const char *program_name(char *path, size_t size) {
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    path[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* On rank 0: the learner or its order, and the journal, receive the phase. */
static void learn(const struct sw_tracking *tracking, const struct sw_layout *layout,
                  const struct sw_use *use, const struct sw_opening *again, double bytes, double seconds) {
    struct sw_phase *phase = calloc(1, sizeof *phase);
    struct sw_workload workload;
    char exe[SW_MAX_PATH];
    struct timespec now;
    if (!phase)
        return;
    char pattern = use->collective == 1 ? 'c' : 'i';
    phase->pattern = use->strided ? (char)(pattern - 'a' + 'A') : pattern;
    phase->write = use->write;
    phase->ranks = tracking->ranks;
    phase->nodes = tracking->nodes;
    phase->bytes = bytes;
    phase->seconds = seconds;
    phase->missed = tracking->order ? tracking->missed : 0;
    clock_gettime(CLOCK_REALTIME, &now);
    phase->time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    print_layout(layout, phase->layout, sizeof phase->layout);
    snprintf(phase->program, sizeof phase->program, "%.*s", (int)sizeof phase->program - 1,
             program_name(exe, sizeof exe));
    sw_known_workload(again, &workload);
    sw_workload_text(&workload, SW_WORD_OPERATION, use->write ? "write" : "read");
    sw_workload_print(&workload, phase->workload, sizeof phase->workload);
    bool worth = tracking->ordered
                     ? sw_order_end(tracking->order, again->path, phase)
                     : sw_site_measured(tracking->site, tracking->candidate, again->path, phase);
    if (worth)
        note(phase);
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
                         .held = write ? moved[0] + moved[1] : fmin(moved[0], (double)now->extent),
                         .packed = !write && now->packed,
                         .use = {.write = write,
                                 .strided = 2 * strided > calls,
                                 .shapeless = !now->flat || (strided && strided < calls),
                                 .collective = together && alone ? -1 : together,
                                 .transfer_size = calls ? moved[write] / (double)calls : 0}};
}

void sw_phase_end(struct sw_tracking *tracking, struct sw_file *record, bool root) {
    enum { BELOW, DATASETS, LEVELS };
    struct sw_seen now = sw_seen_of(record);
    struct done done[LEVELS] = {in_mpi_io(&tracking->before, &now),
                                in_hdf5(&tracking->before.hdf5, &now.hdf5)};
    double bytes[LEVELS + 1] = {done[BELOW].bytes, done[DATASETS].bytes, done[DATASETS].held};
    double seconds[LEVELS] = {done[BELOW].seconds, done[DATASETS].seconds};
    double all[LEVELS + 1] = {bytes[0], bytes[1], bytes[2]}, slowest[LEVELS] = {seconds[0], seconds[1]};
    bool tracked = tracking->tracked;
    if (tracked && tracking->comm != MPI_COMM_NULL) {
        tracked =
            sw_pmpi.Reduce(bytes, all, LEVELS + 1, MPI_DOUBLE, MPI_SUM, 0, tracking->comm) == MPI_SUCCESS &&
            sw_pmpi.Reduce(seconds, slowest, LEVELS, MPI_DOUBLE, MPI_MAX, 0, tracking->comm) == MPI_SUCCESS;
        sw_pmpi.Comm_free(&tracking->comm);
    }
    if (tracking->tracked)
        atomic_fetch_sub(&open_phases, 1);
    int level = bytes[DATASETS] > 0 ? DATASETS : BELOW;
    if (root && bytes[level] > 0 && strcmp(record->path, SW_OTHER_FILES) != 0) {
        struct sw_use *use = &done[level].use;
        use->bytes = bytes[level];
        use->file_size = use->stored = (double)now.size;
        /* Alignment and chunks make a file larger than what the program puts into it, filters smaller than
         * what it gets out of it; a model is asked of that. */
        double held = tracked ? all[LEVELS] : bytes[LEVELS] * tracking->ranks;
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
            learn(tracking, &now.layout, use, &again, all[level], slowest[level]);
    }
    if (tracking->order) /* the phase moved nothing, or could not be measured */
        sw_order_end(tracking->order, record->path, NULL);
    sw_arena_give(&sw_runtime.files.arena, tracking, sizeof *tracking);
}
