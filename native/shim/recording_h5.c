/* SPDX-License-Identifier: BSD-3-Clause
 * Names of datasets are numbers in the record, by file in the order in which they come: so the steps of a
 * program are alike, and a record tells nothing of what is in the files. */
#define _GNU_SOURCE
#include "recording.h"

#include <string.h>

#include "files.h"
#include "journal.h"

#define SLOTS 1024
#define KEYS (1u << 16)
enum { ANY_SIZE = 4, VARIABLE = 9, STRING = 3, VIRTUAL = 3, BIG_ENDIAN_ORDER = 1 };
enum { UNDEFINED = 0, USER_DEFINED = 2 };
#define FOUND_NAMES (INT64_C(1) << 32)
enum { FILL_ON_ALLOCATION = 0, FILL_IF_SET = 2 };

static struct {
    uint64_t files[SLOTS]; /* of HDF5 files that are open the hash of the path, else 0 */
    uint32_t again[SLOTS]; /* identifiers of the file beyond its first, by H5Freopen */
    struct {
        uint64_t key;
        int64_t value;
    } known[KEYS];
    uint32_t count;
} state;

void sw_record_h5_lost(int slot) {
    if (slot < 0)
        return;
    sw_record_gap(SW_GAP_MEMORY);
}

static void add(enum sw_line line, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t began,
                int64_t ended) {
    const int64_t numbers[SW_RECORD_NUMBERS] = {a, b, c, d, e};
    sw_record_add(line, numbers, began, ended);
}

/* ---- numbers for names; the lock is held ---- */

static uint64_t mix(uint64_t hash, const char *text) {
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9u | 1;
}

/* Where something is kept under a key other than 0, at first 0; NULL where there is no room. */
static int64_t *kept(uint64_t key) {
    uint32_t at = (uint32_t)(key >> 32) % KEYS;
    while (state.known[at].key && state.known[at].key != key)
        at = (at + 1) % KEYS;
    if (!state.known[at].key) {
        if (state.count == KEYS / 2)
            return NULL;
        state.count++;
        state.known[at].key = key;
    }
    return &state.known[at].value;
}

/* Of a dataset that is created in a file, which is another one after each creation: they come in the same
 * order on all ranks. Others are told apart by their names' hash. */
static int64_t number_of(uint64_t path, const char *name, bool created) {
    const int64_t *times = kept(path);
    uint64_t file = times ? mix(path + (uint64_t)*times, "") : 0;
    int64_t *number = times ? kept(mix(file, name)) : NULL, *count = number ? kept(mix(file, "/")) : NULL;
    if (!count) {
        sw_record_gap(SW_GAP_MEMORY);
        return 0;
    }
    if (created) { /* also again: what had the name was deleted, or has another one */
        *number = ++*count;
    } else if (!*number) {
        *number = FOUND_NAMES + (int64_t)(mix(0, name) >> 32);
        if (*times > 0) /* nothing was in the file but what the program created */
            sw_record_gap(SW_GAP_H5_NAME);
    }
    return *number - 1;
}

static uint64_t path_of(sw_hid id) {
    char name[SW_MAX_PATH], path[SW_MAX_PATH];
    ssize_t length = sw_h5.H5Fget_name(id, name, sizeof name);
    if (length <= 0 || (size_t)length >= sizeof name || !sw_path_absolute(name, path, sizeof path))
        return 0;
    return mix(0xcbf29ce484222325u, path);
}

/* ---- lines that calls refer to ---- */

/* What HDF5 answers, before the lock is taken: MPI_File_open beneath HDF5 takes the lock within HDF5's own,
 * so who held the lock while asking HDF5 could wait for ever. */
#define MOST_LINES 512
struct lines {
    uint32_t count;
    bool too_many;
    struct {
        enum sw_line line;
        int64_t numbers[SW_RECORD_NUMBERS];
    } list[MOST_LINES];
};

static void tell(struct lines *lines, enum sw_line line, int64_t a, int64_t b, int64_t c, int64_t d,
                 int64_t e) {
    if (lines->count == MOST_LINES) {
        lines->too_many = true;
        return;
    }
    const int64_t numbers[SW_RECORD_NUMBERS] = {a, b, c, d, e};
    lines->list[lines->count].line = line;
    memcpy(lines->list[lines->count++].numbers, numbers, sizeof numbers);
}

/* Their number among those that begin alike, or -1 where there is no room; the lock is held. */
static int64_t number_of_lines(const struct lines *lines) {
    const uint32_t first = sw_record_named();
    if (lines->too_many)
        return -1;
    for (uint32_t i = 0; i < lines->count; i++) {
        struct sw_item *item = sw_record_name(lines->list[i].line, 0, 0);
        if (!item)
            return -1;
        memcpy(item->numbers, lines->list[i].numbers, sizeof item->numbers);
    }
    return sw_record_number_of(first);
}

/* ---- files ---- */

static int64_t whether(int (*ask)(sw_hid, void *), sw_hid list) {
    uint32_t answer = 0; /* of one byte or of four */
    return ask && ask(list, &answer) >= 0 && (answer & 0xff);
}

static void tell_space(struct lines *lines, sw_hid creation) {
    int strategy = 0;
    uint32_t persist = 0;
    sw_hsize threshold = 1, page = 4096;
    if (creation <= 0 || !sw_h5.H5Pget_file_space_strategy || !sw_h5.H5Pget_file_space_page_size ||
        sw_h5.H5Pget_file_space_strategy(creation, &strategy, &persist, &threshold) < 0 ||
        sw_h5.H5Pget_file_space_page_size(creation, &page) < 0)
        return;
    tell(lines, SW_LINE_h5space, strategy, persist & 0xff, (int64_t)threshold, (int64_t)page, 0);
}

static void tell_access(struct lines *lines, sw_hid creation, sw_hid access) {
    sw_hsize threshold = 1, alignment = 1, meta = 2048;
    size_t sieve = 65536, slots = 521, cache = 1048576;
    int entries = 0, low = 0, high = -1;
    double weight = 0;
    sw_h5.H5Pget_alignment(access, &threshold, &alignment);
    sw_h5.H5Pget_meta_block_size(access, &meta);
    sw_h5.H5Pget_sieve_buf_size(access, &sieve);
    sw_h5.H5Pget_cache(access, &entries, &slots, &cache, &weight);
    sw_h5.H5Pget_libver_bounds(access, &low, &high);
    lines->count = 0;
    lines->too_many = false;
    tell(lines, SW_LINE_h5access, (int64_t)alignment, (int64_t)threshold, (int64_t)meta, (int64_t)sieve,
         (int64_t)cache);
    tell(lines, SW_LINE_h5more, whether(sw_h5.H5Pget_coll_metadata_write, access),
         whether(sw_h5.H5Pget_all_coll_metadata_ops, access), low, high, 0);
    tell_space(lines, creation);
}

int sw_record_h5_file(const struct sw_h5_opened *opened) {
    int64_t file, comm;
    if (!sw_record_beneath_was(&file, &comm))
        return -1;
    const uint64_t path = path_of(opened->file);
    struct lines lines;
    tell_access(&lines, opened->creates ? opened->creation : -1, opened->access);
    sw_record_take();
    const int slot = sw_record_slot();
    int64_t *times = path ? kept(path) : NULL;
    if (slot >= 0 && times) {
        state.files[slot] = path;
        *times += opened->creates;
        const int64_t access = number_of_lines(&lines);
        add(opened->creates ? SW_LINE_h5fcreate : SW_LINE_h5fopen, slot, file, comm, access, opened->flags,
            opened->began, opened->ended);
    } else {
        sw_record_gap(SW_GAP_MEMORY);
    }
    sw_record_release();
    return slot;
}

/* ---- datasets ---- */

/* As the record numbers what elements are; -1 where it cannot say it. */
static int class_of(sw_hid type) {
    const int class = sw_h5.H5Tget_class(type);
    if (class == SW_H5_INTEGER || class == SW_H5_FLOAT)
        return class + 2 * (sw_h5.H5Tget_order(type) == BIG_ENDIAN_ORDER);
    const bool varies = class < 0 || sw_h5.H5Tdetect_class(type, VARIABLE) > 0 ||
                        (class == STRING && sw_h5.H5Tis_variable_str(type) > 0);
    return varies ? -1 : ANY_SIZE;
}

static void tell_filters(struct lines *lines, sw_hid creation) {
    enum { VALUES = 64 };
    for (int i = 0, count = sw_h5.H5Pget_nfilters(creation); i < count; i++) {
        unsigned flags = 0, values[VALUES];
        size_t number = VALUES;
        int filter = sw_h5.H5Pget_filter2(creation, (unsigned)i, &flags, &number, values, 0, NULL, NULL);
        tell(lines, SW_LINE_h5filter, filter, flags, 0, 0, 0);
        lines->too_many |= number > VALUES;
        for (size_t value = 0; value < number && value < VALUES; value++)
            tell(lines, SW_LINE_h5value, values[value], 0, 0, 0, 0);
    }
}

static void tell_dimensions(struct lines *lines, sw_hid space, sw_hid creation, bool chunked) {
    sw_hsize size[SW_H5_RANK] = {0}, most[SW_H5_RANK] = {0}, chunk[SW_H5_RANK] = {0};
    const int rank = sw_h5.H5Sget_simple_extent_dims(space, size, most);
    if (chunked)
        sw_h5.H5Pget_chunk(creation, SW_H5_RANK, chunk);
    for (int i = 0; i < rank; i++)
        tell(lines, SW_LINE_h5dim, (int64_t)size[i], (int64_t)most[i], (int64_t)chunk[i], 0, 0);
    lines->too_many |= rank < 0;
}

/* 0: no fill values are written; 1: they are; 2: they are in chunks, but not in a dataset in one piece. */
static int fills_of(int fill_time, int value) {
    if (fill_time == FILL_ON_ALLOCATION)
        return 1;
    if (fill_time != FILL_IF_SET || value == UNDEFINED)
        return 0;
    return value == USER_DEFINED ? 1 : 2;
}

static void tell_shape(struct lines *lines, sw_hid type, sw_hid space, sw_hid creation) {
    const int class = class_of(type), layout = sw_h5.H5Pget_layout(creation);
    int fill_time = 0, value = 0, allocation = 0;
    sw_h5.H5Pget_fill_time(creation, &fill_time);
    sw_h5.H5Pfill_value_defined(creation, &value);
    sw_h5.H5Pget_alloc_time(creation, &allocation);
    if (class < 0)
        sw_record_gap(SW_GAP_H5_TYPE);
    if (layout < 0 || layout >= VIRTUAL || sw_h5.H5Pget_external_count(creation) > 0)
        sw_record_gap(SW_GAP_H5_STORAGE);
    lines->count = 0;
    lines->too_many = false;
    tell(lines, SW_LINE_h5dataset, class < 0 ? ANY_SIZE : class, (int64_t)sw_h5.H5Tget_size(type), layout,
         fills_of(fill_time, value), allocation);
    tell_dimensions(lines, space, creation, layout == SW_CHUNKED);
    tell_filters(lines, creation);
}

/* The number of an open file by the hash of its path; SLOTS where that is not recorded. */
static int file_of(uint64_t path) {
    int file = 0;
    sw_record_take();
    while (file < SLOTS && (!path || state.files[file] != path))
        file++;
    sw_record_release();
    return file;
}

int sw_record_h5_dataset(sw_hid dataset, bool created, int64_t began, int64_t ended) {
    char name[SW_MAX_PATH] = "";
    const uint64_t path = path_of(dataset);
    const int file = file_of(path);
    int slot = -1;
    if (file == SLOTS)
        return -1;
    sw_h5.H5Iget_name(dataset, name, sizeof name);
    const sw_hid type = sw_h5.H5Dget_type(dataset), space = sw_h5.H5Dget_space(dataset),
                 creation = sw_h5.H5Dget_create_plist(dataset);
    struct lines lines;
    tell_shape(&lines, type, space, creation);
    sw_record_take();
    const int64_t shape = number_of_lines(&lines);
    slot = sw_record_slot();
    if (shape >= 0 && slot >= 0)
        add(created ? SW_LINE_h5dcreate : SW_LINE_h5dopen, slot, file, number_of(path, name, created), shape,
            0, began, ended);
    else
        sw_record_gap(SW_GAP_MEMORY);
    sw_record_release();
    sw_h5.H5Tclose(type);
    sw_h5.H5Sclose(space);
    sw_h5.H5Pclose(creation);
    return slot;
}

/* ---- transfers ---- */

struct slab {
    int rank;
    sw_hsize size[SW_H5_RANK], start[SW_H5_RANK], stride[SW_H5_RANK], count[SW_H5_RANK], block[SW_H5_RANK];
};

/* What a dataspace selects; false where a record cannot say it. */
static bool slab_of(sw_hid space, struct slab *slab) {
    slab->rank = sw_h5.H5Sget_simple_extent_dims(space, slab->size, NULL);
    const int kind = sw_h5.H5Sget_select_type(space);
    for (int i = 0; i < slab->rank; i++) {
        slab->start[i] = 0;
        slab->stride[i] = slab->block[i] = 1;
        slab->count[i] = kind == SW_H5_NONE ? 0 : slab->size[i];
    }
    if (kind == SW_H5_HYPERSLABS && slab->rank > 0)
        return sw_h5.H5Sis_regular_hyperslab(space) > 0 &&
               sw_h5.H5Sget_regular_hyperslab(space, slab->start, slab->stride, slab->count, slab->block) >=
                   0;
    return slab->rank >= 0 && kind != SW_H5_POINTS;
}

/* Do the elements lie one behind the other? */
static bool in_one_piece(const struct slab *slab) {
    bool whole = true, piece = true;
    for (int i = slab->rank - 1; i >= 0; i--) {
        const sw_hsize selected = slab->count[i] * slab->block[i];
        const bool together = slab->count[i] <= 1 || slab->stride[i] == slab->block[i];
        piece &= together && (whole || selected == 1);
        whole &= together && selected == slab->size[i];
    }
    return piece;
}

static bool is_space(sw_hid space) {
    return space > 2; /* 0: all; 1 and 2: since 1.14, one piece, and what a property list selects */
}

/* May HDF5's conversion of elements be told? */
static bool converts_numbers(sw_hid dataset, sw_hid type, int class) {
    if (class != ANY_SIZE)
        return class >= 0;
    const sw_hid own = sw_h5.H5Dget_type(dataset);
    const bool same = own >= 0 && sw_h5.H5Tequal(own, type) > 0;
    if (own >= 0)
        sw_h5.H5Tclose(own);
    return same;
}

void sw_record_h5_moved(const struct sw_h5_object *object, const struct sw_h5_moved *moved) {
    struct slab place = {.rank = 0}, memory = {.rank = 0};
    const bool selects = is_space(moved->place), arranges = is_space(moved->memory);
    const int class = moved->failed ? 0 : class_of(moved->type);
    bool known = true, pieces = false;
    if (moved->failed) {
        sw_record_gap(SW_GAP_FAILED);
        return;
    }
    if (moved->place == 2 || (selects && !slab_of(moved->place, &place)))
        known = false;
    if (arranges || (moved->memory == SW_H5_DEFAULT && selects)) {
        known &= slab_of(arranges ? moved->memory : moved->place, &memory);
        pieces = known && !in_one_piece(&memory);
    }
    if (!known)
        sw_record_gap(SW_GAP_H5_SELECTION);
    if (!converts_numbers(moved->dataset, moved->type, class))
        sw_record_gap(SW_GAP_H5_TYPE);
    const sw_hssize points =
        selects ? sw_h5.H5Sget_select_npoints(moved->place) : (sw_hssize)object->elements;
    const int64_t bytes = points > 0 ? (int64_t)((uint64_t)points * object->element_size) : 0;
    const int64_t element = (int64_t)sw_h5.H5Tget_size(moved->type);
    sw_record_take();
    const int64_t now = INT64_MIN; /* the pause goes with the transfer */
    for (int i = 0; known && selects && i < place.rank; i++)
        add(SW_LINE_h5select, (int64_t)place.start[i], (int64_t)place.stride[i], (int64_t)place.count[i],
            (int64_t)place.block[i], 0, now, now);
    for (int i = 0; pieces && i < memory.rank; i++)
        add(SW_LINE_h5memory, (int64_t)memory.size[i], (int64_t)memory.start[i], (int64_t)memory.stride[i],
            (int64_t)memory.count[i], (int64_t)memory.block[i], now, now);
    add(moved->writes ? SW_LINE_h5dwrite : SW_LINE_h5dread, object->slot, moved->collective,
        class < 0 ? ANY_SIZE : class, element, bytes, moved->began, moved->ended);
    sw_record_release();
}

void sw_record_h5_moved_other(sw_hid dataset) {
    if (file_of(path_of(dataset)) != SLOTS)
        sw_record_gap(SW_GAP_H5_OPEN);
}

/* ---- what else is done ---- */

void sw_record_h5_extended(int slot, sw_hid space, const sw_hsize *size, int64_t began, int64_t ended) {
    const int rank = sw_h5.H5Sget_simple_extent_ndims(space);
    sw_record_take();
    for (int i = 0; i < rank; i++)
        add(SW_LINE_h5size, (int64_t)size[i], 0, 0, 0, 0, INT64_MIN, INT64_MIN);
    add(SW_LINE_h5dset_extent, slot, 0, 0, 0, 0, began, ended);
    sw_record_release();
}

void sw_record_h5_flushed(int slot, int scope, int64_t began, int64_t ended) {
    sw_record_take();
    add(SW_LINE_h5fflush, slot, scope, 0, 0, 0, began, ended);
    sw_record_release();
}

void sw_record_h5_reopened(int slot) {
    sw_record_take();
    state.again[slot]++;
    sw_record_release();
}

void sw_record_h5_closed(int slot, bool file, int64_t began, int64_t ended) {
    sw_record_take();
    if (file && state.again[slot] > 0) { /* HDF5 keeps it open for another identifier */
        state.again[slot]--;
        sw_record_release();
        return;
    }
    add(file ? SW_LINE_h5fclose : SW_LINE_h5dclose, slot, 0, 0, 0, 0, began, ended);
    state.files[slot] = 0;
    sw_record_give_slot(slot);
    sw_record_release();
}
