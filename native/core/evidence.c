/* SPDX-License-Identifier: BSD-3-Clause */
#include "evidence.h"
#include "reserved.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "numeric.h"

#define MOST_DATASETS 8
#define MOST_NAME 64

static const char *const part_names[SW_SAW_PARTS] = {
    "collective", "independent", "system", "within_collective", "within_independent", "within_write"};

void sw_evidence_until(const struct sw_file *file, struct sw_evidence *facts) {
    memset(facts, 0, sizeof *facts);
    if (file->hdf5)
        facts->transfers = (double)sw_hdf5_sum(file->hdf5).collective;
    for (int op = 0; op < SW_OPERATIONS; op++) {
        const struct sw_calls *calls = file->calls[op];
        const struct sw_operation *operation = &sw_operations[op];
        if (!calls || operation->kind == SW_META)
            continue;
        struct sw_saw *seen =
            &facts->parts[operation->kind == SW_WRITE]
                         [operation->mode == SW_INDEPENDENT ? SW_SAW_INDEPENDENT : SW_SAW_COLLECTIVE];
        seen->seconds += (double)calls->time_sum * 1e-9;
        seen->messages += (double)calls->messages;
        if (operation->mode == SW_END) /* its beginning was counted */
            continue;
        seen->count += (double)calls->count;
        seen->bytes += (double)calls->bytes;
        seen->largest = sw_fmax(seen->largest, (double)calls->lately_largest);
    }
    for (int write = 0; write < 2; write++) {
        const struct sw_posix *posix = file->posix[write];
        if (!posix)
            continue;
        struct sw_saw *seen = facts->parts[write];
        seen[SW_SAW_SYSTEM] = (struct sw_saw){.count = (double)posix->count,
                                              .bytes = (double)posix->bytes,
                                              .largest = (double)posix->lately_largest};
        for (int i = 0; i < SW_DURINGS; i++)
            seen[SW_SAW_WITHIN + i] = (struct sw_saw){.count = (double)posix->during[i].count,
                                                      .bytes = (double)posix->during[i].bytes,
                                                      .seconds = (double)posix->during[i].time * 1e-9,
                                                      .largest = (double)posix->during[i].lately_largest};
    }
}

void sw_evidence_from(struct sw_file *file, struct sw_evidence *facts) {
    for (int op = 0; op < SW_OPERATIONS; op++)
        if (file->calls[op])
            file->calls[op]->lately_largest = 0;
    for (int write = 0; write < 2; write++) {
        struct sw_posix *posix = file->posix[write];
        if (!posix)
            continue;
        posix->lately_largest = 0;
        for (int i = 0; i < SW_DURINGS; i++)
            posix->during[i].lately_largest = 0;
    }
    sw_evidence_until(file, facts);
}

void sw_evidence_since(struct sw_evidence *facts, const struct sw_evidence *before) {
    facts->transfers -= before->transfers;
    for (int write = 0; write < 2; write++)
        for (int part = 0; part < SW_SAW_PARTS; part++) {
            struct sw_saw *now = &facts->parts[write][part];
            const struct sw_saw *then = &before->parts[write][part];
            now->count -= then->count;
            now->bytes -= then->bytes;
            now->seconds -= then->seconds;
            now->messages -= then->messages;
            now->ranks = now->count > 0;
        }
}

void sw_evidence_add(struct sw_evidence *into, const struct sw_evidence *from) {
    into->transfers += from->transfers;
    for (int write = 0; write < 2; write++)
        for (int part = 0; part < SW_SAW_PARTS; part++) {
            struct sw_saw *all = &into->parts[write][part];
            const struct sw_saw *one = &from->parts[write][part];
            all->count += one->count;
            all->bytes += one->bytes;
            all->ranks += one->ranks;
            all->seconds += one->seconds;
            all->messages += one->messages;
            all->largest = sw_fmax(all->largest, one->largest);
        }
}

/* ---- as text ---- */

struct writer {
    char *text;
    size_t size, used, word; /* word: where the present one began */
    bool full;
};

static void put(struct writer *writer, const char *text, size_t most) {
    for (; *text && most && !writer->full; text++, most--) {
        unsigned char c = (unsigned char)*text;
        if (writer->used + 1 >= writer->size)
            writer->full = true;
        else
            writer->text[writer->used++] = c <= ' ' || c == 0x7f || c == '%' ? '_' : *text;
    }
}

static void put_number(struct writer *writer, double number, int digits) {
    char text[40];
    sw_print_double(text, sizeof text, number, digits);
    put(writer, text, sizeof text);
}

static void begin(struct writer *writer) {
    writer->word = writer->used;
    if (writer->used && writer->used + 1 < writer->size)
        writer->text[writer->used++] = ' ';
}

/* A word that did not fit leaves nothing behind. */
static void end(struct writer *writer) {
    if (writer->full)
        writer->used = writer->word;
    writer->text[writer->used] = '\0';
}

static void put_calls(struct writer *writer, bool write, const char *part, const struct sw_saw *calls) {
    const double numbers[] = {calls->count, calls->bytes, calls->ranks, calls->largest, calls->messages};
    begin(writer);
    put(writer, write ? "write." : "read.", SIZE_MAX);
    put(writer, part, SIZE_MAX);
    put(writer, "=", 1);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        put_number(writer, numbers[i], 17);
        put(writer, ",", 1);
    }
    put_number(writer, calls->seconds, 6);
    end(writer);
}

static void put_words(struct writer *writer, const char *prefix, const char *words) {
    struct sw_words one;
    while (!writer->full && sw_words_next(&words, &one)) {
        begin(writer);
        put(writer, prefix, SIZE_MAX);
        put(writer, one.key, SIZE_MAX);
        put(writer, "=", 1);
        put(writer, one.value, SIZE_MAX);
        end(writer);
    }
}

static void put_dataset(struct writer *writer, const struct sw_dataset *dataset) {
    const struct sw_dataset_facts *facts = &dataset->facts;
    double bytes = (double)facts->element_size;
    for (uint32_t i = 0; i < facts->dimensions && i < SW_DIMENSIONS; i++)
        bytes *= (double)facts->size[i];
    begin(writer);
    put(writer, "dataset=", SIZE_MAX);
    put_number(writer, (double)facts->address, 17);
    put(writer, ",", 1);
    put_number(writer, bytes, 17);
    put(writer, ",", 1);
    for (uint32_t i = 0; facts->storage == SW_CHUNKED && i < facts->dimensions && i < SW_DIMENSIONS; i++) {
        put(writer, "x", i > 0);
        put_number(writer, (double)facts->chunk[i], 17);
    }
    put(writer, ",", 1);
    bool any = false;
    for (int i = 0; i < SW_FILTERS; i++)
        if (facts->filters & 1u << i) {
            put(writer, "+", any);
            put(writer, sw_filter_names[i], SIZE_MAX);
            any = true;
        }
    put(writer, ",", 1);
    put(writer, dataset->name, MOST_NAME);
    end(writer);
}

void sw_evidence_print(const struct sw_evidence *facts, const struct sw_file *file, char *text, size_t size) {
    struct writer writer = {.text = text, .size = size};
    *text = '\0';
    for (int write = 1; write >= 0; write--)
        for (int part = 0; part < SW_SAW_PARTS; part++)
            if (facts->parts[write][part].count > 0)
                put_calls(&writer, write, part_names[part], &facts->parts[write][part]);
    put_words(&writer, "own.", file->application);
    if (!file->hdf5)
        return;
    put_words(&writer, "hdf5.", file->hdf5->properties);
    begin(&writer);
    put(&writer, "hdf5.collective=", SIZE_MAX);
    put_number(&writer, facts->transfers, 17);
    end(&writer);
    int told = 0;
    for (const struct sw_dataset *dataset = file->hdf5->oldest;
         dataset && told < MOST_DATASETS && !writer.full; dataset = dataset->newer)
        if (dataset->facts.known) {
            put_dataset(&writer, dataset);
            told++;
        }
}
