/* SPDX-License-Identifier: BSD-3-Clause
 * The least a C test needs: CHECK says where it failed, and main returns how often. */
#ifndef STRIPEWISE_CHECK_H
#define STRIPEWISE_CHECK_H

#include <stdio.h>
#include <string.h>

static int failures;

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                          \
            failures++;                                                                                      \
        }                                                                                                    \
    } while (0)

#define CHECK_TEXT(found, expected)                                                                          \
    do {                                                                                                     \
        const char *found_ = (found);                                                                        \
        if (!found_ || strcmp(found_, (expected)) != 0) {                                                    \
            fprintf(stderr, "%s:%d: found \"%s\", expected \"%s\"\n", __FILE__, __LINE__,                    \
                    found_ ? found_ : "(null)", (expected));                                                 \
            failures++;                                                                                      \
        }                                                                                                    \
    } while (0)

#endif
