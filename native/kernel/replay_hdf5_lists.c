/* Types, property lists and datasets of HDF5 as a record describes them. */
#include "replay_hdf5_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

enum { REAL = 1, BIG_ENDIAN_FIRST = 2, NUMBERS = 4 };

static herr_t take_innermost(unsigned depth, const H5E_error2_t *error, void *text) {
    if (depth == 0 && error->desc != NULL)
        snprintf(text, REASON_MAX, "%s", error->desc);
    return 0;
}

void replay_hdf5_failed(const char *call, const char *path) {
    char text[REASON_MAX] = "it failed and gives no reason";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_innermost, text);
    text[strcspn(text, "\n")] = '\0';
    replay_die("%s of %s: %s", call, path, text);
}

hid_t replay_hdf5_good(hid_t id, const char *call, const char *path) {
    if (id < 0)
        replay_hdf5_failed(call, path);
    return id;
}

const struct replay_access *replay_access_at(const struct replay *replay, int64_t number) {
    if (number < 0 || number >= replay->access_count)
        replay_die("the record is damaged: a file of HDF5 is opened in a way that is not defined");
    return &replay->accesses[number];
}

const struct replay_shape *replay_shape_at(const struct replay *replay, int64_t number) {
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

hid_t replay_hdf5_type(int64_t class, int64_t size) {
    if (size < 1 || size > INT32_MAX || class < 0)
        replay_die("the record is damaged: elements of %" PRId64 " bytes", size);
    const hid_t known = class < NUMBERS ? number_type(class, size) : -1;
    return known >= 0 ? H5Tcopy(known) : H5Tcreate(H5T_OPAQUE, (size_t)size);
}

hid_t replay_hdf5_access_list(const struct replay_access *access, const struct replay_comm *comm,
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
        replay_hdf5_failed("the file access list", file->path);
    return list;
}

hid_t replay_hdf5_creation_list(const struct replay_access *access) {
    if (!access->spaced)
        return H5P_DEFAULT;
    const hid_t list = H5Pcreate(H5P_FILE_CREATE);
    const int64_t *space = access->space;
    const H5F_fspace_strategy_t strategy = (H5F_fspace_strategy_t)space[0];
    if (H5Pset_file_space_strategy(list, strategy, space[1] != 0, (hsize_t)space[2]) < 0 ||
        H5Pset_file_space_page_size(list, (hsize_t)space[3]) < 0)
        replay_hdf5_failed("the file creation list", "a file");
    return list;
}

void replay_hdf5_name(char name[REPLAY_DATASET_NAME], int64_t number) {
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

hid_t replay_hdf5_dataset(hid_t file, const char *path, int64_t number, const struct replay_shape *shape) {
    char name[REPLAY_DATASET_NAME];
    hsize_t chunk[REPLAY_RANK] = {0};
    replay_hdf5_name(name, number);
    const hid_t type = replay_hdf5_type(shape->class, shape->size),
                space = replay_hdf5_good(space_of(shape, chunk), "a dataspace", path),
                list = replay_hdf5_good(dataset_list(shape, chunk), "a dataset creation list", path);
    const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Pclose(list);
    H5Sclose(space);
    H5Tclose(type);
    return replay_hdf5_good(dataset, "H5Dcreate", path);
}

hid_t replay_hdf5_transfer_list(bool collective) {
    const hid_t list = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(list, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    return list;
}

void replay_hdf5_room(struct replay_data *data, hsize_t elements, size_t size) {
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
