/* SPDX-License-Identifier: BSD-3-Clause
 * Patterns of paths. */
#include <stddef.h>

#include "glob.h"

/* Behind the set that begins at a bracket, and whether it has a byte; NULL if it is not closed. */
static const char *in_set(const char *set, unsigned char byte, bool *has) {
    bool not = set[1] == '!' || set[1] == '^', found = false;
    const char *at = set + 1 + not, *first = at;
    while (*at && (*at != ']' || at == first)) {
        at += *at == '\\' && at[1];
        unsigned char least = (unsigned char)*at, most = least;
        if (at[1] == '-' && at[2] && at[2] != ']') {
            at += 2 + (at[2] == '\\' && at[3]);
            most = (unsigned char)*at;
        }
        found |= byte >= least && byte <= most;
        at++;
    }
    *has = found != not;
    return *at ? at + 1 : NULL;
}

/* Behind the first character of a text. */
static const char *next_character(const char *text) {
    do
        text++;
    while (((unsigned char)*text & 0xc0) == 0x80);
    return text;
}

/* Takes one sign of the pattern and what it stands for; false if the text is another. */
static bool take_one(const char **pattern, const char **text) {
    bool has;
    const char *behind = **pattern == '[' ? in_set(*pattern, (unsigned char)**text, &has) : NULL;
    if (!**text)
        return false;
    if (behind) {
        *pattern = behind;
        *text += 1;
        return has;
    }
    if (**pattern == '?') {
        *pattern += 1;
        *text = next_character(*text);
        return true;
    }
    *pattern += **pattern == '\\' && (*pattern)[1];
    if (**pattern != **text)
        return false;
    *pattern += 1;
    *text += 1;
    return true;
}

bool glob_matches(const char *pattern, const char *text) {
    const char *star = NULL, *from = NULL; /* behind the last star, and the text that it left */
    while (*text || *pattern) {
        if (*pattern == '*') {
            star = ++pattern;
            from = text;
        } else if (!*pattern || !take_one(&pattern, &text)) {
            if (!star || !*from)
                return false;
            pattern = star;
            text = ++from;
        }
    }
    return true;
}
