/* SPDX-License-Identifier: BSD-3-Clause */
#include "recording_beneath.h"

#include "setup.h"

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

bool sw_record_within_hdf5(void) {
    return now.within;
}

bool sw_record_beneath(int64_t file, int64_t comm) {
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
