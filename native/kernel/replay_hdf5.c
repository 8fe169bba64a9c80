/* Carries out calls of HDF5. */
#include "replay_hdf5_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
            replay_hdf5_failed(files ? "H5Fclose" : "H5Dclose", object->path);
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
    const struct replay_access *access = replay_access_at(replay, numbers[3]);
    const struct replay_file *file = &replay->files[numbers[1]];
    const struct replay_comm *comm = &replay->comms[numbers[2]];
    struct object *object = new_object(hdf5, numbers[0], true);
    object->path = file->path;
    object->left_out = replay_opens_too_many(hdf5->steps, replay, file, comm, creates);
    if (object->left_out)
        return false;
    const hid_t list = replay_hdf5_access_list(access, comm, file);
    replay_meet(replay, comm);
    if (creates) {
        const hid_t creation = replay_hdf5_creation_list(access);
        object->id = H5Fcreate(file->path, (unsigned)numbers[4], creation, list);
        if (creation != H5P_DEFAULT)
            H5Pclose(creation);
    } else {
        object->id = H5Fopen(file->path, (unsigned)numbers[4], list);
    }
    H5Pclose(list);
    replay_hdf5_good(object->id, creates ? "H5Fcreate" : "H5Fopen", file->path);
    return true;
}

static bool open_dataset(struct replay_hdf5 *hdf5, bool creates, const int64_t *numbers) {
    char name[REPLAY_DATASET_NAME];
    const struct object *file = open_object(hdf5, numbers[1], true);
    const struct replay_shape *shape = replay_shape_at(hdf5->replay, numbers[3]);
    struct object *object = new_object(hdf5, numbers[0], false);
    object->path = file->path;
    object->left_out = file->left_out;
    if (object->left_out)
        return false;
    replay_hdf5_name(name, numbers[2]);
    object->id = creates ? replay_hdf5_dataset(file->id, file->path, numbers[2], shape)
                         : replay_hdf5_good(H5Dopen2(file->id, name, H5P_DEFAULT), "H5Dopen", file->path);
    return true;
}

static bool close_object(struct replay_hdf5 *hdf5, bool is_file, const int64_t *numbers) {
    struct object *object = open_object(hdf5, numbers[0], is_file);
    object->open = false;
    if (object->left_out)
        return false;
    if ((is_file ? H5Fclose(object->id) : H5Dclose(object->id)) < 0)
        replay_hdf5_failed(is_file ? "H5Fclose" : "H5Dclose", object->path);
    return true;
}

static bool flush(struct replay_hdf5 *hdf5, const int64_t *numbers) {
    const struct object *object = open_object(hdf5, numbers[0], true);
    if (!object->left_out && H5Fflush(object->id, numbers[1] ? H5F_SCOPE_GLOBAL : H5F_SCOPE_LOCAL) < 0)
        replay_hdf5_failed("H5Fflush", object->path);
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
            replay_hdf5_failed("H5Dset_extent", object->path);
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
        replay_hdf5_failed("the selection", path);
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
    const hid_t space =
        replay_hdf5_good(H5Screate_simple(hdf5->arranged, memory[0], NULL), "a dataspace", path);
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
                type = replay_hdf5_type(numbers[2], numbers[3]),
                list = replay_hdf5_transfer_list(numbers[1] != 0);
    replay_hdf5_room(&hdf5->data, elements > 0 ? elements : 1, (size_t)numbers[3]);
    char *data = hdf5->data.bytes;
    if ((writes ? H5Dwrite(object->id, type, memory, place, list, data)
                : H5Dread(object->id, type, memory, place, list, data)) < 0)
        replay_hdf5_failed(writes ? "H5Dwrite" : "H5Dread", object->path);
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
