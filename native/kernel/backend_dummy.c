/*
 * Dummy: no I/O, only delays, the same for the same (seed, rank, repetition, options). A call of the job's
 * share takes latency + bytes / bandwidth, times log-normal noise with median 1: one draw for the whole job
 * in a repetition and operation (the machine's mood), one more for each rank if asked.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../core/plan.h"
#include "kernel.h"

/* ---- the settings in force ----
 * What the dummy responds to: the settings in force, looked up where a real MPI would find them. From
 * the strongest: a plan with `override yes`, the hints file (the application's own hints), the plan, the file
 * ROMIO_HINTS names, OMPI_MCA_key, and the environment variable of the key's name. */

struct sources {
    struct sw_plan plan;
    struct hints romio;
    char file[PATH_MAX + TEXT_MAX]; /* absolute: what the plan's `file` lines are matched against */
};

static void absolute_path(const char *file, char *absolute, size_t capacity) {
    char folder[PATH_MAX] = "";
    if (file[0] != '/' && getcwd(folder, sizeof folder) == NULL)
        folder[0] = '\0';
    snprintf(absolute, capacity, file[0] == '/' ? "%s%s" : "%s/%s", folder, file);
}

/* As the runtime does it: a plan that cannot be read is said once and left aside. */
static void plan_load(const char *path, struct sw_plan *plan) {
    char error[REASON_MAX];
    char *text = NULL;
    size_t size = 0;
    if (!sw_plan_read(path, &text, &size, error, sizeof error) ||
        !sw_plan_parse(text, size, plan, error, sizeof error))
        fprintf(stderr, KERNEL_NAME ": plan %s %s; running without it\n", path, error);
    free(text);
}

/* The layout's keys are "FILESYSTEM KEY": an effect names the key alone. */
static bool setting_is(const struct sw_setting *setting, const char *key) {
    const char *blank = setting->carrier == SW_LAYOUT ? strchr(setting->key, ' ') : NULL;
    return strcmp(blank != NULL ? blank + 1 : setting->key, key) == 0;
}

static const char *plan_find(const struct sources *sources, const char *key) {
    for (size_t i = sources->plan.count; i-- > 0;) {
        const struct sw_setting *setting = &sources->plan.settings[i];
        if (setting_is(setting, key) && sw_setting_matches(setting, sources->file))
            return setting->value;
    }
    return NULL;
}

static const char *hints_find(const struct hints *hints, const char *key) {
    for (int i = hints->count; i-- > 0;)
        if (strcmp(hints->list[i].key, key) == 0)
            return hints->list[i].value;
    return NULL;
}

/* ROMIO's own format; where ROMIO would skip a line or the whole file, so does this. */
static void romio_load(const char *path, struct hints *hints) {
    FILE *stream = fopen(path, "r");
    char line[HINT_KEY_MAX + HINT_VALUE_MAX];
    if (stream == NULL)
        return;
    while (hints->count < HINTS_MAX && fgets(line, sizeof line, stream) != NULL) {
        struct hint *hint = &hints->list[hints->count];
        char more[2];
        if (line[0] != '#' && sscanf(line, "%255s %1023s %1s", hint->key, hint->value, more) == 2)
            hints->count++;
    }
    fclose(stream);
}

static const char *in_force(const struct options *options, const struct sources *sources, const char *key) {
    const char *planned = plan_find(sources, key), *own = hints_find(&options->hints, key);
    if (planned != NULL && (sources->plan.override || own == NULL))
        return planned;
    if (own != NULL)
        return own;
    const char *found = hints_find(&sources->romio, key);
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

static uint64_t hash_number(uint64_t key, uint64_t number) {
    return mix64(key ^ mix64(number + UINT64_C(0x9e3779b97f4a7c15)));
}

static uint64_t hash_real(uint64_t key, double real) {
    uint64_t bits;
    memcpy(&bits, &real, sizeof bits);
    return hash_number(key, bits);
}

static uint64_t hash_text(uint64_t key, const char *text) {
    do
        key = hash_number(key, (unsigned char)*text);
    while (*text++ != '\0');
    return key;
}

static uint64_t hash_hints(uint64_t key, const struct hints *hints) {
    for (int i = 0; i < hints->count; i++)
        key = hash_text(hash_text(key, hints->list[i].key), hints->list[i].value);
    return key;
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
        value = sources->plan.id;
    } else if (strcmp(source, "plan-run") == 0) {
        const char *dot = strrchr(sources->plan.id, '.');
        value = dot != NULL ? dot + 1 : sources->plan.id;
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
    uint64_t key = mix64(options->seed);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        key = hash_number(key, (uint64_t)numbers[i]);
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        key = hash_real(key, reals[i]);
    for (size_t i = 0; i < sources->plan.count; i++)
        key = hash_text(hash_text(key, sources->plan.settings[i].key), sources->plan.settings[i].value);
    return hash_hints(hash_hints(key, &options->hints), &sources->romio);
}

int dummy_resolve(struct options *options, char *reason) {
    struct dummy_options *dummy = &options->dummy;
    struct sources *sources = calloc(1, sizeof *sources);
    if (sources == NULL)
        return refuse(reason, "out of memory for the settings the dummy responds to");
    const char *mode = getenv("STRIPEWISE_MODE"), *plan = getenv("STRIPEWISE_PLAN");
    const char *romio = getenv("ROMIO_HINTS");
    absolute_path(options->file, sources->file, sizeof sources->file);
    if (plan != NULL && plan[0] != '\0' && (mode == NULL || strcmp(mode, "apply") == 0))
        plan_load(plan, &sources->plan);
    if (romio != NULL)
        romio_load(romio, &sources->romio);
    dummy->factor = 1;
    for (int i = 0; i < dummy->effects.count; i++) {
        const struct effect *effect = &dummy->effects.list[i];
        const char *value = in_force(options, sources, effect->key);
        if (value != NULL && strcmp(value, effect->value) == 0)
            dummy->factor *= effect->factor;
    }
    dummy->fails = any_in_force(options, sources, &dummy->fail_if);
    dummy->hangs = dummy->hang || any_in_force(options, sources, &dummy->hang_if);
    dummy->key = hash_options(options, sources);
    const int failed = hash_source(options, sources, &dummy->key, reason);
    sw_plan_free(&sources->plan);
    free(sources);
    return failed;
}

/* ---- delays ---- */

enum draw { DRAW_JOB_NOISE = 1, DRAW_RANK_NOISE = 2, DRAW_FAILURE = 3 };

struct dummy_file {
    double latency, transfer; /* seconds, noise included */
    struct timespec due;      /* when the delays so far are over */
    bool fails;
};

/* Uniform in (0, 1), a function of its arguments alone. */
static double uniform(const struct session *session, enum draw draw, int64_t rank, uint64_t index) {
    uint64_t bits = session->options->dummy.key;
    const uint64_t parts[] = {draw, (uint64_t)session->repetition, session->operation, (uint64_t)rank, index};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        bits = mix64(bits ^ mix64(parts[i] + UINT64_C(0x9e3779b97f4a7c15)));
    return ((double)(bits >> 11) + 0.5) / 9007199254740992.0;
}

/* exp(sigma z) with z standard normal (Box and Muller). */
static double log_normal(const struct session *session, enum draw draw, int64_t rank, double sigma) {
    const double pi = 3.14159265358979323846;
    const double radius = sqrt(-2 * log(uniform(session, draw, rank, 0)));
    return exp(sigma * radius * cos(2 * pi * uniform(session, draw, rank, 1)));
}

/* Delays add up to an absolute due time, so that short ones are not lengthened by the sleep's granularity. */
static void delay(struct session *session, struct dummy_file *file, double seconds, bool settle) {
    if (session->job->virtual_time) {
        session->job->virtual_now += seconds;
        return;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec > file->due.tv_sec || (now.tv_sec == file->due.tv_sec && now.tv_nsec > file->due.tv_nsec))
        file->due = now;
    const double whole = floor(seconds);
    file->due.tv_sec += (time_t)whole;
    file->due.tv_nsec += (long)((seconds - whole) * 1e9);
    if (file->due.tv_nsec >= 1000000000L) {
        file->due.tv_sec++;
        file->due.tv_nsec -= 1000000000L;
    }
    const double ahead =
        (double)(file->due.tv_sec - now.tv_sec) + (double)(file->due.tv_nsec - now.tv_nsec) * 1e-9;
    if (settle || ahead > 1e-3)
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &file->due, NULL) != 0)
            continue;
}

static int dummy_open(struct session *session, void **handle, struct fault *fault) {
    const struct dummy_options *dummy = &session->options->dummy;
    const struct geometry *geometry = &session->options->geometry;
    struct dummy_file *file = calloc(1, sizeof *file);
    if (file == NULL)
        return fault_set(fault, "malloc", session->path, "out of memory");
    const double noise = log_normal(session, DRAW_JOB_NOISE, 0, dummy->noise) *
                         log_normal(session, DRAW_RANK_NOISE, session->job->rank, dummy->rank_noise);
    const double rank_bandwidth = dummy->bandwidth * dummy->factor * 1048576.0 / session->job->ranks;
    file->latency = dummy->latency * noise;
    file->transfer = file->latency + (double)geometry->transfer / rank_bandwidth * noise;
    /* One rank fails, as a real fault would have it. */
    const int64_t culprit = (int64_t)(uniform(session, DRAW_FAILURE, 0, 1) * session->job->ranks);
    const bool unlucky = dummy->fails || uniform(session, DRAW_FAILURE, 0, 0) < dummy->fail_probability;
    file->fails = unlucky && culprit == session->job->rank;
    clock_gettime(CLOCK_MONOTONIC, &file->due);
    *handle = file;
    delay(session, file, file->latency, true);
    return 0;
}

static int dummy_transfer(struct session *session, void *handle, int64_t call, void *buffer,
                          struct fault *fault) {
    struct dummy_file *file = handle;
    (void)buffer;
    while (session->options->dummy.hangs)
        pause();
    if (file->fails)
        return fault_set(fault, session->operation == OPERATION_WRITE ? "dummy write" : "dummy read",
                         session->path, "injected failure in call %lld", (long long)call);
    delay(session, file, file->transfer, call == session->options->geometry.calls - 1);
    return 0;
}

static int dummy_sync(struct session *session, void *handle, struct fault *fault) {
    struct dummy_file *file = handle;
    (void)fault;
    delay(session, file, file->latency, true);
    return 0;
}

static int dummy_close(struct session *session, void *handle, struct fault *fault) {
    struct dummy_file *file = handle;
    (void)fault;
    delay(session, file, file->latency, true);
    free(file);
    return 0;
}

static int dummy_remove(const char *path, struct fault *fault) {
    (void)path;
    (void)fault;
    return 0;
}

const struct backend backend_dummy = {
    .name = "dummy",
    .collective = true,
    .stores = false,
    .open = dummy_open,
    .transfer = dummy_transfer,
    .sync = dummy_sync,
    .close = dummy_close,
    .remove = dummy_remove,
};
