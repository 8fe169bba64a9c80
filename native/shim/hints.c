/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hints.h"
#include "variables.h"

static const char *keep(const char *text) {
    return sw_arena_intern(&sw_runtime.files.arena, text);
}

static struct sw_result *find(struct sw_matches *matches, enum sw_carrier carrier, const char *key) {
    for (size_t i = 0; i < matches->count; i++)
        if (matches->results[i].carrier == carrier && strcmp(matches->results[i].key, key) == 0)
            return &matches->results[i];
    return NULL;
}

void sw_matches_open(struct sw_matches *matches, const char *path) {
    const struct sw_plan *plan = &sw_runtime.plan;
    *matches = (struct sw_matches){.count = 0};
    if (plan->count || sw_runtime.mode > SW_RUN_APPLY)
        matches->results = calloc(plan->count + SW_MAX_DECIDED, sizeof *matches->results);
    if (!matches->results)
        return;
    matches->room = plan->count + SW_MAX_DECIDED;
    for (size_t i = 0; i < plan->count; i++) {
        const struct sw_setting *setting = &plan->settings[i];
        if (!sw_setting_matches(setting, path))
            continue;
        struct sw_result *result = find(matches, setting->carrier, setting->key);
        if (!result)
            result = &matches->results[matches->count++];
        *result =
            (struct sw_result){.carrier = setting->carrier, .key = setting->key, .requested = setting->value};
        if (sw_runtime.mode == SW_RUN_OBSERVE)
            result->note = "the runtime only observes";
    }
}

void sw_matches_close(struct sw_matches *matches) {
    free(matches->results);
    *matches = (struct sw_matches){.count = 0};
}

const char *sw_matches_get(const struct sw_matches *matches, enum sw_carrier carrier, const char *key) {
    for (size_t i = 0; i < matches->count; i++)
        if (matches->results[i].carrier == carrier && strcmp(matches->results[i].key, key) == 0)
            return matches->results[i].requested;
    return NULL;
}

void sw_matches_decide(struct sw_matches *matches, const struct sw_decided_set *set, const char *note) {
    for (uint32_t i = 0; i < set->count; i++) {
        const struct sw_decided *own = &set->settings[i];
        const char *key = keep(own->key), *value = keep(own->value);
        if (key && value && matches->count < matches->room && !find(matches, own->carrier, key))
            matches->results[matches->count++] =
                (struct sw_result){.carrier = own->carrier, .key = key, .requested = value, .note = note};
    }
}

/* May it be part of a candidate? What users state of datasets stays with the plan. */
static bool can_be_tried(const struct sw_result *result, bool hdf5) {
    static const char *const statements[] = {"accuracy", "collective_writes", "datasets"};
    bool states = false;
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        states |= strcmp(result->key, statements[i]) == 0;
    return result->carrier == SW_HINT || result->carrier == SW_LAYOUT ||
           (hdf5 && result->carrier == SW_HDF5 && !states);
}

void sw_matches_take(struct sw_matches *matches, bool hdf5, struct sw_decided_set *set) {
    size_t left = 0;
    for (size_t i = 0; i < matches->count; i++) {
        const struct sw_result *result = &matches->results[i];
        if (!can_be_tried(result, hdf5) ||
            !sw_settings_put(set, result->carrier, result->key, result->requested))
            matches->results[left++] = *result;
    }
    matches->count = left;
}

uint32_t sw_matches_missed(struct sw_matches *matches, const struct sw_decided_set *set) {
    uint32_t missed = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        const struct sw_decided *own = &set->settings[i];
        if (own->carrier == SW_HDF5)
            continue;
        const struct sw_result *result = find(matches, own->carrier, own->key);
        missed += !result || result->outcome != SW_APPLIED || strcmp(result->requested, own->value) != 0 ||
                  (result->echoed && strcasecmp(result->echoed, own->value) != 0);
    }
    return missed;
}

uint32_t sw_hdf5_missed(struct sw_file *record, const struct sw_decided_set *set) {
    uint32_t missed = 0;
    sw_lock_take(&record->lock);
    for (uint32_t i = 0; i < set->count; i++) {
        const struct sw_decided *own = &set->settings[i];
        bool acted = own->carrier != SW_HDF5;
        for (uint32_t k = 0; k < record->result_count && !acted; k++) {
            const struct sw_result *result = &record->results[k];
            acted = result->carrier == SW_HDF5 && result->outcome == SW_APPLIED &&
                    strcmp(result->key, own->key) == 0;
        }
        missed += !acted;
    }
    sw_lock_release(&record->lock);
    return missed;
}

bool sw_info_get(MPI_Info info, const char *key, char value[MPI_MAX_INFO_VAL + 1]) {
    int found = 0;
    if (info == MPI_INFO_NULL || strlen(key) >= MPI_MAX_INFO_KEY ||
        sw_pmpi.Info_get(info, key, MPI_MAX_INFO_VAL, value, &found) != MPI_SUCCESS)
        return false;
    return found;
}

bool sw_opened_by_ompio(const char *path) {
#ifdef OPEN_MPI
    char io[SW_MAX_VALUE + 1] = "";
    bool listed;
    sw_variable_read("io", &listed, io, sizeof io);
    bool others = *io == '^'; /* all components but those named */
    bool ompio = !*io || (strstr(io, "ompio") != NULL) != others;
    bool romio = !*io || (strstr(io, "romio") != NULL) != others;
    const bool prefers_romio = OMPI_MAJOR_VERSION * 100 + OMPI_MINOR_VERSION < 401;
    return ompio && !(romio && prefers_romio && sw_layout_place(path) == &sw_lustre);
#else
    (void)path;
    return false;
#endif
}

/* OMPIO takes it for its number of aggregators. With several of them Open MPI 4.1 writes wrong bytes. */
static bool means_ompio_aggregators(const struct sw_result *hint, const char *path) {
    return strcmp(hint->key, "cb_nodes") == 0 && strcmp(hint->requested, "1") != 0 &&
           sw_opened_by_ompio(path);
}

static void merge_hint(struct sw_result *hint, const char *path, MPI_Info application, MPI_Info tuned) {
    char value[MPI_MAX_INFO_VAL + 1];
    if (sw_info_get(application, hint->key, value)) {
        hint->application = keep(value);
        if (!sw_runtime.plan.override && strcmp(value, hint->requested) != 0) {
            hint->given = hint->application;
            hint->outcome = SW_APPLICATION_WINS;
            hint->note = "the application sets it, and the plan does not override";
            return;
        }
    }
    if (means_ompio_aggregators(hint, path)) {
        hint->given = hint->application;
        hint->outcome = SW_NOT_APPLICABLE;
        hint->note = "it is meant for ROMIO, and OMPIO can write wrong bytes with several aggregators";
        return;
    }
    /* Checked here: MPI would report it through the error handler of MPI_COMM_WORLD, which aborts. */
    if (strlen(hint->key) >= MPI_MAX_INFO_KEY || strlen(hint->requested) >= MPI_MAX_INFO_VAL ||
        sw_pmpi.Info_set(tuned, hint->key, hint->requested) != MPI_SUCCESS) {
        hint->given = hint->application;
        hint->outcome = SW_REFUSED;
        hint->note = "the key or the value is longer than this MPI takes";
        return;
    }
    hint->given = hint->requested;
    hint->outcome = SW_APPLIED;
}

bool sw_hints_merge(struct sw_matches *matches, const char *path, MPI_Info application, MPI_Info *tuned) {
    bool any = false, changed = false;
    for (size_t i = 0; i < matches->count; i++)
        any |= matches->results[i].carrier == SW_HINT;
    if (!any)
        return false;
    int code =
        application == MPI_INFO_NULL ? sw_pmpi.Info_create(tuned) : sw_pmpi.Info_dup(application, tuned);
    if (code != MPI_SUCCESS) {
        sw_hints_withdrawn(matches, "MPI made no new info");
        return false;
    }
    for (size_t i = 0; i < matches->count; i++)
        if (matches->results[i].carrier == SW_HINT) {
            merge_hint(&matches->results[i], path, application, *tuned);
            changed |= matches->results[i].outcome == SW_APPLIED;
        }
    if (!changed)
        sw_pmpi.Info_free(tuned);
    return changed;
}

#ifdef OPEN_MPI
/* May it change once the file is open? Aggregators are chosen at the open, and stay. */
static bool acts_later(const char *key) {
    static const char *const keys[] = {"romio_cb_read",  "romio_cb_write",     "romio_ds_read",
                                       "romio_ds_write", "ind_rd_buffer_size", "ind_wr_buffer_size",
                                       "cb_buffer_size"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

/* Open MPI 5 opens a file by ROMIO without the hints that it is given. */
void sw_hints_repeat(const struct sw_matches *matches, MPI_File file) {
    char value[MPI_MAX_INFO_VAL + 1];
    MPI_Info used, again;
    if (sw_pmpi.File_get_info(file, &used) != MPI_SUCCESS)
        return;
    bool romio = sw_info_get(used, "romio_filesystem_type", value);
    sw_pmpi.Info_free(&used);
    if (!romio || sw_pmpi.Info_create(&again) != MPI_SUCCESS)
        return;
    for (size_t i = 0; i < matches->count; i++) {
        const struct sw_result *hint = &matches->results[i];
        if (hint->carrier == SW_HINT && hint->outcome == SW_APPLIED && acts_later(hint->key))
            sw_pmpi.Info_set(again, hint->key, hint->requested);
    }
    sw_pmpi.File_set_info(file, again);
    sw_pmpi.Info_free(&again);
}
#else
void sw_hints_repeat(const struct sw_matches *matches, MPI_File file) {
    (void)matches;
    (void)file;
}
#endif

void sw_hints_withdrawn(struct sw_matches *matches, const char *reason) {
    for (size_t i = 0; i < matches->count; i++) {
        struct sw_result *hint = &matches->results[i];
        if (hint->carrier == SW_HINT && hint->outcome != SW_APPLICATION_WINS &&
            hint->outcome != SW_NOT_APPLICABLE) {
            hint->outcome = SW_REFUSED;
            hint->given = hint->application;
            hint->note = reason;
        }
    }
}

/* Asks ROMIO for the layout instead. */
static void ask_by_hints(const struct sw_result *const *asked, size_t count, struct sw_decided_set *hints) {
    for (size_t i = 0; i < count; i++) {
        const struct sw_layout_key *key = sw_layout_key(asked[i]->key);
        for (int k = 0; key && k < 2 && key->hints[k]; k++)
            sw_settings_put(hints, SW_HINT, key->hints[k], asked[i]->requested);
    }
}

static void apply_layout(struct sw_matches *matches, const struct sw_file_system *system, const char *path,
                         int amode, struct sw_decided_set *hints) {
    struct sw_layout_setting settings[16];
    struct sw_result *asked[16];
    size_t count = 0, skip = strlen(system->name);
    for (size_t i = 0; i < matches->count; i++) {
        struct sw_result *result = &matches->results[i];
        if (result->carrier != SW_LAYOUT || strncmp(result->key, system->name, skip) != 0 ||
            result->key[skip] != ' ')
            continue;
        if (count == sizeof asked / sizeof *asked) {
            result->outcome = SW_REFUSED;
            result->note = "more layout keys than any file system has";
            continue;
        }
        settings[count] = (struct sw_layout_setting){result->key + skip + 1, result->requested};
        asked[count++] = result;
    }
    if (!count)
        return;
    char note[300] = "";
    enum sw_outcome outcome = SW_NOT_APPLICABLE;
    if (!(amode & MPI_MODE_CREATE)) {
        snprintf(note, sizeof note, "the file is not opened to be created");
    } else if (amode & MPI_MODE_EXCL) {
        snprintf(note, sizeof note, "the application creates the file exclusively");
    } else {
        enum sw_layout_outcome done =
            sw_layout_apply(system, path, 0666, sw_runtime.plan.allow, settings, count, note, sizeof note);
        outcome = done == SW_LAID_OUT || done == SW_LAYOUT_BY_HINTS ? SW_APPLIED
                  : done == SW_LAYOUT_IMPOSSIBLE                    ? SW_NOT_APPLICABLE
                                                                    : SW_REFUSED;
        if (done == SW_LAYOUT_BY_HINTS) {
            ask_by_hints((const struct sw_result *const *)asked, count, hints);
            snprintf(note, sizeof note,
                     "neither liblustreapi nor the lfs command was found: asked for by hints, "
                     "which only ROMIO's Lustre driver follows");
        }
    }
    for (size_t i = 0; i < count; i++) {
        asked[i]->outcome = outcome;
        asked[i]->given = outcome == SW_APPLIED ? asked[i]->requested : NULL;
        asked[i]->note = *note ? keep(note) : NULL;
    }
}

void sw_layouts_apply(struct sw_matches *matches, const char *path, int amode, struct sw_decided_set *hints) {
    for (int i = 0; i < SW_FILE_SYSTEMS; i++)
        apply_layout(matches, sw_file_systems[i], path, amode, hints);
}

/* A library says which of its variables it has, and what they hold. */
static void ask_library(struct sw_result *result) {
    char held[SW_MAX_VALUE + 1];
    bool listed = false;
    if (!sw_variable_read(result->key, &listed, held, sizeof held))
        return;
    if (*held)
        result->echoed = keep(held);
    if (!listed) {
        result->outcome = SW_NOT_APPLICABLE;
        result->note = strncmp(result->key, "FI_", 3) == 0 ? "libfabric has no variable of this name"
                                                           : "the MPI library has no variable of this name";
    }
}

void sw_launcher_check(struct sw_matches *matches) {
    for (size_t i = 0; i < matches->count; i++) {
        struct sw_result *result = &matches->results[i];
        if (result->carrier == SW_ENV || result->carrier == SW_MCA) {
            char name[SW_MAX_KEY + 10];
            snprintf(name, sizeof name, "%s%s", result->carrier == SW_MCA ? "OMPI_MCA_" : "", result->key);
            const char *value = getenv(name);
            bool arrived = value && strcmp(value, result->requested) == 0;
            result->given = keep(value);
            result->outcome = arrived ? SW_APPLIED : SW_NOT_APPLICABLE;
            result->note = arrived ? NULL : "the environment of the process does not hold it";
            if (arrived)
                ask_library(result);
        } else if (result->carrier == SW_POSIX) {
            result->note = "it acts on the program's own calls of the C library";
        } else if (result->carrier == SW_HDF5 || result->carrier == SW_ARGUMENT ||
                   result->carrier == SW_ADIOS2 || result->carrier == SW_ENTRY) {
            result->note = result->carrier == SW_HDF5 ? "the file was not opened through HDF5"
                                                      : "applied by the launcher";
        }
    }
}

/* Appends a word and a newline; control characters in it become blanks, since newlines separate the words. */
static void add_word(struct sw_bytes *bytes, const char *word) {
    for (; *word; word++) {
        char c = (unsigned char)*word < ' ' ? ' ' : *word;
        sw_bytes_add(bytes, &c, 1);
    }
    sw_bytes_add(bytes, "\n", 1);
}

static void add_words(struct sw_bytes *bytes, const char *key, const char *value) {
    add_word(bytes, key);
    add_word(bytes, value);
}

static const char *interned(struct sw_bytes *bytes) {
    sw_bytes_add(bytes, "", 1);
    const char *text = bytes->failed ? NULL : keep(bytes->data);
    free(bytes->data);
    return text;
}

const char *sw_info_text(MPI_Info used) {
    struct sw_bytes bytes = {0};
    int keys = 0;
    sw_pmpi.Info_get_nkeys(used, &keys);
    for (int i = 0; i < keys; i++) {
        char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
        if (sw_pmpi.Info_get_nthkey(used, i, key) == MPI_SUCCESS && sw_info_get(used, key, value))
            add_words(&bytes, key, value);
    }
    return interned(&bytes);
}

/* The results of several opens of a file: the stronger outcome stays, of equal ones the later. */
static void record_results(struct sw_matches *matches, struct sw_file *record) {
    for (size_t i = 0; i < matches->count; i++)
        for (uint32_t k = 0; k < record->result_count; k++) {
            const struct sw_result *before = &record->results[k];
            if (before->carrier == matches->results[i].carrier &&
                before->outcome > matches->results[i].outcome &&
                strcmp(before->key, matches->results[i].key) == 0)
                matches->results[i] = *before;
        }
    struct sw_result *results = sw_file_results(&sw_runtime.files, record, matches->count);
    if (results)
        memcpy(results, matches->results, matches->count * sizeof *results);
}

/* Why a setting of HDF5 that the runtime does not know did nothing. */
static const char *unknown_property(const char *key) {
    return strcmp(key, "dxpl_mpio") == 0
               ? "never forced: a program whose ranks do not all make the call would hang"
               : "the runtime knows no such setting of HDF5";
}

void sw_matches_add(struct sw_file *record, const struct sw_result *results, size_t count) {
    struct sw_result all[SW_MOST_ADDED];
    size_t used = 0;
    for (uint32_t i = 0; i < record->result_count && used < SW_MOST_ADDED; i++) {
        const struct sw_result *before = &record->results[i];
        if (before->carrier == SW_HDF5)
            for (size_t k = 0; k < count; k++)
                if (strcmp(results[k].key, before->key) == 0)
                    goto replaced;
        all[used] = *before;
        if (before->carrier == SW_HDF5 && before->outcome == SW_NOT_APPLICABLE)
            all[used].note = unknown_property(before->key);
        used++;
    replaced:;
    }
    for (size_t k = 0; k < count && used < SW_MOST_ADDED; k++) {
        const struct sw_result *stronger = results[k].requested ? &results[k] : NULL;
        for (uint32_t i = 0; i < record->result_count; i++) {
            const struct sw_result *before = &record->results[i];
            if (before->carrier == SW_HDF5 && strcmp(before->key, results[k].key) == 0 &&
                (!stronger || before->outcome > stronger->outcome))
                stronger = before;
        }
        if (stronger)
            all[used++] = *stronger;
    }
    struct sw_result *stored = sw_file_results(&sw_runtime.files, record, used);
    if (stored)
        memcpy(stored, all, used * sizeof *stored);
}

const char *sw_hints_record(struct sw_matches *matches, MPI_Info application, MPI_File file,
                            struct sw_file *record) {
    char value[MPI_MAX_INFO_VAL + 1];
    const char *own = application == MPI_INFO_NULL ? NULL : sw_info_text(application);
    MPI_Info used = MPI_INFO_NULL;
    if (sw_pmpi.File_get_info(file, &used) != MPI_SUCCESS)
        used = MPI_INFO_NULL;
    for (size_t i = 0; i < matches->count; i++)
        if (matches->results[i].carrier == SW_HINT && sw_info_get(used, matches->results[i].key, value))
            matches->results[i].echoed = keep(value);
    const char *text = NULL;
    if (used != MPI_INFO_NULL) {
        text = sw_info_text(used);
        sw_pmpi.Info_free(&used);
    }
    sw_lock_take(&record->lock);
    record->application = own;
    if (text)
        record->info = text;
    text = record->info;
    record_results(matches, record);
    sw_lock_release(&record->lock);
    return text;
}

const char *sw_driver_name(const char *info, const char *opener) {
    char name[SW_MAX_VALUE + 1];
    if (sw_words_get(info, "romio_filesystem_type", name))
        return keep(name);
#ifdef OPEN_MPI
    /* OMPIO tells nothing. Before Open MPI 5 ROMIO does not either, but is a plugin of its own; from then on
     * it tells. */
    if (opener)
        return strstr(opener, "romio") ? "romio" : "ompio";
#else
    (void)opener;
#endif
    return NULL;
}

/* ---- after the open ----
 * Hints that the program gives to an open file, by MPI_File_set_info or with a view. MPI libraries take them
 * in place of what they were given at the open, the plan's hints among them. */

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
            !sw_info_get(given, hint->key, value) || strcmp(value, hint->requested) == 0 ||
            means_ompio_aggregators(hint, handle->record->path))
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

/* Whether words hold this key with this value, or any if value is NULL. */
static bool holds(const char *words, const char *key, const char *value) {
    char own[SW_MAX_VALUE + 1];
    return sw_words_get(words, key, own) && (!value || strcmp(value, own) == 0);
}

/* The value of a key in words, interned; NULL: they lack the key. */
static const char *kept_value(const char *words, const char *key) {
    char value[SW_MAX_VALUE + 1];
    return sw_words_get(words, key, value) ? keep(value) : NULL;
}

/* What of the words of an info the program asks for: what a copy of the file's own only repeats, it does not.
 */
static const char *asked_by(const char *words, const char *info) {
    struct sw_bytes bytes = {0};
    struct sw_words one;
    bool copied = true; /* every key of the file's own is there */
    for (const char *at = info; sw_words_next(&at, &one);)
        copied &= holds(words, one.key, NULL);
    for (const char *at = words; sw_words_next(&at, &one);)
        if (!copied || !holds(info, one.key, one.value))
            add_words(&bytes, one.key, one.value);
    return interned(&bytes);
}

/* What it asked for before, and what it asks for now in its place. */
static const char *asked_in_all(const char *before, const char *now) {
    struct sw_bytes bytes = {0};
    struct sw_words one;
    for (const char *at = before; sw_words_next(&at, &one);)
        if (!holds(now, one.key, NULL))
            add_words(&bytes, one.key, one.value);
    if (now)
        sw_bytes_add(&bytes, now, strlen(now));
    return interned(&bytes);
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
    bool follows =
        good && handle->root && given != MPI_INFO_NULL && strcmp(record->path, SW_OTHER_FILES) != 0;
    const char *words = follows ? sw_info_text(given) : NULL;
    /* A library may give the same info with every view. */
    if (words && *words && words != handle->given) {
        handle->given = words;
        sw_lock_take(&record->lock);
        const char *info = record->info, *before = record->application;
        sw_lock_release(&record->lock);
        const char *own = asked_by(words, info), *application = asked_in_all(before, own);
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
