/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "numeric.h"
#include "reserved.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t plain;

static void make_plain(void) {
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* Makes the thread's locale the plain one; gives back what it was. */
static locale_t enter(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_plain);
    return plain ? uselocale(plain) : (locale_t)0;
}

static void leave(locale_t before) {
    if (before)
        uselocale(before);
}

void sw_print_double(char *text, size_t size, double value, int digits) {
    locale_t before = enter();
    snprintf(text, size, "%.*g", digits, value);
    leave(before);
}

double sw_scan_double(const char *text, char **end) {
    locale_t before = enter();
    double value = strtod(text, end);
    leave(before);
    return value;
}

double sw_rounding_step(double accuracy) {
    int exponent;
    if (!(accuracy >= 1e-37 && accuracy <= 1e300))
        return 0;
    (void)sw_frexp(accuracy, &exponent); /* 2^(exponent - 1) <= accuracy < 2^exponent */
    return sw_ldexp(1, exponent);
}

/* Each is exact: the quotient by a power of two, the nearest whole number (whatever the program's direction
 * of rounding), and its product. */
void sw_round_reals(void *reals, size_t count, size_t bytes, double step) {
    float *floats = reals;
    double *doubles = reals;
    for (size_t i = 0; bytes == sizeof *floats && i < count; i++) {
        float rounded =
            fabsf(floats[i]) < step * 0x1p23 ? (float)(sw_round(floats[i] / step) * step) : INFINITY;
        floats[i] = isfinite(rounded) ? rounded : floats[i];
    }
    for (size_t i = 0; bytes == sizeof *doubles && i < count; i++) {
        double rounded = fabs(doubles[i]) < step * 0x1p52 ? sw_round(doubles[i] / step) * step : INFINITY;
        doubles[i] = isfinite(rounded) ? rounded : doubles[i];
    }
}
