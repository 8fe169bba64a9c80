/* SPDX-License-Identifier: BSD-3-Clause
 * Datasets as they are opened, used and closed. */
#ifndef STRIPEWISE_H5_DATASETS_H
#define STRIPEWISE_H5_DATASETS_H

#include "h5.h"

/* Before the identifier ends: where the data lie is known by now. */
void sw_h5_dataset_closing(struct sw_h5_object *object, sw_hid id);

#endif
