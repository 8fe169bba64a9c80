/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime.h"

void sw_complain(const char *format, ...) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    char line[600];
    if (sw_runtime.silent || atomic_flag_test_and_set(&said))
        return;
    va_list arguments;
    va_start(arguments, format);
    int length = snprintf(line, sizeof line, "stripewise: ");
    length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof line - 2)
        length = (int)sizeof line - 2;
    line[length++] = '\n';
    /* One write: lines of many processes do not mix. There is nobody to tell if it fails. */
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)length);
    (void)ignored;
}
