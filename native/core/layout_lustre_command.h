/* SPDX-License-Identifier: BSD-3-Clause
 * Layouts of Lustre by the lfs command. */
#ifndef STRIPEWISE_LAYOUT_LUSTRE_COMMAND_H
#define STRIPEWISE_LAYOUT_LUSTRE_COMMAND_H

#include <stddef.h>
#include <sys/types.h>

#include "layout_components.h"

/* The layout of a file, or what a folder gives to new ones. */
bool sw_lustre_command_read(const char *path, bool folder, struct components *layout);

/* start: the first target, or NULL. template: a file that describes the layout, in place of all else; or
 * NULL. Answers as sw_input_command. */
int sw_lustre_command_create(const char *path, mode_t mode, const struct components *layout,
                             const char *start, const char *template, char *output, size_t size);

#endif
