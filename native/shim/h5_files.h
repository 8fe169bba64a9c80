/* SPDX-License-Identifier: BSD-3-Clause
 * Opening a file of HDF5 with settings, whichever way the call comes: as a function that is taken
 * the place of, or through the connector (native/vol). */
#ifndef STRIPEWISE_H5_FILES_H
#define STRIPEWISE_H5_FILES_H

#include "h5_settings.h"

/* The file, with the settings of the plan or a decision if they can be had; -1 if it fails as the program
 * asked for it. Counted only if HDF5 is of a version the runtime knows. Collective where the open is. */
sw_hid sw_h5_open(struct sw_h5_opening *opening);

#endif
