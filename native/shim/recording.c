/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "recording.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hints.h"
#include "journal.h"
#include "recording_beneath.h"
#include "recording_own.h"
#include "setup.h"

#define SLOTS 1024
#define MOST_FILES 16384

bool sw_recording;

/* A file that calls refer to: where its texts begin, hashes of its path and of all its texts. */
struct known_file {
    size_t text, size;
    uint32_t path, all;
};

/* Who is in a communicator, as the record's line `comm` says it. leader: -1 if one of them is not known. */
struct members {
    int64_t leader, size, distance;
};

static struct {
    sw_lock lock;
    struct sw_record own;
    struct sw_items named; /* its own.named */
    char *texts, *inputs;
    struct known_file *files;
    int64_t file_count, comm_count;
    int64_t last; /* the end of the last call */
    bool slots[SLOTS];
    atomic_uint gaps; /* bits 1 << enum sw_gap */
} state = {.lock = ATOMIC_FLAG_INIT};

/* Hints that the program gives after an open are not recorded. */
#define SW_LINE_set_info SW_LINES
static const enum sw_line lines[SW_OPERATIONS] = {
#define OPERATION(name, kind, mode, place) [SW_OP_##name] = SW_LINE_##name,
#include "operations.def"
#undef OPERATION
};

void sw_record_gap(enum sw_gap gap) {
    atomic_fetch_or(&state.gaps, 1u << gap);
}

static bool begun;

void sw_record_begin(void) {
    if (!sw_setup.record)
        return;
    begun = true;
    state.texts = malloc(SW_MAX_RECORD_TEXT);
    state.inputs = malloc(SW_MAX_RECORD_TEXT);
    state.files = malloc(MOST_FILES * sizeof *state.files);
    sw_recording = state.texts && state.inputs && state.files && sw_items_open(&state.named) &&
                   sw_items_open(&state.own.calls);
    if (!sw_recording)
        sw_record_gap(SW_GAP_MEMORY);
    state.last = sw_tick();
}

/* ---- what calls refer to; the lock is held. Each returns a number, or -1 where there is no room. ---- */

struct sw_item *sw_record_name(enum sw_line line, int64_t a, int64_t b) {
    if (state.named.count == SW_MAX_RECORD_ITEMS) {
        sw_record_gap(SW_GAP_MEMORY);
        return NULL;
    }
    struct sw_item *item = &state.named.items[state.named.count++];
    *item = (struct sw_item){.line = line, .numbers = {a, b}};
    return item;
}

static int64_t comm_number(const struct members *comm) {
    uint32_t number = 0;
    for (uint32_t i = 0; i < state.named.count; i++) {
        const struct sw_item *item = &state.named.items[i];
        if (item->line != SW_LINE_comm)
            continue;
        if (item->numbers[0] == comm->leader && item->numbers[1] == comm->size &&
            item->numbers[2] == comm->distance)
            return number;
        number++;
    }
    struct sw_item *made = sw_record_name(SW_LINE_comm, comm->leader, comm->size);
    if (!made)
        return -1;
    made->numbers[2] = comm->distance;
    return state.comm_count++;
}

static uint32_t hash_of(const char *text, size_t size) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

/* hints: "KEY NEWLINE VALUE NEWLINE ...". fresh: the path was not known before. */
static int64_t file_number(const char *path, const char *hints, bool *fresh) {
    size_t length = strlen(path) + 1, size = length, at = state.own.text_size;
    uint32_t hints_count = 0;
    *fresh = false;
    if (at + length + strlen(hints) + 1 > SW_MAX_RECORD_TEXT || state.file_count == MOST_FILES) {
        sw_record_gap(SW_GAP_MEMORY);
        return -1;
    }
    char *text = state.texts + at;
    memcpy(text, path, length);
    for (bool value = false; *hints; hints++) {
        bool ends = *hints == '\n';
        char end = value ? '\0' : '=';
        text[size++] = ends ? end : *hints;
        hints_count += ends && value;
        value ^= ends;
    }
    struct known_file file = {at, size, hash_of(text, length), hash_of(text, size)};
    *fresh = true;
    for (int64_t i = 0; i < state.file_count; i++) {
        const struct known_file *known = &state.files[i];
        *fresh &= known->path != file.path;
        if (known->all == file.all && known->size == size &&
            memcmp(state.texts + known->text, text, size) == 0)
            return i;
    }
    if (!sw_record_name(SW_LINE_file, 0, 0))
        return -1;
    while (hints_count--)
        if (!sw_record_name(SW_LINE_hint, 0, 0))
            return -1;
    state.own.text_size += size;
    state.files[state.file_count] = file;
    return state.file_count++;
}

/* Does an item continue the one above it? */
static bool continues(const struct sw_item *item) {
    switch (item->line) {
#define X(name) case SW_LINE_##name:
        SW_RECORD_PARTS(X)
#undef X
        return true;
    default:
        return false;
    }
}

/* Are the items from one on those from the other on, to the end? */
static bool same_items(uint32_t one, uint32_t other) {
    uint32_t length = state.named.count - other;
    const struct sw_item *items = state.named.items;
    return one + length <= other && memcmp(items + one, items + other, length * sizeof *items) == 0 &&
           (one + length == other || !continues(&items[one + length]));
}

uint32_t sw_record_named(void) {
    return state.named.count;
}

int64_t sw_record_number_of(uint32_t first) {
    int64_t number = 0;
    for (uint32_t i = 0; i < first; i++) {
        if (state.named.items[i].line != state.named.items[first].line)
            continue;
        if (same_items(i, first)) {
            state.named.count = first;
            break;
        }
        number++;
    }
    return number;
}

/* ---- calls ---- */

void sw_record_add(enum sw_line line, const int64_t numbers[SW_RECORD_NUMBERS], int64_t began,
                   int64_t ended) {
    int64_t pause = began < state.last ? 0 : began - state.last;
    if (state.last < ended)
        state.last = ended;
    if (!sw_recording || atomic_load_explicit(&state.gaps, memory_order_relaxed) &
                             1u << SW_GAP_MEMORY) /* what came later would be out of its order */
        return;
    if (!sw_items_add(&state.own.calls, line, numbers, pause))
        sw_record_gap(SW_GAP_MEMORY);
}

static void add(enum sw_line line, int64_t a, int64_t b, int64_t c, int64_t d, int64_t began, int64_t ended) {
    const int64_t numbers[SW_RECORD_NUMBERS] = {a, b, c, d};
    sw_record_add(line, numbers, began, ended);
}

void sw_record_take(void) {
    sw_lock_take(&state.lock);
}

void sw_record_release(void) {
    sw_lock_release(&state.lock);
}

int64_t sw_record_before(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) ? (int64_t)status.st_size : -1;
}

/* What the ranks of a communicator are in MPI_COMM_WORLD. */
static bool translate(MPI_Comm comm, int size, int *own, int *ranks) {
    MPI_Group group, world;
    bool good = false;
    for (int i = 0; i < size; i++)
        own[i] = i;
    if (sw_pmpi.Comm_group(comm, &group) != MPI_SUCCESS)
        return false;
    if (sw_pmpi.Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS) {
        good = sw_pmpi.Group_translate_ranks(group, size, own, world, ranks) == MPI_SUCCESS;
        sw_pmpi.Group_free(&world);
    }
    sw_pmpi.Group_free(&group);
    for (int i = 0; good && i < size; i++)
        good = ranks[i] != MPI_UNDEFINED;
    return good;
}

static struct members members_of(MPI_Comm comm, int size) {
    struct members found = {-1, size, 0};
    if (comm == MPI_COMM_WORLD)
        return (struct members){0, size, size > 1};
    int *ranks = malloc(2 * (size_t)size * sizeof *ranks);
    if (ranks && translate(comm, size, ranks + size, ranks)) {
        found.leader = ranks[0];
        found.distance = size > 1 ? ranks[1] - ranks[0] : 0;
        for (int i = 2; i < size; i++)
            if (ranks[i] - ranks[i - 1] != found.distance) {
                const uint32_t crc = sw_crc32(0, (const char *)ranks, (size_t)size * sizeof *ranks);
                found.distance = SW_RECORD_IRREGULAR + (int64_t)crc;
                break;
            }
    }
    free(ranks);
    return found;
}

int sw_record_slot(void) {
    for (int slot = 0; slot < SLOTS; slot++)
        if (!state.slots[slot]) {
            state.slots[slot] = true;
            return slot;
        }
    sw_record_gap(SW_GAP_MEMORY);
    return -1;
}

void sw_record_give_slot(int slot) {
    if (slot >= 0)
        state.slots[slot] = false;
}

static void note_input(const char *path, int64_t size) {
    size_t length = strlen(path) + 1;
    if (state.own.input_size + sizeof size + length > SW_MAX_RECORD_TEXT) {
        sw_record_gap(SW_GAP_MEMORY);
        return;
    }
    memcpy(state.inputs + state.own.input_size, &size, sizeof size);
    memcpy(state.inputs + state.own.input_size + sizeof size, path, length);
    state.own.input_size += sizeof size + length;
}

void sw_record_opened(struct sw_handle *handle, MPI_Comm comm, int size, const char *path, int amode,
                      MPI_Info info, int64_t before, int64_t began) {
    const char *hints = info == MPI_INFO_NULL ? "" : sw_info_text(info);
    const struct members who = members_of(comm, size);
    bool fresh;
    sw_lock_take(&state.lock);
    int64_t file = file_number(path, hints ? hints : "", &fresh), number = comm_number(&who);
    if (!handle || !hints)
        sw_record_gap(SW_GAP_MEMORY);
    if (who.leader < 0)
        sw_record_gap(SW_GAP_COMM);
    const bool beneath = sw_record_beneath(file, number);
    if (fresh && before > 0 && !beneath)
        note_input(path, before);
    if (handle && beneath) {
        handle->slot = SW_BENEATH_HDF5;
    } else if (handle) {
        handle->slot = sw_record_slot();
        add(SW_LINE_open, handle->slot, file, number, sw_record_amode(amode), began, sw_tick());
    }
    sw_lock_release(&state.lock);
}

void sw_record_deleted(const char *path, int64_t began) {
    bool fresh;
    if (sw_record_within_hdf5())
        return;
    sw_lock_take(&state.lock);
    add(SW_LINE_delete, file_number(path, "", &fresh), 0, 0, 0, began, sw_tick());
    sw_lock_release(&state.lock);
}

void sw_record_sought(const struct sw_handle *handle, int64_t position) {
    const int64_t now = sw_tick();
    if (handle->slot == SW_BENEATH_HDF5)
        return;
    sw_lock_take(&state.lock);
    add(SW_LINE_seek, handle->slot, position, 0, 0, now, now);
    sw_lock_release(&state.lock);
}

void sw_record_counted(struct sw_handle *handle, enum sw_op op, int64_t memory, int64_t offset, int64_t bytes,
                       int64_t began, int64_t ended, bool failed) {
    enum sw_line line = lines[op];
    /* The view is told of once it is known. */
    if (line == SW_LINES || line == SW_LINE_set_view || handle->slot == SW_BENEATH_HDF5)
        return;
    if (failed)
        sw_record_gap(SW_GAP_FAILED);
    bool places = sw_operations[op].place == SW_AT_OFFSET;
    sw_lock_take(&state.lock);
    if (memory != SW_RECORD_ONE_PIECE)
        add(SW_LINE_memory, memory, 0, 0, 0, state.last, state.last);
    add(line, handle->slot, places ? offset : bytes, places ? bytes : 0, 0, began, ended);
    if (line == SW_LINE_close)
        sw_record_give_slot(handle->slot);
    sw_lock_release(&state.lock);
}

void sw_record_end(const struct sw_route *route, uint64_t ranks, const struct sw_job *job, bool speaks) {
    if (!begun)
        return;
    sw_lock_take(&state.lock); /* for good: what other threads still do is not recorded */
    state.own.named = state.named.items;
    state.own.named_count = state.named.count;
    state.own.texts = state.texts;
    state.own.inputs = state.inputs;
    sw_recording = false;
    sw_lock_release(&state.lock);
    if (!route && ranks > 1)
        sw_record_gap(SW_GAP_INTERRUPTED);
    state.own.gaps = atomic_load(&state.gaps);
    if (route || speaks)
        sw_record_gather(route, ranks, job, &state.own);
}
