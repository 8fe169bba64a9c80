/* SPDX-License-Identifier: BSD-3-Clause */
#include "report_file.h"

#include <math.h>

#include "decide.h"
#include "numeric.h"
#include "report_hdf5.h"

static void print_span(struct sw_json *json, const char *key, struct sw_span span) {
    if (sw_span_is_empty(span))
        sw_json_null(json, key);
    else
        sw_json_decimal(json, key, span.end - span.start, 9);
}

static void print_amode(struct sw_json *json, uint32_t amode) {
    sw_json_open(json, "amode", '[');
    for (int i = 0; i < SW_AMODES; i++)
        if (amode & (1u << i))
            sw_json_text(json, NULL, sw_amode_names[i]);
    sw_json_close(json, ']');
}

static void print_operations(struct sw_json *json, const struct sw_file *file) {
    sw_json_open(json, "operations", '{');
    for (int op = 0; op < SW_OPERATIONS; op++) {
        const struct sw_calls *calls = file->calls[op];
        if (!calls || !calls->count)
            continue;
        sw_json_open(json, sw_operations[op].name, '{');
        sw_json_unsigned(json, "count", calls->count);
        sw_json_unsigned(json, "bytes", calls->bytes);
        sw_json_decimal(json, "time_max", calls->time_max, 9);
        sw_json_decimal(json, "time_sum", calls->time_sum, 9);
        if (sw_operations[op].kind != SW_META && sw_operations[op].mode != SW_END) {
            sw_json_unsigned(json, "min_size", calls->min_size);
            sw_json_unsigned(json, "max_size", calls->max_size);
        }
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
    sw_json_unsigned(json, "calls", calls);
    sw_json_unsigned(json, "bytes", bytes);
    sw_json_close(json, '}');
}

static void print_view(struct sw_json *json, const struct sw_view *view) {
    if (!view->set) {
        sw_json_null(json, "view");
        return;
    }
    sw_json_open(json, "view", '{');
    sw_json_integer(json, "etype_size", view->etype_size);
    sw_json_integer(json, "filetype_size", view->filetype_size);
    sw_json_integer(json, "filetype_extent", view->filetype_extent);
    sw_json_bool(json, "contiguous", view->contiguous);
    sw_json_close(json, '}');
}

static void print_beneath(struct sw_json *json, const char *key, const struct sw_beneath *beneath) {
    sw_json_open(json, key, '{');
    sw_json_unsigned(json, "count", beneath->count);
    sw_json_unsigned(json, "bytes", beneath->bytes);
    sw_json_unsigned(json, "ranks", beneath->ranks);
    sw_json_unsigned(json, "max_size", beneath->max_size);
    sw_json_close(json, '}');
}

static void print_posix(struct sw_json *json, const char *key, const struct sw_posix *found, bool reads) {
    static const struct sw_posix none;
    const struct sw_posix *posix = found ? found : &none;
    sw_json_open(json, key, '{');
    sw_json_unsigned(json, "count", posix->count);
    sw_json_unsigned(json, "bytes", posix->bytes);
    sw_json_unsigned(json, "ranks", posix->ranks);
    sw_json_unsigned(json, "min_size", posix->min_size);
    sw_json_unsigned(json, "max_size", posix->max_size);
    sw_json_open(json, "sizes", '[');
    for (int i = 0; i < SW_REPORT_SIZES && posix->sizes[i].count; i++) {
        sw_json_open(json, NULL, '[');
        sw_json_unsigned(json, NULL, posix->sizes[i].size);
        sw_json_unsigned(json, NULL, posix->sizes[i].count);
        sw_json_close(json, ']');
    }
    sw_json_close(json, ']');
    print_beneath(json, "during_collective", &posix->during[SW_DURING_COLLECTIVE]);
    print_beneath(json, "during_independent", &posix->during[SW_DURING_INDEPENDENT]);
    if (reads)
        print_beneath(json, "during_write", &posix->during[SW_DURING_WRITE]);
    sw_json_close(json, '}');
}

static void print_known(struct sw_json *json, const char *key, int64_t value) {
    if (value >= 0)
        sw_json_integer(json, key, value);
}

static void print_layout(struct sw_json *json, const struct sw_layout *layout) {
    if (layout->kind == SW_NO_LAYOUT) {
        sw_json_null(json, "layout");
        return;
    }
    bool ceph = layout->kind == SW_IN_CEPHFS;
    sw_json_open(json, "layout", '{');
    sw_json_text(json, "file_system", ceph ? SW_LAYOUT_CEPHFS : SW_LAYOUT_LUSTRE);
    print_known(json, SW_KEY_STRIPE_COUNT, layout->stripe_count);
    print_known(json, ceph ? SW_KEY_STRIPE_UNIT : SW_KEY_STRIPE_SIZE, layout->stripe_unit);
    print_known(json, SW_KEY_OBJECT_SIZE, layout->object_size);
    sw_json_close(json, '}');
}

static void print_number(struct sw_json *json, const char *key, double value) {
    char text[40];
    if (!isfinite(value)) {
        sw_json_null(json, key);
        return;
    }
    sw_print_double(text, sizeof text, value, 17);
    sw_json_raw(json, key, text);
}

static void print_choice(struct sw_json *json, const struct sw_choice_facts *choice, const char *why) {
    if (!choice->count) {
        sw_json_null(json, "decision");
        return;
    }
    sw_json_open(json, "decision", '{');
    sw_json_unsigned(json, "count", choice->count);
    sw_json_text(json, "verdict", sw_verdict_names[choice->verdict % SW_VERDICTS]);
    if (choice->combinations) {
        print_number(json, "current", choice->current);
        print_number(json, "predicted", choice->predicted);
    } else {
        sw_json_null(json, "current");
        sw_json_null(json, "predicted");
    }
    sw_json_unsigned(json, "combinations", choice->combinations);
    sw_json_decimal(json, "seconds", choice->seconds, 9);
    sw_json_decimal(json, "broadcast_seconds", choice->broadcast, 9);
    sw_json_text(json, "why", why ? why : "");
    sw_json_close(json, '}');
}

static void print_results(struct sw_json *json, const struct sw_file *file) {
    sw_json_open(json, "settings", '[');
    for (uint32_t i = 0; i < file->result_count; i++) {
        const struct sw_result *result = &file->results[i];
        sw_json_open(json, NULL, '{');
        sw_json_text(json, "layer", sw_layer_names[result->layer]);
        sw_json_text(json, "key", result->key);
        sw_json_text(json, "requested", result->requested);
        sw_json_text(json, "application", result->application);
        sw_json_text(json, "given", result->given);
        sw_json_text(json, "echoed", result->echoed);
        sw_json_text(json, "outcome", sw_outcome_names[result->outcome]);
        sw_json_text(json, "note", result->note ? result->note : "");
        sw_json_close(json, '}');
    }
    sw_json_close(json, ']');
}

void sw_report_file(struct sw_json *json, const struct sw_file *file) {
    const struct sw_facts *facts = &file->facts;
    sw_json_open(json, NULL, '{');
    sw_json_text(json, "path", file->path);
    sw_json_unsigned(json, "opens", facts->opens);
    sw_json_unsigned(json, "ranks", facts->ranks);
    sw_json_unsigned(json, "nodes", facts->nodes);
    print_amode(json, facts->amode);
    sw_json_text(json, "driver", file->driver);
    sw_json_text(json, "file_system", file->file_system);
    if (facts->size >= 0)
        sw_json_integer(json, "size", facts->size);
    else
        sw_json_null(json, "size");
    print_span(json, "span", facts->span);
    print_span(json, "write_span", facts->write_span);
    print_span(json, "read_span", facts->read_span);
    print_operations(json, file);
    print_mode(json, "collective", file, SW_COLLECTIVE);
    print_mode(json, "independent", file, SW_INDEPENDENT);
    print_view(json, &facts->view);
    sw_json_open(json, "pattern", '{');
    sw_report_pattern(json, "write", file->patterns[1]);
    sw_report_pattern(json, "read", file->patterns[0]);
    sw_json_close(json, '}');
    sw_json_open(json, "posix", '{');
    print_posix(json, "write", file->posix[1], false);
    print_posix(json, "read", file->posix[0], true);
    sw_json_close(json, '}');
    print_layout(json, &facts->layout);
    sw_report_words(json, "info", file->info);
    print_choice(json, &facts->choice, file->why);
    print_results(json, file);
    sw_report_hdf5(json, file->hdf5);
    sw_json_close(json, '}');
}
