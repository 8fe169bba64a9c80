/* SPDX-License-Identifier: BSD-3-Clause */
#include "report_file.h"

#include <math.h>
#include <string.h>

#include "decide.h"
#include "numeric.h"

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

/* "KEY NEWLINE VALUE NEWLINE ..." as an object. */
static void print_words(struct sw_json *json, const char *key, const char *words) {
    char word[2][SW_MAX_VALUE + 1];
    sw_json_open(json, key, '{');
    for (int turn = 0; words && *words; turn = !turn) {
        size_t length = strcspn(words, "\n"), kept = length < SW_MAX_VALUE ? length : SW_MAX_VALUE;
        memcpy(word[turn], words, kept);
        word[turn][kept] = '\0';
        words += length + (words[length] == '\n');
        if (turn)
            sw_json_text(json, word[0], word[1]);
    }
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

/* ---- HDF5 ---- */

/* H5D_mpio_no_collective_cause_t, in the order of its bits. */
static const char *const causes[] = {
    "set_independent",       "datatype_conversion",       "data_transforms", "mpi_optimized_types_disabled",
    "not_simple_dataspaces", "not_contiguous_or_chunked", "filters",         "error_while_checking"};

static void print_transfers(struct sw_json *json, const char *key, const struct sw_transfers *transfers) {
    static const char *const selections[SW_SELECTIONS] = {SW_SELECTION_NAMES};
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
        sw_json_known(json, sw_key.address, facts->address);
    }
    print_transfers(json, sw_key.write, dataset->transfers[1]);
    print_transfers(json, sw_key.read, dataset->transfers[0]);
    sw_json_close(json, '}');
}

static void print_hdf5(struct sw_json *json, const struct sw_hdf5 *hdf5) {
    if (!begin(json, sw_key.hdf5, hdf5))
        return;
    TEXT(hdf5, driver);
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

void sw_report_file(struct sw_json *json, const struct sw_file *file) {
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
