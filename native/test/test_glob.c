/* SPDX-License-Identifier: BSD-3-Clause
 * Patterns of paths match what fnmatch of the C library matches without flags, in the locale C. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "../accelerator/glob.h"
#include "check.h"

int main(void) {
    static const char *const patterns[] = {
        "*",   "",     "a", "?",     "*.h5",   "/a/*",   "a*b*c",   "[abc]*", "[!a]b",   "[a-c]?",
        "\\*", "a\\b", "[", "[]a]b", "*[0-9]", "**a**b", "*a*a*a*", "[^a]*b", "a[\\]]b", "x[a-]y"};
    static const char *const texts[] = {"",   "a",    "b",   "ab",  "abc", "/a/b/c.h5", "*",   "a\\",  "[",
                                        "]b", "run7", "aab", "aaa", "cb",  "x-y",       "a]b", "a.b.c"};
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++)
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
            CHECK(glob_matches(patterns[p], texts[t]) == (fnmatch(patterns[p], texts[t], 0) == 0));
    /* Texts of random letters, so that stars are tried in many ways. */
    srand(1);
    for (int round = 0; round < 20000; round++) {
        char pattern[9] = "", text[13] = "";
        for (int i = rand() % 8; i > 0; i--)
            pattern[strlen(pattern)] = "ab*?c*"[rand() % 6];
        for (int i = rand() % 12; i > 0; i--)
            text[strlen(text)] = "abc"[rand() % 3];
        CHECK(glob_matches(pattern, text) == (fnmatch(pattern, text, 0) == 0));
    }
    CHECK(glob_matches("?", "\xc3\xa9") && !glob_matches("?", "ab"));
    return failures;
}
