/* From argv to struct options, by the option table. What the values mean together is resolve.c's. */
#include "option_table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int refuse(char *reason, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, REASON_MAX, format, arguments);
    va_end(arguments);
    return -1;
}

static const struct option_row *row_named(const char *name, size_t length) {
    for (int i = 0; i < option_rows; i++)
        if (strlen(option_table[i].name) == length && strncmp(option_table[i].name, name, length) == 0)
            return &option_table[i];
    return NULL;
}

static const struct option_row *row_lettered(char letter) {
    for (int i = 0; i < option_rows; i++)
        if (option_table[i].letter == letter)
            return &option_table[i];
    return NULL;
}

bool option_given(const struct options *options, const char *name) {
    const struct option_row *row = row_named(name, strlen(name));
    return row != NULL && (options->given >> (row - option_table) & 1) != 0;
}

static int store_text(char *field, size_t capacity, const char *option, const char *value, char *reason) {
    if (*value == '\0')
        return refuse(reason, "--%s: is empty", option);
    if (strlen(value) >= capacity)
        return refuse(reason, "--%s: is longer than %zu bytes", option, capacity - 1);
    memcpy(field, value, strlen(value) + 1);
    return 0;
}

static int store_effect(struct effects *effects, const struct option_row *row, const char *value,
                        char *reason) {
    const char *equals = strchr(value, '=');
    const char *end = row->kind == KIND_EFFECT ? strrchr(value, ':') : value + strlen(value);
    if (equals == NULL || equals == value || end == NULL || end <= equals + 1)
        return refuse(reason, "--%s: '%s' is not of the form %s", row->name, value, row->argument);
    if (effects->count == EFFECTS_MAX)
        return refuse(reason, "--%s: given more than %d times", row->name, EFFECTS_MAX);
    struct effect *effect = &effects->list[effects->count];
    size_t key_length = (size_t)(equals - value), value_length = (size_t)(end - equals - 1);
    if (key_length >= SETTING_MAX || value_length >= SETTING_MAX)
        return refuse(reason, "--%s: '%s' is too long", row->name, value);
    memset(effect, 0, sizeof *effect);
    memcpy(effect->key, value, key_length);
    memcpy(effect->value, equals + 1, value_length);
    effect->factor = 1;
    if (row->kind == KIND_EFFECT) {
        const char *wrong = parse_real(end + 1, &effect->factor);
        if (wrong == NULL && effect->factor == 0)
            wrong = "must be greater than 0";
        if (wrong != NULL)
            return refuse(reason, "--%s: factor '%s' %s", row->name, end + 1, wrong);
    }
    effects->count++;
    return 0;
}

static int store(struct options *options, const struct option_row *row, const char *value, char *reason) {
    void *field = (char *)options + row->offset;
    if (value == NULL)
        value = ""; /* of a flag */
    const char *wrong = NULL;
    switch (row->kind) {
    case KIND_FLAG:
        *(bool *)field = true;
        break;
    case KIND_RANDOM:
        *(enum layout *)field = LAYOUT_RANDOM;
        break;
    case KIND_SIZE:
    case KIND_COUNT:
    case KIND_NUMBER:
        wrong = parse_size(value, field);
        if (wrong == NULL && row->kind != KIND_NUMBER && *(int64_t *)field == 0)
            wrong = "must be greater than 0";
        break;
    case KIND_SEED:
        wrong = parse_seed(value, field);
        break;
    case KIND_REAL:
        wrong = parse_real(value, field);
        break;
    case KIND_TEXT:
        return store_text(field, TEXT_MAX, row->name, value, reason);
    case KIND_SOURCE:
        return store_text(field, SETTING_MAX, row->name, value, reason);
    case KIND_API:
        if (backend_left_out(value))
            return refuse(reason,
                          "--api: this program was built without HDF5; build it with a parallel HDF5 of "
                          "the same MPI (cmake -DSTRIPEWISE_HDF5=ON), or use mpiio");
        if (backend_find(value) == NULL)
            return refuse(reason, "--api: '%s' is unknown; use one of %s", value, backend_names());
        return store_text(field, sizeof options->api, row->name, backend_find(value)->name, reason);
    case KIND_LAYOUT:
        for (int layout = 0; layout < LAYOUT_COUNT; layout++)
            if (strcasecmp(value, layout_name(layout)) == 0) {
                *(enum layout *)field = layout;
                return 0;
            }
        return refuse(reason, "--layout: '%s' is unknown; use segmented, strided, random or tile", value);
    case KIND_EFFECT:
    case KIND_SETTING:
        return store_effect(field, row, value, reason);
    }
    return wrong == NULL ? 0 : refuse(reason, "--%s: '%s' %s", row->name, value, wrong);
}

static int apply(struct options *options, const struct option_row *row, const char *value, char *reason) {
    options->given |= (uint64_t)1 << (row - option_table);
    return store(options, row, value, reason);
}

/* Letters stand together (-wr), the last one's value joined to it or the next argument (-t1m, -t 1m). */
static int parse_letters(struct options *options, char **argv, int *index, char *reason) {
    for (const char *letter = argv[*index] + 1; *letter != '\0'; letter++) {
        const struct option_row *row = row_lettered(*letter);
        if (row == NULL)
            return refuse(reason, "unknown option '-%c'; see --help", *letter);
        if (row->argument == NULL) {
            if (apply(options, row, NULL, reason) != 0)
                return -1;
            continue;
        }
        const char *value = letter[1] != '\0' ? letter + 1 : argv[++*index];
        if (value == NULL)
            return refuse(reason, "option -%c (--%s) needs a value: %s", *letter, row->name, row->argument);
        return apply(options, row, value, reason);
    }
    return 0;
}

static int parse_word(struct options *options, char **argv, int *index, char *reason) {
    const char *word = argv[*index] + 2;
    size_t length = strcspn(word, "=");
    const struct option_row *row = row_named(word, length);
    if (row == NULL)
        return refuse(reason, "unknown option '--%.*s'; see --help", (int)length, word);
    if (row->argument == NULL) {
        if (word[length] == '=')
            return refuse(reason, "option --%s takes no value", row->name);
        return apply(options, row, NULL, reason);
    }
    const char *value = word[length] == '=' ? word + length + 1 : argv[++*index];
    if (value == NULL)
        return refuse(reason, "option --%s needs a value: %s", row->name, row->argument);
    return apply(options, row, value, reason);
}

int options_parse(int argc, char **argv, struct options *options, char *reason) {
    memset(options, 0, sizeof *options);
    snprintf(options->api, sizeof options->api, "mpiio");
    options->repetitions = 1;
    options->memory = (int64_t)64 << 20;
    options->dummy.bandwidth = 1000;
    for (int index = 1; index < argc; index++) {
        const char *argument = argv[index];
        int failed;
        if (strncmp(argument, "--", 2) == 0 && argument[2] != '\0')
            failed = parse_word(options, argv, &index, reason);
        else if (argument[0] == '-' && argument[1] != '\0' && argument[1] != '-')
            failed = parse_letters(options, argv, &index, reason);
        else
            return refuse(reason, "unexpected argument '%s'; options start with a dash, see --help",
                          argument);
        if (failed)
            return -1;
    }
    return 0;
}
