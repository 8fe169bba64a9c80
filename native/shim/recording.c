/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "recording.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc.h"
#include "datatypes.h"
#include "hints.h"
#include "mpi_comm.h"
#include "setup.h"

#define SLOTS 1024
#define MOST_FILES 16384

bool sw_recording;

/* A file that calls refer to: where its texts begin, checksums of its path and of all its texts. */
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
#define OPERATION(name, kind, mode, place, shape) [SW_OP_##name] = SW_LINE_##name,
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

/* ---- opens beneath HDF5's ---- */

static __thread struct {
    bool within, opened;
    int64_t file, comm;
} now __attribute__((tls_model("initial-exec")));

void sw_record_beneath_begin(void) {
    now.within = !sw_setup.record_mpiio;
    now.opened = false;
}

void sw_record_beneath_end(void) {
    now.within = false;
}

static bool within_hdf5(void) {
    return now.within;
}

/* MPI-IO opens a file with these numbers of the record. False: not beneath HDF5. */
static bool is_beneath(int64_t file, int64_t comm) {
    if (!now.within)
        return false;
    now.opened = true;
    now.file = file;
    now.comm = comm;
    return true;
}

bool sw_record_beneath_was(int64_t *file, int64_t *comm) {
    *file = now.file;
    *comm = now.comm;
    return now.opened && *file >= 0;
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
    struct known_file file = {at, size, sw_crc32(0, text, length), sw_crc32(0, text, size)};
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

static struct members members_of(MPI_Comm comm, int size) {
    struct members found = {-1, size, 0};
    if (comm == MPI_COMM_WORLD)
        return (struct members){0, size, size > 1};
    int *ranks = sw_comm_world_ranks(comm, size);
    if (ranks) {
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

/* Bits of an amode as the record numbers them. */
static int64_t amode_bits(int amode) {
    const int bits[] = {MPI_MODE_CREATE, MPI_MODE_RDONLY,          MPI_MODE_WRONLY,
                        MPI_MODE_RDWR,   MPI_MODE_DELETE_ON_CLOSE, MPI_MODE_UNIQUE_OPEN,
                        MPI_MODE_EXCL,   MPI_MODE_APPEND,          MPI_MODE_SEQUENTIAL};
    int64_t found = 0;
    for (int i = 0; i < (int)(sizeof bits / sizeof *bits); i++)
        found |= amode & bits[i] ? 1 << i : 0;
    return found;
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
    const bool beneath = is_beneath(file, number);
    if (fresh && before > 0 && !beneath)
        note_input(path, before);
    if (handle && beneath) {
        handle->slot = SW_BENEATH_HDF5;
    } else if (handle) {
        handle->slot = sw_record_slot();
        add(SW_LINE_open, handle->slot, file, number, amode_bits(amode), began, sw_tick());
    }
    sw_lock_release(&state.lock);
}

static void deleted(enum sw_line line, const char *path, int64_t began) {
    bool fresh;
    if (within_hdf5())
        return;
    sw_lock_take(&state.lock);
    add(line, file_number(path, "", &fresh), 0, 0, 0, began, sw_tick());
    sw_lock_release(&state.lock);
}

void sw_record_deleted(const char *path, int64_t began) {
    deleted(SW_LINE_delete, path, began);
}

void sw_record_delete_failed(const char *path, int64_t began) {
    struct stat status;
    if (stat(path, &status) != 0) /* other failures hang on rights and media, which a replay does not have */
        deleted(SW_LINE_failed_delete, path, began);
}

void sw_record_open_failed(MPI_Comm comm, int size, const char *path, int amode, MPI_Info info,
                           int64_t began) {
    const char *hints = info == MPI_INFO_NULL ? "" : sw_info_text(info);
    /* All ranks come to the same answer: codes do not tell (MPICH's are of the rank that met the error
     * alone), and the file may be another's by now. */
    if (within_hdf5() || (amode & MPI_MODE_CREATE && !(amode & MPI_MODE_EXCL)))
        return;
    const struct members who = members_of(comm, size);
    bool fresh;
    sw_lock_take(&state.lock);
    const int64_t file = file_number(path, hints ? hints : "", &fresh), number = comm_number(&who);
    if (who.leader < 0)
        sw_record_gap(SW_GAP_COMM);
    add(SW_LINE_failed_open, file, number, amode_bits(amode), 0, began, sw_tick());
    sw_lock_release(&state.lock);
}

void sw_record_sought(const struct sw_handle *handle, enum sw_line line, int64_t position) {
    const int64_t now = sw_tick();
    if (handle->slot == SW_BENEATH_HDF5)
        return;
    sw_lock_take(&state.lock);
    add(line, handle->slot, position, 0, 0, now, now);
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

/* ---- datatypes ---- */

/* A type of data in memory may reach over so many bytes, or so many times those that it has. */
#define WIDE (1 << 30)
#define WIDEST 64

/* The lock is held. -1 where there is no room. */
static int64_t type_number(const struct sw_flat *shape) {
    uint32_t first = sw_record_named();
    bool room = sw_record_name(SW_LINE_type, shape->lower, shape->extent) &&
                (!shape->inexact || sw_record_name(SW_LINE_nearest, shape->inexact, shape->distance));
    for (uint32_t i = 0; room && i < shape->count; i++) {
        const struct sw_block *block = &shape->blocks[i];
        room = sw_record_name(SW_LINE_block, block->offset, block->length);
        for (int d = 0; room && d < block->dims; d++)
            room = sw_record_name(SW_LINE_dim, block->count[d], block->stride[d]);
    }
    return room ? sw_record_number_of(first) : -1;
}

void sw_record_viewed(const struct sw_handle *handle, MPI_Datatype filetype, bool external, int64_t began) {
    if (handle->slot == SW_BENEATH_HDF5)
        return;
    struct sw_flat *shape = malloc(sizeof *shape);
    if (shape)
        sw_flatten(filetype, shape);
    sw_record_take();
    const int64_t type = shape ? type_number(shape) : -1, displacement = handle->displacement;
    if (!shape)
        sw_record_gap(SW_GAP_MEMORY);
    if (external)
        add(SW_LINE_external, 0, 0, 0, 0, began, began);
    /* MPI_DISPLACEMENT_CURRENT, in files of sequential access only */
    add(SW_LINE_set_view, handle->slot, displacement < 0 ? 0 : displacement, handle->etype_size, type, began,
        sw_tick());
    sw_record_release();
    free(shape);
}

/* ---- data in memory. Calls use few types: each keeps its number as an attribute. ---- */

static int numbers_key = MPI_KEYVAL_INVALID; /* the lock is held to make it */

/* A type that is made of another one has no number yet. */
static int copy_no_number(MPI_Datatype type, int key, void *extra, void *value, void *copied, int *copies) {
    (void)type, (void)key, (void)extra, (void)value, (void)copied;
    *copies = 0;
    return MPI_SUCCESS;
}

static int forget_number(MPI_Datatype type, int key, void *value, void *extra) {
    (void)type, (void)key, (void)value, (void)extra;
    return MPI_SUCCESS;
}

static bool in_one_piece(const struct sw_flat *shape) {
    const struct sw_block *block = shape->blocks;
    return shape->count == 0 || (shape->count == 1 && block->dims == 0 && block->offset == 0 &&
                                 shape->lower == 0 && block->length == shape->extent);
}

/* Memory for a copy of data whose parts lie far from one another, as addresses do, would not be there. */
static bool too_wide(MPI_Datatype datatype) {
    MPI_Count size = 0, lower = 0, extent = 0;
    sw_pmpi.Type_size_x(datatype, &size);
    sw_pmpi.Type_get_true_extent_x(datatype, &lower, &extent);
    return extent > WIDE && extent / WIDEST > size;
}

static int64_t new_number(MPI_Datatype datatype) {
    struct sw_flat *shape = malloc(sizeof *shape);
    int64_t number = SW_RECORD_ONE_PIECE;
    if (!shape) {
        sw_record_gap(SW_GAP_MEMORY);
        return number;
    }
    sw_flatten(datatype, shape);
    if (shape->count > 0 && too_wide(datatype))
        sw_flat_narrow(shape);
    if (!in_one_piece(shape)) {
        sw_record_take();
        number = type_number(shape);
        sw_record_release();
    }
    free(shape);
    return number;
}

int64_t sw_record_memory(const struct sw_handle *handle, MPI_Datatype datatype) {
    static char numbers[SW_MAX_RECORD_ITEMS + 1]; /* an attribute is a pointer: to its number's place here */
    char *kept = NULL;
    int found = 0;
    if (handle->slot == SW_BENEATH_HDF5)
        return SW_RECORD_ONE_PIECE;
    sw_record_take();
    if (numbers_key == MPI_KEYVAL_INVALID)
        sw_pmpi.Type_create_keyval(copy_no_number, forget_number, &numbers_key, NULL);
    sw_record_release();
    sw_pmpi.Type_get_attr(datatype, numbers_key, (void *)&kept, &found);
    if (found)
        return kept - numbers - 1;
    const int64_t number = new_number(datatype);
    sw_pmpi.Type_set_attr(datatype, numbers_key, &numbers[number + 1]);
    return number;
}

/* ---- the file of a record ---- */

/* What helps against gaps of HDF5. */
#define SW_INSTEAD ": record the program with --level mpi-io"

static const char *const reasons[SW_GAPS] = {
    [SW_GAP_MEMORY] = "calls that do not repeat took more than the memory for a record",
    [SW_GAP_COMM] = "a file was opened by ranks outside of MPI_COMM_WORLD",
    [SW_GAP_FAILED] = "calls failed",
    [SW_GAP_INTERRUPTED] = "the program ended before it finalised MPI",
    [SW_GAP_SENT] = "rank 0 had no memory for the records of the others",
    [SW_GAP_H5_TYPE] = "HDF5 moved data of variable length, or converted others than numbers" SW_INSTEAD,
    [SW_GAP_H5_SELECTION] = "HDF5 moved single points or an irregular selection" SW_INSTEAD,
    [SW_GAP_H5_STORAGE] = "HDF5 used a virtual dataset, or one that is stored in other files" SW_INSTEAD,
    [SW_GAP_H5_NAME] = "HDF5 opened a dataset by another name than it was created by" SW_INSTEAD,
    [SW_GAP_H5_OPEN] =
        "HDF5 moved data of a dataset without a name, or that was opened by a reference" SW_INSTEAD,
};

/* ---- from rank to rank: numbers travel as they lie in memory ---- */

struct head {
    uint32_t named, calls;
    uint64_t texts, inputs;
    uint32_t gaps, zero;
};

static void send_all(const struct sw_route *route, const struct sw_record *own) {
    struct head head = {.named = own->named_count,
                        .calls = own->calls.count,
                        .texts = own->text_size,
                        .inputs = own->input_size,
                        .gaps = own->gaps};
    sw_send(route->all, 0, &head, sizeof head);
    sw_send(route->all, 0, own->named, own->named_count * sizeof *own->named);
    sw_send(route->all, 0, own->calls.items, own->calls.count * sizeof *own->calls.items);
    sw_send(route->all, 0, own->texts, own->text_size);
    sw_send(route->all, 0, own->inputs, own->input_size);
}

/* NULL where memory is out. */
static void *receive(const struct sw_route *route, int from, size_t size) {
    char *to = malloc(size + 1);
    sw_receive(route->all, from, to, size);
    return to;
}

/* ---- on rank 0 ---- */

struct output {
    FILE *groups, *inputs;
    char *group_text, *input_text;
    size_t group_size, input_size;
    uint32_t unused;
    struct sw_group group;
    unsigned gaps;
};

static void take_part(struct output *output, int64_t rank, const struct sw_part *part, const char *inputs,
                      size_t input_size) {
    if (!output->groups || !output->inputs)
        return;
    bool next = rank == output->group.first + output->group.count;
    if (part->call_count && !(next && sw_group_take(&output->group, part))) {
        sw_group_end(&output->group, output->groups, &output->unused);
        if (!sw_group_begin(&output->group, rank, part))
            output->gaps |= 1u << SW_GAP_SENT;
    }
    for (size_t at = 0; at < input_size;) {
        int64_t size;
        char head[40];
        memcpy(&size, inputs + at, sizeof size);
        snprintf(head, sizeof head, "input %" PRId64 " ", size);
        sw_record_print_text(output->inputs, &output->unused, head, inputs + at + sizeof size);
        at += sizeof size + strlen(inputs + at + sizeof size) + 1;
    }
}

static void take_rank(struct output *output, const struct sw_route *route, int rank) {
    struct head head = {.gaps = 0};
    sw_receive(route->all, rank, &head, sizeof head);
    output->gaps |= head.gaps;
    struct sw_item *named = receive(route, rank, head.named * sizeof *named),
                   *calls = receive(route, rank, head.calls * sizeof *calls);
    char *texts = receive(route, rank, head.texts), *inputs = receive(route, rank, head.inputs);
    struct sw_part part = {named, calls, head.named, head.calls, texts, head.texts};
    if (named && calls && texts && inputs)
        take_part(output, rank, &part, inputs, head.inputs);
    else
        output->gaps |= 1u << SW_GAP_SENT;
    free(named);
    free(calls);
    free(texts);
    free(inputs);
}

static bool print(const struct output *output, uint64_t ranks, const struct sw_job *job, FILE *file) {
    uint32_t crc = 0;
    sw_record_print(file, &crc, "%s", SW_RECORD_HEADER);
    sw_record_print(file, &crc, "job %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64, ranks,
                    (uint64_t)job->nodes, job->elapsed, job->io_time);
    for (int gap = 0; gap < SW_GAPS; gap++)
        if (output->gaps & 1u << gap)
            sw_record_print(file, &crc, "incomplete %s", reasons[gap]);
    sw_record_write(file, &crc, output->group_text, output->group_size);
    sw_record_write(file, &crc, output->input_text, output->input_size);
    fprintf(file, "checksum %08x\n", (unsigned)crc);
    return !ferror(file);
}

/* A whole record or none appears at the path. */
static void write_file(const struct output *output, uint64_t ranks, const struct sw_job *job) {
    char part[SW_MAX_PATH + 32];
    snprintf(part, sizeof part, "%.*s.%ld", SW_MAX_PATH, sw_setup.record, (long)getpid());
    FILE *file = fopen(part, "wxe");
    bool good = file && print(output, ranks, job, file);
    if (file)
        good &= fclose(file) == 0;
    if (!good || rename(part, sw_setup.record) != 0) {
        sw_complain("record %.300s cannot be written: %s", sw_setup.record, strerror(errno));
        if (file)
            unlink(part);
    }
}

/* Writes the record of all ranks on rank 0. Collective over the route; NULL: this process alone. */
static void gather(const struct sw_route *route, uint64_t ranks, const struct sw_job *job,
                   const struct sw_record *own) {
    if (route && route->rank != 0) {
        send_all(route, own);
        return;
    }
    struct output output = {.gaps = own->gaps};
    output.groups = open_memstream(&output.group_text, &output.group_size);
    output.inputs = open_memstream(&output.input_text, &output.input_size);
    bool room = output.groups && output.inputs;
    struct sw_part part = {own->named,       own->calls.items, own->named_count,
                           own->calls.count, own->texts,       own->text_size};
    take_part(&output, 0, &part, own->inputs, own->input_size);
    for (int rank = 1; route && rank < route->size; rank++)
        take_rank(&output, route, rank);
    sw_group_end(&output.group, output.groups, &output.unused);
    if (room) {
        fclose(output.groups);
        fclose(output.inputs);
        write_file(&output, ranks, job);
    } else {
        sw_complain("no memory for the record");
    }
    free(output.group_text);
    free(output.input_text);
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
        gather(route, ranks, job, &state.own);
}
