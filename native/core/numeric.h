/* SPDX-License-Identifier: BSD-3-Clause
 * Numbers as text with a point, whatever the program's locale. */
#ifndef STRIPEWISE_NUMERIC_H
#define STRIPEWISE_NUMERIC_H

#include <stddef.h>

/* Writes the shortest of %.{digits}g. */
void sw_print_double(char *text, size_t size, double value, int digits);

/* As strtod. */
double sw_scan_double(const char *text, char **end);

#endif
