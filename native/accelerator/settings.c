/* SPDX-License-Identifier: BSD-3-Clause
 * What the library is asked to do beside counting. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "accelerator.h"
#include "glob.h"

static const struct {
    const char *name;
    int64_t least, most;
    const char *words;
} known[SETTINGS] = {
#define SETTING(NAME, ...) {__VA_ARGS__},
#include "settings.def"
#undef SETTING
};
_Static_assert(SETTINGS <= MOST_SETTINGS, "parts have no room for so many settings");

bool any_asked;
int64_t asked[SETTINGS];
static char pattern[PATH_MAX] = "*";

static bool is_word(const char *text, size_t length, const char *word, size_t size) {
    return length == size && memcmp(text, word, size) == 0;
}

/* The number that a text stands for; 0 if it cannot be. */
static int64_t number_of(enum setting which, const char *text, size_t length) {
    int64_t number = 0;
    const char *word = known[which].words;
    for (int64_t at = known[which].least; *word; at++) {
        size_t size = strcspn(word, " ");
        if (is_word(text, length, word, size))
            return at;
        word += size + (word[size] == ' ');
    }
    for (size_t i = 0; i < length; i++) {
        if (*known[which].words || text[i] < '0' || text[i] > '9' || number > INT64_MAX / 10 - 1)
            return 0;
        number = number * 10 + (text[i] - '0');
    }
    return number >= known[which].least && number <= known[which].most ? number : 0;
}

static void read_entry(const char *entry, size_t length) {
    const char *equals = memchr(entry, '=', length);
    size_t name = equals ? (size_t)(equals - entry) : length;
    for (int i = 0; equals && i < SETTINGS; i++) {
        if (!is_word(entry, name, known[i].name, strlen(known[i].name)))
            continue;
        size_t size = length - name - 1,
               kept = size < sizeof asked_settings[i].value ? size : sizeof asked_settings[i].value - 1;
        asked[i] = number_of((enum setting)i, equals + 1, size);
        asked_settings[i].state = asked[i] ? SETTING_GIVEN : SETTING_REFUSED;
        memset(asked_settings[i].value, 0, sizeof asked_settings[i].value);
        memcpy(asked_settings[i].value, equals + 1, kept);
        any_asked = true;
        return;
    }
    misread++;
}

void read_settings(void) {
    const char *given = getenv("STRIPEWISE_POSIX"), *files = getenv("STRIPEWISE_POSIX_FILES");
    for (int i = 0; i < SETTINGS; i++)
        strncpy(asked_settings[i].name, known[i].name, sizeof asked_settings[i].name - 1);
    size_t size = files ? strlen(files) + 1 : 0;
    if (size && size <= sizeof pattern)
        memcpy(pattern, files, size);
    for (; given && *given; given += *given == ',') {
        size_t length = strcspn(given, ",");
        read_entry(given, length);
        given += length;
    }
}

bool is_chosen(const char *path) {
    const char *slash = strrchr(path, '/');
    return any_asked && (strcmp(pattern, "*") == 0 || glob_matches(pattern, path) ||
                         (slash && glob_matches(pattern, slash + 1)));
}

bool is_refused(enum setting which) {
    return asked_settings[which].state == SETTING_REFUSED;
}

void count_setting(struct file_record *record, enum setting which, bool acted) {
    add(acted ? &record->effects[which].acted : &record->effects[which].missed, 1);
}
