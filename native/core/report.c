/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "report.h"
#include "reserved.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "decide.h"
#include "numeric.h"

/* ---- a file's entry ---- */

/* A member of a record under its own name: a count, seconds from nanoseconds, a text. */
#define COUNT(from, name) sw_json_unsigned(json, sw_key.name, (from)->name)
#define TIME(from, name) sw_json_decimal(json, sw_key.name, (from)->name, 9)
#define TEXT(from, name) sw_json_text(json, sw_key.name, (from)->name)

/* Opens an object; where there is none, writes null and returns false. */
static bool begin(struct sw_json *json, const char *key, bool there) {
    if (there)
        sw_json_open(json, key, '{');
    else
        sw_json_null(json, key);
    return there;
}

static void print_list(struct sw_json *json, const char *key, const uint64_t *numbers, uint32_t count) {
    sw_json_open(json, key, '[');
    for (uint32_t i = 0; i < count; i++)
        sw_json_unsigned(json, NULL, numbers[i]);
    sw_json_close(json, ']');
}

static void print_sizes(struct sw_json *json, const char *key, const struct sw_size_count *sizes, int most) {
    sw_json_open(json, key, '[');
    for (int i = 0; i < most && sizes[i].count; i++)
        print_list(json, NULL, (const uint64_t[]){sizes[i].size, sizes[i].count}, 2);
    sw_json_close(json, ']');
}

/* The names of the set bits. */
static void print_bits(struct sw_json *json, const char *key, uint64_t bits, const char *const *names,
                       int count) {
    sw_json_open(json, key, '[');
    for (int i = 0; i < count; i++)
        if (bits & (1u << i))
            sw_json_text(json, NULL, names[i]);
    sw_json_close(json, ']');
}

static void print_words(struct sw_json *json, const char *key, const char *words) {
    struct sw_words one;
    sw_json_open(json, key, '{');
    while (sw_words_next(&words, &one))
        sw_json_text(json, one.key, one.value);
    sw_json_close(json, '}');
}

static void print_span(struct sw_json *json, const char *key, struct sw_span span) {
    if (sw_span_is_empty(span))
        sw_json_null(json, key);
    else
        sw_json_decimal(json, key, span.end - span.start, 9);
}

static void print_operations(struct sw_json *json, const struct sw_file *file) {
    sw_json_open(json, sw_key.operations, '{');
    for (int op = 0; op < SW_OPERATIONS; op++) {
        const struct sw_calls *calls = file->calls[op];
        if (!calls || !calls->count)
            continue;
        sw_json_open(json, sw_operations[op].name, '{');
        COUNT(calls, count), COUNT(calls, bytes), TIME(calls, time_max), TIME(calls, time_sum);
        if (sw_operations[op].kind != SW_META && sw_operations[op].mode != SW_END)
            COUNT(calls, min_size), COUNT(calls, max_size), COUNT(calls, messages);
        sw_json_close(json, '}');
    }
    sw_json_close(json, '}');
}

static void print_mode(struct sw_json *json, const char *key, const struct sw_file *file, enum sw_mode mode) {
    uint64_t calls = 0, bytes = 0;
    for (int op = 0; op < SW_OPERATIONS; op++)
        if (file->calls[op] && sw_operations[op].mode == mode) {
            calls += file->calls[op]->count;
            bytes += file->calls[op]->bytes;
        }
    sw_json_open(json, key, '{');
    sw_json_unsigned(json, sw_key.calls, calls);
    sw_json_unsigned(json, sw_key.bytes, bytes);
    sw_json_close(json, '}');
}

static void print_view(struct sw_json *json, const struct sw_view *view) {
    struct sw_view_use use = sw_view_main(view);
    if (!begin(json, sw_key.view, view->set && use.bytes))
        return;
    sw_json_integer(json, sw_key.filetype_size, use.filetype_size);
    sw_json_bool(json, sw_key.contiguous, use.piece == 0);
    if (use.piece > 0)
        sw_json_integer(json, sw_key.piece_size, use.piece);
    sw_json_close(json, '}');
}

static void print_pattern(struct sw_json *json, const struct sw_pattern *pattern) {
    print_list(json, sw_key.histogram, pattern->bins, SW_BINS);
    print_sizes(json, sw_key.top, pattern->top, SW_REPORT_TOP);
    COUNT(pattern, contiguous), COUNT(pattern, strided), COUNT(pattern, random);
}

static void print_direction(struct sw_json *json, const char *key, const struct sw_pattern *pattern) {
    if (!begin(json, key, pattern && pattern->top[0].count))
        return;
    print_pattern(json, pattern);
    sw_json_close(json, '}');
}

static void print_beneath(struct sw_json *json, const char *key, const struct sw_beneath *beneath) {
    sw_json_open(json, key, '{');
    COUNT(beneath, count), COUNT(beneath, bytes), COUNT(beneath, ranks), COUNT(beneath, max_size);
    sw_json_decimal(json, sw_key.time_sum, beneath->time, 9);
    sw_json_close(json, '}');
}

static void print_posix(struct sw_json *json, const char *key, const struct sw_posix *found, bool reads) {
    static const struct sw_posix none;
    const struct sw_posix *posix = found ? found : &none;
    sw_json_open(json, key, '{');
    COUNT(posix, count), COUNT(posix, bytes), COUNT(posix, ranks);
    COUNT(posix, min_size), COUNT(posix, max_size);
    print_sizes(json, sw_key.sizes, posix->sizes, SW_REPORT_SIZES);
    print_beneath(json, sw_key.during_collective, &posix->during[SW_DURING_COLLECTIVE]);
    print_beneath(json, sw_key.during_independent, &posix->during[SW_DURING_INDEPENDENT]);
    if (reads)
        print_beneath(json, sw_key.during_write, &posix->during[SW_DURING_WRITE]);
    sw_json_close(json, '}');
}

static void print_layout(struct sw_json *json, const struct sw_layout *layout) {
    const struct sw_file_system *system = sw_layout_system(layout);
    if (!begin(json, sw_key.layout, system))
        return;
    sw_json_text(json, sw_key.file_system, system->name);
    for (size_t i = 0; i < SW_LAYOUT_NUMBERS; i++)
        if (layout->numbers[i] >= 0)
            sw_json_integer(json, system->keys[i].name, layout->numbers[i]);
    sw_json_close(json, '}');
}

static void print_predicted(struct sw_json *json, const char *key, double value, bool known) {
    char text[40] = "null";
    if (known && isfinite(value))
        sw_print_double(text, sizeof text, value, 17);
    sw_json_raw(json, key, text);
}

static void print_choice(struct sw_json *json, const struct sw_choice_facts *choice, const char *why) {
    if (!begin(json, sw_key.decision, choice->count))
        return;
    COUNT(choice, count);
    sw_json_text(json, sw_key.verdict, sw_verdict_names[choice->verdict % SW_VERDICTS]);
    print_predicted(json, sw_key.current, choice->current, choice->combinations);
    print_predicted(json, sw_key.predicted, choice->predicted, choice->combinations);
    COUNT(choice, combinations), TIME(choice, seconds);
    sw_json_decimal(json, sw_key.broadcast_seconds, choice->broadcast, 9);
    sw_json_text(json, sw_key.why, why ? why : "");
    sw_json_close(json, '}');
}

static void print_results(struct sw_json *json, const struct sw_file *file) {
    static const char *const outcomes[SW_OUTCOMES] = {SW_OUTCOME_NAMES};
    sw_json_open(json, sw_key.settings, '[');
    for (uint32_t i = 0; i < file->result_count; i++) {
        const struct sw_result *result = &file->results[i];
        sw_json_open(json, NULL, '{');
        sw_json_text(json, sw_key.layer, sw_carrier_names[result->carrier]);
        TEXT(result, key), TEXT(result, requested), TEXT(result, application);
        TEXT(result, given), TEXT(result, echoed);
        sw_json_text(json, sw_key.outcome, outcomes[result->outcome]);
        sw_json_text(json, sw_key.note, result->note ? result->note : "");
        sw_json_close(json, '}');
    }
    sw_json_close(json, ']');
}

/* ---- HDF5 of it ---- */

/* H5D_mpio_no_collective_cause_t, in the order of its bits. */
static const char *const causes[] = {
    "set_independent",       "datatype_conversion",       "data_transforms", "mpi_optimized_types_disabled",
    "not_simple_dataspaces", "not_contiguous_or_chunked", "filters",         "error_while_checking"};

static void print_transfers(struct sw_json *json, const char *key, const struct sw_dataset *dataset,
                            bool write) {
    static const char *const selections[SW_SELECTIONS] = {SW_SELECTION_NAMES};
    const struct sw_transfers *transfers = dataset->transfers[write];
    uint32_t dimensions = dataset->facts.dimensions;
    double sharing = sw_dataset_sharing(dataset, write);
    if (!begin(json, key, transfers))
        return;
    COUNT(transfers, calls), COUNT(transfers, bytes);
    COUNT(transfers, collective), COUNT(transfers, independent);
    sw_json_unsigned(json, sw_key.broken_collective, transfers->broken);
    print_bits(json, sw_key.broken_by, transfers->cause, causes, (int)(sizeof causes / sizeof *causes));
    TIME(transfers, time_max), TIME(transfers, time_sum);
    sw_json_open(json, sw_key.selections, '{');
    for (int i = 0; i < SW_SELECTIONS; i++)
        if (transfers->selections[i])
            sw_json_unsigned(json, selections[i], transfers->selections[i]);
    sw_json_close(json, '}');
    print_pattern(json, &transfers->pattern);
    if (transfers->box_votes && transfers->box[0])
        print_list(json, sw_key.box, transfers->box,
                   dimensions < SW_BOX_DIMENSIONS ? dimensions : SW_BOX_DIMENSIONS);
    if (sharing > 0)
        sw_json_decimal(json, sw_key.chunk_ranks, (int64_t)(1000 * sharing + 0.5), 3);
    sw_json_close(json, '}');
}

static void print_dataset(struct sw_json *json, const struct sw_dataset *dataset) {
    const struct sw_dataset_facts *facts = &dataset->facts;
    uint32_t dimensions = facts->dimensions < SW_DIMENSIONS ? facts->dimensions : SW_DIMENSIONS;
    sw_json_open(json, NULL, '{');
    TEXT(dataset, name);
    COUNT(facts, creates), COUNT(facts, opens), COUNT(facts, ranks), COUNT(facts, nodes);
    if (facts->known) {
        sw_json_text(json, sw_key.storage,
                     facts->storage < SW_STORAGES ? sw_storage_names[facts->storage] : "other");
        COUNT(facts, element_size);
        print_list(json, sw_key.size, facts->size, dimensions);
        print_list(json, sw_key.chunk, facts->chunk, facts->storage == SW_CHUNKED ? dimensions : 0);
        print_bits(json, sw_key.filters, facts->filters, sw_filter_names, SW_FILTERS);
        if (facts->cache_slots)
            COUNT(facts, cache_bytes), COUNT(facts, cache_slots);
        sw_json_known(json, sw_key.address, facts->address);
    }
    print_transfers(json, sw_key.write, dataset, true);
    print_transfers(json, sw_key.read, dataset, false);
    sw_json_close(json, '}');
}

static void print_hdf5(struct sw_json *json, const struct sw_hdf5 *hdf5) {
    if (!begin(json, sw_key.hdf5, hdf5))
        return;
    TEXT(hdf5, driver), TEXT(hdf5, library);
    print_words(json, sw_key.properties, hdf5->properties);
    sw_json_open(json, sw_key.operations, '{');
    for (int op = 0; op < SW_H5_OPERATIONS; op++) {
        const struct sw_h5_calls *calls = &hdf5->calls[op];
        if (!calls->count)
            continue;
        sw_json_open(json, sw_h5_operation_names[op], '{');
        COUNT(calls, count), TIME(calls, time_max), TIME(calls, time_sum);
        sw_json_close(json, '}');
    }
    sw_json_close(json, '}');
    sw_json_open(json, sw_key.datasets, '[');
    for (const struct sw_dataset *dataset = hdf5->oldest; dataset; dataset = dataset->newer)
        print_dataset(json, dataset);
    sw_json_close(json, ']');
    sw_json_close(json, '}');
}

static void print_file(struct sw_json *json, const struct sw_file *file) {
    const struct sw_facts *facts = &file->facts;
    sw_json_open(json, NULL, '{');
    TEXT(file, path);
    COUNT(facts, opens), COUNT(facts, ranks), COUNT(facts, nodes);
    TEXT(file, driver), TEXT(file, file_system);
    sw_json_known(json, sw_key.size, facts->size);
    print_span(json, sw_key.span, facts->span);
    print_span(json, sw_key.write_span, facts->write_span);
    print_span(json, sw_key.read_span, facts->read_span);
    print_operations(json, file);
    print_mode(json, sw_key.collective, file, SW_COLLECTIVE);
    print_mode(json, sw_key.independent, file, SW_INDEPENDENT);
    print_view(json, &facts->view);
    sw_json_open(json, sw_key.pattern, '{');
    print_direction(json, sw_key.write, file->patterns[1]);
    print_direction(json, sw_key.read, file->patterns[0]);
    sw_json_close(json, '}');
    sw_json_open(json, sw_key.posix, '{');
    print_posix(json, sw_key.write, file->posix[1], false);
    print_posix(json, sw_key.read, file->posix[0], true);
    sw_json_close(json, '}');
    print_layout(json, &facts->layout);
    print_words(json, sw_key.application_info, file->application);
    print_words(json, sw_key.info, file->info);
    print_choice(json, &facts->choice, file->why);
    print_results(json, file);
    print_hdf5(json, file->hdf5);
    sw_json_close(json, '}');
}

static void print_head(struct sw_json *json, const struct sw_report *report, const char *io) {
    sw_json_open(json, sw_key.runtime, '{');
    sw_json_text(json, sw_key.version, SW_VERSION);
    sw_json_text(json, sw_key.mode, report->mode);
    sw_json_text(json, sw_key.plan, report->plan);
    sw_json_text(json, sw_key.plan_id, report->plan_id);
    sw_json_text(json, sw_key.plan_error, report->plan_error);
    sw_json_close(json, '}');
    sw_json_open(json, sw_key.mpi, '{');
    sw_json_text(json, sw_key.library, report->mpi_library);
    sw_json_text(json, sw_key.abi, report->mpi_abi);
    sw_json_text(json, sw_key.io, io);
    sw_json_close(json, '}');
    sw_json_open(json, sw_key.job, '{');
    sw_json_text(json, sw_key.executable, report->executable);
    sw_json_unsigned(json, sw_key.ranks, report->ranks);
    sw_json_unsigned(json, sw_key.nodes, report->job.nodes);
    sw_json_decimal(json, sw_key.start, report->start, 9);
    sw_json_decimal(json, sw_key.elapsed, report->job.elapsed, 9);
    sw_json_decimal(json, sw_key.io_time, report->job.io_time, 9);
    sw_json_bool(json, sw_key.complete, report->job.ranks_reported == report->ranks);
    sw_json_unsigned(json, sw_key.ranks_reported, report->job.ranks_reported);
    sw_json_close(json, '}');
}

static int by_start(const void *a, const void *b) {
    const struct sw_span *left = a, *right = b;
    return (left->start > right->start) - (left->start < right->start);
}

/* The length of the union of the files' write (or read) spans. */
static int64_t busy_time(const struct sw_files *files, bool write) {
    struct sw_span *spans = calloc(files->count + 1, sizeof *spans);
    if (!spans)
        return 0;
    size_t count = 0;
    for (const struct sw_file *file = files->oldest; file; file = file->newer) {
        struct sw_span span = write ? file->facts.write_span : file->facts.read_span;
        if (!sw_span_is_empty(span))
            spans[count++] = span;
    }
    qsort(spans, count, sizeof *spans, by_start);
    int64_t total = 0, covered = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        int64_t start = spans[i].start > covered ? spans[i].start : covered;
        if (spans[i].end > start) {
            total += spans[i].end - start;
            covered = spans[i].end;
        }
    }
    free(spans);
    return total;
}

static void print_bandwidth(struct sw_json *json, const char *key, uint64_t bytes, int64_t time) {
    if (bytes == 0 || time <= 0)
        sw_json_null(json, key);
    else /* in millionths of a MiB/s */
        sw_json_decimal(json, key, (int64_t)((double)bytes / 1048576.0 / ((double)time / 1e9) * 1e6), 6);
}

static uint64_t bytes_of(const struct sw_files *files, enum sw_kind kind) {
    uint64_t bytes = 0;
    for (const struct sw_file *file = files->oldest; file; file = file->newer)
        for (int op = 0; op < SW_OPERATIONS; op++)
            if (sw_operations[op].kind == kind && file->calls[op])
                bytes += file->calls[op]->bytes;
    return bytes;
}

static void print_totals(struct sw_json *json, const struct sw_report *report) {
    uint64_t read = bytes_of(report->files, SW_READ), written = bytes_of(report->files, SW_WRITE);
    sw_json_open(json, sw_key.totals, '{');
    sw_json_unsigned(json, sw_key.bytes_read, read);
    sw_json_unsigned(json, sw_key.bytes_written, written);
    print_bandwidth(json, sw_key.read_bandwidth, read, busy_time(report->files, false));
    print_bandwidth(json, sw_key.write_bandwidth, written, busy_time(report->files, true));
    sw_json_decimal(json, sw_key.read_time, report->job.read_time, 9);
    sw_json_decimal(json, sw_key.write_time, report->job.write_time, 9);
    sw_json_close(json, '}');
}

/* romio or ompio, where the drivers of all files agree. */
static const char *io_of(const struct sw_report *report) {
    const char *io = NULL;
    for (const struct sw_file *file = report->files->oldest; file; file = file->newer)
        if (file->driver) {
            const char *here = strcmp(file->driver, "ompio") == 0 ? "ompio" : "romio";
            if (io && strcmp(io, here) != 0)
                return "unknown";
            io = here;
        }
    return io ? io : report->default_io;
}

static void print_millionths(struct sw_json *json, const char *key, double value, bool known) {
    if (known && value >= 0 && value < 1e12)
        sw_json_decimal(json, key, sw_llround(value * 1e6), 6);
    else
        sw_json_null(json, key);
}

static void print_family(struct sw_json *json, const struct sw_family *family) {
    sw_json_open(json, NULL, '{');
    sw_json_text(json, sw_key.site, family->name);
    sw_json_text(json, sw_key.operation, family->write ? "write" : "read");
    sw_json_bool(json, sw_key.collective, family->pattern == 'c' || family->pattern == 'C');
    sw_json_bool(json, sw_key.strided, family->pattern == 'C' || family->pattern == 'I');
    sw_json_unsigned(json, sw_key.phases, family->phases);
    sw_json_unsigned(json, sw_key.reopened, family->reopened);
    sw_json_bool(json, sw_key.settled, family->settled);
    sw_json_unsigned(json, sw_key.choice, family->choice);
    sw_json_text(json, sw_key.why, family->count == 1 && family->why && *family->why ? family->why : NULL);
    sw_json_open(json, sw_key.candidates, '[');
    for (uint32_t i = 0; i < family->count; i++) {
        const struct sw_candidate *candidate = &family->candidates[i];
        sw_json_open(json, NULL, '{');
        sw_json_text(json, sw_key.settings, candidate->settings);
        sw_json_unsigned(json, sw_key.phases, candidate->count);
        print_millionths(json, sw_key.bandwidth, sw_exp(-candidate->mean) / 1048576, candidate->count);
        print_millionths(json, sw_key.predicted, sw_exp(candidate->gain), candidate->gain != 0);
        sw_json_bool(json, sw_key.dropped, candidate->dropped);
        sw_json_close(json, '}');
    }
    sw_json_close(json, ']');
    sw_json_close(json, '}');
}

void sw_report_print(const struct sw_report *report, FILE *stream) {
    struct sw_json json = {stream, false};
    sw_json_open(&json, NULL, '{');
    sw_json_text(&json, sw_key.format, SW_REPORT_FORMAT);
    sw_json_integer(&json, sw_key.version, SW_REPORT_VERSION);
    print_head(&json, report, io_of(report));
    print_totals(&json, report);
    sw_json_open(&json, sw_key.files, '[');
    for (const struct sw_file *file = report->files->oldest; file; file = file->newer)
        if (file != report->files->other)
            print_file(&json, file);
    const struct sw_file *other = report->files->other;
    if (other && sw_file_is_used(other))
        print_file(&json, other);
    sw_json_close(&json, ']');
    if (report->families) {
        sw_json_open(&json, sw_key.online, '[');
        for (size_t i = 0; i < report->family_count; i++)
            if (report->families[i].phases)
                print_family(&json, &report->families[i]);
        sw_json_close(&json, ']');
    }
    sw_json_close(&json, '}');
    fputc('\n', stream);
}

/* All of the report, as safely as the disk can keep it. */
static bool print_all(const struct sw_report *report, FILE *stream) {
    sw_report_print(report, stream);
    if (ferror(stream) || fflush(stream) != 0)
        return false;
    /* A rename may reach the disk before the data; the run's result must survive a power loss. */
    return report->hurried || fsync(fileno(stream)) == 0 || errno == EINVAL || errno == ENOTSUP ||
           errno == EROFS;
}

/* Closes the stream, and keeps the reason of what failed before that. */
static bool closed(FILE *stream, bool good) {
    int reason = errno;
    if (fclose(stream) != 0 && good)
        return false;
    errno = reason;
    return good;
}

static bool print_to(const struct sw_report *report, const char *path, const char *mode) {
    FILE *stream = fopen(path, mode);
    return stream && closed(stream, print_all(report, stream));
}

/* A file without a name in the folder of path; NULL where the file system cannot do that (NFS). */
static FILE *open_nameless(const char *path) {
    const char *slash = strrchr(path, '/');
    char folder[SW_MAX_PATH];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "w");
    if (!stream && fd >= 0)
        close(fd);
    return stream;
}

/* Gives the file its name; by way of temporary if there is an older one, unless that is to stay. */
static bool name_it(FILE *stream, const char *temporary, const char *path, bool stays) {
    char own[32];
    snprintf(own, sizeof own, "/proc/self/fd/%d", fileno(stream));
    if (linkat(AT_FDCWD, own, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
        return true;
    if (errno != EEXIST || stays || linkat(AT_FDCWD, own, AT_FDCWD, temporary, AT_SYMLINK_FOLLOW) != 0)
        return false;
    bool good = rename(temporary, path) == 0;
    int reason = errno;
    if (!good)
        unlink(temporary);
    errno = reason;
    return good;
}

/* A process may be killed at any moment, by another rank's MPI_Abort: what it has begun then vanishes. Where
 * the file system cannot do that, or there is no /proc, a file beside the report is renamed. */
static bool replace(const struct sw_report *report, const char *temporary, const char *path) {
    FILE *stream = open_nameless(path);
    if (stream) {
        bool printed = print_all(report, stream);
        bool named = printed && name_it(stream, temporary, path, report->each);
        if (closed(stream, named) || !printed || (report->each && errno == EEXIST))
            return named;
    }
    bool printed = print_to(report, temporary, "wxe");
    if (!printed && errno == EEXIST)
        return false;
    bool good = printed && (report->each ? linkat(AT_FDCWD, temporary, AT_FDCWD, path, 0)
                                         : rename(temporary, path)) == 0;
    int reason = errno;
    if (!good || report->each)
        unlink(temporary);
    errno = reason;
    return good;
}

static bool write_to(const struct sw_report *report, const char *path) {
    struct stat status;
    char temporary[SW_MAX_PATH];
    bool good;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        good = !S_ISDIR(status.st_mode) && print_to(report, path, "we");
        if (S_ISDIR(status.st_mode))
            errno = EISDIR;
    } else if (snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid()) >=
               (int)sizeof temporary) {
        errno = ENAMETOOLONG;
        good = false;
    } else {
        good = replace(report, temporary, path);
    }
    return good;
}

#define MOST_REPORTS 1000

/* The first free name of path, path.2, path.3 ...; another program may take it at the same time. */
static bool write_beside(const struct sw_report *report, const char *path) {
    char name[SW_MAX_PATH];
    for (int number = 1; number <= MOST_REPORTS; number++) {
        struct stat status;
        int length = number == 1 ? snprintf(name, sizeof name, "%s", path)
                                 : snprintf(name, sizeof name, "%s.%d", path, number);
        if (length >= (int)sizeof name) {
            errno = ENAMETOOLONG;
            return false;
        }
        if (stat(name, &status) == 0 && S_ISREG(status.st_mode))
            continue;
        if (write_to(report, name))
            return true;
        if (errno != EEXIST)
            return false;
    }
    errno = EMFILE;
    return false;
}

bool sw_report_write(const struct sw_report *report, const char *path, char *error, size_t error_size) {
    bool good = report->each ? write_beside(report, path) : write_to(report, path);
    if (!good)
        snprintf(error, error_size, "%s", strerror(errno));
    return good;
}
