/* What the parts of the replay of HDF5 share. */
#ifndef STRIPEWISE_REPLAY_HDF5_PARTS_H
#define STRIPEWISE_REPLAY_HDF5_PARTS_H

#include <hdf5.h>

#include "replay.h"

/* Ends the job with what HDF5 says of a call that failed. */
void replay_hdf5_failed(const char *call, const char *path) __attribute__((noreturn));

/* An identifier, or the end of the job. */
hid_t replay_hdf5_good(hid_t id, const char *call, const char *path);

/* ---- replay_hdf5_lists.c ---- */

const struct replay_access *replay_access_at(const struct replay *replay, int64_t number);
const struct replay_shape *replay_shape_at(const struct replay *replay, int64_t number);

/* Elements of this class and size. */
hid_t replay_hdf5_type(int64_t class, int64_t size);
hid_t replay_hdf5_access_list(const struct replay_access *access, const struct replay_comm *comm,
                              const struct replay_file *file);
hid_t replay_hdf5_creation_list(const struct replay_access *access);

/* Creates the dataset of a number. */
hid_t replay_hdf5_dataset(hid_t file, const char *path, int64_t number, const struct replay_shape *shape);
#define REPLAY_DATASET_NAME 32
void replay_hdf5_name(char name[REPLAY_DATASET_NAME], int64_t number);

/* A property list of transfers. */
hid_t replay_hdf5_transfer_list(bool collective);

/* So many bytes to write, grown as needed and freed by the caller. */
struct replay_data {
    char *bytes;
    size_t size;
};
void replay_hdf5_room(struct replay_data *data, hsize_t elements, size_t size);

#endif
