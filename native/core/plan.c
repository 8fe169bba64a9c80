/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fnmatch.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input.h"
#include "plan.h"

const char *const sw_carrier_names[SW_CARRIERS] = {SW_CARRIER_NAMES};

struct parser {
    struct sw_plan *plan;
    const char *glob;
    size_t line;
    size_t room, word_room; /* settings and words allocated */
    char *error;
    size_t error_size;
};

static bool fail(struct parser *parser, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(struct parser *parser, const char *format, ...) {
    int used = snprintf(parser->error, parser->error_size, "line %zu: ", parser->line);
    if (used >= 0 && (size_t)used < parser->error_size) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(parser->error + used, parser->error_size - (size_t)used, format, arguments);
        va_end(arguments);
    }
    return false;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* Cuts the first word off *rest; "" at the end of the line. */
static char *next_word(char **rest) {
    char *start = *rest;
    while (is_blank(*start))
        start++;
    char *end = start;
    while (*end && !is_blank(*end))
        end++;
    if (*end)
        *end++ = '\0';
    while (is_blank(*end))
        end++;
    *rest = end;
    return start;
}

/* Appends to one of the plan's two lists. */
static bool append(struct parser *parser, const char *what, struct sw_setting entry, struct sw_setting **list,
                   size_t *count, size_t *room) {
    if (!*entry.key || !*entry.value)
        return fail(parser, "\"%s\" wants a name and a value", what);
    if (strlen(entry.key) > SW_MAX_KEY)
        return fail(parser, "a name longer than %d bytes", SW_MAX_KEY);
    if (strlen(entry.value) > SW_MAX_VALUE)
        return fail(parser, "a value longer than %d bytes", SW_MAX_VALUE);
    if (*count == SW_MAX_SETTINGS)
        return fail(parser, "more than %d settings", SW_MAX_SETTINGS);
    if (*count == *room) {
        size_t more = *room ? *room * 2 : 16;
        struct sw_setting *grown = realloc(*list, more * sizeof *grown);
        if (!grown)
            return fail(parser, "out of memory");
        *list = grown;
        *room = more;
    }
    (*list)[(*count)++] = entry;
    return true;
}

static bool add_setting(struct parser *parser, enum sw_carrier carrier, const char *key, const char *value) {
    struct sw_plan *plan = parser->plan;
    return append(parser, sw_carrier_names[carrier], (struct sw_setting){carrier, parser->glob, key, value},
                  &plan->settings, &plan->count, &parser->room);
}

static bool add_word(struct parser *parser, const char *key, const char *value) {
    struct sw_plan *plan = parser->plan;
    return append(parser, SW_PLAN_WORKLOAD, (struct sw_setting){SW_HINT, parser->glob, key, value},
                  &plan->word, &plan->words, &parser->word_room);
}

static bool parse_allowance(struct parser *parser, const char *what) {
    if (strcmp(what, "composite") == 0)
        parser->plan->allow |= SW_ALLOW_COMPOSITE;
    else if (strcmp(what, SW_KEY_POOL) == 0)
        parser->plan->allow |= SW_ALLOW_POOL;
    else if (strcmp(what, "empty") == 0)
        parser->plan->allow |= SW_ALLOW_EMPTY;
    else
        return fail(parser, "\"allow\" wants composite, " SW_KEY_POOL " or empty");
    return true;
}

static bool parse_layout(struct parser *parser, char *rest) {
    static const char *const file_systems[SW_FILE_SYSTEMS] = {SW_FILE_SYSTEM_NAMES};
    char *file_system = next_word(&rest);
    int system = 0;
    while (system < SW_FILE_SYSTEMS && strcmp(file_system, file_systems[system]) != 0)
        system++;
    if (system == SW_FILE_SYSTEMS)
        return fail(parser, "layout of \"%.40s\" is unknown; use " SW_FILE_SYSTEM_LIST, file_system);
    /* Join the two words in place by one blank: they stood apart by at least one. */
    char *key = file_system;
    size_t length = strlen(file_system);
    const char *name = next_word(&rest);
    if (!*name)
        return fail(parser, "\"layout\" wants a file system, a name and a value");
    memmove(key + length + 1, name, strlen(name) + 1);
    key[length] = ' ';
    return add_setting(parser, SW_LAYOUT, key, rest);
}

static bool parse_line(struct parser *parser, char *line) {
    struct sw_plan *plan = parser->plan;
    char *rest = line;
    const char *verb = next_word(&rest);
    if (!*verb)
        return true;
    if (strcmp(verb, SW_PLAN_ID) == 0) {
        if (!*rest || strlen(rest) > SW_MAX_ID)
            return fail(parser, "\"id\" wants 1 to %d bytes", SW_MAX_ID);
        memcpy(plan->id, rest, strlen(rest) + 1);
        return true;
    }
    if (strcmp(verb, SW_PLAN_OVERRIDE) == 0) {
        plan->override = strcmp(rest, "yes") == 0;
        return plan->override || strcmp(rest, "no") == 0 || fail(parser, "\"override\" wants yes or no");
    }
    if (strcmp(verb, SW_PLAN_FILE) == 0) {
        if (!*rest || strlen(rest) > SW_MAX_VALUE)
            return fail(parser, "\"file\" wants a pattern of 1 to %d bytes", SW_MAX_VALUE);
        parser->glob = rest;
        return true;
    }
    if (strcmp(verb, SW_PLAN_ALLOW) == 0)
        return parse_allowance(parser, rest);
    if (strcmp(verb, SW_PLAN_WORKLOAD) == 0) {
        const char *key = next_word(&rest);
        return add_word(parser, key, rest);
    }
    for (int carrier = 0; carrier < SW_CARRIERS; carrier++)
        if (strcmp(verb, sw_carrier_names[carrier]) == 0) {
            if (carrier == SW_LAYOUT)
                return parse_layout(parser, rest);
            const char *key = next_word(&rest);
            return add_setting(parser, (enum sw_carrier)carrier, key, rest);
        }
    return fail(parser, "unknown word \"%.40s\"", verb);
}

/* Ends the line at its newline, drops blanks at its end, and refuses control characters. Returns the next
 * line, or NULL. */
static bool cut_line(struct parser *parser, char *line, char *end, char **next) {
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    size_t length = newline ? (size_t)(newline - line) : (size_t)(end - line);
    *next = newline ? line + length + 1 : NULL;
    if (newline && length && line[length - 1] == '\r')
        length--;
    for (size_t i = 0; i < length; i++)
        if (((unsigned char)line[i] < ' ' && line[i] != '\t') || line[i] == 0x7f)
            return fail(parser, "a control character (byte %d)", (unsigned char)line[i]);
    while (length && is_blank(line[length - 1]))
        length--;
    line[length] = '\0';
    return true;
}

static bool parse_text(struct parser *parser, char *text, size_t size) {
    char *end = text + size;
    for (char *line = text, *next; line; line = next) {
        parser->line++;
        if (!cut_line(parser, line, end, &next))
            return false;
        if (parser->line == 1) {
            if (strcmp(line, SW_PLAN_HEADER) != 0)
                return fail(parser, "not \"" SW_PLAN_HEADER "\"");
        } else if (*line != '#' && !parse_line(parser, line)) {
            return false;
        }
    }
    return true;
}

bool sw_plan_parse(const char *text, size_t size, struct sw_plan *plan, char *error, size_t error_size) {
    *plan = (struct sw_plan){.override = false};
    if (size > SW_MAX_PLAN_BYTES) {
        snprintf(error, error_size, "larger than %d bytes", SW_MAX_PLAN_BYTES);
        return false;
    }
    plan->text = malloc(size + 1);
    if (!plan->text) {
        snprintf(error, error_size, "out of memory");
        return false;
    }
    if (size)
        memcpy(plan->text, text, size);
    plan->text[size] = '\0';
    struct parser parser = {.plan = plan, .glob = "*", .error = error, .error_size = error_size};
    if (parse_text(&parser, plan->text, size))
        return true;
    sw_plan_free(plan);
    return false;
}

bool sw_plan_read(const char *path, char **text, size_t *size, char *error, size_t error_size) {
    off_t there;
    *text = NULL;
    *size = 0;
    int fd = sw_input_open(path, &there, error, error_size);
    if (fd < 0)
        return false;
    if (there > SW_MAX_PLAN_BYTES) {
        close(fd);
        snprintf(error, error_size, "larger than 1 MiB");
        return false;
    }
    *size = (size_t)there;
    *text = sw_input_read(fd, 0, size, error, error_size);
    return *text != NULL;
}

void sw_plan_free(struct sw_plan *plan) {
    free(plan->settings);
    free(plan->word);
    free(plan->text);
    *plan = (struct sw_plan){.override = false};
}

bool sw_setting_matches(const struct sw_setting *setting, const char *path) {
    if (strcmp(setting->glob, "*") == 0)
        return true;
    const char *slash = strrchr(path, '/');
    return fnmatch(setting->glob, path, 0) == 0 || fnmatch(setting->glob, slash ? slash + 1 : path, 0) == 0;
}

/* Can a key or value stand in the text? A layout's key has one blank between its two words. */
static bool is_word(const char *text, size_t room, unsigned blanks) {
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == ';' || text[i] == 0x7f)
            return false;
        if (text[i] == ' ' && blanks-- == 0)
            return false;
    }
    return length && length < room && text[0] != ' ' && text[length - 1] != ' ';
}

const char *sw_settings_get(const struct sw_decided_set *set, enum sw_carrier carrier, const char *key) {
    for (uint32_t i = 0; i < set->count; i++)
        if (set->settings[i].carrier == carrier && strcmp(set->settings[i].key, key) == 0)
            return set->settings[i].value;
    return NULL;
}

bool sw_settings_put(struct sw_decided_set *set, enum sw_carrier carrier, const char *key,
                     const char *value) {
    bool layout = carrier == SW_LAYOUT;
    if (carrier > SW_HDF5 || !is_word(key, SW_DECIDED_KEY, layout) || layout != (strchr(key, ' ') != NULL) ||
        !is_word(value, SW_DECIDED_VALUE, UINT32_MAX))
        return false;
    uint32_t at = 0;
    while (at < set->count &&
           (set->settings[at].carrier != carrier || strcmp(set->settings[at].key, key) != 0))
        at++;
    if (at == SW_MAX_DECIDED)
        return false;
    struct sw_decided *own = &set->settings[at];
    own->carrier = carrier;
    snprintf(own->key, sizeof own->key, "%s", key);
    snprintf(own->value, sizeof own->value, "%s", value);
    set->count += at == set->count;
    return true;
}

static int by_key(const void *a, const void *b) {
    const struct sw_decided *left = a, *right = b;
    return left->carrier != right->carrier
               ? (left->carrier > right->carrier) - (left->carrier < right->carrier)
               : strcmp(left->key, right->key);
}

bool sw_settings_print(const struct sw_decided_set *set, char *text, size_t size) {
    struct sw_decided_set sorted = *set;
    size_t used = 0;
    if (!size)
        return false;
    qsort(sorted.settings, sorted.count, sizeof *sorted.settings, by_key);
    *text = '\0';
    for (uint32_t i = 0; i < sorted.count; i++) {
        const struct sw_decided *own = &sorted.settings[i];
        int length = snprintf(text + used, size - used, "%s%s %s %s", i ? ";" : "",
                              sw_carrier_names[own->carrier], own->key, own->value);
        if (length < 0 || (size_t)length >= size - used)
            return false;
        used += (size_t)length;
    }
    return true;
}

static bool parse_one(char *line, struct sw_decided_set *set) {
    for (int carrier = SW_HINT; carrier <= SW_HDF5; carrier++) {
        size_t length = strlen(sw_carrier_names[carrier]);
        if (strncmp(line, sw_carrier_names[carrier], length) != 0 || line[length] != ' ')
            continue;
        char *key = line + length + 1, *value = strchr(key, ' ');
        if (value && carrier == SW_LAYOUT)
            value = strchr(value + 1, ' ');
        if (!value)
            return false;
        *value++ = '\0';
        return sw_settings_put(set, (enum sw_carrier)carrier, key, value);
    }
    return false;
}

bool sw_settings_parse(const char *text, struct sw_decided_set *set) {
    char line[SW_DECIDED_KEY + SW_DECIDED_VALUE + 16];
    set->count = 0;
    while (*text) {
        size_t length = strcspn(text, ";");
        if (length >= sizeof line) {
            set->count = 0;
            return false;
        }
        memcpy(line, text, length);
        line[length] = '\0';
        if (!parse_one(line, set)) {
            set->count = 0;
            return false;
        }
        text += length + (text[length] == ';');
    }
    return true;
}
