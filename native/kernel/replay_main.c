/* Rank 0 reads the command line and the record and tells the others, so that errors are said once. */
#include "replay.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../core/crc.h"
#include "../core/input.h"

#define USAGE                                                                                                \
    "usage: " REPLAY_NAME " RECORD --directory FOLDER [options]\n"                                           \
    "Carries out what a record says that a program did in MPI-IO, with data of its own.\n"                   \
    "  --directory FOLDER   where its files go; needed\n"                                                    \
    "  --think              pause before each call as long as the program did\n"                             \
    "  --steps N            open at most N of files whose names differ in numbers only\n"                    \
    "  --repetitions N      make each call at most N times on an open file\n"                                \
    "  --only PART          prepare (make input files), calls or clean (delete its files); may be "          \
    "repeated\n"                                                                                             \
    "  --patience SECONDS   end where no call ends for so long, because ranks wait for one another; "        \
    "default: 600;\n"                                                                                        \
    "                       not with --think\n"                                                              \
    "  --keep               do not delete its files\n"                                                       \
    "  --counts FILE        write what the calls did to this file, as JSON\n"                                \
    "  --quiet              print nothing but errors\n"

#define PATIENCE 600 /* seconds */

/* ---- on rank 0 ---- */

static int say(const char *format, const char *about) {
    fprintf(stderr, REPLAY_NAME ": error: ");
    fprintf(stderr, format, about);
    fputc('\n', stderr);
    return -1;
}

static int take_count(const char *text, int64_t *count) {
    char *end;
    errno = 0;
    *count = strtoll(text, &end, 10);
    return *end == '\0' && errno == 0 && *count > 0 ? 0 : say("'%s' is not a number above 0", text);
}

static int take_part(const char *name, int *parts) {
    static const char *const names[] = {"prepare", "calls", "clean"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *parts |= 1 << i;
            return 0;
        }
    return say("--only %s: choose prepare, calls or clean", name);
}

static int take_text(const char *text, char *to) {
    if (strlen(text) >= REPLAY_PATH - 1)
        return say("a path is too long: %.100s", text);
    memcpy(to, text, strlen(text) + 1);
    return 0;
}

/* 0; 1: help was asked for; -1 after saying what is wrong. */
static int take_options(int argc, char **argv, struct replay_options *options) {
    static const struct option known[] = {{"directory", required_argument, NULL, 'd'},
                                          {"think", no_argument, NULL, 't'},
                                          {"steps", required_argument, NULL, 's'},
                                          {"repetitions", required_argument, NULL, 'r'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"patience", required_argument, NULL, 'p'},
                                          {"counts", required_argument, NULL, 'c'},
                                          {"keep", no_argument, NULL, 'k'},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    options->parts = 0;
    options->patience = PATIENCE;
    int letter, wrong = 0;
    while (!wrong && (letter = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        if (letter == 'd')
            wrong = take_text(optarg, options->directory);
        else if (letter == 'c')
            wrong = take_text(optarg, options->counts);
        else if (letter == 's' || letter == 'r')
            wrong = take_count(optarg, letter == 's' ? &options->steps : &options->repetitions);
        else if (letter == 'p')
            wrong = take_count(optarg, &options->patience);
        else if (letter == 'o')
            wrong = take_part(optarg, &options->parts);
        else if (letter == 't')
            options->think = true;
        else if (letter == 'k')
            options->keep = true;
        else if (letter == 'q')
            options->quiet = true;
        else
            wrong = letter == 'h' ? 1 : -1;
    }
    if (wrong)
        return wrong;
    if (options->parts == 0)
        options->parts = REPLAY_PREPARE | REPLAY_CALLS | REPLAY_CLEAN;
    if (optind + 1 != argc)
        return say("%s", "exactly one record must be named");
    if (options->directory[0] == '\0')
        return say("%s", "the program's own files must not be overwritten: give --directory");
    return take_text(argv[optind], options->record);
}

/* The text without its last line, or NULL after saying what is wrong. */
static char *load(const char *path, size_t *length) {
    char reason[256] = "";
    off_t size;
    const int fd = sw_input_open(path, &size, reason, sizeof reason);
    *length = fd < 0 ? 0 : (size_t)size;
    if (fd >= 0 && size > SW_MAX_RECORD_BYTES)
        snprintf(reason, sizeof reason, "it is too large");
    char *text = fd < 0 ? NULL : sw_input_read(fd, 0, length, reason, sizeof reason);
    if (text == NULL || size > SW_MAX_RECORD_BYTES) {
        fprintf(stderr, REPLAY_NAME ": error: cannot read record %s: %s\n", path, reason);
        free(text);
        return NULL;
    }
    text[*length] = '\0';
    static const char header[] = SW_RECORD_HEADER "\n", last[] = "checksum ";
    const size_t tail = sizeof last - 1 + 9; /* eight digits and a newline */
    char expected[32] = "";
    if (*length > sizeof header + tail)
        snprintf(expected, sizeof expected, "%s%08x\n", last, (unsigned)sw_crc32(0, text, *length - tail));
    if (strncmp(text, header, sizeof header - 1) != 0 || *length <= sizeof header + tail ||
        strcmp(text + *length - tail, expected) != 0) {
        say("%s is not a record of this version of Stripewise, or is damaged: record the program again",
            path);
        free(text);
        return NULL;
    }
    *length -= tail;
    text[*length] = '\0';
    return text;
}

/* ---- what was done ---- */

static void write_counts(const char *path, const struct replay_done *sum, int64_t longest) {
    FILE *file = fopen(path, "we");
    if (file == NULL)
        replay_die("cannot write %s: %s", path, strerror(errno));
    fprintf(file, "{\"io_time\": %" PRId64 ", \"read\": %" PRId64 ", \"written\": %" PRId64 ", \"calls\": {",
            longest, sum->read, sum->written);
    const char *between = "";
    for (int line = 0; line < SW_LINES; line++)
        if (sum->made[line] > 0) {
            fprintf(file, "%s\"%s\": %" PRId64, between, sw_line_forms[line].name, sum->made[line]);
            between = ", ";
        }
    fprintf(file, "}}\n");
    if (fclose(file) != 0)
        replay_die("cannot write %s: %s", path, strerror(errno));
}

/* ---- all ranks ---- */

static void run(struct replay *replay) {
    const struct replay_options *options = &replay->options;
    struct replay_done done = {.calls = 0}, sum = {.calls = 0};
    replay_claim(replay);
    if (options->parts & REPLAY_PREPARE)
        replay_prepare(replay);
    if (options->parts & REPLAY_CALLS) {
        MPI_Barrier(MPI_COMM_WORLD);
        double seconds = MPI_Wtime(), longest = 0;
        if (!options->think)
            replay_watch(replay);
        done = replay_calls(replay);
        replay_watch_end(); /* others may go on for long */
        seconds = MPI_Wtime() - seconds;
        MPI_Reduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        int64_t slowest = 0;
        MPI_Reduce(&done.nanoseconds, &slowest, 1, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
        MPI_Reduce(&done, &sum, sizeof done / sizeof(int64_t), MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
        if (replay->rank == 0 && options->counts[0] != '\0')
            write_counts(options->counts, &sum, slowest);
        if (replay->rank == 0 && !options->quiet)
            printf("replayed %" PRId64 " calls in %.6f s: %" PRId64 " bytes written, %" PRId64 " read\n",
                   sum.calls, longest, sum.written, sum.read);
    }
    if (options->parts & REPLAY_CLEAN && !options->keep) {
        MPI_Barrier(MPI_COMM_WORLD); /* others may still use what this rank deletes */
        replay_clean(replay);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    struct replay replay = {.file_count = 0};
    MPI_Comm_rank(MPI_COMM_WORLD, &replay.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &replay.ranks);
    char *text = NULL;
    size_t length = 0;
    int64_t told[2] = {REPLAY_WRONG_USE, 0}; /* the exit code, if the size that follows is 0 */
    if (replay.rank == 0) {
        const int wrong = take_options(argc, argv, &replay.options);
        if (wrong > 0)
            fputs(USAGE, stdout);
        if (wrong == 0)
            text = load(replay.options.record, &length);
        told[0] = wrong > 0 ? REPLAY_DONE : REPLAY_WRONG_USE;
        told[1] = text == NULL ? 0 : (int64_t)length + 1;
    }
    MPI_Bcast(told, 2, MPI_INT64_T, 0, MPI_COMM_WORLD);
    if (told[1] > 0) {
        MPI_Bcast(&replay.options, (int)sizeof replay.options, MPI_BYTE, 0, MPI_COMM_WORLD);
        if (text == NULL)
            text = replay_grow(NULL, told[1], 1);
        MPI_Bcast(text, (int)told[1], MPI_CHAR, 0, MPI_COMM_WORLD);
        replay_read(&replay, text);
        run(&replay);
        replay_free(&replay);
        told[0] = REPLAY_DONE;
    }
    free(text);
    MPI_Finalize();
    return (int)told[0];
}
