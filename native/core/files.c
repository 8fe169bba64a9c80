/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "files.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Kept free when a file is opened, for the counters of the open ones. */
#define RESERVE 65536

bool sw_files_open(struct sw_files *files, size_t memory, size_t limit, uint32_t dataset_limit) {
    memset(files, 0, sizeof *files);
    files->limit = limit;
    files->dataset_limit = dataset_limit;
    return sw_arena_open(&files->arena, memory);
}

void sw_files_close(struct sw_files *files) {
    sw_arena_close(&files->arena);
    memset(files, 0, sizeof *files);
}

static void free_file(struct sw_files *files, struct sw_file *file) {
    struct sw_arena *arena = &files->arena;
    for (int op = 0; op < SW_OPERATIONS; op++)
        sw_arena_give(arena, file->calls[op], sizeof *file->calls[op]);
    for (int i = 0; i < 2; i++) {
        sw_arena_give(arena, file->posix[i], sizeof *file->posix[i]);
        sw_arena_give(arena, file->patterns[i], sizeof *file->patterns[i]);
    }
    sw_hdf5_free(arena, file->hdf5);
    sw_arena_give(arena, file->results, file->result_count * sizeof *file->results);
    sw_arena_give(arena, (void *)file->path, strlen(file->path) + 1);
    sw_arena_give(arena, file, sizeof *file);
}

static struct sw_file *new_file(struct sw_files *files, const char *path, uint32_t hash) {
    size_t length = strlen(path) + 1;
    struct sw_file *file = sw_arena_take(&files->arena, sizeof *file);
    char *copy = sw_arena_take(&files->arena, length);
    if (!file || !copy) {
        sw_arena_give(&files->arena, file, sizeof *file);
        sw_arena_give(&files->arena, copy, length);
        return NULL;
    }
    file->path = memcpy(copy, path, length);
    file->hash = hash;
    file->facts.size = -1;
    file->facts.span = file->facts.write_span = file->facts.read_span = SW_EMPTY_SPAN;
    return file;
}

static void unlink_file(struct sw_files *files, struct sw_file *file) {
    struct sw_file **link = &files->buckets[file->hash % SW_FILE_BUCKETS];
    while (*link != file)
        link = &(*link)->same_hash;
    *link = file->same_hash;
    *(file->older ? &file->older->newer : &files->oldest) = file->newer;
    *(file->newer ? &file->newer->older : &files->newest) = file->older;
    files->count--;
}

static void link_file(struct sw_files *files, struct sw_file *file) {
    struct sw_file **bucket = &files->buckets[file->hash % SW_FILE_BUCKETS];
    file->same_hash = *bucket;
    *bucket = file;
    file->older = files->newest;
    *(files->newest ? &files->newest->newer : &files->oldest) = file;
    files->newest = file;
    files->count++;
}

/* Sums the oldest closed record into the summed one. False if every record is open, or the summed
 * one is missing. */
static bool evict_oldest(struct sw_files *files) {
    struct sw_file *file = files->oldest;
    while (file && (file->handles || file == files->other))
        file = file->newer;
    if (!file || !files->other)
        return false;
    if (files->evict)
        files->evict(file);
    sw_lock_take(&files->other->lock);
    sw_file_merge(files, files->other, file, SW_SAME_RANK);
    sw_lock_release(&files->other->lock);
    unlink_file(files, file);
    free_file(files, file);
    return true;
}

static struct sw_file *find(const struct sw_files *files, const char *path, uint32_t hash) {
    struct sw_file *file = files->buckets[hash % SW_FILE_BUCKETS];
    while (file && (file->hash != hash || strcmp(file->path, path) != 0))
        file = file->same_hash;
    return file;
}

/* A record's counters, made on first use; NULL if memory is out. */
static void *made(struct sw_files *files, void *counters, size_t size) {
    return counters ? counters : sw_arena_take(&files->arena, size);
}

static struct sw_calls *calls_of(struct sw_files *files, struct sw_file *file, enum sw_op op) {
    return file->calls[op] = made(files, file->calls[op], sizeof *file->calls[op]);
}

static struct sw_posix *posix_of(struct sw_files *files, struct sw_file *file, bool write) {
    return file->posix[write] = made(files, file->posix[write], sizeof *file->posix[write]);
}

static struct sw_pattern *pattern_of(struct sw_files *files, struct sw_file *file, bool write) {
    return file->patterns[write] = made(files, file->patterns[write], sizeof *file->patterns[write]);
}

struct sw_hdf5 *sw_file_hdf5(struct sw_files *files, struct sw_file *file) {
    if (!file->hdf5)
        file->hdf5 = sw_hdf5_new(&files->arena);
    return file->hdf5;
}

/* The summed record has all its counters from the start, so that it can take what finds no memory elsewhere.
 */
static bool make_other(struct sw_files *files) {
    struct sw_file *other = new_file(files, SW_OTHER_FILES, sw_hash(SW_OTHER_FILES));
    bool whole = other != NULL;
    for (int op = 0; whole && op < SW_OPERATIONS; op++)
        whole = calls_of(files, other, (enum sw_op)op) != NULL;
    for (int i = 0; whole && i < 2; i++)
        whole = posix_of(files, other, i) && pattern_of(files, other, i);
    if (!whole) {
        if (other)
            free_file(files, other);
        return false;
    }
    link_file(files, other);
    files->count--;
    files->other = other;
    return true;
}

static struct sw_file *get_locked(struct sw_files *files, const char *path) {
    uint32_t hash = sw_hash(path);
    struct sw_file *file = find(files, path, hash);
    if (file)
        return file;
    if (!files->other && !make_other(files))
        return NULL;
    if (strcmp(path, SW_OTHER_FILES) == 0)
        return files->other;
    while (sw_arena_left(&files->arena) < RESERVE && evict_oldest(files))
        ;
    if (files->count >= files->limit)
        evict_oldest(files);
    if (files->count < files->limit)
        while (!(file = new_file(files, path, hash)) && evict_oldest(files))
            ;
    if (!file)
        return files->other;
    link_file(files, file);
    return file;
}

struct sw_file *sw_files_get(struct sw_files *files, const char *path) {
    sw_lock_take(&files->lock);
    struct sw_file *file = get_locked(files, path);
    if (file)
        atomic_fetch_add(&file->handles, 1);
    sw_lock_release(&files->lock);
    return file;
}

void sw_files_put(struct sw_file *file) {
    atomic_fetch_sub(&file->handles, 1);
}

void sw_file_count(struct sw_files *files, struct sw_file *file, enum sw_op op, uint64_t bytes,
                   int64_t time) {
    sw_lock_take(&file->lock);
    struct sw_calls *calls = calls_of(files, file, op);
    if (calls)
        sw_calls_add(calls, bytes, time);
    sw_lock_release(&file->lock);
    if (!calls && file != files->other)
        sw_file_count(files, files->other, op, bytes, time);
}

static bool add_beneath(struct sw_files *files, struct sw_file *file, const struct sw_beneath_call *calls,
                        unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        struct sw_posix *posix = posix_of(files, file, calls[i].write);
        if (!posix)
            return false;
        sw_posix_add(posix, &calls[i]);
    }
    return true;
}

void sw_file_count_event(struct sw_files *files, struct sw_file *file, const struct sw_event *event,
                         const struct sw_beneath_call *beneath, unsigned count) {
    bool write = sw_operations[event->op].kind == SW_WRITE;
    sw_lock_take(&file->lock);
    struct sw_calls *calls = calls_of(files, file, event->op);
    struct sw_pattern *pattern = event->moved ? pattern_of(files, file, write) : NULL;
    if (calls) {
        sw_calls_add(calls, event->bytes, event->ended - event->began);
        calls->messages += event->messages;
    }
    if (pattern) {
        sw_pattern_add(pattern, event->bytes, event->shape, event->place);
        sw_view_count(&file->facts.view, event->filetype_size, event->piece, event->bytes);
    }
    bool added = add_beneath(files, file, beneath, count);
    sw_lock_release(&file->lock);
    /* The summed record has all its counters; what it takes over is only what found no memory here. */
    if (!calls && file != files->other)
        sw_file_count(files, files->other, event->op, event->bytes, event->ended - event->began);
    if (!added && file != files->other)
        sw_file_count_posix(files, files->other, beneath, count);
}

void sw_file_count_posix(struct sw_files *files, struct sw_file *file, const struct sw_beneath_call *calls,
                         unsigned count) {
    sw_lock_take(&file->lock);
    bool added = add_beneath(files, file, calls, count);
    sw_lock_release(&file->lock);
    if (!added && file != files->other)
        sw_file_count_posix(files, files->other, calls, count);
}

void sw_file_count_hdf5(struct sw_files *files, struct sw_file *file, enum sw_h5_op op, int64_t time) {
    sw_lock_take(&file->lock);
    struct sw_hdf5 *hdf5 = sw_file_hdf5(files, file);
    if (hdf5)
        sw_hdf5_count(hdf5, op, time);
    sw_lock_release(&file->lock);
}

bool sw_file_is_used(const struct sw_file *file) {
    for (int op = 0; op < SW_OPERATIONS; op++)
        if (file->calls[op] && file->calls[op]->count)
            return true;
    return file->facts.opens > 0 || file->hdf5;
}

struct sw_result *sw_file_results(struct sw_files *files, struct sw_file *file, size_t count) {
    sw_arena_give(&files->arena, file->results, file->result_count * sizeof *file->results);
    file->results = count ? sw_arena_take(&files->arena, count * sizeof *file->results) : NULL;
    file->result_count = file->results ? (uint32_t)count : 0;
    return file->results;
}

static void merge_facts(struct sw_facts *into, const struct sw_facts *from, enum sw_distance distance,
                        bool summed) {
    into->opens += from->opens;
    if (from->ranks > into->ranks)
        into->ranks = from->ranks;
    if (distance == SW_OTHER_NODE)
        into->nodes += from->nodes;
    else if (from->nodes > into->nodes)
        into->nodes = from->nodes;
    sw_span_include(&into->span, from->span);
    sw_span_include(&into->write_span, from->write_span);
    sw_span_include(&into->read_span, from->read_span);
    if (summed)
        return;
    if (from->size > into->size)
        into->size = from->size;
    sw_view_merge(&into->view, &from->view);
    if (!into->layout.place)
        into->layout = from->layout;
    uint32_t decisions = into->choice.count + from->choice.count;
    if (!into->choice.count)
        into->choice = from->choice;
    into->choice.count = decisions;
}

/* Copies results into files' own memory. */
static void copy_results(struct sw_files *files, struct sw_file *into, const struct sw_file *from) {
    struct sw_result *results = sw_file_results(files, into, from->result_count);
    for (uint32_t i = 0; i < into->result_count; i++) {
        const struct sw_result *result = &from->results[i];
        results[i] = (struct sw_result){.carrier = result->carrier, .outcome = result->outcome};
#define X(text) results[i].text = sw_arena_intern(&files->arena, result->text);
        SW_RESULT_TEXTS(X)
#undef X
    }
}

void sw_file_merge(struct sw_files *files, struct sw_file *into, const struct sw_file *from,
                   enum sw_distance distance) {
    bool summed = into == files->other, same_rank = distance == SW_SAME_RANK;
    merge_facts(&into->facts, &from->facts, distance, summed);
    for (int op = 0; op < SW_OPERATIONS; op++)
        if (from->calls[op] && calls_of(files, into, (enum sw_op)op))
            (same_rank ? sw_calls_merge_same_rank : sw_calls_merge)(into->calls[op], from->calls[op]);
    for (int i = 0; i < 2; i++)
        if (from->posix[i] && posix_of(files, into, i))
            (same_rank ? sw_posix_merge_same_rank : sw_posix_merge)(into->posix[i], from->posix[i]);
    for (int i = 0; i < 2; i++)
        if (from->patterns[i] && pattern_of(files, into, i))
            sw_pattern_merge(into->patterns[i], from->patterns[i]);
    if (from->hdf5 && sw_file_hdf5(files, into))
        sw_hdf5_merge(&files->arena, into->hdf5, from->hdf5, distance, summed, files->dataset_limit);
    if (summed)
        return;
#define X(text)                                                                                              \
    if (!into->text)                                                                                         \
        into->text = sw_arena_intern(&files->arena, from->text);
    SW_FILE_TEXTS(X)
#undef X
    if (!into->results && from->result_count)
        copy_results(files, into, from);
}

void sw_files_include(struct sw_files *files, struct sw_files *from, enum sw_distance distance) {
    sw_lock_take(&from->lock);
    for (struct sw_file *file = from->oldest; file; file = file->newer) {
        struct sw_file *into = sw_files_get(files, file->path);
        if (!into)
            break;
        sw_lock_take(&file->lock);
        sw_file_merge(files, into, file, distance);
        sw_lock_release(&file->lock);
        sw_files_put(into);
    }
    sw_lock_release(&from->lock);
}

/* ---- names of files ---- */

const char *sw_path_without_prefix(const char *name) {
    size_t length = 0;
    while (isalnum((unsigned char)name[length]) || name[length] == '_')
        length++;
    return length >= 2 && name[length] == ':' ? name + length + 1 : name;
}

bool sw_path_absolute(const char *name, char *path, size_t size) {
    name = sw_path_without_prefix(name);
    size_t used = 0;
    if (*name != '/') {
        const char *folder = size < 2 || !path ? NULL : getcwd(path, size - 1);
        if (!folder)
            return false;
        used = strlen(folder);
        if (used > 1)
            path[used++] = '/';
        while (strncmp(name, "./", 2) == 0)
            name += 2;
    }
    int length = snprintf(path + used, size - used, "%s", name);
    return length > 0 && (size_t)length < size - used;
}

/* ---- words ---- */

bool sw_words_next(const char **words, struct sw_words *next) {
    if (!*words || !**words)
        return false;
    for (int turn = 0; turn < 2; turn++) {
        size_t length = strcspn(*words, "\n");
        snprintf(turn ? next->value : next->key, SW_MAX_VALUE + 1, "%.*s", (int)length, *words);
        *words += length + ((*words)[length] == '\n');
    }
    return true;
}

bool sw_words_get(const char *words, const char *key, char value[SW_MAX_VALUE + 1]) {
    struct sw_words one;
    while (sw_words_next(&words, &one))
        if (strcmp(one.key, key) == 0) {
            memcpy(value, one.value, sizeof one.value);
            return true;
        }
    return false;
}
