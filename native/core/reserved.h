/* SPDX-License-Identifier: BSD-3-Clause
 * Functions of the C library under names that no program gives to its own: where a program has a function
 * called log or clone, the loader takes that one for this library's calls, too. */
#ifndef STRIPEWISE_RESERVED_H
#define STRIPEWISE_RESERVED_H

#include <math.h>

#if defined __GLIBC__ && defined __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 27)
#define RESERVED(NAME) __asm__(#NAME "f64")
#define CLONE __asm__("__clone")
#endif
#endif
#ifndef RESERVED
#define RESERVED(NAME) __asm__(#NAME)
#define CLONE __asm__("clone")
#endif

extern double sw_exp(double) RESERVED(exp);
extern double sw_fmax(double, double) RESERVED(fmax);
extern double sw_fmin(double, double) RESERVED(fmin);
extern double sw_fmod(double, double) RESERVED(fmod);
extern double sw_frexp(double, int *) RESERVED(frexp);
extern double sw_ldexp(double, int) RESERVED(ldexp);
extern long long sw_llround(double) RESERVED(llround);
extern double sw_log(double) RESERVED(log);
extern double sw_log2(double) RESERVED(log2);
extern double sw_round(double) RESERVED(round);
/* musl keeps its own __clone to itself: there, this is null. */
extern int sw_clone(int (*)(void *), void *, int, void *, ...) CLONE __attribute__((weak));

#endif
