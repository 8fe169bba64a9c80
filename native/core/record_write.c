/* SPDX-License-Identifier: BSD-3-Clause
 * The record as text: ranks next to each other that did the same become one group of lines. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "journal.h"
#include "record.h"

#define MOST_DIGITS 18 /* of a number in a path that may grow */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static size_t digits_at(const char *text) {
    size_t length = 0;
    while (is_digit(text[length]))
        length++;
    return length;
}

static size_t runs_of_digits(const char *text) {
    size_t runs = 0;
    for (; *text; text++)
        if (is_digit(*text)) {
            runs++;
            text += digits_at(text) - 1;
        }
    return runs;
}

static void *copy(const void *from, size_t size) {
    void *to = malloc(size + 1);
    if (to)
        memcpy(to, from, size);
    return to;
}

static void let_go(struct sw_group *group) {
    free((void *)group->part.named);
    free((void *)group->part.calls);
    free((void *)group->part.texts);
    free(group->ranks);
    free(group->digits);
    *group = (struct sw_group){.count = 0};
}

bool sw_group_begin(struct sw_group *group, int64_t rank, const struct sw_part *part) {
    *group = (struct sw_group){.first = rank, .count = 1, .part = *part};
    group->part.named = copy(part->named, part->named_count * sizeof *part->named);
    group->part.calls = copy(part->calls, part->call_count * sizeof *part->calls);
    group->part.texts = copy(part->texts, part->text_size);
    group->ranks = calloc((size_t)part->named_count + part->call_count + 1, sizeof *group->ranks);
    for (size_t at = 0; at < part->text_size; at += strlen(part->texts + at) + 1)
        group->runs += runs_of_digits(part->texts + at);
    group->digits = calloc(group->runs + 1, sizeof *group->digits);
    bool whole = group->part.named && group->part.calls && group->part.texts && group->ranks && group->digits;
    if (!whole)
        let_go(group);
    return whole;
}

/* Is an item of a rank what the group's first one and the steps so far say? The second rank sets the steps.
 */
static bool fits(const struct sw_item *head, const struct sw_item *item, int64_t *steps, int64_t distance) {
    if (head->line != item->line || head->depth != item->depth ||
        memcmp(head->steps, item->steps, sizeof head->steps) != 0)
        return false;
    for (int n = 0; n < SW_RECORD_NUMBERS; n++) {
        int64_t off = (int64_t)((uint64_t)item->numbers[n] - (uint64_t)head->numbers[n]);
        if (distance == 1)
            steps[n] = off;
        if (off != (int64_t)((uint64_t)steps[n] * (uint64_t)distance))
            return false;
    }
    return head->line != SW_LINE_loop || steps[0] == 0;
}

/* The same of a text with its runs of digits; moves on *at in both the group's steps. */
static bool text_fits(const char *head, const char *text, int64_t *steps, int64_t distance) {
    while (*head || *text) {
        size_t length = digits_at(head), other = digits_at(text);
        if (!length || !other) {
            if (length != other || *head++ != *text++)
                return false;
            continue;
        }
        if (length > MOST_DIGITS || other > MOST_DIGITS) {
            if (length != other || memcmp(head, text, length) != 0)
                return false;
        } else {
            long long from = strtoll(head, NULL, 10), to = strtoll(text, NULL, 10);
            char expected[32];
            if (distance == 1)
                *steps = to - from;
            int printed = snprintf(expected, sizeof expected, "%0*lld", (int)length,
                                   from + (long long)(*steps * distance));
            if (printed != (int)other || memcmp(expected, text, other) != 0)
                return false;
        }
        steps++;
        head += length;
        text += other;
    }
    return true;
}

bool sw_group_take(struct sw_group *group, const struct sw_part *part) {
    const struct sw_part *own = &group->part;
    if (!group->count || own->named_count != part->named_count || own->call_count != part->call_count)
        return false;
    for (uint32_t i = 0; i < part->named_count; i++)
        if (!fits(&own->named[i], &part->named[i], group->ranks[i], group->count))
            return false;
    for (uint32_t i = 0; i < part->call_count; i++)
        if (!fits(&own->calls[i], &part->calls[i], group->ranks[part->named_count + i], group->count))
            return false;
    size_t at = 0, other = 0;
    for (int64_t *steps = group->digits; at < own->text_size; at += strlen(own->texts + at) + 1) {
        if (other >= part->text_size || !text_fits(own->texts + at, part->texts + other, steps, group->count))
            return false;
        steps += runs_of_digits(own->texts + at);
        other += strlen(part->texts + other) + 1;
    }
    if (other != part->text_size)
        return false;
    struct sw_item *calls = (struct sw_item *)own->calls;
    for (uint32_t i = 0; i < part->call_count; i++)
        calls[i].pause += part->calls[i].pause;
    group->count++;
    return true;
}

/* ---- text ---- */

void sw_record_write(FILE *file, uint32_t *crc, const char *text, size_t size) {
    *crc = sw_crc32(*crc, text, size);
    fwrite(text, 1, size, file);
}

void sw_record_print(FILE *file, uint32_t *crc, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (size < 0 || size > (int)sizeof line - 2)
        size = (int)sizeof line - 2;
    line[size++] = '\n';
    sw_record_write(file, crc, line, (size_t)size);
}

void sw_record_print_text(FILE *file, uint32_t *crc, const char *head, const char *text) {
    sw_record_write(file, crc, head, strlen(head));
    for (; *text; text++) {
        char escaped[4];
        unsigned char c = (unsigned char)*text;
        if (c < ' ' || c == '%' || c == 0x7f)
            sw_record_write(file, crc, escaped, (size_t)snprintf(escaped, sizeof escaped, "%%%02x", c));
        else
            sw_record_write(file, crc, text, 1);
    }
    sw_record_write(file, crc, "\n", 1);
}

/* NUMBER[,STEP...][~STEP]: the steps of the loops, the innermost first, and that of the ranks. */
static size_t put_number(char *line, size_t size, const struct sw_item *item, int n, int64_t rank) {
    size_t used = (size_t)snprintf(line, size, " %" PRId64, item->numbers[n]);
    uint32_t steps = item->depth;
    while (steps && !item->steps[steps - 1][n])
        steps--;
    for (uint32_t i = 0; i < steps; i++)
        used += (size_t)snprintf(line + used, size - used, ",%" PRId64, item->steps[i][n]);
    if (rank)
        used += (size_t)snprintf(line + used, size - used, "~%" PRId64, rank);
    return used;
}

static void print_item(FILE *file, uint32_t *crc, const struct sw_item *item, const int64_t *ranks,
                       int64_t turns) {
    const struct sw_line_form *form = &sw_line_forms[item->line];
    char line[1024];
    size_t used = (size_t)snprintf(line, sizeof line, "%s", form->name);
    for (int n = 0; n < form->numbers; n++)
        used += put_number(line + used, sizeof line - used, item, n, ranks[n]);
    if (form->call)
        used += (size_t)snprintf(line + used, sizeof line - used, " %" PRId64, item->pause / turns);
    line[used++] = '\n';
    sw_record_write(file, crc, line, used);
}

static void print_named(const struct sw_group *group, FILE *file, uint32_t *crc) {
    const char *text = group->part.texts;
    const int64_t *digits = group->digits;
    for (uint32_t i = 0; i < group->part.named_count; i++) {
        const struct sw_item *item = &group->part.named[i];
        if (item->line != SW_LINE_file && item->line != SW_LINE_hint) {
            print_item(file, crc, item, group->ranks[i], 1);
            continue;
        }
        char head[512] = "hint ";
        size_t runs = runs_of_digits(text);
        if (item->line == SW_LINE_file) {
            size_t used = (size_t)snprintf(head, sizeof head, "file ");
            for (size_t run = 0; run < runs && used < sizeof head - 32; run++)
                used += (size_t)snprintf(head + used, sizeof head - used, run ? ",%" PRId64 : "%" PRId64,
                                         digits[run]);
            snprintf(head + used, sizeof head - used, runs ? " " : "- ");
        }
        sw_record_print_text(file, crc, head, text);
        digits += runs;
        text += strlen(text) + 1;
    }
}

void sw_group_end(struct sw_group *group, FILE *file, uint32_t *crc) {
    if (!group->count)
        return;
    if (group->count == 1) { /* a second rank that did not fit may have left steps */
        memset(group->ranks, 0,
               ((size_t)group->part.named_count + group->part.call_count) * sizeof *group->ranks);
        memset(group->digits, 0, group->runs * sizeof *group->digits);
    }
    sw_record_print(file, crc, "ranks %" PRId64 " %" PRId64, group->first, group->count);
    print_named(group, file, crc);
    int64_t around[SW_RECORD_DEPTH + 1] = {group->count};
    int depth = 0;
    for (uint32_t i = 0; i < group->part.call_count; i++) {
        const struct sw_item *item = &group->part.calls[i];
        if (item->line == SW_LINE_loop && depth < SW_RECORD_DEPTH) {
            around[depth + 1] = around[depth] * item->numbers[0];
            depth++;
        } else if (item->line == SW_LINE_end && depth > 0) {
            depth--;
        }
        print_item(file, crc, item, group->ranks[group->part.named_count + i], around[depth]);
    }
    let_go(group);
}
