/* SPDX-License-Identifier: BSD-3-Clause
 * A JSON writer over stdio that depends on no locale, and remembers whether anything failed. */
#ifndef STRIPEWISE_JSON_H
#define STRIPEWISE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "stripewise_format.h"

/* Of the report: sw_key.NAME is "NAME". */
extern const struct sw_keys sw_key;

struct sw_json {
    FILE *file;
    bool comma; /* the next value stands after another one */
};

/* key is NULL inside an array and at the top. */
void sw_json_open(struct sw_json *json, const char *key, char bracket);
void sw_json_close(struct sw_json *json, char bracket);
void sw_json_text(struct sw_json *json, const char *key, const char *value); /* NULL: null */
void sw_json_unsigned(struct sw_json *json, const char *key, uint64_t value);
void sw_json_integer(struct sw_json *json, const char *key, int64_t value);
void sw_json_bool(struct sw_json *json, const char *key, bool value);
void sw_json_known(struct sw_json *json, const char *key, int64_t value); /* negative: null */
/* What is JSON already. */
void sw_json_raw(struct sw_json *json, const char *key, const char *value);
void sw_json_null(struct sw_json *json, const char *key);

/* A number with digits after the point: value / 10^digits (3, 6 or 9). */
void sw_json_decimal(struct sw_json *json, const char *key, int64_t value, int digits);

#endif
