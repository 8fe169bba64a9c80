/*
 * What the dummy responds to: the settings in force, looked up where a real MPI would find them. From the
 * strongest: a plan with `override yes`, the hints file (the application's own hints), the plan, the file
 * ROMIO_HINTS names, OMPI_MCA_key, and the environment variable of the key's name.
 */
#include "kernel.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct setting {
    char *key, *value;
};

struct settings {
    struct setting *list;
    size_t count;
};

struct sources {
    struct settings plan, romio;
    bool override;
    char id[SETTING_MAX];
};

static int settings_add(struct settings *settings, const char *key, const char *value) {
    struct setting *list = realloc(settings->list, (settings->count + 1) * sizeof *list);
    if (list == NULL)
        return -1;
    settings->list = list;
    struct setting *added = &list[settings->count];
    added->key = strdup(key);
    added->value = strdup(value);
    settings->count++;
    return added->key != NULL && added->value != NULL ? 0 : -1;
}

static void settings_free(struct settings *settings) {
    for (size_t i = 0; i < settings->count; i++) {
        free(settings->list[i].key);
        free(settings->list[i].value);
    }
    free(settings->list);
}

static const char *settings_find(const struct settings *settings, const char *key) {
    for (size_t i = settings->count; i-- > 0;)
        if (strcmp(settings->list[i].key, key) == 0)
            return settings->list[i].value;
    return NULL;
}

/* Cuts the first word off and leaves *rest at the next. */
static char *next_word(char **rest) {
    char *word = *rest + strspn(*rest, " \t");
    char *end = word + strcspn(word, " \t");
    *rest = end + strspn(end, " \t");
    *end = '\0';
    return word;
}

static bool file_matches(const char *pattern, const char *file) {
    char absolute[PATH_MAX + TEXT_MAX];
    char folder[PATH_MAX] = "";
    const char *slash = strrchr(file, '/');
    if (file[0] != '/' && getcwd(folder, sizeof folder) == NULL)
        folder[0] = '\0';
    snprintf(absolute, sizeof absolute, file[0] == '/' ? "%s%s" : "%s/%s", folder, file);
    return fnmatch(pattern, absolute, 0) == 0 || fnmatch(pattern, slash != NULL ? slash + 1 : file, 0) == 0;
}

static int plan_line(struct sources *sources, char *line, const char *file, bool *matches) {
    if (line[0] == '#' || line[strspn(line, " \t")] == '\0')
        return 0;
    char *rest = line;
    const char *verb = next_word(&rest);
    if (strcmp(verb, "id") == 0)
        snprintf(sources->id, sizeof sources->id, "%s", rest);
    else if (strcmp(verb, "override") == 0)
        sources->override = strcmp(rest, "yes") == 0;
    else if (strcmp(verb, "file") == 0)
        *matches = file_matches(rest, file);
    else {
        if (strcmp(verb, "layout") == 0)
            next_word(&rest); /* the file system */
        const char *key = next_word(&rest);
        if (*matches)
            return settings_add(&sources->plan, key, rest);
    }
    return 0;
}

static int plan_read(const char *path, const char *file, struct sources *sources) {
    FILE *stream = fopen(path, "r");
    if (stream == NULL) {
        fprintf(stderr, KERNEL_NAME ": plan %s: %s; the dummy runs without it\n", path, strerror(errno));
        return 0;
    }
    char *line = NULL;
    size_t capacity = 0;
    bool first = true, matches = true;
    int failed = 0;
    while (failed == 0 && getline(&line, &capacity, stream) > 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (first && strcmp(line, "stripewise-plan 1") != 0) {
            fprintf(stderr, KERNEL_NAME ": plan %s line 1: not a plan; the dummy runs without it\n", path);
            break;
        }
        if (!first)
            failed = plan_line(sources, line, file, &matches);
        first = false;
    }
    free(line);
    fclose(stream);
    return failed;
}

/* ROMIO's own format; where ROMIO would skip a line or the file, so does this. */
static int romio_read(const char *path, struct settings *settings) {
    FILE *stream = fopen(path, "r");
    if (stream == NULL)
        return 0;
    char *line = NULL;
    size_t capacity = 0;
    int failed = 0;
    while (failed == 0 && getline(&line, &capacity, stream) > 0) {
        line[strcspn(line, "\r\n")] = '\0';
        char *rest = line;
        const char *key = next_word(&rest), *value = next_word(&rest);
        if (key[0] != '\0' && key[0] != '#' && value[0] != '\0' && rest[0] == '\0')
            failed = settings_add(settings, key, value);
    }
    free(line);
    fclose(stream);
    return failed;
}

static const char *in_force(const struct options *options, const struct sources *sources, const char *key) {
    const char *planned = settings_find(&sources->plan, key);
    if (planned != NULL && sources->override)
        return planned;
    for (int i = 0; i < options->hints.count; i++)
        if (strcmp(options->hints.list[i].key, key) == 0)
            return options->hints.list[i].value;
    if (planned != NULL)
        return planned;
    const char *found = settings_find(&sources->romio, key);
    if (found != NULL)
        return found;
    char variable[SETTING_MAX + 16];
    snprintf(variable, sizeof variable, "OMPI_MCA_%s", key);
    found = getenv(variable);
    return found != NULL ? found : getenv(key);
}

static bool any_in_force(const struct options *options, const struct sources *sources,
                         const struct effects *list) {
    for (int i = 0; i < list->count; i++) {
        const char *value = in_force(options, sources, list->list[i].key);
        if (value != NULL && strcmp(value, list->list[i].value) == 0)
            return true;
    }
    return false;
}

static uint64_t hash_bytes(uint64_t key, const void *bytes, size_t length) {
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < length; i++)
        key = mix64(key ^ byte[i]) + UINT64_C(0x9e3779b97f4a7c15);
    return key;
}

static uint64_t hash_text(uint64_t key, const char *text) {
    return hash_bytes(key, text, strlen(text) + 1);
}

static int hash_source(const struct options *options, const struct sources *sources, uint64_t *key,
                       char *reason) {
    const char *source = options->dummy.seed_from;
    if (source[0] == '\0')
        return 0;
    const char *value = NULL;
    if (strncmp(source, "env:", 4) == 0) {
        value = getenv(source + 4);
        if (value == NULL)
            return refuse(reason, "--dummy-seed-from: the environment has no variable '%s'", source + 4);
    } else if (strcmp(source, "plan-id") == 0) {
        value = sources->id;
    } else if (strcmp(source, "plan-run") == 0) {
        const char *dot = strrchr(sources->id, '.');
        value = dot != NULL ? dot + 1 : sources->id;
    } else {
        return refuse(reason, "--dummy-seed-from: '%s' is not env:NAME, plan-id or plan-run", source);
    }
    *key = hash_text(*key, value);
    return 0;
}

/* All that a real run's time could depend on, and nothing else: not where the results go. */
static uint64_t hash_options(const struct options *options, const struct sources *sources) {
    const struct geometry *geometry = &options->geometry;
    const struct dummy_options *dummy = &options->dummy;
    const int64_t numbers[] = {geometry->layout, geometry->block,   geometry->transfer,  geometry->piece,
                               geometry->calls,  geometry->sharers, options->collective, options->fsync,
                               options->shift,   options->write,    options->read};
    const double reals[] = {dummy->bandwidth, dummy->latency, dummy->noise, dummy->rank_noise,
                            dummy->fail_probability};
    uint64_t key = hash_bytes(mix64(options->seed), numbers, sizeof numbers);
    key = hash_bytes(key, reals, sizeof reals);
    for (int i = 0; i < options->hints.count; i++)
        key = hash_text(hash_text(key, options->hints.list[i].key), options->hints.list[i].value);
    for (size_t i = 0; i < sources->plan.count; i++)
        key = hash_text(hash_text(key, sources->plan.list[i].key), sources->plan.list[i].value);
    for (size_t i = 0; i < sources->romio.count; i++)
        key = hash_text(hash_text(key, sources->romio.list[i].key), sources->romio.list[i].value);
    return key;
}

int dummy_resolve(struct options *options, char *reason) {
    struct dummy_options *dummy = &options->dummy;
    struct sources sources = {.override = false};
    const char *mode = getenv("STRIPEWISE_MODE"), *plan = getenv("STRIPEWISE_PLAN"),
               *romio = getenv("ROMIO_HINTS");
    int failed = 0;
    if (plan != NULL && plan[0] != '\0' && (mode == NULL || strcmp(mode, "apply") == 0))
        failed = plan_read(plan, options->file, &sources);
    if (failed == 0 && romio != NULL)
        failed = romio_read(romio, &sources.romio);
    if (failed != 0)
        failed = refuse(reason, "out of memory for the settings the dummy responds to");
    dummy->factor = 1;
    for (int i = 0; i < dummy->effects.count; i++) {
        const struct effect *effect = &dummy->effects.list[i];
        const char *value = in_force(options, &sources, effect->key);
        if (value != NULL && strcmp(value, effect->value) == 0)
            dummy->factor *= effect->factor;
    }
    dummy->fails = any_in_force(options, &sources, &dummy->fail_if);
    dummy->hangs = dummy->hang || any_in_force(options, &sources, &dummy->hang_if);
    dummy->key = hash_options(options, &sources);
    if (failed == 0)
        failed = hash_source(options, &sources, &dummy->key, reason);
    settings_free(&sources.plan);
    settings_free(&sources.romio);
    return failed;
}
