/* SPDX-License-Identifier: BSD-3-Clause
 * Hints that the program gives to an open file, by MPI_File_set_info or with a view. MPI libraries take them
 * in place of what they were given at the open, the plan's hints among them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hints.h"
#include "rank_order.h"

MPI_Info sw_hints_given(const struct sw_handle *handle, MPI_Info given) {
    struct sw_matches matches;
    MPI_Info passed = given;
    /* In the mode online the plan's hints are candidates. */
    bool wins = sw_runtime.plan.override && sw_runtime.hints && sw_runtime.mode != SW_RUN_OBSERVE &&
                sw_runtime.mode != SW_RUN_ONLINE;
    if (given == MPI_INFO_NULL || !wins)
        return given;
    sw_matches_open(&matches, handle->record->path);
    for (size_t i = 0; i < matches.count; i++) {
        const struct sw_result *hint = &matches.results[i];
        char value[MPI_MAX_INFO_VAL + 1];
        if (hint->carrier != SW_HINT || strlen(hint->requested) >= MPI_MAX_INFO_VAL ||
            !sw_info_get(given, hint->key, value) || strcmp(value, hint->requested) == 0)
            continue;
        if (passed == given && sw_pmpi.Info_dup(given, &passed) != MPI_SUCCESS) {
            passed = given;
            break;
        }
        sw_pmpi.Info_set(passed, hint->key, hint->requested);
    }
    sw_matches_close(&matches);
    return passed;
}

/* The value of a key in words ("KEY NEWLINE VALUE NEWLINE ..."), and its length; NULL: they lack the key. */
static const char *value_of(const char *words, const char *key, size_t *length) {
    while (words && *words) {
        size_t size = strcspn(words, "\n");
        const char *own = words + size + (words[size] == '\n');
        *length = strcspn(own, "\n");
        if (strlen(key) == size && memcmp(key, words, size) == 0)
            return own;
        words = own + *length + (own[*length] == '\n');
    }
    return NULL;
}

/* Whether words hold this key with this value, or any if value is NULL. */
static bool holds(const char *words, const char *key, const char *value) {
    size_t length = 0;
    const char *own = value_of(words, key, &length);
    return own && (!value || (strlen(value) == length && memcmp(value, own, length) == 0));
}

/* The value of a key in words, interned; NULL: they lack the key. */
static const char *kept_value(const char *words, const char *key) {
    char value[MPI_MAX_INFO_VAL + 1];
    size_t length = 0;
    const char *own = value_of(words, key, &length);
    if (!own)
        return NULL;
    snprintf(value, sizeof value, "%.*s", (int)length, own);
    return sw_arena_intern(&sw_runtime.files.arena, value);
}

/* Calls use for each key and value of words. */
static void each_word(const char *words, void (*use)(const char *key, const char *value, void *context),
                      void *context) {
    while (words && *words) {
        char word[2][MPI_MAX_INFO_VAL + 1];
        for (int i = 0; i < 2; i++) {
            size_t size = strcspn(words, "\n"), kept = size < MPI_MAX_INFO_VAL ? size : MPI_MAX_INFO_VAL;
            memcpy(word[i], words, kept);
            word[i][kept] = '\0';
            words += size + (words[size] == '\n');
        }
        use(word[0], word[1], context);
    }
}

struct own {
    struct sw_bytes bytes;
    const char *given, *before; /* words of the info, and those that are replaced or repeated by it */
    bool all;                   /* the info holds every word of before */
};

static void check_all(const char *key, const char *value, void *context) {
    struct own *own = context;
    (void)value;
    own->all &= holds(own->given, key, NULL);
}

/* What a copy of the file's own info only repeats, the program did not ask for. */
static void add_changed(const char *key, const char *value, void *context) {
    struct own *own = context;
    if (own->all && holds(own->before, key, value))
        return;
    sw_words_add(&own->bytes, key);
    sw_words_add(&own->bytes, value);
}

static void add_kept(const char *key, const char *value, void *context) {
    struct own *own = context;
    if (holds(own->given, key, NULL))
        return;
    sw_words_add(&own->bytes, key);
    sw_words_add(&own->bytes, value);
}

static const char *interned(struct sw_bytes *bytes) {
    sw_bytes_add(bytes, "", 1);
    const char *text = bytes->failed ? NULL : sw_arena_intern(&sw_runtime.files.arena, bytes->data);
    free(bytes->data);
    *bytes = (struct sw_bytes){0};
    return text;
}

/* What the plan's hints became: own are the program's, passed what MPI was given in place of them, used what
 * the file now says. The record is locked. All are words: MPI may wait for a thread that waits for the lock.
 */
static void settle(struct sw_file *record, const char *own, const char *passed, const char *used) {
    for (uint32_t i = 0; i < record->result_count; i++) {
        struct sw_result *hint = &record->results[i];
        if (hint->carrier != SW_HINT || !holds(own, hint->key, NULL))
            continue;
        hint->application = kept_value(own, hint->key);
        const char *echoed = kept_value(used, hint->key);
        if (echoed)
            hint->echoed = echoed;
        if (holds(passed, hint->key, hint->requested))
            continue;
        hint->given = hint->application;
        hint->outcome = SW_APPLICATION_WINS;
        hint->note = "the application sets it after the open, and the plan does not override";
    }
}

void sw_hints_taken(struct sw_handle *handle, MPI_Info given, MPI_Info passed, bool good) {
    struct sw_file *record = handle->record;
    sw_rank_order_forget(handle);
    bool follows =
        good && handle->root && given != MPI_INFO_NULL && strcmp(record->path, SW_OTHER_FILES) != 0;
    const char *words = follows ? sw_info_text(given) : NULL;
    /* A library may give the same info with every view. */
    if (words && *words && words != handle->given) {
        handle->given = words;
        sw_lock_take(&record->lock);
        const char *info = record->info, *before = record->application;
        sw_lock_release(&record->lock);
        struct own changed = {.given = words, .before = info, .all = true};
        each_word(info, check_all, &changed);
        each_word(words, add_changed, &changed);
        const char *own = interned(&changed.bytes);
        struct own kept = {.given = own};
        each_word(before, add_kept, &kept);
        if (own)
            sw_bytes_add(&kept.bytes, own, strlen(own));
        const char *application = interned(&kept.bytes);
        MPI_Info used = MPI_INFO_NULL;
        if (sw_pmpi.File_get_info(handle->file, &used) != MPI_SUCCESS)
            used = MPI_INFO_NULL;
        const char *text = used == MPI_INFO_NULL ? NULL : sw_info_text(used);
        const char *replaced = passed == given ? words : sw_info_text(passed);
        sw_lock_take(&record->lock);
        if (application)
            record->application = application;
        if (text)
            record->info = text;
        settle(record, own, replaced, text);
        sw_lock_release(&record->lock);
        if (used != MPI_INFO_NULL)
            sw_pmpi.Info_free(&used);
    }
    if (passed != given)
        sw_pmpi.Info_free(&passed);
}
