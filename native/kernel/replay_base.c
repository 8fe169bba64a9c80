/* What all parts of the replay use: the end of the job, memory, datatypes, and the watch over progress. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "kernel.h"
#include "replay.h"

void replay_die(const char *format, ...) {
    int rank;
    va_list arguments;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    va_start(arguments, format);
    char text[2 * REPLAY_PATH];
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, REPLAY_NAME ": error: rank %d: %s\n", rank, text);
    end_job(REPLAY_FAILED);
    abort();
}

void *replay_grow(void *list, int64_t count, size_t size) {
    if ((count & (count - 1)) != 0 && list != NULL) /* room for the next power of two was taken before */
        return list;
    if (count > INT64_MAX / 4 / (int64_t)size)
        replay_die("no memory for %" PRId64 " elements", count);
    int64_t room = 1;
    while (room <= count)
        room *= 2;
    void *grown = realloc(list, (size_t)room * size);
    if (grown == NULL)
        replay_die("no memory for %" PRId64 " elements", room);
    return grown;
}

/* ---- file types of a record as MPI datatypes ---- */

struct replay_type {
    int64_t lower, extent, length; /* length: of the only block, if it has no dimensions */
    int count;
    MPI_Datatype *blocks;
    MPI_Aint *places;
};

MPI_Datatype replay_bytes(int64_t bytes, int *count) {
    if (bytes < 0)
        replay_die("the record is damaged: %lld bytes", (long long)bytes);
    if (bytes >> 30 > INT_MAX)
        replay_die("a call moves %lld bytes, more than can be replayed", (long long)bytes);
    MPI_Datatype type;
    mpi_bytes(bytes, &type, count);
    return type;
}

void replay_bytes_free(MPI_Datatype *type) {
    if (*type != MPI_BYTE)
        MPI_Type_free(type);
}

struct replay_type *replay_type_begin(int64_t lower, int64_t extent) {
    struct replay_type *type = replay_grow(NULL, 0, sizeof *type);
    *type = (struct replay_type){.lower = lower, .extent = extent};
    return type;
}

void replay_type_block(struct replay_type *type, int64_t offset, int64_t length) {
    int count;
    MPI_Datatype bytes = replay_bytes(length, &count);
    type->blocks = replay_grow(type->blocks, type->count, sizeof *type->blocks);
    type->places = replay_grow(type->places, type->count, sizeof *type->places);
    MPI_Type_contiguous(count, bytes, &type->blocks[type->count]);
    type->places[type->count++] = (MPI_Aint)offset;
    type->length = length;
    replay_bytes_free(&bytes);
}

void replay_type_dim(struct replay_type *type, int64_t count, int64_t stride) {
    if (type->count == 0 || count < 0 || count > INT_MAX)
        replay_die("the record is damaged: a dimension of %lld blocks", (long long)count);
    MPI_Datatype *block = &type->blocks[type->count - 1], inner = *block;
    MPI_Type_create_hvector((int)count, 1, (MPI_Aint)stride, inner, block);
    MPI_Type_free(&inner);
    type->length = -1;
}

/* What is contiguous stays so for the MPI library, which treats it in another way. */
MPI_Datatype replay_type_end(struct replay_type *type) {
    MPI_Datatype whole;
    if (type->count == 1 && type->length == type->extent && type->lower == 0 && type->places[0] == 0) {
        whole = type->blocks[0];
    } else {
        MPI_Datatype blocks;
        int *ones = replay_grow(NULL, type->count, sizeof *ones);
        for (int i = 0; i < type->count; i++)
            ones[i] = 1;
        MPI_Type_create_struct(type->count, ones, type->places, type->blocks, &blocks);
        MPI_Type_create_resized(blocks, (MPI_Aint)type->lower, (MPI_Aint)type->extent, &whole);
        MPI_Type_free(&blocks);
        for (int i = 0; i < type->count; i++)
            MPI_Type_free(&type->blocks[i]);
        free(ones);
    }
    MPI_Type_commit(&whole);
    free(type->blocks);
    free(type->places);
    free(type);
    return whole;
}

/* ---- the end of a replay that makes no progress ----
 * Where the ranks of a record do not make the same collective
 * calls, they would wait for one another for ever. A rank that waits looks whether any other goes on: those
 * touch the mark of the folder. */

static volatile sig_atomic_t calls; /* wraps */
static char mark[2 * REPLAY_PATH];

void replay_progress(void) {
    calls = (sig_atomic_t)((unsigned)calls + 1);
}

/* Calls only what a handler of signals may. */
static void look(int signal) {
    static const char said[] = REPLAY_NAME ": error: no rank's call has ended for as long as --patience "
                                           "says: the ranks of this record seem to wait for "
                                           "one another; record the program again, or give more --patience\n";
    static sig_atomic_t seen = -1;
    static struct timespec touched = {.tv_sec = -1};
    struct stat status;
    (void)signal;
    if (seen != calls) {
        seen = calls;
        (void)!utimensat(AT_FDCWD, mark, NULL, 0);
        return;
    }
    const bool known = stat(mark, &status) == 0;
    if (known && status.st_mtim.tv_sec == touched.tv_sec && status.st_mtim.tv_nsec == touched.tv_nsec) {
        (void)!write(STDERR_FILENO, said, sizeof said - 1);
        _exit(REPLAY_FAILED);
    }
    if (known)
        touched = status.st_mtim;
}

static void set_timer(int64_t seconds) {
    const struct itimerval every = {.it_interval = {.tv_sec = seconds}, .it_value = {.tv_sec = seconds}};
    setitimer(ITIMER_REAL, &every, NULL);
}

void replay_watch(const struct replay *replay) {
    struct sigaction action;
    snprintf(mark, sizeof mark, "%s/%s", replay->options.directory, SW_REPLAY_MARK);
    memset(&action, 0, sizeof action);
    action.sa_handler = look;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    set_timer(replay->options.patience);
}

void replay_watch_end(void) {
    set_timer(0);
}
