/*
 * stripewise-kernel: an MPI benchmark of I/O with a chosen size of I/O.
 *
 * Words, as in IOR: a rank moves its data in calls of `transfer` bytes; `block` bytes of a rank lie together
 * in a segment, and a segment holds one block of every rank that shares the file. With the strided layout the
 * ranks' pieces of `piece` bytes take turns. With the tile layout (as in MPI-Tile-IO) a segment is one
 * two-dimensional array of elements, cut into one tile a rank; neighbouring tiles may overlap.
 *
 * Every rank has a stream: its data in the order in which it moves them. Call k moves the stream's bytes
 * [k * transfer, (k + 1) * transfer); pattern.c says where in the file they lie.
 */
#ifndef STRIPEWISE_KERNEL_H
#define STRIPEWISE_KERNEL_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define KERNEL_NAME "stripewise-kernel"
#define TEXT_MAX 4096
#define REASON_MAX 1024
#define HINTS_MAX 64
#define HINT_KEY_MAX 256
#define HINT_VALUE_MAX 1024
#define EFFECTS_MAX 32
#define SETTING_MAX 128

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_WRONG_USE = 2 };
enum operation { OPERATION_WRITE, OPERATION_READ };
enum layout { LAYOUT_SEGMENTED, LAYOUT_STRIDED, LAYOUT_RANDOM, LAYOUT_TILE, LAYOUT_COUNT };

/* Tiles a dimension, elements a tile and dimension (overlaps included), bytes an element. */
struct tile {
    int64_t tiles_x, tiles_y;
    int64_t size_x, size_y;
    int64_t overlap_x, overlap_y;
    int64_t element;
};

/* Where the data of all ranks lie. Bytes; resolved and checked by resolve.c so that no product overflows. */
struct geometry {
    enum layout layout;
    int64_t block, transfer, piece, segments;
    struct tile tile;
    int64_t sharers;    /* ranks that share one file */
    int64_t rank_bytes; /* moved by one rank: block * segments */
    int64_t calls;      /* made by one rank: rank_bytes / transfer */
    int64_t file_bytes; /* size of one file */
    bool view;          /* a call is not contiguous in the file: MPI needs a file view */
};

struct hint {
    char key[HINT_KEY_MAX];
    char value[HINT_VALUE_MAX];
};

struct hints {
    int count;
    struct hint list[HINTS_MAX];
};

/* A setting the dummy responds to: bandwidth times `factor` where `key` has `value`. */
struct effect {
    char key[SETTING_MAX];
    char value[SETTING_MAX];
    double factor;
};

struct effects {
    int count;
    struct effect list[EFFECTS_MAX];
};

struct dummy_options {
    double bandwidth; /* MiB/s of the whole job */
    double latency;   /* seconds a call */
    double noise, rank_noise;
    double fail_probability;
    struct effects effects, fail_if, hang_if;
    bool hang, virtual_time;
    char seed_from[SETTING_MAX];
    /* Resolved on rank 0 from the plan, ROMIO_HINTS, the environment and the hints file: */
    double factor;
    uint64_t key;
    bool fails, hangs;
};

struct options {
    bool help, version;
    char api[16];
    char file[TEXT_MAX], hints_file[TEXT_MAX], json[TEXT_MAX];
    bool write, read, collective, file_per_process, fsync, existing, keep, reorder, no_verify, verify_write;
    int64_t repetitions, shift, memory, size;
    uint64_t seed;
    struct geometry geometry;
    struct hints hints;
    struct dummy_options dummy;
    uint64_t given;              /* bit i: option_table[i] was on the command line */
    char resolution[REASON_MAX]; /* how --size was resolved; empty without */
};

/* The processes, and the clock they are timed by. */
struct job {
    int rank, ranks, nodes;
    bool virtual_time;
    double virtual_now; /* seconds; advanced by the dummy backend */
};

/* What went wrong in an I/O call. `call` is empty while nothing did. */
struct fault {
    char call[64];
    char path[TEXT_MAX];
    char reason[REASON_MAX];
};

/* The data one process handles: those of rank `owner` among the file's sharers. */
struct pattern {
    const struct geometry *geometry;
    int64_t owner;
    uint64_t shuffle; /* key of the random layout's permutation */
};

/* One file opened for one operation. */
struct session {
    struct job *job;
    const struct options *options;
    struct pattern pattern;
    enum operation operation;
    int64_t repetition;
    char path[TEXT_MAX + 16];
};

/*
 * A backend: how bytes reach a file. Every function returns 0, or -1 after fault_set. `open` makes the handle
 * that the others receive; `close` frees it whatever it returns. All ranks call every function in the same
 * order, also after a fault of their own when calls are collective.
 */
struct backend {
    const char *name;
    bool collective; /* can be used with --collective */
    bool stores;     /* moves real bytes: buffers are filled, reads verified, a file is needed */
    int (*open)(struct session *session, void **handle, struct fault *fault);
    int (*transfer)(struct session *session, void *handle, int64_t call, void *buffer, struct fault *fault);
    int (*sync)(struct session *session, void *handle, struct fault *fault);
    int (*close)(struct session *session, void *handle, struct fault *fault);
    int (*remove)(const char *path, struct fault *fault); /* a missing file is not a fault */
};

struct measurement {
    int64_t repetition;
    enum operation operation;
    int64_t bytes;
    double open, access, sync, close, total; /* seconds, maxima over ranks; total is their sum */
    double bandwidth;                        /* MiB/s: bytes / total; 0 where total is 0 */
    int verified;                            /* -1 not checked, 0 wrong, 1 right */
    int64_t errors;                          /* wrong bytes over all ranks */
};

/* backends.c */
extern const struct backend backend_posix, backend_mpiio, backend_hdf5, backend_dummy;
const struct backend *backend_find(const char *name); /* ignoring case; NULL if unknown */
const char *backend_names(void);
bool backend_left_out(const char *name); /* known, but this program was built without its library */
const char *layout_name(enum layout layout);

int mpi_fault(struct fault *fault, const char *call, const char *path, int code);
MPI_Info mpi_info(const struct hints *hints); /* to be freed unless it is MPI_INFO_NULL */
int mpi_remove(const char *path, struct fault *fault);
bool mpi_prefixed(const char *api, const char *path); /* does it begin with a ROMIO prefix? */

uint64_t mix64(uint64_t value); /* number.c: one round of SplitMix64's output function */

/* number.c: so many bytes as a count of a datatype. Counts are ints: more bytes than INT_MAX need a type of
 * their own. The caller frees it unless it is MPI_BYTE. */
void mpi_bytes(int64_t bytes, MPI_Datatype *type, int *count);
/* NULL, or what is wrong with the text, to follow it in a sentence. */
const char *parse_size(const char *text, int64_t *bytes);
const char *parse_seed(const char *text, uint64_t *seed);
const char *parse_real(const char *text, double *value);

/* options.c, resolve.c, backend_dummy.c: on rank 0 only. 0, or -1 with `reason` set. */
int options_parse(int argc, char **argv, struct options *options, char *reason);
int options_resolve(const struct job *job, struct options *options, char *reason);
int dummy_resolve(struct options *options, char *reason);
int refuse(char *reason, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* sets it, returns -1 */
bool option_given(const struct options *options, const char *name);
int file_check_after(const struct session *session, struct fault *fault);

void help_print(void);

/* job.c */
void job_init(struct job *job);
double job_now(const struct job *job);
int fault_set(struct fault *fault, const char *call, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void fault_watch(const struct fault *fault, const char *leftover); /* ends the job if no job_agree follows */
int job_agree(const struct job *job,
              const struct fault *fault); /* -1 on all if any has one; rank 0 prints it */
double job_max(double value);

/* pattern.c */
void pattern_init(struct pattern *pattern, const struct options *options, int64_t rank);
int64_t pattern_run(const struct pattern *pattern, int64_t position, int64_t *offset);

uint64_t content_key(uint64_t seed, int64_t file_index);
void content_fill(const struct pattern *pattern, uint64_t key, int64_t position, unsigned char *buffer,
                  int64_t length);
int64_t content_check(const struct pattern *pattern, uint64_t key, int64_t position,
                      const unsigned char *buffer, int64_t length, int64_t *first_wrong);

/* benchmark.c: `emit` is called on rank 0 after each operation. */
int benchmark_run(struct job *job, const struct options *options, const struct backend *backend,
                  struct measurement *measurements, void (*emit)(const struct measurement *));
int64_t benchmark_operations(const struct options *options);

/* results.c: on rank 0 only. */
struct statistics {
    double max, min, mean, median;
};
void report_head(const struct job *job, const struct options *options);
void report_line(const struct measurement *measurement);
void report_summary(const struct measurement *list, int64_t count);
struct json_file {
    FILE *stream;                  /* NULL: no JSON wanted */
    char temporary[TEXT_MAX + 32]; /* renamed to `path` once complete; empty: written in place */
    const char *path;
};
int json_open(const char *path, struct json_file *json, char *reason);
int json_finish(struct json_file *json, const struct job *job, const struct options *options, char **argv,
                const struct measurement *list, int64_t count, char *reason);
void json_abandon(struct json_file *json);

/* The one table that drives the command line, --help and the JSON's "options". */
enum option_kind {
    KIND_FLAG,    /* bool */
    KIND_SIZE,    /* int64_t > 0, with units */
    KIND_COUNT,   /* int64_t > 0, with units */
    KIND_NUMBER,  /* int64_t >= 0, with units */
    KIND_SEED,    /* uint64_t */
    KIND_REAL,    /* double >= 0 */
    KIND_TEXT,    /* char[TEXT_MAX] */
    KIND_API,     /* char[16] */
    KIND_LAYOUT,  /* enum layout */
    KIND_RANDOM,  /* --random: another way to say --layout random */
    KIND_EFFECT,  /* struct effects: KEY=VALUE:FACTOR */
    KIND_SETTING, /* struct effects: KEY=VALUE */
    KIND_SOURCE   /* char[SETTING_MAX] */
};

enum option_group {
    GROUP_GENERAL,
    GROUP_SIZES,
    GROUP_TILE,
    GROUP_CALLS,
    GROUP_RUN,
    GROUP_DUMMY,
    GROUP_COUNT
};

struct option_row {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    enum option_kind kind;
    enum option_group group;
    size_t offset; /* of the field in struct options */
    const char *argument;
    const char *help; /* a new line continues below the first */
};

extern const struct option_row option_table[];
extern const int option_rows;

/* A launcher that is told to end the job may drop what was printed just before, and with it why. */
static inline void end_job(int code) {
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    MPI_Abort(MPI_COMM_WORLD, code);
}

#endif
