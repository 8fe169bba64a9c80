/* stripewise-replay: carries out what a record says that a program did in MPI-IO, with data of its own. */
#ifndef STRIPEWISE_REPLAY_H
#define STRIPEWISE_REPLAY_H

#include <mpi.h>

#include "../core/record.h"

#define REPLAY_NAME "stripewise-replay"
#define REPLAY_PATH 4096
#define REPLAY_SLOTS 1024

enum replay_exit { REPLAY_DONE = 0, REPLAY_FAILED = 1, REPLAY_WRONG_USE = 2 };

/* The parts of a replay; all of them unless one is chosen. */
enum replay_part { REPLAY_PREPARE = 1, REPLAY_CALLS = 2, REPLAY_CLEAN = 4 };

struct replay_options {
    char record[REPLAY_PATH], directory[REPLAY_PATH], counts[REPLAY_PATH];
    bool think, keep, quiet;
    int parts;                  /* of enum replay_part */
    int64_t steps, repetitions; /* 0: all */
    int64_t patience;           /* seconds without any progress */
};

/* A file that this rank opens. */
struct replay_file {
    char *path;      /* where the replay has it */
    uint64_t family; /* a hash of the program's path without its numbers */
    MPI_Info hints;
    bool own; /* this rank deletes it */
};

struct replay_input {
    char *path;
    int64_t size;
};

struct replay_comm {
    int64_t leader, size, distance; /* as in the record */
    MPI_Comm comm;
};

/* How HDF5 opens files, as in the record. */
struct replay_access {
    int64_t sizes[SW_RECORD_NUMBERS]; /* alignment, threshold, metadata block, sieve buffer, chunk cache */
    int64_t more[SW_RECORD_NUMBERS];  /* collective writes and reads of metadata, bounds of versions */
    int64_t space[SW_RECORD_NUMBERS]; /* strategy, persist, threshold, page size */
    bool spaced;
};

#define REPLAY_CLASSES 5 /* of elements */
#define REPLAY_LAYOUTS 3 /* of datasets that are stored in their file */
#define REPLAY_FILLS 3   /* ways to fill a dataset */
#define REPLAY_RANK 32   /* dimensions of a dataset */
#define REPLAY_VALUES 64 /* parameters of a filter */

struct replay_filter {
    int64_t filter, flags;
    size_t count;
    unsigned values[REPLAY_VALUES];
};

/* What a dataset of HDF5 is like. */
struct replay_shape {
    int64_t class, size, layout, fills, allocation;
    int64_t bytes; /* of all its elements */
    int rank;
    struct replay_dim {
        int64_t size, most, chunk;
    } dims[REPLAY_RANK];
    struct replay_filter *filters;
    int64_t filter_count;
};

/* What one rank is to do. */
struct replay {
    struct replay_options options;
    int rank, ranks;
    struct sw_items calls;
    int64_t largest; /* bytes of a call */
    struct replay_file *files;
    struct replay_comm *comms;
    MPI_Datatype *types;
    struct replay_input *inputs; /* of all ranks, in the order of their paths */
    int64_t file_count, comm_count, type_count, input_count;
    struct replay_access *accesses;
    struct replay_shape *shapes;
    int64_t access_count, shape_count;
};

/* Ends the job with what was wrong. */
void replay_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Memory that is there, or the end of the job. Grows what may be NULL by one element at a time. */
void *replay_grow(void *list, int64_t count, size_t size);

/* replay_read.c: the text, which is changed, and its own rank's part of it. */
void replay_read(struct replay *replay, char *text);
void replay_free(struct replay *replay);

/* Datatypes. */
struct replay_type; /* while its lines are read */
struct replay_type *replay_type_begin(int64_t lower, int64_t extent);
void replay_type_block(struct replay_type *type, int64_t offset, int64_t length);
void replay_type_dim(struct replay_type *type, int64_t count, int64_t stride);
MPI_Datatype replay_type_end(struct replay_type *type);

/* So many bytes as a count of a datatype, which replay_bytes_free frees. */
MPI_Datatype replay_bytes(int64_t bytes, int *count);
void replay_bytes_free(MPI_Datatype *type);

/* What calls take their data from, and put them into. */
#define REPLAY_ONE_PIECE (-1)
struct replay_memory {
    char *bytes;
    int64_t size;
    struct replay_outgrown *outgrown; /* what requests that are under way may still use */
};
struct replay_place {
    char *bytes;
    MPI_Datatype type;
    int count;
    bool own; /* the type is to be freed */
};

/* replay_files.c: collective over all ranks. */

/* Ends the job unless the folder is empty, missing or marked as that of a replay: files of the same names
 * there would be overwritten and deleted. Makes it and marks it. */
void replay_claim(const struct replay *replay);
/* A record may name files of any size: ends the job where there is no room for so many bytes. */
void replay_check_room(const struct replay *replay, int64_t needed);
void replay_prepare(struct replay *replay);
void replay_clean(const struct replay *replay);

/* Brings about whether a file is there, as the program found it: what it did with other calls is not in the
 * record, or the file had been there before. */
void replay_make_be_there(const struct replay *replay, const char *path, bool there);
/* The folders of a path below the replay's own. */
void replay_make_folders(const struct replay *replay, const char *path);
/* A folder with folders in it; where there is a file, they stay. */
void replay_remove_empty(const char *path);

/* replay_calls.c */
struct replay_done {
    int64_t calls, read, written, made[SW_LINES];
    int64_t nanoseconds; /* inside calls of the C library */
};
struct replay_done replay_calls(struct replay *replay);

/* From one to the other the job ends where for so many seconds, or up to three times as many,
 * no rank's call ends. */
void replay_watch(const struct replay *replay);
void replay_progress(void);
void replay_watch_end(void);

/* Waits for the ranks that open a file together. Where ranks pause less than in the program, some would come
 * early and wait in the open for what others still do to other files. Programs wait for that before the call,
 * where it is no time of I/O. */
void replay_meet(const struct replay *replay, const struct replay_comm *comm);

/* What `--steps` leaves out. Files whose names differ in numbers only, that ranks open together, are counted;
 * all ranks come to the same answer. */
struct replay_steps {
    struct replay_family *families;
    int64_t count;
};
bool replay_opens_too_many(struct replay_steps *steps, const struct replay *replay,
                           const struct replay_file *file, const struct replay_comm *comm, bool creates);

/* replay_posix.c: as with HDF5 below. */
struct replay_posix;
struct replay_posix *replay_posix_new(const struct replay *replay);
void replay_posix_free(struct replay_posix *posix);
/* Whether the line is one of the C library; in replay_read.c. */
bool replay_is_posix(enum sw_line line);
bool replay_posix_call(struct replay_posix *posix, enum sw_line line, const int64_t *numbers,
                       struct replay_done *done);

/* replay_hdf5.c, or replay_no_hdf5.c in a build without HDF5. */
struct replay_hdf5;
struct replay_hdf5 *replay_hdf5_new(struct replay *replay, struct replay_steps *steps);
void replay_hdf5_free(struct replay_hdf5 *hdf5);
/* Whether the line is one of HDF5; in replay_read.c. */
bool replay_is_hdf5(enum sw_line line);
/* Carries out a call, and answers whether one was made. */
bool replay_hdf5_call(struct replay_hdf5 *hdf5, enum sw_line line, const int64_t *numbers,
                      struct replay_done *done);
/* Makes the files that the program found. Collective over all ranks. */
void replay_hdf5_prepare(struct replay *replay);

#endif
