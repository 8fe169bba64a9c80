/* The files of HDF5 that the program found: made before its calls, with the datasets that these open. Ranks
 * may open different ones, so each makes alone what no rank before it has made. */
#include "replay_hdf5_parts.h"

#include <stdlib.h>
#include <string.h>

#include "kernel.h"

#define AT_A_TIME (16u << 20) /* bytes that are written at a time */
#define FEW_PLACES 1024
#define THE_FILE (-1) /* in place of a dataset's number */

/* A file, or a dataset in one. */
struct part {
    uint64_t key;
    const struct replay_file *file;
    const struct replay_access *access;
    const struct replay_shape *shape;
    int64_t number;
    bool made;      /* by the program, or as an input */
    bool creates;   /* of a file: this rank's program made it */
    bool elsewhere; /* of a file: another rank's program made it */
};

struct inputs {
    struct replay *replay;
    struct part *parts;
    int64_t count, places;
    int64_t *table;                        /* of parts by their keys: their numbers and 1, or 0 */
    const struct part *open[REPLAY_SLOTS]; /* files that the program has open */
    struct replay_data data;
    int64_t bytes;
};

static uint64_t key_of(const char *path, int64_t number) {
    uint64_t hash = mix64((uint64_t)number);
    for (; *path; path++)
        hash = mix64(hash ^ (unsigned char)*path);
    return hash;
}

/* Where the table has a part of this key, or has room for it. */
static int64_t *place_of(const struct inputs *inputs, uint64_t key) {
    uint64_t at = key % (uint64_t)inputs->places;
    while (inputs->table[at] && inputs->parts[inputs->table[at] - 1].key != key)
        at = (at + 1) % (uint64_t)inputs->places;
    return &inputs->table[at];
}

static struct part *part_of(const struct inputs *inputs, uint64_t key) {
    const int64_t number = inputs->places > 0 ? *place_of(inputs, key) : 0;
    return number ? &inputs->parts[number - 1] : NULL;
}

static void widen(struct inputs *inputs) {
    inputs->places = inputs->places > 0 ? 2 * inputs->places : FEW_PLACES;
    free(inputs->table);
    inputs->table = replay_grow(NULL, inputs->places, sizeof *inputs->table);
    memset(inputs->table, 0, (size_t)inputs->places * sizeof *inputs->table);
    for (int64_t i = 0; i < inputs->count; i++)
        *place_of(inputs, inputs->parts[i].key) = i + 1;
}

static void add(struct inputs *inputs, struct part part) {
    part.key = key_of(part.file->path, part.number);
    if (part_of(inputs, part.key) != NULL)
        return;
    if (2 * inputs->count >= inputs->places)
        widen(inputs);
    inputs->parts = replay_grow(inputs->parts, inputs->count, sizeof *inputs->parts);
    inputs->parts[inputs->count] = part;
    *place_of(inputs, part.key) = ++inputs->count;
}

/* ---- what is needed ---- */

static void take_open(struct inputs *inputs, bool creates, const int64_t *numbers,
                      struct part opened[REPLAY_SLOTS]) {
    const struct replay *replay = inputs->replay;
    if (numbers[0] < 0 || numbers[0] >= REPLAY_SLOTS || numbers[1] < 0 || numbers[1] >= replay->file_count)
        replay_die("the record is damaged: an open names what is not defined");
    const struct part file = {.file = &replay->files[numbers[1]],
                              .access = replay_access_at(replay, numbers[3]),
                              .number = THE_FILE,
                              .made = creates,
                              .creates = creates};
    add(inputs, file);
    opened[numbers[0]] = file;
    inputs->open[numbers[0]] = &opened[numbers[0]];
}

static void take_dataset(struct inputs *inputs, bool creates, const int64_t *numbers) {
    if (numbers[1] < 0 || numbers[1] >= REPLAY_SLOTS || inputs->open[numbers[1]] == NULL)
        replay_die("the record is damaged: a dataset of a file that is not open");
    struct part dataset = *inputs->open[numbers[1]];
    const struct part *file = part_of(inputs, key_of(dataset.file->path, THE_FILE));
    dataset.number = numbers[2] < 0 ? 0 : numbers[2];
    dataset.shape = replay_shape_at(inputs->replay, numbers[3]);
    dataset.creates = false;
    dataset.made = creates || file->made;
    add(inputs, dataset);
}

static void take_calls(struct inputs *inputs) {
    struct part *opened = replay_grow(NULL, REPLAY_SLOTS, sizeof *opened);
    struct sw_walk walk = {.items = inputs->replay->calls.items, .count = inputs->replay->calls.count};
    int64_t numbers[SW_RECORD_NUMBERS];
    const struct sw_item *item;
    while ((item = sw_walk_next(&walk, numbers)) != NULL)
        if (item->line == SW_LINE_h5fcreate || item->line == SW_LINE_h5fopen)
            take_open(inputs, item->line == SW_LINE_h5fcreate, numbers, opened);
        else if (item->line == SW_LINE_h5dcreate || item->line == SW_LINE_h5dopen)
            take_dataset(inputs, item->line == SW_LINE_h5dcreate, numbers);
    free(opened);
}

/* ---- files that another rank's program makes: its datasets have other numbers there ---- */

static void mark_elsewhere(struct inputs *inputs) {
    const int ranks = inputs->replay->ranks;
    uint64_t *own = replay_grow(NULL, inputs->count, sizeof *own);
    int *counts = replay_grow(NULL, ranks, sizeof *counts),
        *starts = replay_grow(NULL, ranks, sizeof *starts);
    int count = 0, all = 0;
    for (int64_t i = 0; i < inputs->count; i++)
        if (inputs->parts[i].creates)
            own[count++] = inputs->parts[i].key;
    MPI_Allgather(&count, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
    for (int rank = 0; rank < ranks; all += counts[rank++])
        starts[rank] = all;
    uint64_t *keys = replay_grow(NULL, all, sizeof *keys);
    MPI_Allgatherv(own, count, MPI_UINT64_T, keys, counts, starts, MPI_UINT64_T, MPI_COMM_WORLD);
    for (int i = 0; i < all; i++) {
        struct part *file = part_of(inputs, keys[i]);
        if (file != NULL && !file->creates)
            file->elsewhere = true;
    }
    free(keys);
    free(starts);
    free(counts);
    free(own);
}

static void refuse_elsewhere(struct inputs *inputs) {
    mark_elsewhere(inputs);
    for (int64_t i = 0; i < inputs->count; i++) {
        const struct part *part = &inputs->parts[i];
        if (!part->made && part->number != THE_FILE &&
            part_of(inputs, key_of(part->file->path, THE_FILE))->elsewhere)
            replay_die("rank %d opens a dataset of a file that another rank creates (%s), which cannot be "
                       "replayed: record the program with --level mpi-io",
                       inputs->replay->rank, part->file->path);
    }
}

/* ---- making it ---- */

static void fill(struct inputs *inputs, hid_t dataset, const struct replay_shape *shape, const char *path) {
    hsize_t start[REPLAY_RANK] = {0}, count[REPLAY_RANK], row = 1;
    for (int i = 1; i < shape->rank; i++) {
        count[i] = (hsize_t)shape->dims[i].size;
        row *= count[i]; /* there is room for it */
    }
    const hsize_t rows = (hsize_t)shape->dims[0].size;
    if (row == 0 || rows == 0)
        return;
    hsize_t some = AT_A_TIME / ((hsize_t)shape->size * row);
    some = some < 1 ? 1 : some > rows ? rows : some;
    replay_hdf5_room(&inputs->data, some * row, (size_t)shape->size);
    /* Filters want it, also of one rank. */
    const hid_t list = replay_hdf5_transfer_list(true);
    const hid_t type = replay_hdf5_type(shape->class, shape->size);
    for (; start[0] < rows; start[0] += some) {
        count[0] = rows - start[0] < some ? rows - start[0] : some;
        const hsize_t elements = count[0] * row;
        const hid_t place = H5Dget_space(dataset), memory = H5Screate_simple(1, &elements, NULL);
        if (H5Sselect_hyperslab(place, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
            H5Dwrite(dataset, type, memory, place, list, inputs->data.bytes) < 0)
            replay_hdf5_failed("H5Dwrite", path);
        H5Sclose(memory);
        H5Sclose(place);
    }
    H5Tclose(type);
    H5Pclose(list);
}

static void make(struct inputs *inputs, struct part *part) {
    const struct replay_comm alone = {.comm = MPI_COMM_SELF};
    const char *path = part->file->path;
    const bool creates = part->number == THE_FILE;
    const hid_t access = replay_hdf5_access_list(part->access, &alone, part->file);
    const hid_t file =
        creates ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(path, H5F_ACC_RDWR, access);
    H5Pclose(access);
    replay_hdf5_good(file, creates ? "H5Fcreate" : "H5Fopen", path);
    if (!creates) {
        if (__builtin_add_overflow(inputs->bytes, part->shape->bytes, &inputs->bytes))
            inputs->bytes = INT64_MAX;
        replay_check_room(inputs->replay, inputs->bytes);
        const hid_t dataset = replay_hdf5_dataset(file, path, part->number, part->shape);
        if (part->shape->rank > 0)
            fill(inputs, dataset, part->shape, path);
        H5Dclose(dataset);
    }
    if (H5Fclose(file) < 0)
        replay_hdf5_failed("H5Fclose", path);
}

/* Makes what this rank needs and has not been made; gives the keys of that. */
static int64_t make_own(struct inputs *inputs, uint64_t **keys) {
    int64_t count = 0;
    for (int64_t i = 0; i < inputs->count; i++) {
        struct part *part = &inputs->parts[i];
        if (part->made)
            continue;
        make(inputs, part);
        part->made = true;
        *keys = replay_grow(*keys, count, sizeof **keys);
        (*keys)[count++] = part->key;
    }
    return count;
}

static bool needs_any(const struct inputs *inputs) {
    for (int64_t i = 0; i < inputs->count; i++)
        if (!inputs->parts[i].made)
            return true;
    return false;
}

void replay_hdf5_prepare(struct replay *replay) {
    struct inputs inputs = {.replay = replay};
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    take_calls(&inputs);
    refuse_elsewhere(&inputs);
    for (;;) {
        int own = needs_any(&inputs) ? replay->rank : replay->ranks, next = 0;
        MPI_Allreduce(&own, &next, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        if (next == replay->ranks)
            break;
        uint64_t *keys = NULL;
        int64_t count = next == replay->rank ? make_own(&inputs, &keys) : 0;
        MPI_Bcast(&count, 1, MPI_INT64_T, next, MPI_COMM_WORLD);
        if (next != replay->rank)
            keys = replay_grow(NULL, count, sizeof *keys);
        MPI_Bcast(keys, (int)count, MPI_UINT64_T, next, MPI_COMM_WORLD);
        for (int64_t i = 0; i < count; i++) {
            struct part *part = part_of(&inputs, keys[i]);
            if (part != NULL)
                part->made = true;
        }
        free(keys);
    }
    free(inputs.table);
    free(inputs.parts);
    free(inputs.data.bytes);
}
