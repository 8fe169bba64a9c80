/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire.h"

#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* A whole plan, and what the runtime decides on besides. */
#define MOST_RESULTS (SW_MAX_SETTINGS + SW_MAX_DECIDED)

static int64_t max_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static void merge_job(struct sw_job *into, const struct sw_job *from, enum sw_distance distance) {
    into->ranks_reported += from->ranks_reported;
    if (distance == SW_OTHER_NODE)
        into->nodes += from->nodes;
    into->elapsed = max_of(into->elapsed, from->elapsed);
    into->io_time = max_of(into->io_time, from->io_time);
    into->read_time = max_of(into->read_time, from->read_time);
    into->write_time = max_of(into->write_time, from->write_time);
}

void sw_job_times(struct sw_job *job, struct sw_files *files) {
    int64_t times[] = {[SW_META] = 0, [SW_READ] = 0, [SW_WRITE] = 0};
    sw_lock_take(&files->lock);
    for (struct sw_file *file = files->oldest; file; file = file->newer) {
        sw_lock_take(&file->lock);
        for (int op = 0; op < SW_OPERATIONS; op++)
            times[sw_operations[op].kind] += file->calls[op] ? file->calls[op]->time_sum : 0;
        sw_lock_release(&file->lock);
    }
    sw_lock_release(&files->lock);
    job->read_time = times[SW_READ];
    job->write_time = times[SW_WRITE];
    job->io_time = times[SW_META] + times[SW_READ] + times[SW_WRITE];
}

void sw_bytes_add(struct sw_bytes *bytes, const void *data, size_t size) {
    if (bytes->failed)
        return;
    if (size > bytes->room - bytes->size) {
        size_t room = bytes->room ? bytes->room : 4096;
        while (size > room - bytes->size)
            room *= 2;
        char *grown = realloc(bytes->data, room);
        if (!grown) {
            bytes->failed = true;
            return;
        }
        bytes->data = grown;
        bytes->room = room;
    }
    if (size)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

static void add_number(struct sw_bytes *bytes, uint32_t number) {
    sw_bytes_add(bytes, &number, sizeof number);
}

/* A string as its length plus one, then its bytes with the NUL; 0 stands for NULL. */
static void add_text(struct sw_bytes *bytes, const char *text) {
    uint32_t size = text ? (uint32_t)strlen(text) + 1 : 0;
    add_number(bytes, size);
    sw_bytes_add(bytes, text, size);
}

static void pack_optional(struct sw_bytes *bytes, const void *data, size_t size) {
    add_number(bytes, data != NULL);
    if (data)
        sw_bytes_add(bytes, data, size);
}

static void pack_hdf5(struct sw_bytes *bytes, const struct sw_hdf5 *hdf5) {
    uint32_t datasets = 0;
    add_number(bytes, hdf5 != NULL);
    if (!hdf5)
        return;
    sw_bytes_add(bytes, hdf5->calls, sizeof hdf5->calls);
    add_text(bytes, hdf5->driver);
    add_text(bytes, hdf5->library);
    add_text(bytes, hdf5->properties);
    for (const struct sw_dataset *dataset = hdf5->oldest; dataset; dataset = dataset->newer)
        datasets++;
    add_number(bytes, datasets);
    for (const struct sw_dataset *dataset = hdf5->oldest; dataset; dataset = dataset->newer) {
        add_text(bytes, dataset->name);
        sw_bytes_add(bytes, &dataset->facts, sizeof dataset->facts);
        for (int way = 0; way < 2; way++)
            pack_optional(bytes, dataset->transfers[way], sizeof *dataset->transfers[way]);
    }
}

static void pack_file(struct sw_bytes *bytes, const struct sw_file *file) {
    uint32_t used = 0;
    for (int op = 0; op < SW_OPERATIONS; op++)
        used += file->calls[op] && file->calls[op]->count;
    add_text(bytes, file->path);
    sw_bytes_add(bytes, &file->facts, sizeof file->facts);
    add_number(bytes, used);
    for (uint32_t op = 0; op < SW_OPERATIONS; op++)
        if (file->calls[op] && file->calls[op]->count) {
            add_number(bytes, op);
            sw_bytes_add(bytes, file->calls[op], sizeof *file->calls[op]);
        }
    for (int i = 0; i < 2; i++) {
        pack_optional(bytes, file->posix[i], sizeof *file->posix[i]);
        pack_optional(bytes, file->patterns[i], sizeof *file->patterns[i]);
    }
#define X(text) add_text(bytes, file->text);
    SW_FILE_TEXTS(X)
#undef X
    add_number(bytes, file->result_count);
    for (uint32_t i = 0; i < file->result_count; i++) {
        const struct sw_result *result = &file->results[i];
        add_number(bytes, result->carrier);
        add_number(bytes, result->outcome);
#define X(text) add_text(bytes, result->text);
        SW_RESULT_TEXTS(X)
#undef X
    }
    pack_hdf5(bytes, file->hdf5);
}

void sw_wire_pack(struct sw_bytes *bytes, const struct sw_job *job, const struct sw_files *files) {
    sw_bytes_add(bytes, job, sizeof *job);
    for (const struct sw_file *file = files->oldest; file; file = file->newer)
        if (file != files->other || sw_file_is_used(file))
            pack_file(bytes, file);
}

struct reader {
    const char *data;
    size_t left;
    bool bad;
};

static const void *take(struct reader *reader, size_t size) {
    if (reader->bad || size > reader->left) {
        reader->bad = true;
        return NULL;
    }
    const char *data = reader->data;
    reader->data += size;
    reader->left -= size;
    return data;
}

static void copy(struct reader *reader, void *to, size_t size) {
    const void *from = take(reader, size);
    if (from)
        memcpy(to, from, size);
}

static uint32_t number(struct reader *reader, uint32_t limit) {
    uint32_t value = 0;
    copy(reader, &value, sizeof value);
    reader->bad |= value >= limit;
    return reader->bad ? 0 : value;
}

static const char *text(struct reader *reader) {
    uint32_t size = number(reader, UINT32_MAX);
    const char *found = size ? take(reader, size) : NULL;
    if (found && found[size - 1] != '\0')
        reader->bad = true;
    return reader->bad ? NULL : found;
}

/* The numbers are copied out, since packed ones are not aligned. */
static struct sw_file *read_file(struct reader *reader, struct sw_calls calls[], struct sw_posix posix[],
                                 struct sw_pattern patterns[]) {
    static struct sw_result results[MOST_RESULTS]; /* only one thread, at finalize, ever reads */
    static struct sw_file file;
    file = (struct sw_file){.path = text(reader)};
    copy(reader, &file.facts, sizeof file.facts);
    for (uint32_t left = number(reader, SW_OPERATIONS + 1); left; left--) {
        uint32_t op = number(reader, SW_OPERATIONS);
        copy(reader, &calls[op], sizeof calls[op]);
        file.calls[op] = &calls[op];
    }
    for (int i = 0; i < 2; i++) {
        if (number(reader, 2)) {
            copy(reader, &posix[i], sizeof posix[i]);
            file.posix[i] = &posix[i];
        }
        if (number(reader, 2)) {
            copy(reader, &patterns[i], sizeof patterns[i]);
            file.patterns[i] = &patterns[i];
        }
    }
#define X(member) file.member = text(reader);
    SW_FILE_TEXTS(X)
#undef X
    file.result_count = number(reader, MOST_RESULTS + 1);
    file.results = results;
    for (uint32_t i = 0; i < file.result_count; i++) {
        struct sw_result *result = &results[i];
        result->carrier = (enum sw_carrier)number(reader, SW_CARRIERS);
        result->outcome = (enum sw_outcome)number(reader, SW_OUTCOMES);
#define X(member) result->member = text(reader);
        SW_RESULT_TEXTS(X)
#undef X
    }
    return reader->bad || !file.path ? NULL : &file;
}

/* What HDF5 did to the file, merged dataset by dataset as it is read. False if the bytes are not whole. */
static bool merge_hdf5(struct reader *reader, struct sw_files *files, struct sw_file *into,
                       enum sw_distance distance) {
    if (!number(reader, 2))
        return !reader->bad;
    struct sw_hdf5 from = {.count = 0};
    struct sw_transfers transfers[2];
    copy(reader, from.calls, sizeof from.calls);
    from.driver = text(reader);
    from.library = text(reader);
    from.properties = text(reader);
    for (uint32_t left = number(reader, UINT32_MAX); !reader->bad; left--) {
        struct sw_dataset dataset = {.newer = NULL};
        from.oldest = left ? &dataset : NULL;
        if (left) {
            dataset.name = text(reader);
            copy(reader, &dataset.facts, sizeof dataset.facts);
            for (int way = 0; way < 2; way++)
                if (number(reader, 2)) {
                    copy(reader, &transfers[way], sizeof transfers[way]);
                    dataset.transfers[way] = &transfers[way];
                }
            reader->bad |= !dataset.name;
        }
        if (!reader->bad && into && sw_file_hdf5(files, into))
            sw_hdf5_merge(&files->arena, into->hdf5, &from, distance, into == files->other,
                          files->dataset_limit);
        if (left <= 1)
            break;
        memset(from.calls, 0, sizeof from.calls); /* only once */
    }
    return !reader->bad;
}

bool sw_wire_merge(const char *data, size_t size, struct sw_job *job, struct sw_files *files,
                   enum sw_distance distance) {
    struct reader reader = {data, size, false};
    struct sw_job other = {0};
    copy(&reader, &other, sizeof other);
    if (reader.bad)
        return false;
    merge_job(job, &other, distance);
    while (reader.left) {
        struct sw_calls calls[SW_OPERATIONS];
        struct sw_posix posix[2];
        struct sw_pattern patterns[2];
        const struct sw_file *from = read_file(&reader, calls, posix, patterns);
        if (!from)
            return false;
        struct sw_file *into = sw_files_get(files, from->path);
        if (into)
            sw_file_merge(files, into, from, distance);
        bool whole = merge_hdf5(&reader, files, into, distance);
        if (into)
            sw_files_put(into);
        if (!whole)
            return false;
    }
    return true;
}
