/* SPDX-License-Identifier: BSD-3-Clause
 * Numbers as text with a point, whatever the program's locale; and reals rounded to an accuracy. */
#ifndef STRIPEWISE_NUMERIC_H
#define STRIPEWISE_NUMERIC_H

#include <stddef.h>

/* Writes the shortest of %.{digits}g. */
void sw_print_double(char *text, size_t size, double value, int digits);

/* As strtod. */
double sw_scan_double(const char *text, char **end);

/* The largest power of two that is at most twice the accuracy: the nearest multiple of it is within the
 * accuracy of any number. 0 where there is none, or where programs that flush tiny numbers to zero would lose
 * more. */
double sw_rounding_step(double accuracy);

/* Replaces reals of 4 or 8 bytes by the nearest multiple of the step. NaN and infinities stay as they are,
 * and so do numbers that lie on no finer grid than the step, or whose multiple would be infinite. */
void sw_round_reals(void *reals, size_t count, size_t bytes, double step);

#endif
