/* The human table, and the statistics both outputs share. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../core/json.h"
#include "kernel.h"

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Of the bandwidths of one operation; returns how many there are (0: the statistics are untouched, -1: no
 * memory). */
static int64_t statistics_of(const struct measurement *list, int64_t count, enum operation operation,
                             struct statistics *statistics) {
    double *values = malloc((size_t)(count > 0 ? count : 1) * sizeof *values);
    if (values == NULL)
        return -1;
    int64_t found = 0;
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        if (list[i].operation == operation) {
            values[found++] = list[i].bandwidth;
            sum += list[i].bandwidth;
        }
    if (found > 0) {
        qsort(values, (size_t)found, sizeof *values, by_value);
        statistics->min = values[0];
        statistics->max = values[found - 1];
        statistics->mean = sum / (double)found;
        statistics->median = (values[(found - 1) / 2] + values[found / 2]) / 2;
    }
    free(values);
    return found;
}

void report_head(const struct job *job, const struct options *options) {
    const struct geometry *geometry = &options->geometry;
    printf(KERNEL_NAME " " STRIPEWISE_VERSION ": %s%s, %d ranks on %d node%s\n", options->api,
           options->collective ? " collective" : "", job->ranks, job->nodes, job->nodes == 1 ? "" : "s");
    printf("layout %s%s: transfer %" PRId64 ", block %" PRId64 ", segments %" PRId64,
           layout_name(geometry->layout), options->file_per_process ? ", a file per process" : "",
           geometry->transfer, geometry->block, geometry->segments);
    if (geometry->layout == LAYOUT_STRIDED)
        printf(", piece %" PRId64, geometry->piece);
    if (geometry->layout == LAYOUT_TILE)
        printf("\ntiles %" PRId64 " x %" PRId64 " of %" PRId64 " x %" PRId64 " elements of %" PRId64
               " bytes, overlap %" PRId64 " x %" PRId64,
               geometry->tile.tiles_x, geometry->tile.tiles_y, geometry->tile.size_x, geometry->tile.size_y,
               geometry->tile.element, geometry->tile.overlap_x, geometry->tile.overlap_y);
    putchar('\n');
    if (options->resolution[0] != '\0')
        printf("size: %s\n", options->resolution);
    printf("\n%4s %-9s %12s %12s %12s %12s %12s %12s  %s\n", "rep", "operation", "MiB/s", "open s",
           "access s", "sync s", "close s", "total s", "verified");
    fflush(stdout);
}

void report_line(const struct measurement *m) {
    printf("%4" PRId64 " %-9s %12.3f %12.6f %12.6f %12.6f %12.6f %12.6f  %s\n", m->repetition,
           m->operation == OPERATION_WRITE ? "write" : "read", m->bandwidth, m->open, m->access, m->sync,
           m->close, m->total,
           m->verified < 0    ? "-"
           : m->verified == 1 ? "yes"
                              : "NO");
    fflush(stdout);
}

void report_summary(const struct measurement *list, int64_t count) {
    static const char *const names[] = {"write", "read"};
    putchar('\n');
    for (int operation = OPERATION_WRITE; operation <= OPERATION_READ; operation++) {
        struct statistics statistics;
        if (statistics_of(list, count, operation, &statistics) > 0)
            printf("%s bandwidth: %.3f MiB/s\n", names[operation], statistics.median);
    }
}

/* ---- the result as one JSON object; see --help and the format's name and version in it ---- */

static void put_real(struct sw_json *json, const char *key, double value, int digits) {
    char text[40];
    snprintf(text, sizeof text, "%.*g", digits, value);
    sw_json_raw(json, key, text);
}

static void put_text_or_null(struct sw_json *json, const char *key, const char *text) {
    sw_json_text(json, key, text[0] == '\0' ? NULL : text);
}

/* The command as a shell would take it. */
static void put_command(struct sw_json *json, char **argv) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (char **argument = argv; out != NULL && *argument != NULL; argument++) {
        const bool plain = **argument != '\0' && strpbrk(*argument, " \t\n'\"\\$&|;<>()*?[]{}~`!#") == NULL;
        fprintf(out, "%s%s", argument != argv ? " " : "", plain ? *argument : "'");
        for (const char *c = plain ? "" : *argument; *c != '\0'; c++)
            fprintf(out, *c == '\'' ? "'\\''" : "%c", *c);
        if (!plain)
            fputc('\'', out);
    }
    if (out != NULL)
        fclose(out);
    sw_json_text(json, "command", text);
    free(text);
}

static void put_effects(struct sw_json *json, const char *key, const struct effects *effects, bool factors) {
    sw_json_open(json, key, '[');
    for (int i = 0; i < effects->count; i++) {
        sw_json_open(json, NULL, '{');
        sw_json_text(json, "key", effects->list[i].key);
        sw_json_text(json, "value", effects->list[i].value);
        if (factors)
            put_real(json, "factor", effects->list[i].factor, 17);
        sw_json_close(json, '}');
    }
    sw_json_close(json, ']');
}

static void put_option(struct sw_json *json, const struct option_row *row, const struct options *options) {
    const void *field = (const char *)options + row->offset;
    char key[64];
    snprintf(key, sizeof key, "%s", row->name);
    for (char *c = key; *c != '\0'; c++)
        *c = *c == '-' ? '_' : *c;
    switch (row->kind) {
    case KIND_FLAG:
        sw_json_bool(json, key, *(const bool *)field);
        break;
    case KIND_SIZE:
    case KIND_COUNT:
    case KIND_NUMBER:
        sw_json_integer(json, key, *(const int64_t *)field);
        break;
    case KIND_SEED:
        sw_json_unsigned(json, key, *(const uint64_t *)field);
        break;
    case KIND_REAL:
        put_real(json, key, *(const double *)field, 17);
        break;
    case KIND_LAYOUT:
        sw_json_text(json, key, layout_name(*(const enum layout *)field));
        break;
    case KIND_EFFECT:
    case KIND_SETTING:
        put_effects(json, key, field, row->kind == KIND_EFFECT);
        break;
    default:
        put_text_or_null(json, key, field);
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

static void put_options(struct sw_json *json, const struct job *job, const struct options *options) {
    const struct geometry *geometry = &options->geometry;
    sw_json_open(json, "options", '{');
    for (int i = 0; i < option_rows; i++)
        if (concerns(&option_table[i], options))
            put_option(json, &option_table[i], options);
    sw_json_integer(json, "size", geometry->rank_bytes * job->ranks);
    sw_json_known(json, "size_requested", options->size > 0 ? options->size : -1);
    put_text_or_null(json, "size_resolution", options->resolution);
    sw_json_integer(json, "file_size", geometry->file_bytes);
    sw_json_integer(json, "calls", geometry->calls);
    sw_json_bool(json, "view", geometry->view);
    sw_json_open(json, "hints", '{');
    for (int i = 0; i < options->hints.count; i++)
        sw_json_text(json, options->hints.list[i].key, options->hints.list[i].value);
    sw_json_close(json, '}');
    sw_json_close(json, '}');
}

static void put_measurements(struct sw_json *json, const struct measurement *list, int64_t count) {
    sw_json_open(json, "repetitions", '[');
    for (const struct measurement *m = list; m < list + count; m++) {
        sw_json_open(json, NULL, '{');
        sw_json_integer(json, "repetition", m->repetition);
        sw_json_text(json, "operation", m->operation == OPERATION_WRITE ? "write" : "read");
        sw_json_integer(json, "bytes", m->bytes);
        put_real(json, "open", m->open, 9);
        put_real(json, "access", m->access, 9);
        put_real(json, "sync", m->sync, 9);
        put_real(json, "close", m->close, 9);
        put_real(json, "total", m->total, 9);
        put_real(json, "bandwidth", m->bandwidth, 9);
        if (m->verified < 0)
            sw_json_null(json, "verified");
        else
            sw_json_bool(json, "verified", m->verified == 1);
        sw_json_integer(json, "errors", m->errors);
        sw_json_close(json, '}');
    }
    sw_json_close(json, ']');
}

static void put_summary(struct sw_json *json, const struct measurement *list, int64_t count) {
    static const char *const names[] = {"write", "read"};
    sw_json_open(json, "summary", '{');
    for (int operation = OPERATION_WRITE; operation <= OPERATION_READ; operation++) {
        struct statistics s;
        if (statistics_of(list, count, operation, &s) <= 0)
            continue;
        sw_json_open(json, names[operation], '{');
        put_real(json, "max", s.max, 9);
        put_real(json, "min", s.min, 9);
        put_real(json, "mean", s.mean, 9);
        put_real(json, "median", s.median, 9);
        sw_json_close(json, '}');
    }
    sw_json_close(json, '}');
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
    struct sw_json writer = {.file = out};
    sw_json_open(&writer, NULL, '{');
    sw_json_text(&writer, "format", "stripewise-kernel");
    sw_json_integer(&writer, "version", 1);
    sw_json_text(&writer, "api", options->api);
    put_command(&writer, argv);
    sw_json_integer(&writer, "ranks", job->ranks);
    sw_json_integer(&writer, "nodes", job->nodes);
    put_options(&writer, job, options);
    put_measurements(&writer, list, count);
    put_summary(&writer, list, count);
    sw_json_close(&writer, '}');
    fputc('\n', out);
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
