/* In place of HDF5 where the replay is built without it: records that call it are refused. */
#include "replay.h"

struct replay_hdf5 *replay_hdf5_new(struct replay *replay, struct replay_steps *steps) {
    (void)steps;
    replay_die("record %s has calls of HDF5, and this " REPLAY_NAME " was built without it: build it with "
               "-DSTRIPEWISE_HDF5=ON",
               replay->options.record);
}

void replay_hdf5_free(struct replay_hdf5 *hdf5) {
    (void)hdf5;
}

bool replay_hdf5_call(struct replay_hdf5 *hdf5, enum sw_line line, const int64_t *numbers,
                      struct replay_done *done) {
    (void)hdf5, (void)line, (void)numbers, (void)done;
    return false;
}

void replay_hdf5_prepare(struct replay *replay) {
    (void)replay;
}
