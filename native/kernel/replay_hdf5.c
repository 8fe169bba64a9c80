/* Carries out calls of HDF5. */
#include <hdf5.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "replay.h"

#define REPLAY_DATASET_NAME 32

/* So many bytes to write, grown as needed and freed by the caller. */
struct replay_data {
    char *bytes;
    size_t size;
};

/* ---- types, property lists and datasets as a record describes them ---- */

enum { REAL = 1, BIG_ENDIAN_FIRST = 2, NUMBERS = 4 };

static herr_t take_innermost(unsigned depth, const H5E_error2_t *error, void *text) {
    if (depth == 0 && error->desc != NULL)
        snprintf(text, REASON_MAX, "%s", error->desc);
    return 0;
}

/* Ends the job with what HDF5 says of a call that failed. */
__attribute__((noreturn)) static void hdf5_failed(const char *call, const char *path) {
    char text[REASON_MAX] = "it failed and gives no reason";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_innermost, text);
    text[strcspn(text, "\n")] = '\0';
    replay_die("%s of %s: %s", call, path, text);
}

/* An identifier, or the end of the job. */
static hid_t hdf5_good(hid_t id, const char *call, const char *path) {
    if (id < 0)
        hdf5_failed(call, path);
    return id;
}

static const struct replay_access *access_at(const struct replay *replay, int64_t number) {
    if (number < 0 || number >= replay->access_count)
        replay_die("the record is damaged: a file of HDF5 is opened in a way that is not defined");
    return &replay->accesses[number];
}

static const struct replay_shape *shape_at(const struct replay *replay, int64_t number) {
    if (number < 0 || number >= replay->shape_count)
        replay_die("the record is damaged: a dataset of HDF5 that is not defined");
    return &replay->shapes[number];
}

static hid_t number_type(int64_t class, int64_t size) {
    const bool big = class >= BIG_ENDIAN_FIRST;
    switch (size | (class % 2 == REAL ? 256 : 0)) {
    case 1:
        return big ? H5T_STD_I8BE : H5T_STD_I8LE;
    case 2:
        return big ? H5T_STD_I16BE : H5T_STD_I16LE;
    case 4:
        return big ? H5T_STD_I32BE : H5T_STD_I32LE;
    case 8:
        return big ? H5T_STD_I64BE : H5T_STD_I64LE;
    case 256 | 4:
        return big ? H5T_IEEE_F32BE : H5T_IEEE_F32LE;
    case 256 | 8:
        return big ? H5T_IEEE_F64BE : H5T_IEEE_F64LE;
    case 256 | sizeof(long double):
        return big ? -1 : H5T_NATIVE_LDOUBLE;
    default:
        return -1;
    }
}

static hid_t element_type(int64_t class, int64_t size) {
    if (size < 1 || size > INT32_MAX || class < 0)
        replay_die("the record is damaged: elements of %" PRId64 " bytes", size);
    const hid_t known = class < NUMBERS ? number_type(class, size) : -1;
    return known >= 0 ? H5Tcopy(known) : H5Tcreate(H5T_OPAQUE, (size_t)size);
}

static hid_t access_list(const struct replay_access *access, const struct replay_comm *comm,
                         const struct replay_file *file) {
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    const int64_t *sizes = access->sizes, *more = access->more;
    int entries = 0;
    size_t slots = 0, bytes = 0;
    double weight = 0;
    bool good = H5Pset_fapl_mpio(list, comm->comm, file->hints) >= 0 &&
                H5Pset_alignment(list, (hsize_t)sizes[1], (hsize_t)sizes[0]) >= 0 &&
                H5Pset_meta_block_size(list, (hsize_t)sizes[2]) >= 0 &&
                H5Pset_sieve_buf_size(list, (size_t)sizes[3]) >= 0 &&
                H5Pget_cache(list, &entries, &slots, &bytes, &weight) >= 0 &&
                H5Pset_cache(list, entries, slots, (size_t)sizes[4], weight) >= 0 &&
                H5Pset_coll_metadata_write(list, more[0] != 0) >= 0 &&
                H5Pset_all_coll_metadata_ops(list, more[1] != 0) >= 0;
    if (more[2] >= 0 && more[3] >= more[2]) {
        const int high = more[3] < H5F_LIBVER_LATEST ? (int)more[3] : H5F_LIBVER_LATEST,
                  low = more[2] < high ? (int)more[2] : high;
        good &= H5Pset_libver_bounds(list, (H5F_libver_t)low, (H5F_libver_t)high) >= 0;
    }
    if (!good)
        hdf5_failed("the file access list", file->path);
    return list;
}

static hid_t creation_list(const struct replay_access *access) {
    if (!access->spaced)
        return H5P_DEFAULT;
    const hid_t list = H5Pcreate(H5P_FILE_CREATE);
    const int64_t *space = access->space;
    const H5F_fspace_strategy_t strategy = (H5F_fspace_strategy_t)space[0];
    if (H5Pset_file_space_strategy(list, strategy, space[1] != 0, (hsize_t)space[2]) < 0 ||
        H5Pset_file_space_page_size(list, (hsize_t)space[3]) < 0)
        hdf5_failed("the file creation list", "a file");
    return list;
}

static void name_dataset(char name[REPLAY_DATASET_NAME], int64_t number) {
    snprintf(name, REPLAY_DATASET_NAME, "d%" PRId64, number);
}

static hid_t space_of(const struct replay_shape *shape, hsize_t *chunk) {
    hsize_t size[REPLAY_RANK], most[REPLAY_RANK];
    if (shape->rank == 0)
        return H5Screate(H5S_SCALAR);
    for (int i = 0; i < shape->rank; i++) {
        size[i] = (hsize_t)shape->dims[i].size;
        most[i] = shape->dims[i].most < 0 ? H5S_UNLIMITED : (hsize_t)shape->dims[i].most;
        chunk[i] = (hsize_t)shape->dims[i].chunk;
    }
    return H5Screate_simple(shape->rank, size, most);
}

static hid_t dataset_list(const struct replay_shape *shape, const hsize_t *chunk) {
    const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    bool good = shape->layout != H5D_CHUNKED || H5Pset_chunk(list, shape->rank, chunk) >= 0;
    if (shape->layout == H5D_COMPACT)
        good = H5Pset_layout(list, H5D_COMPACT) >= 0;
    const H5D_fill_time_t fills[REPLAY_FILLS] = {H5D_FILL_TIME_NEVER, H5D_FILL_TIME_ALLOC,
                                                 H5D_FILL_TIME_IFSET};
    good &= H5Pset_fill_time(list, fills[shape->fills]) >= 0;
    if (shape->allocation > 0 && shape->allocation <= H5D_ALLOC_TIME_INCR)
        good &= H5Pset_alloc_time(list, (H5D_alloc_time_t)shape->allocation) >= 0;
    for (int64_t i = 0; good && i < shape->filter_count; i++) {
        const struct replay_filter *filter = &shape->filters[i];
        good = H5Pset_filter(list, (H5Z_filter_t)filter->filter, (unsigned)filter->flags, filter->count,
                             filter->values) >= 0;
    }
    return good ? list : -1;
}

static hid_t make_dataset(hid_t file, const char *path, int64_t number, const struct replay_shape *shape) {
    char name[REPLAY_DATASET_NAME];
    hsize_t chunk[REPLAY_RANK] = {0};
    name_dataset(name, number);
    const hid_t type = element_type(shape->class, shape->size),
                space = hdf5_good(space_of(shape, chunk), "a dataspace", path),
                list = hdf5_good(dataset_list(shape, chunk), "a dataset creation list", path);
    const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Pclose(list);
    H5Sclose(space);
    H5Tclose(type);
    return hdf5_good(dataset, "H5Dcreate", path);
}

static hid_t transfer_list(bool collective) {
    const hid_t list = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(list, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    return list;
}

static void make_room(struct replay_data *data, hsize_t elements, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(elements, size, &bytes) || bytes > INT64_MAX / 8)
        replay_die("the record is damaged: a transfer of too many bytes");
    if (bytes <= data->size)
        return;
    free(data->bytes);
    data->bytes = replay_grow(NULL, (int64_t)bytes, 1);
    data->size = bytes;
    for (size_t i = 0; i < bytes; i++)
        data->bytes[i] = (char)mix64(i);
}

struct object {
    bool open, is_file, left_out;
    hid_t id;
    const char *path;
    int64_t writes, reads; /* calls since it was opened */
};

struct replay_hdf5 {
    struct replay *replay;
    struct replay_steps *steps;
    struct object objects[REPLAY_SLOTS];
    struct replay_data data;
    int selected, arranged, sized; /* lines of dimensions before the call they are for */
    hsize_t select[4][REPLAY_RANK], memory[5][REPLAY_RANK], size[REPLAY_RANK];
};

struct replay_hdf5 *replay_hdf5_new(struct replay *replay, struct replay_steps *steps) {
    struct replay_hdf5 *hdf5 = replay_grow(NULL, 0, sizeof *hdf5);
    memset(hdf5, 0, sizeof *hdf5);
    hdf5->replay = replay;
    hdf5->steps = steps;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* its many lines are for nobody: one line tells what matters */
    return hdf5;
}

/* What the program left open: HDF5 would close it after the end of MPI. */
static void close_all(struct replay_hdf5 *hdf5, bool files) {
    for (int slot = 0; slot < REPLAY_SLOTS; slot++) {
        struct object *object = &hdf5->objects[slot];
        if (!object->open || object->left_out || object->is_file != files)
            continue;
        object->open = false;
        if ((files ? H5Fclose(object->id) : H5Dclose(object->id)) < 0)
            hdf5_failed(files ? "H5Fclose" : "H5Dclose", object->path);
    }
}

void replay_hdf5_free(struct replay_hdf5 *hdf5) {
    close_all(hdf5, false);
    close_all(hdf5, true);
    free(hdf5->data.bytes);
    free(hdf5);
}

static struct object *object_at(struct replay_hdf5 *hdf5, int64_t slot) {
    if (slot < 0 || slot >= REPLAY_SLOTS)
        replay_die("the record is damaged: a slot that there is not");
    return &hdf5->objects[slot];
}

static struct object *open_object(struct replay_hdf5 *hdf5, int64_t slot, bool is_file) {
    struct object *object = object_at(hdf5, slot);
    if (!object->open || object->is_file != is_file)
        replay_die("the record is damaged: a call on %s that is not open", is_file ? "a file" : "a dataset");
    return object;
}

static struct object *new_object(struct replay_hdf5 *hdf5, int64_t slot, bool is_file) {
    struct object *object = object_at(hdf5, slot);
    if (object->open)
        replay_die("the record is damaged: slot %" PRId64 " is opened twice", slot);
    *object = (struct object){.open = true, .is_file = is_file};
    return object;
}

static bool open_file(struct replay_hdf5 *hdf5, bool creates, const int64_t *numbers) {
    const struct replay *replay = hdf5->replay;
    if (numbers[1] < 0 || numbers[1] >= replay->file_count || numbers[2] < 0 ||
        numbers[2] >= replay->comm_count)
        replay_die("the record is damaged: an open names what is not defined");
    const struct replay_access *access = access_at(replay, numbers[3]);
    const struct replay_file *file = &replay->files[numbers[1]];
    const struct replay_comm *comm = &replay->comms[numbers[2]];
    struct object *object = new_object(hdf5, numbers[0], true);
    object->path = file->path;
    object->left_out = replay_opens_too_many(hdf5->steps, replay, file, comm, creates);
    if (object->left_out)
        return false;
    const hid_t list = access_list(access, comm, file);
    replay_meet(replay, comm);
    if (creates) {
        const hid_t creation = creation_list(access);
        object->id = H5Fcreate(file->path, (unsigned)numbers[4], creation, list);
        if (creation != H5P_DEFAULT)
            H5Pclose(creation);
    } else {
        object->id = H5Fopen(file->path, (unsigned)numbers[4], list);
    }
    H5Pclose(list);
    hdf5_good(object->id, creates ? "H5Fcreate" : "H5Fopen", file->path);
    return true;
}

static bool open_dataset(struct replay_hdf5 *hdf5, bool creates, const int64_t *numbers) {
    char name[REPLAY_DATASET_NAME];
    const struct object *file = open_object(hdf5, numbers[1], true);
    const struct replay_shape *shape = shape_at(hdf5->replay, numbers[3]);
    struct object *object = new_object(hdf5, numbers[0], false);
    object->path = file->path;
    object->left_out = file->left_out;
    if (object->left_out)
        return false;
    name_dataset(name, numbers[2]);
    object->id = creates ? make_dataset(file->id, file->path, numbers[2], shape)
                         : hdf5_good(H5Dopen2(file->id, name, H5P_DEFAULT), "H5Dopen", file->path);
    return true;
}

static bool close_object(struct replay_hdf5 *hdf5, bool is_file, const int64_t *numbers) {
    struct object *object = open_object(hdf5, numbers[0], is_file);
    object->open = false;
    if (object->left_out)
        return false;
    if ((is_file ? H5Fclose(object->id) : H5Dclose(object->id)) < 0)
        hdf5_failed(is_file ? "H5Fclose" : "H5Dclose", object->path);
    return true;
}

static bool flush(struct replay_hdf5 *hdf5, const int64_t *numbers) {
    const struct object *object = open_object(hdf5, numbers[0], true);
    if (!object->left_out && H5Fflush(object->id, numbers[1] ? H5F_SCOPE_GLOBAL : H5F_SCOPE_LOCAL) < 0)
        hdf5_failed("H5Fflush", object->path);
    return !object->left_out;
}

static bool extend(struct replay_hdf5 *hdf5, const int64_t *numbers) {
    const struct object *object = open_object(hdf5, numbers[0], false);
    const hsize_t *size = hdf5->size;
    if (!object->left_out) {
        const hid_t space = H5Dget_space(object->id);
        const int rank = H5Sget_simple_extent_ndims(space);
        H5Sclose(space);
        if (rank != hdf5->sized)
            replay_die("the record is damaged: a dataset of %d dimensions gets %d", rank, hdf5->sized);
        if (H5Dset_extent(object->id, size) < 0)
            hdf5_failed("H5Dset_extent", object->path);
    }
    hdf5->sized = 0;
    return !object->left_out;
}

/* Selects in a dataspace what four lists of numbers say. */
static void choose(hid_t space, const hsize_t *start, const hsize_t *stride, const hsize_t *count,
                   const hsize_t *block, int rank, const char *path) {
    bool any = true;
    if (H5Sget_simple_extent_ndims(space) != rank)
        replay_die("the record is damaged: a selection in %d dimensions", rank);
    for (int i = 0; i < rank; i++)
        any &= count[i] > 0 && block[i] > 0;
    if ((any ? H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, block)
             : H5Sselect_none(space)) < 0)
        hdf5_failed("the selection", path);
}

/* The memory's dataspace; elements: how many the array has. */
static hid_t memory_space(const struct replay_hdf5 *hdf5, hid_t place, hsize_t *elements, const char *path) {
    const hssize_t points = H5Sget_select_npoints(place);
    *elements = points > 0 ? (hsize_t)points : 0;
    if (hdf5->arranged == 0) {
        const hsize_t size = *elements > 0 ? *elements : 1;
        const hid_t space = H5Screate_simple(1, &size, NULL);
        if (points == 0)
            H5Sselect_none(space);
        return space;
    }
    const hsize_t(*memory)[REPLAY_RANK] = hdf5->memory;
    *elements = 1;
    for (int i = 0; i < hdf5->arranged; i++)
        if (__builtin_mul_overflow(*elements, memory[0][i], elements))
            replay_die("the record is damaged: an array in memory that is too large");
    const hid_t space = hdf5_good(H5Screate_simple(hdf5->arranged, memory[0], NULL), "a dataspace", path);
    choose(space, memory[1], memory[2], memory[3], memory[4], hdf5->arranged, path);
    return space;
}

static void move(struct replay_hdf5 *hdf5, const struct object *object, bool writes, const int64_t *numbers) {
    const hid_t place = H5Dget_space(object->id);
    if (hdf5->selected > 0)
        choose(place, hdf5->select[0], hdf5->select[1], hdf5->select[2], hdf5->select[3], hdf5->selected,
               object->path);
    hsize_t elements;
    const hid_t memory = memory_space(hdf5, place, &elements, object->path),
                type = element_type(numbers[2], numbers[3]), list = transfer_list(numbers[1] != 0);
    make_room(&hdf5->data, elements > 0 ? elements : 1, (size_t)numbers[3]);
    char *data = hdf5->data.bytes;
    if ((writes ? H5Dwrite(object->id, type, memory, place, list, data)
                : H5Dread(object->id, type, memory, place, list, data)) < 0)
        hdf5_failed(writes ? "H5Dwrite" : "H5Dread", object->path);
    H5Pclose(list);
    H5Tclose(type);
    H5Sclose(memory);
    H5Sclose(place);
}

static bool transfer(struct replay_hdf5 *hdf5, bool writes, const int64_t *numbers,
                     struct replay_done *done) {
    struct object *object = open_object(hdf5, numbers[0], false);
    const int64_t most = hdf5->replay->options.repetitions;
    int64_t *made = writes ? &object->writes : &object->reads;
    const bool makes = !object->left_out && (most == 0 || (*made)++ < most);
    int64_t *moved = writes ? &done->written : &done->read;
    if (numbers[4] < 0 || (makes && __builtin_add_overflow(*moved, numbers[4], moved)))
        replay_die("the record is damaged: a call of %" PRId64 " bytes", numbers[4]);
    if (makes)
        move(hdf5, object, writes, numbers);
    hdf5->selected = hdf5->arranged = 0;
    return makes;
}

static void take_dimension(int *count, hsize_t (*to)[REPLAY_RANK], const int64_t *numbers, int length) {
    if (*count == REPLAY_RANK)
        replay_die("the record is damaged: too many dimensions");
    for (int n = 0; n < length; n++) {
        if (numbers[n] < 0)
            replay_die("the record is damaged: a selection below 0");
        to[n][*count] = (hsize_t)numbers[n];
    }
    ++*count;
}

static void check_stride(int64_t stride) {
    if (stride < 1)
        replay_die("the record is damaged: a stride of %" PRId64, stride);
}

bool replay_hdf5_call(struct replay_hdf5 *hdf5, enum sw_line line, const int64_t *numbers,
                      struct replay_done *done) {
    switch (line) {
    case SW_LINE_h5fcreate:
    case SW_LINE_h5fopen:
        return open_file(hdf5, line == SW_LINE_h5fcreate, numbers);
    case SW_LINE_h5fflush:
        return flush(hdf5, numbers);
    case SW_LINE_h5fclose:
    case SW_LINE_h5dclose:
        return close_object(hdf5, line == SW_LINE_h5fclose, numbers);
    case SW_LINE_h5dcreate:
    case SW_LINE_h5dopen:
        return open_dataset(hdf5, line == SW_LINE_h5dcreate, numbers);
    case SW_LINE_h5dset_extent:
        return extend(hdf5, numbers);
    case SW_LINE_h5dwrite:
    case SW_LINE_h5dread:
        return transfer(hdf5, line == SW_LINE_h5dwrite, numbers, done);
    case SW_LINE_h5size:
        take_dimension(&hdf5->sized, &hdf5->size, numbers, 1);
        return false;
    case SW_LINE_h5select:
        check_stride(numbers[1]);
        take_dimension(&hdf5->selected, hdf5->select, numbers, 4);
        return false;
    default:
        check_stride(numbers[2]);
        take_dimension(&hdf5->arranged, hdf5->memory, numbers, 5);
        return false;
    }
}

/* ---- the files that the program found ----
 * Made before its calls, with the datasets that these open.
 * Ranks may open different ones, so each makes alone what no rank before it has made. */

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
                              .access = access_at(replay, numbers[3]),
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
    dataset.shape = shape_at(inputs->replay, numbers[3]);
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
    make_room(&inputs->data, some * row, (size_t)shape->size);
    /* Filters want it, also of one rank. */
    const hid_t list = transfer_list(true);
    const hid_t type = element_type(shape->class, shape->size);
    for (; start[0] < rows; start[0] += some) {
        count[0] = rows - start[0] < some ? rows - start[0] : some;
        const hsize_t elements = count[0] * row;
        const hid_t place = H5Dget_space(dataset), memory = H5Screate_simple(1, &elements, NULL);
        if (H5Sselect_hyperslab(place, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
            H5Dwrite(dataset, type, memory, place, list, inputs->data.bytes) < 0)
            hdf5_failed("H5Dwrite", path);
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
    const hid_t access = access_list(part->access, &alone, part->file);
    const hid_t file =
        creates ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(path, H5F_ACC_RDWR, access);
    H5Pclose(access);
    hdf5_good(file, creates ? "H5Fcreate" : "H5Fopen", path);
    if (!creates) {
        if (__builtin_add_overflow(inputs->bytes, part->shape->bytes, &inputs->bytes))
            inputs->bytes = INT64_MAX;
        replay_check_room(inputs->replay, inputs->bytes);
        const hid_t dataset = make_dataset(file, path, part->number, part->shape);
        if (part->shape->rank > 0)
            fill(inputs, dataset, part->shape, path);
        H5Dclose(dataset);
    }
    if (H5Fclose(file) < 0)
        hdf5_failed("H5Fclose", path);
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
