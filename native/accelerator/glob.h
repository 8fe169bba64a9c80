/* SPDX-License-Identifier: BSD-3-Clause
 * Patterns of paths. Unlike fnmatch, which may allocate, this may be called within handlers of signals. */
#ifndef STRIPEWISE_GLOB_H
#define STRIPEWISE_GLOB_H

#include <stdbool.h>

/* Whether a whole text is as the pattern says: * stands for any text, also one with slashes, ? for one
 * character of UTF-8, [abc], [a-z] and [!a] for one byte; a backslash takes the next one as it is. */
__attribute__((visibility("hidden"))) bool glob_matches(const char *pattern, const char *text);

#endif
