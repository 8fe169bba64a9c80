/* SPDX-License-Identifier: BSD-3-Clause
 * What the library is asked to do beside counting, as the environment said when the process began. Nothing is
 * done to a file that is not counted: each act has its counter. */
#ifndef STRIPEWISE_SETTINGS_H
#define STRIPEWISE_SETTINGS_H

#include "part.h"

#pragma GCC visibility push(hidden)

enum setting {
#define SETTING(NAME, ...) SET_##NAME,
#include "settings.def"
#undef SETTING
    SETTINGS
};

extern bool any_asked; /* whether any is; else nothing below is looked at */

/* The value of a setting; 0: it is not asked for, or its value cannot be. */
extern int64_t asked[SETTINGS];

/* Reads STRIPEWISE_POSIX and STRIPEWISE_POSIX_FILES. */
void read_settings(void);

/* Whether the settings are for the file of this path. */
bool is_chosen(const char *path);

/* Whether a setting has a value that cannot be. */
bool is_refused(enum setting which);

/* Counts a call in which a setting acted, or could not. */
void count_setting(struct file_record *record, enum setting which, bool acted);

#pragma GCC visibility pop

#endif
