/* SPDX-License-Identifier: BSD-3-Clause
 * Opening a file of HDF5 with the plan's settings, whichever way the call comes: as a function that is taken
 * the place of, or through the connector (native/vol). */
#ifndef STRIPEWISE_H5_FILES_H
#define STRIPEWISE_H5_FILES_H

#include "h5.h"

/* One creation or open. A file is whatever the caller has for one: an identifier, or an address; at least 0.
 */
struct sw_h5_opening {
    const char *name;
    unsigned flags;
    bool creates;
    sw_hid creation, access; /* the program's lists */
    /* -1 if it fails. */
    sw_hid (*make)(struct sw_h5_opening *opening, sw_hid creation, sw_hid access);
    /* Lists of the open file, to be closed; negative if there is none. */
    sw_hid (*access_of)(sw_hid file);
    sw_hid (*creation_of)(sw_hid file);
    /* The record, before anything is said of settings in it; may be NULL. */
    void (*found)(struct sw_h5_opening *opening, struct sw_file *record);
    /* Takes over the hold of the record. */
    void (*follow)(struct sw_h5_opening *opening, sw_hid file, struct sw_file *record);
};

/* The file, with the plan's settings if they can be had; -1 if it fails as the program asked for it. Counted
 * only if HDF5 is of a version the runtime knows. Collective where the open is. */
sw_hid sw_h5_open(struct sw_h5_opening *opening);

#endif
