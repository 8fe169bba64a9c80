/* SPDX-License-Identifier: BSD-3-Clause */
#include "report_hdf5.h"

#include <string.h>

#include "stripewise_format.h"

static void print_top(struct sw_json *json, const struct sw_pattern *pattern) {
    sw_json_open(json, "top", '[');
    for (int i = 0; i < SW_REPORT_TOP && pattern->top[i].count; i++) {
        sw_json_open(json, NULL, '[');
        sw_json_unsigned(json, NULL, pattern->top[i].size);
        sw_json_unsigned(json, NULL, pattern->top[i].count);
        sw_json_close(json, ']');
    }
    sw_json_close(json, ']');
}

static void print_pattern(struct sw_json *json, const struct sw_pattern *pattern) {
    sw_json_open(json, "histogram", '[');
    for (int i = 0; i < SW_BINS; i++)
        sw_json_unsigned(json, NULL, pattern->bins[i]);
    sw_json_close(json, ']');
    print_top(json, pattern);
    sw_json_unsigned(json, "contiguous", pattern->contiguous);
    sw_json_unsigned(json, "strided", pattern->strided);
    sw_json_unsigned(json, "random", pattern->random);
    sw_json_unsigned(json, "phases", pattern->phases);
    sw_json_decimal(json, "gap_sum", pattern->gap_sum, 9);
    sw_json_decimal(json, "gap_max", pattern->gap_max, 9);
}

void sw_report_pattern(struct sw_json *json, const char *key, const struct sw_pattern *pattern) {
    if (!pattern || !pattern->phases) {
        sw_json_null(json, key);
        return;
    }
    sw_json_open(json, key, '{');
    print_pattern(json, pattern);
    sw_json_close(json, '}');
}

static void print_calls(struct sw_json *json, const struct sw_hdf5 *hdf5) {
    sw_json_open(json, "operations", '{');
    for (int op = 0; op < SW_H5_OPERATIONS; op++) {
        const struct sw_h5_calls *calls = &hdf5->calls[op];
        if (!calls->count)
            continue;
        sw_json_open(json, sw_h5_operation_names[op], '{');
        sw_json_unsigned(json, "count", calls->count);
        sw_json_decimal(json, "time_max", calls->time_max, 9);
        sw_json_decimal(json, "time_sum", calls->time_sum, 9);
        sw_json_close(json, '}');
    }
    sw_json_close(json, '}');
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

static void print_sizes(struct sw_json *json, const char *key, const uint64_t *sizes, uint32_t count) {
    sw_json_open(json, key, '[');
    for (uint32_t i = 0; i < count && i < SW_DIMENSIONS; i++)
        sw_json_unsigned(json, NULL, sizes[i]);
    sw_json_close(json, ']');
}

/* H5D_mpio_no_collective_cause_t, in the order of its bits. */
static const char *const causes[] = {
    "set_independent",       "datatype_conversion",       "data_transforms", "mpi_optimized_types_disabled",
    "not_simple_dataspaces", "not_contiguous_or_chunked", "filters",         "error_while_checking"};

static void print_transfers(struct sw_json *json, const char *key, const struct sw_transfers *transfers) {
    if (!transfers) {
        sw_json_null(json, key);
        return;
    }
    sw_json_open(json, key, '{');
    sw_json_unsigned(json, "calls", transfers->calls);
    sw_json_unsigned(json, "bytes", transfers->bytes);
    sw_json_unsigned(json, "collective", transfers->collective);
    sw_json_unsigned(json, "independent", transfers->independent);
    sw_json_unsigned(json, "broken_collective", transfers->broken);
    print_bits(json, "broken_by", transfers->cause, causes, (int)(sizeof causes / sizeof *causes));
    sw_json_decimal(json, "time_max", transfers->time_max, 9);
    sw_json_decimal(json, "time_sum", transfers->time_sum, 9);
    sw_json_open(json, "selections", '{');
    for (int i = 0; i < SW_SELECTIONS; i++)
        if (transfers->selections[i])
            sw_json_unsigned(json, sw_selection_names[i], transfers->selections[i]);
    sw_json_close(json, '}');
    print_pattern(json, &transfers->pattern);
    sw_json_close(json, '}');
}

static void print_dataset(struct sw_json *json, const struct sw_dataset *dataset) {
    const struct sw_dataset_facts *facts = &dataset->facts;
    sw_json_open(json, NULL, '{');
    sw_json_text(json, "name", dataset->name);
    sw_json_unsigned(json, "creates", facts->creates);
    sw_json_unsigned(json, "opens", facts->opens);
    sw_json_unsigned(json, "ranks", facts->ranks);
    sw_json_unsigned(json, "nodes", facts->nodes);
    if (facts->known) {
        sw_json_text(json, "storage",
                     facts->storage < SW_STORAGES ? sw_storage_names[facts->storage] : "other");
        sw_json_unsigned(json, "element_size", facts->element_size);
        print_sizes(json, "size", facts->size, facts->dimensions);
        print_sizes(json, "chunk", facts->chunk, facts->storage == SW_CHUNKED ? facts->dimensions : 0);
        print_bits(json, "filters", facts->filters, sw_filter_names, SW_FILTERS);
        if (facts->address >= 0)
            sw_json_integer(json, "address", facts->address);
        else
            sw_json_null(json, "address");
    }
    print_transfers(json, "write", dataset->transfers[1]);
    print_transfers(json, "read", dataset->transfers[0]);
    sw_json_close(json, '}');
}

void sw_report_hdf5(struct sw_json *json, const struct sw_hdf5 *hdf5) {
    if (!hdf5) {
        sw_json_null(json, "hdf5");
        return;
    }
    sw_json_open(json, "hdf5", '{');
    sw_json_text(json, "driver", hdf5->driver);
    sw_report_words(json, "properties", hdf5->properties);
    print_calls(json, hdf5);
    sw_json_open(json, "datasets", '[');
    for (const struct sw_dataset *dataset = hdf5->oldest; dataset; dataset = dataset->newer)
        print_dataset(json, dataset);
    sw_json_close(json, ']');
    sw_json_close(json, '}');
}

void sw_report_words(struct sw_json *json, const char *key, const char *words) {
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
