/* The hints file: what goes into the MPI_Info of every open. */
#include "kernel.h"

#include <errno.h>
#include <string.h>

#define LINE_MAX_BYTES 4096
#define SPACE " \t\r\n"

static int add_hint(struct hints *hints, const char *key, const char *value, char *wrong) {
    if (strlen(key) > MPI_MAX_INFO_KEY - 1 || strlen(key) >= HINT_KEY_MAX)
        return refuse(wrong, "the key is too long");
    if (strlen(value) > MPI_MAX_INFO_VAL - 1 || strlen(value) >= HINT_VALUE_MAX)
        return refuse(wrong, "the value is too long");
    for (int i = 0; i < hints->count; i++)
        if (strcmp(hints->list[i].key, key) == 0)
            return refuse(wrong, "the key '%s' stands twice in the file", key);
    if (hints->count == HINTS_MAX)
        return refuse(wrong, "more than %d hints", HINTS_MAX);
    struct hint *hint = &hints->list[hints->count++];
    snprintf(hint->key, sizeof hint->key, "%s", key);
    snprintf(hint->value, sizeof hint->value, "%s", value);
    return 0;
}

static char *skip_space(char *text) {
    // NOLINTNEXTLINE(clang-analyzer-security.ArrayBound): fgets ended the line with a NUL
    while (*text != '\0' && strchr(SPACE, *text) != NULL)
        text++;
    return text;
}

static int parse_line(struct hints *hints, char *line, char *wrong) {
    static const char ior[] = "IOR_HINT__MPI__";
    static const char ior_other[] = "IOR_HINT__";
    static const char setenv_word[] = "setenv ";
    line = skip_space(line);
    if (*line == '\0' || *line == '#')
        return 0;
    for (const char *c = line; *c != '\0'; c++)
        if (((unsigned char)*c < ' ' && strchr(SPACE, *c) == NULL) || *c == 0x7f)
            return refuse(wrong, "a control character");
    if (strncmp(line, setenv_word, sizeof setenv_word - 1) == 0) {
        line = skip_space(line + sizeof setenv_word - 1);
    }
    if (strncmp(line, ior, sizeof ior - 1) == 0)
        line += sizeof ior - 1;
    else if (strncmp(line, ior_other, sizeof ior_other - 1) == 0)
        return refuse(wrong, "only MPI hints are known (IOR_HINT__MPI__key)");
    size_t key_length = strcspn(line, SPACE "=");
    char *value = skip_space(line + key_length);
    if (*value == '=')
        value = skip_space(value + 1);
    size_t value_length = strcspn(value, SPACE);
    if (key_length == 0 || value_length == 0)
        return refuse(wrong, "expected `key value`, `key = value` or a # comment");
    if (*skip_space(value + value_length) != '\0')
        return refuse(wrong, "a third word; expected `key value`");
    // NOLINTNEXTLINE(clang-analyzer-security.ArrayBound): strcspn stops at the line's NUL
    line[key_length] = '\0';
    value[value_length] = '\0';
    return add_hint(hints, line, value, wrong);
}

int hints_read(const char *path, struct hints *hints, char *reason) {
    FILE *stream = fopen(path, "r");
    if (stream == NULL)
        return refuse(reason, "cannot read the hints file %s: %s", path, strerror(errno));
    char line[LINE_MAX_BYTES];
    char wrong[REASON_MAX];
    int number = 0, failed = 0;
    while (failed == 0 && fgets(line, sizeof line, stream) != NULL) {
        number++;
        if (strlen(line) == sizeof line - 1 && line[sizeof line - 2] != '\n')
            failed = refuse(wrong, "longer than %d bytes", LINE_MAX_BYTES - 2);
        else
            failed = parse_line(hints, line, wrong);
    }
    if (failed != 0)
        refuse(reason, "hints file %s line %d: %.200s", path, number, wrong);
    else if (ferror(stream))
        failed = refuse(reason, "cannot read the hints file %s: %s", path, strerror(errno));
    fclose(stream);
    return failed;
}
