/* SPDX-License-Identifier: BSD-3-Clause
 * Layouts of Lustre by liblustreapi. */
#ifndef STRIPEWISE_LAYOUT_LUSTRE_API_H
#define STRIPEWISE_LAYOUT_LUSTRE_API_H

#include <sys/types.h>

#include "layout_components.h"

/* Whether the library can be loaded, and may be. */
bool sw_lustre_api(void);

/* The layout of a file, or what a folder gives to new ones. */
bool sw_lustre_api_read(const char *path, bool folder, struct components *layout);

/* start: the first target, or NULL. 0, or -1 with errno. */
int sw_lustre_api_create(const char *path, mode_t mode, const struct components *layout, const char *start);

#endif
