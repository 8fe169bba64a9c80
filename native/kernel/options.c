/* From argv to struct options, by the option table. What the values mean together is resolve.c's. */
#include "kernel.h"

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

/* ---- the table ---- */

#define FIELD(member) offsetof(struct options, member)
#define TILE(member) offsetof(struct options, geometry.tile.member)
#define DUMMY(member) offsetof(struct options, dummy.member)

const struct option_row option_table[] = {
    {"help", 'h', KIND_FLAG, GROUP_GENERAL, FIELD(help), NULL, "print this and end"},
    {"version", 'V', KIND_FLAG, GROUP_GENERAL, FIELD(version), NULL, "print the version and end"},
    {"api", 'a', KIND_API, GROUP_GENERAL, FIELD(api), "NAME",
     "posix, mpiio, hdf5 (where it was built with it), or dummy,\nwhich does no I/O (default mpiio)"},
    {"file", 'o', KIND_TEXT, GROUP_GENERAL, FIELD(file), "PATH",
     "the test file; a ROMIO prefix such as ufs: is passed on"},
    {"json", 0, KIND_TEXT, GROUP_GENERAL, FIELD(json), "PATH",
     "also write the result as JSON; - is standard output,\nwhich then carries nothing else"},

    {"layout", 0, KIND_LAYOUT, GROUP_SIZES, FIELD(geometry.layout), "NAME",
     "segmented: a rank's block lies together (default)\nstrided: the ranks' pieces take turns\n"
     "random: the calls are spread over the file, each place once\ntile: two-dimensional tiles of an array"},
    {"random", 'z', KIND_RANDOM, GROUP_SIZES, FIELD(geometry.layout), NULL, "the same as --layout random"},
    {"block", 'b', KIND_SIZE, GROUP_SIZES, FIELD(geometry.block), "SIZE",
     "bytes of a rank in a segment (default 1 MiB)"},
    {"transfer", 't', KIND_SIZE, GROUP_SIZES, FIELD(geometry.transfer), "SIZE",
     "bytes of a call (default 256 KiB, or a whole block or tile\nif that is smaller; tile: a whole tile)"},
    {"piece", 0, KIND_SIZE, GROUP_SIZES, FIELD(geometry.piece), "SIZE",
     "strided: contiguous bytes; a call writes transfer/piece of\nthem through an MPI file view (default: a "
     "whole "
     "transfer,\nwithout a view)"},
    {"segments", 's', KIND_COUNT, GROUP_SIZES, FIELD(geometry.segments), "N",
     "blocks a rank, or arrays with tiles (default 1)"},
    {"size", 0, KIND_SIZE, GROUP_SIZES, FIELD(size), "SIZE",
     "bytes moved by the whole job, in place of --segments;\nrounded down to whole segments, and says so"},

    {"tiles-x", 0, KIND_COUNT, GROUP_TILE, TILE(tiles_x), "N",
     "tiles along a row (default: as square as possible)"},
    {"tiles-y", 0, KIND_COUNT, GROUP_TILE, TILE(tiles_y), "N",
     "tiles along a column; tiles-x * tiles-y = ranks"},
    {"tile-x", 0, KIND_COUNT, GROUP_TILE, TILE(size_x), "N",
     "elements of a tile along a row (default 512, or as square\nas --size allows)"},
    {"tile-y", 0, KIND_COUNT, GROUP_TILE, TILE(size_y), "N", "elements of a tile along a column"},
    {"overlap-x", 0, KIND_NUMBER, GROUP_TILE, TILE(overlap_x), "N",
     "elements shared with the neighbour in a row (default 0)"},
    {"overlap-y", 0, KIND_NUMBER, GROUP_TILE, TILE(overlap_y), "N",
     "elements shared with the neighbour in a column (default 0)"},
    {"element", 0, KIND_SIZE, GROUP_TILE, TILE(element), "SIZE", "bytes of an element (default 8)"},

    {"collective", 'c', KIND_FLAG, GROUP_CALLS, FIELD(collective), NULL, "collective calls (mpiio, hdf5)"},
    {"file-per-process", 'F', KIND_FLAG, GROUP_CALLS, FIELD(file_per_process), NULL,
     "one file a rank: PATH.00000000, PATH.00000001, ..."},
    {"fsync", 'e', KIND_FLAG, GROUP_CALLS, FIELD(fsync), NULL,
     "fsync, MPI_File_sync or H5Fflush before closing a written\nfile"},
    {"hints-file", 'U', KIND_TEXT, GROUP_CALLS, FIELD(hints_file), "PATH",
     "MPI hints, one `key value` or `key = value` a line;\nIOR's IOR_HINT__MPI__key=value is understood"},

    {"write", 'w', KIND_FLAG, GROUP_RUN, FIELD(write), NULL, "only write (default: write, then read)"},
    {"read", 'r', KIND_FLAG, GROUP_RUN, FIELD(read), NULL, "only read; with -w both"},
    {"repetitions", 'i', KIND_COUNT, GROUP_RUN, FIELD(repetitions), "N",
     "repeat all, each time with a new file (default 1)"},
    {"reorder", 'C', KIND_FLAG, GROUP_RUN, FIELD(reorder), NULL,
     "read what another rank wrote: that of the next node, or of\nthe next rank on a single node"},
    {"shift", 'Q', KIND_COUNT, GROUP_RUN, FIELD(shift), "RANKS", "reorder by this many ranks"},
    {"keep", 'k', KIND_FLAG, GROUP_RUN, FIELD(keep), NULL,
     "keep the file; without it, what this run wrote is deleted"},
    {"existing", 'E', KIND_FLAG, GROUP_RUN, FIELD(existing), NULL,
     "write into the file that is there: deleted neither before\nnor after (hdf5 replaces its content)"},
    {"verify-write", 0, KIND_FLAG, GROUP_RUN, FIELD(verify_write), NULL,
     "read back and check each write, outside the times"},
    {"no-verify", 0, KIND_FLAG, GROUP_RUN, FIELD(no_verify), NULL, "do not check what is read"},
    {"seed", 0, KIND_SEED, GROUP_RUN, FIELD(seed), "N",
     "of the file's content, the random layout and the dummy's "
     "delays\n(default 0)"},
    {"memory", 0, KIND_SIZE, GROUP_RUN, FIELD(memory), "SIZE",
     "buffer of a rank: data is made and checked in batches of\nthis size, outside the times (default 64 "
     "MiB)"},

    {"dummy-bandwidth", 0, KIND_REAL, GROUP_DUMMY, DUMMY(bandwidth), "MIB_S",
     "of the whole job (default 1000)"},
    {"dummy-latency", 0, KIND_REAL, GROUP_DUMMY, DUMMY(latency), "SECONDS", "of every call (default 0)"},
    {"dummy-noise", 0, KIND_REAL, GROUP_DUMMY, DUMMY(noise), "SIGMA",
     "log-normal, one draw for a repetition and operation"},
    {"dummy-rank-noise", 0, KIND_REAL, GROUP_DUMMY, DUMMY(rank_noise), "SIGMA",
     "the same, drawn by each rank"},
    {"dummy-effect", 0, KIND_EFFECT, GROUP_DUMMY, DUMMY(effects), "K=V:FACTOR",
     "bandwidth times FACTOR where setting K has the value V in\nthe hints file, STRIPEWISE_PLAN, "
     "ROMIO_HINTS or "
     "environment;\ncan be repeated"},
    {"dummy-fail-probability", 0, KIND_REAL, GROUP_DUMMY, DUMMY(fail_probability), "P",
     "of an I/O error in a repetition and operation"},
    {"dummy-fail-if", 0, KIND_SETTING, GROUP_DUMMY, DUMMY(fail_if), "K=V",
     "I/O error where a setting has a value"},
    {"dummy-hang", 0, KIND_FLAG, GROUP_DUMMY, DUMMY(hang), NULL, "never return from the first call"},
    {"dummy-hang-if", 0, KIND_SETTING, GROUP_DUMMY, DUMMY(hang_if), "K=V",
     "hang where a setting has a value"},
    {"dummy-virtual", 0, KIND_FLAG, GROUP_DUMMY, DUMMY(virtual_time), NULL, "compute the times, do not wait"},
    {"dummy-seed-from", 0, KIND_SOURCE, GROUP_DUMMY, DUMMY(seed_from), "SOURCE",
     "mix into the seed: env:NAME (a variable's value), plan-id\n(the plan's id), plan-run (the part after "
     "its "
     "last dot)"},
};
const int option_rows = sizeof option_table / sizeof option_table[0];
_Static_assert(sizeof option_table / sizeof option_table[0] <= 64, "struct options keeps one bit an option");

/* ---- --help ---- */

#define COLUMN 32

static const char *const titles[GROUP_COUNT] = {
    "General", "Layout and sizes", "Tiles (--layout tile)", "Calls", "Run", "Dummy (--api dummy)"};

static void print_row(const struct option_row *row) {
    char left[64];
    char letter[] = {row->letter != 0 ? '-' : ' ', row->letter != 0 ? row->letter : ' ',
                     row->letter != 0 ? ',' : ' ', '\0'};
    snprintf(left, sizeof left, "  %s --%s%s%s", letter, row->name, row->argument != NULL ? " " : "",
             row->argument != NULL ? row->argument : "");
    printf("%-*s ", COLUMN - 1, left);
    if (strlen(left) > COLUMN - 1)
        printf("\n%*s", COLUMN, "");
    for (const char *line = row->help;;) {
        size_t length = strcspn(line, "\n");
        printf("%.*s\n", (int)length, line);
        if (line[length] == '\0')
            return;
        line += length + 1;
        printf("%*s", COLUMN, "");
    }
}

void help_print(void) {
    puts("usage: mpiexec -n RANKS " KERNEL_NAME " -o PATH [options]\n\n"
         "Writes and reads a file with MPI-IO, POSIX or HDF5 in a chosen pattern, checks what it reads, and\n"
         "times open, access, sync and close apart (maxima over ranks between barriers).\n"
         "Sizes are binary: 512, 1k, 4m, 1g, \"64 MiB\".");
    for (int group = 0; group < GROUP_COUNT; group++) {
        printf("\n%s:\n", titles[group]);
        for (int i = 0; i < option_rows; i++)
            if (option_table[i].group == (enum option_group)group)
                print_row(&option_table[i]);
    }
    puts("\nContent: the 8-byte little-endian word i of file f (f: the rank with -F, else 0) is word i of "
         "the\n"
         "SplitMix64 sequence that starts from mix(seed + (f + 1) * 0x9e3779b97f4a7c15).\n\n"
         "Exit codes: 0 done; 1 an I/O error or wrong data; 2 wrong use.");
}
