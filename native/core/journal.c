/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc.h"
#include "input.h"
#include "numeric.h"

void sw_journal_seal(char *line, size_t length) {
    char sum[9];
    snprintf(sum, sizeof sum, "%08x", (unsigned)sw_crc32(0, line + 8, length - 8));
    memcpy(line, sum, 8);
}

static bool is_plain(unsigned char c) {
    return c >= ' ' && c != '%' && c != 0x7f;
}

struct writer {
    char *line;
    size_t used, size;
    bool full;
};

static void put_char(struct writer *writer, char c) {
    if (writer->used + 1 >= writer->size)
        writer->full = true;
    else
        writer->line[writer->used++] = c;
}

/* TAB KEY "=" VALUE, with what is not plain in the value as %XX. */
static void put_text(struct writer *writer, const char *key, const char *value) {
    static const char digits[] = "0123456789abcdef";
    put_char(writer, '\t');
    for (; *key; key++)
        put_char(writer, *key);
    put_char(writer, '=');
    for (; *value; value++) {
        unsigned char c = (unsigned char)*value;
        if (is_plain(c)) {
            put_char(writer, *value);
        } else {
            put_char(writer, '%');
            put_char(writer, digits[c >> 4]);
            put_char(writer, digits[c & 15]);
        }
    }
}

static void put_number(struct writer *writer, const char *key, double value, int digits) {
    char text[40];
    sw_print_double(text, sizeof text, value, digits);
    put_text(writer, key, text);
}

size_t sw_journal_line(const struct sw_phase *phase, char *line, size_t size) {
    struct writer writer = {line, 8, size, size < 16};
    const char *operation = phase->write ? "write" : "read";
    char pattern[] = {phase->pattern, '\0'};
    if (writer.full)
        return 0;
#define TEXT(key, room) put_text(&writer, #key, phase->key);
#define NUMBER(key, digits, most) put_number(&writer, #key, phase->key, digits);
#define WORD(key) put_text(&writer, #key, key);
    SW_JOURNAL_KEYS(TEXT, NUMBER, WORD)
#undef TEXT
#undef NUMBER
#undef WORD
    put_char(&writer, '\n');
    if (writer.full)
        return 0;
    sw_journal_seal(line, writer.used - 1);
    return writer.used;
}

static int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_text(const char *from, size_t length, char *to, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        char c = from[i];
        if (c == '%') {
            int high = i + 2 < length ? digit(from[i + 1]) : -1, low = high < 0 ? -1 : digit(from[i + 2]);
            if (high < 0 || low < 0 || high * 16 + low == 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (!is_plain((unsigned char)c)) {
            return false;
        }
        if (used + 1 >= size)
            return false;
        to[used++] = c;
    }
    to[used] = '\0';
    return true;
}

static bool take_number(const char *from, size_t length, double most, double *number) {
    char text[40], *end;
    if (!length || !take_text(from, length, text, sizeof text))
        return false;
    *number = sw_scan_double(text, &end);
    return !*end && isfinite(*number) && *number >= 0 && *number <= most;
}

static bool take_operation(const char *from, size_t length, struct sw_phase *phase) {
    char word[8];
    bool good = take_text(from, length, word, sizeof word) &&
                (strcmp(word, "write") == 0 || strcmp(word, "read") == 0);
    phase->write = good && *word == 'w';
    return good;
}

static bool take_pattern(const char *from, size_t length, struct sw_phase *phase) {
    char word[2] = "";
    bool good = take_text(from, length, word, sizeof word) && *word;
    phase->pattern = good ? *word : '?';
    return good;
}

/* What a later version adds is passed over. */
static bool take_field(const char *key, size_t key_length, const char *value, size_t length,
                       struct sw_phase *phase) {
    double number = 0;
    bool good = true;
#define IF(name) if (key_length == sizeof(#name) - 1 && memcmp(key, #name, key_length) == 0)
#define TEXT(name, room)                                                                                     \
    IF(name)                                                                                                 \
    return take_text(value, length, phase->name, room);
#define NUMBER(name, digits, most)                                                                           \
    IF(name) {                                                                                               \
        good = take_number(value, length, most, &number);                                                    \
        phase->name = (__typeof__(phase->name))(good ? number : 0);                                          \
    }
#define WORD(name)                                                                                           \
    IF(name)                                                                                                 \
    return take_##name(value, length, phase);
    SW_JOURNAL_KEYS(TEXT, NUMBER, WORD)
#undef IF
#undef TEXT
#undef NUMBER
#undef WORD
    return good;
}

bool sw_journal_fields(const char *line, size_t length, struct sw_phase *phase) {
    char sum[9];
    memset(phase, 0, sizeof *phase);
    phase->pattern = '?';
    if (length < 10 || length >= SW_MAX_JOURNAL_LINE || line[8] != '\t')
        return false;
    snprintf(sum, sizeof sum, "%08x", (unsigned)sw_crc32(0, line + 8, length - 8));
    if (memcmp(sum, line, 8) != 0)
        return false;
    const char *end = line + length;
    for (const char *field = line + 9; field < end;) {
        const char *next = memchr(field, '\t', (size_t)(end - field));
        const char *stop = next ? next : end, *equals = memchr(field, '=', (size_t)(stop - field));
        if (!equals ||
            !take_field(field, (size_t)(equals - field), equals + 1, (size_t)(stop - equals - 1), phase))
            return false;
        field = stop + 1;
    }
    return true;
}

bool sw_journal_parse(const char *line, size_t length, struct sw_phase *phase) {
    return sw_journal_fields(line, length, phase) && *phase->site && phase->bytes > 0 && phase->seconds > 0;
}

size_t sw_journal_each(const char *text, size_t size, void (*take)(const struct sw_phase *, void *),
                       void *context) {
    static const char header[] = SW_JOURNAL_HEADER;
    struct sw_phase phase;
    size_t bad = 0;
    for (size_t at = 0; at < size;) {
        const char *newline = memchr(text + at, '\n', size - at);
        size_t length = newline ? (size_t)(newline - (text + at)) : size - at;
        bool is_header = length == sizeof header - 1 && memcmp(text + at, header, length) == 0;
        if (sw_journal_parse(text + at, length, &phase))
            take(&phase, context);
        else
            bad += length && !is_header;
        at += length + 1;
    }
    return bad;
}

/* Is an open file empty or a journal, of which even the header may be cut off? */
static bool is_journal(int fd) {
    char begin[sizeof SW_JOURNAL_HEADER - 1];
    ssize_t size = pread(fd, begin, sizeof begin, 0);
    return size >= 0 && memcmp(begin, SW_JOURNAL_HEADER, (size_t)size) == 0;
}

bool sw_journal_append(const char *path, const struct sw_phase *phase) {
    char text[SW_MAX_JOURNAL_LINE + sizeof SW_JOURNAL_HEADER + 2], last = '\n';
    /* O_NONBLOCK: a path that is a pipe without a reader must not hang the program. */
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    struct stat status;
    size_t used = 0;
    if (fd < 0)
        return false;
    /* Another user's link may lead to a file of another kind. */
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || !is_journal(fd)) {
        close(fd);
        errno = EINVAL;
        return false;
    }
    /* After a line that was cut off a new one begins. */
    if (status.st_size == 0)
        used = (size_t)snprintf(text, sizeof text, "%s\n", SW_JOURNAL_HEADER);
    else if (pread(fd, &last, 1, status.st_size - 1) == 1 && last != '\n')
        text[used++] = '\n';
    size_t length = sw_journal_line(phase, text + used, SW_MAX_JOURNAL_LINE);
    bool done = length > 0;
    if (!done)
        errno = EMSGSIZE;
    ssize_t written = done ? write(fd, text, used + length) : 0;
    if (done && written != (ssize_t)(used + length)) {
        errno = written < 0 ? errno : ENOSPC;
        done = false;
    }
    int reason = errno;
    close(fd);
    errno = reason;
    return done;
}

bool sw_journal_read(const char *path, char **text, size_t *size, char *error, size_t error_size) {
    off_t there;
    *text = NULL;
    *size = 0;
    int fd = sw_input_open(path, &there, error, error_size);
    if (fd < 0)
        return errno == ENOENT;
    off_t start = there > SW_MAX_JOURNAL_READ ? there - SW_MAX_JOURNAL_READ : 0;
    *size = (size_t)(there - start);
    *text = sw_input_read(fd, start, size, error, error_size);
    const char *first = *text && start ? memchr(*text, '\n', *size) : NULL;
    if (first) { /* what comes before is half a line */
        *size -= (size_t)(first + 1 - *text);
        memmove(*text, first + 1, *size);
    }
    return *text != NULL;
}
