/* SPDX-License-Identifier: BSD-3-Clause */
#include "json.h"

#include <inttypes.h>
#include <string.h>

const struct sw_keys sw_key = {SW_KEY_NAMES};

/* The length of the UTF-8 sequence at text (RFC 3629: shortest form, no surrogates), 0 if it is none. */
static int utf8_length(const unsigned char *text) {
    unsigned char first = text[0], low = 0x80, high = 0xbf;
    int length = first < 0x80   ? 1
                 : first < 0xc2 ? 0
                 : first < 0xe0 ? 2
                 : first < 0xf0 ? 3
                 : first < 0xf5 ? 4
                                : 0;
    if (first == 0xe0)
        low = 0xa0;
    if (first == 0xed)
        high = 0x9f;
    if (first == 0xf0)
        low = 0x90;
    if (first == 0xf4)
        high = 0x8f;
    for (int i = 1; i < length; i++, low = 0x80, high = 0xbf)
        if (text[i] < low || text[i] > high)
            return 0;
    return length;
}

/* Writes a text as it stands between the quotes of a JSON string; bytes that are not UTF-8 become lone
 * surrogates, as Python's surrogateescape has them. */
static void put_characters(FILE *file, const char *value) {
    const unsigned char *c = (const unsigned char *)value;
    while (*c) {
        int length = utf8_length(c);
        if (length == 0)
            fprintf(file, "\\udc%02x", *c);
        else if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if (*c < ' ' || *c == 0x7f)
            fprintf(file, "\\u%04x", *c);
        else
            fwrite(c, 1, (size_t)length, file);
        c += length ? length : 1;
    }
}

static void put_string(FILE *file, const char *value) {
    fputc('"', file);
    put_characters(file, value);
    fputc('"', file);
}

static void before_value(struct sw_json *json, const char *key) {
    if (json->comma)
        fputc(',', json->file);
    json->comma = true;
    if (key) {
        put_string(json->file, key);
        fputc(':', json->file);
    }
}

void sw_json_open(struct sw_json *json, const char *key, char bracket) {
    before_value(json, key);
    fputc(bracket, json->file);
    json->comma = false;
}

void sw_json_close(struct sw_json *json, char bracket) {
    fputc(bracket, json->file);
    json->comma = true;
}

void sw_json_text(struct sw_json *json, const char *key, const char *value) {
    before_value(json, key);
    if (value)
        put_string(json->file, value);
    else
        fputs("null", json->file);
}

void sw_json_unsigned(struct sw_json *json, const char *key, uint64_t value) {
    before_value(json, key);
    fprintf(json->file, "%" PRIu64, value);
}

void sw_json_integer(struct sw_json *json, const char *key, int64_t value) {
    before_value(json, key);
    fprintf(json->file, "%" PRId64, value);
}

void sw_json_known(struct sw_json *json, const char *key, int64_t value) {
    if (value >= 0)
        sw_json_integer(json, key, value);
    else
        sw_json_null(json, key);
}

void sw_json_bool(struct sw_json *json, const char *key, bool value) {
    before_value(json, key);
    fputs(value ? "true" : "false", json->file);
}

void sw_json_raw(struct sw_json *json, const char *key, const char *value) {
    before_value(json, key);
    fputs(value, json->file);
}

void sw_json_null(struct sw_json *json, const char *key) {
    sw_json_text(json, key, NULL);
}

void sw_json_decimal(struct sw_json *json, const char *key, int64_t value, int digits) {
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value, scale = 1;
    for (int i = 0; i < digits; i++)
        scale *= 10;
    before_value(json, key);
    fprintf(json->file, "%s%" PRIu64 ".%0*" PRIu64, value < 0 ? "-" : "", size / scale, digits, size % scale);
}
