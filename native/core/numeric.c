/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "numeric.h"

#include <locale.h>
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
