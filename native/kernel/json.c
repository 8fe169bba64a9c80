/* The result as one JSON object; see --help and the format's name and version in it. */
#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../core/json.h"

static void put_text(FILE *out, const char *text) {
    fputc('"', out);
    sw_json_characters(out, text);
    fputc('"', out);
}

static void put_text_or_null(FILE *out, const char *text) {
    if (text[0] == '\0')
        fputs("null", out);
    else
        put_text(out, text);
}

/* The command as a shell would take it. */
static void put_command(FILE *out, char **argv) {
    fputc('"', out);
    for (char **argument = argv; *argument != NULL; argument++) {
        if (argument != argv)
            fputc(' ', out);
        const bool plain = **argument != '\0' && strpbrk(*argument, " \t\n'\"\\$&|;<>()*?[]{}~`!#") == NULL;
        if (plain) {
            sw_json_characters(out, *argument);
            continue;
        }
        fputc('\'', out);
        for (const char *c = *argument; *c != '\0';) {
            const size_t length = strcspn(c, "'");
            char part[TEXT_MAX];
            snprintf(part, sizeof part, "%.*s", (int)length, c);
            sw_json_characters(out, part);
            c += length;
            if (*c == '\'') {
                fputs("'\\\\''", out);
                c++;
            }
        }
        fputc('\'', out);
    }
    fputc('"', out);
}

static void put_effects(FILE *out, const struct effects *effects, bool factors) {
    fputc('[', out);
    for (int i = 0; i < effects->count; i++) {
        fputs(i > 0 ? ", {\"key\": " : "{\"key\": ", out);
        put_text(out, effects->list[i].key);
        fputs(", \"value\": ", out);
        put_text(out, effects->list[i].value);
        if (factors)
            fprintf(out, ", \"factor\": %.17g", effects->list[i].factor);
        fputc('}', out);
    }
    fputc(']', out);
}

static void put_option(FILE *out, const struct option_row *row, const struct options *options) {
    const void *field = (const char *)options + row->offset;
    for (const char *c = row->name; *c != '\0'; c++)
        fputc(*c == '-' ? '_' : *c, out);
    fputs("\": ", out);
    switch (row->kind) {
    case KIND_FLAG:
        fputs(*(const bool *)field ? "true" : "false", out);
        break;
    case KIND_SIZE:
    case KIND_COUNT:
    case KIND_NUMBER:
        fprintf(out, "%" PRId64, *(const int64_t *)field);
        break;
    case KIND_SEED:
        fprintf(out, "%" PRIu64, *(const uint64_t *)field);
        break;
    case KIND_REAL:
        fprintf(out, "%.17g", *(const double *)field);
        break;
    case KIND_LAYOUT:
        put_text(out, layout_name(*(const enum layout *)field));
        break;
    case KIND_EFFECT:
    case KIND_SETTING:
        put_effects(out, field, row->kind == KIND_EFFECT);
        break;
    default:
        put_text_or_null(out, field);
        break;
    }
}

/* Whether an option belongs to this run's layout and api; the others would only show meaningless zeros. */
static bool concerns(const struct option_row *row, const struct options *options) {
    const enum layout layout = options->geometry.layout;
    if (row->group == GROUP_TILE)
        return layout == LAYOUT_TILE;
    if (row->group == GROUP_DUMMY)
        return strcmp(options->api, "dummy") == 0;
    if (strcmp(row->name, "piece") == 0)
        return layout == LAYOUT_STRIDED;
    return row->kind != KIND_RANDOM && strcmp(row->name, "help") != 0 && strcmp(row->name, "version") != 0 &&
           strcmp(row->name, "size") != 0;
}

static void put_options(FILE *out, const struct job *job, const struct options *options) {
    const struct geometry *geometry = &options->geometry;
    fputs("  \"options\": {", out);
    for (int i = 0; i < option_rows; i++)
        if (concerns(&option_table[i], options)) {
            fputs("\n    \"", out);
            put_option(out, &option_table[i], options);
            fputc(',', out);
        }
    fprintf(out, "\n    \"size\": %" PRId64 ",\n    \"size_requested\": ", geometry->rank_bytes * job->ranks);
    if (options->size > 0)
        fprintf(out, "%" PRId64, options->size);
    else
        fputs("null", out);
    fputs(",\n    \"size_resolution\": ", out);
    put_text_or_null(out, options->resolution);
    fprintf(out,
            ",\n    \"file_size\": %" PRId64 ",\n    \"calls\": %" PRId64
            ",\n    \"view\": %s,\n    \"hints\": {",
            geometry->file_bytes, geometry->calls, geometry->view ? "true" : "false");
    for (int i = 0; i < options->hints.count; i++) {
        fputs(i > 0 ? ", " : "", out);
        put_text(out, options->hints.list[i].key);
        fputs(": ", out);
        put_text(out, options->hints.list[i].value);
    }
    fputs("}\n  }", out);
}

static void put_measurements(FILE *out, const struct measurement *list, int64_t count) {
    fputs("  \"repetitions\": [", out);
    for (int64_t i = 0; i < count; i++) {
        const struct measurement *m = &list[i];
        fprintf(out,
                "%s\n    {\"repetition\": %" PRId64 ", \"operation\": \"%s\", \"bytes\": %" PRId64
                ", \"open\": %.9g, \"access\": %.9g, \"sync\": %.9g, \"close\": %.9g, \"total\": %.9g, "
                "\"bandwidth\": %.9g, \"verified\": %s, \"errors\": %" PRId64 "}",
                i > 0 ? "," : "", m->repetition, m->operation == OPERATION_WRITE ? "write" : "read", m->bytes,
                m->open, m->access, m->sync, m->close, m->total, m->bandwidth,
                m->verified < 0 ? "null" : (m->verified == 1 ? "true" : "false"), m->errors);
    }
    fputs("\n  ]", out);
}

static void put_summary(FILE *out, const struct measurement *list, int64_t count) {
    static const char *const names[] = {"write", "read"};
    const char *separator = "";
    fputs("  \"summary\": {", out);
    for (int operation = OPERATION_WRITE; operation <= OPERATION_READ; operation++) {
        struct statistics s;
        if (statistics_of(list, count, operation, &s) <= 0)
            continue;
        fprintf(out, "%s\"%s\": {\"max\": %.9g, \"min\": %.9g, \"mean\": %.9g, \"median\": %.9g}", separator,
                names[operation], s.max, s.min, s.mean, s.median);
        separator = ", ";
    }
    fputs("}\n", out);
}

/* Opened before the run, so that a result is not lost to a misspelt folder at its end. */
int json_open(const char *path, struct json_file *json, char *reason) {
    json->stream = NULL;
    json->path = path;
    json->temporary[0] = '\0';
    if (path[0] == '\0')
        return 0;
    if (strcmp(path, "-") == 0) {
        json->stream = stdout;
        return 0;
    }
    struct stat status;
    if (stat(path, &status) != 0 || S_ISREG(status.st_mode))
        snprintf(json->temporary, sizeof json->temporary, "%s.%ld.tmp", path, (long)getpid());
    json->stream = fopen(json->temporary[0] != '\0' ? json->temporary : path, "w");
    if (json->stream == NULL)
        return refuse(reason, "--json: cannot write %s: %s", path, strerror(errno));
    return 0;
}

int json_finish(struct json_file *json, const struct job *job, const struct options *options, char **argv,
                const struct measurement *list, int64_t count, char *reason) {
    FILE *out = json->stream;
    if (out == NULL)
        return 0;
    fputs("{\n  \"format\": \"stripewise-kernel\",\n  \"version\": 1,\n  \"api\": ", out);
    put_text(out, options->api);
    fputs(",\n  \"command\": ", out);
    put_command(out, argv);
    fprintf(out, ",\n  \"ranks\": %d,\n  \"nodes\": %d,\n", job->ranks, job->nodes);
    put_options(out, job, options);
    fputs(",\n", out);
    put_measurements(out, list, count);
    fputs(",\n", out);
    put_summary(out, list, count);
    fputs("}\n", out);
    bool failed = ferror(out) != 0;
    failed = (out == stdout ? fflush(out) : fclose(out)) != 0 || failed;
    json->stream = NULL;
    if (!failed && json->temporary[0] != '\0')
        failed = rename(json->temporary, json->path) != 0;
    if (!failed)
        return 0;
    refuse(reason, "--json: cannot write %s: %s", json->path, strerror(errno));
    if (json->temporary[0] != '\0')
        unlink(json->temporary);
    return -1;
}

void json_abandon(struct json_file *json) {
    if (json->stream != NULL && json->stream != stdout)
        fclose(json->stream);
    if (json->stream != NULL && json->temporary[0] != '\0')
        unlink(json->temporary);
    json->stream = NULL;
}
