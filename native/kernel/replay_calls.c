/* Carries out the calls of a record, one after the other. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "kernel.h"
#include "replay.h"

#define WAITING 64  /* requests of a file that may be under way */
#define SPUN 100000 /* nanoseconds of a pause that are not slept, because a sleep takes longer than asked */
#define SECOND 1000000000

/* ---- memory of a replay: data of its own, which lie as the program's did ---- */

struct replay_outgrown {
    struct replay_outgrown *before;
    char *bytes;
};

static void grow(const struct replay *replay, struct replay_memory *memory, int64_t size) {
    if (memory->bytes != NULL) {
        struct replay_outgrown *kept = replay_grow(NULL, 0, sizeof *kept);
        *kept = (struct replay_outgrown){.before = memory->outgrown, .bytes = memory->bytes};
        memory->outgrown = kept;
    }
    memory->bytes = replay_grow(NULL, size, 1);
    memory->size = size;
    for (int64_t i = 0; i < size; i++)
        memory->bytes[i] = (char)mix64((uint64_t)replay->rank << 40 ^ (uint64_t)i);
}

static struct replay_memory replay_memory_of(const struct replay *replay) {
    struct replay_memory memory = {.bytes = NULL};
    grow(replay, &memory, replay->largest);
    return memory;
}

/* Where so many of a datatype begin and end, from the address that a call is given. */
static void reach(MPI_Datatype type, int64_t count, int64_t *begin, int64_t *end) {
    MPI_Count lower, extent, true_lower, true_extent;
    int64_t shift;
    MPI_Type_get_extent_x(type, &lower, &extent);
    MPI_Type_get_true_extent_x(type, &true_lower, &true_extent);
    if (__builtin_mul_overflow(count - 1, extent, &shift) ||
        __builtin_add_overflow(shift < 0 ? shift : 0, true_lower, begin) ||
        __builtin_add_overflow(true_lower, true_extent, end) ||
        __builtin_add_overflow(*end, shift > 0 ? shift : 0, end) || *end < *begin ||
        *begin < -(INT64_MAX / 4) || *end > INT64_MAX / 4)
        replay_die("the record is damaged: data that no memory holds");
}

static struct replay_place replay_memory_take(const struct replay *replay, struct replay_memory *memory,
                                              int64_t number, int64_t bytes) {
    if (bytes < 0 || bytes > replay->largest)
        replay_die("the record is damaged: a call of %lld bytes", (long long)bytes);
    if (number == REPLAY_ONE_PIECE) {
        struct replay_place data = {.bytes = memory->bytes, .own = true};
        data.type = replay_bytes(bytes, &data.count);
        return data;
    }
    if (number < 0 || number >= replay->type_count)
        replay_die("the record is damaged: data have a type that is not defined");
    const MPI_Datatype type = replay->types[number];
    MPI_Count size;
    int64_t begin = 0, end = 0;
    MPI_Type_size_x(type, &size);
    if (size <= 0 || bytes % size != 0 || bytes / size > INT_MAX)
        replay_die("the record is damaged: a call of %lld bytes in pieces of %lld", (long long)bytes,
                   (long long)size);
    if (bytes > 0)
        reach(type, bytes / size, &begin, &end);
    if (end - begin > memory->size)
        grow(replay, memory, end - begin);
    return (struct replay_place){.bytes = memory->bytes - begin, .type = type, .count = (int)(bytes / size)};
}

/* Room for a transfer of so many bytes, which lie as the type of this number says, or REPLAY_ONE_PIECE. */
static void replay_memory_free(struct replay_memory *memory) {
    while (memory->outgrown != NULL) {
        struct replay_outgrown *kept = memory->outgrown;
        memory->outgrown = kept->before;
        free(kept->bytes);
        free(kept);
    }
    free(memory->bytes);
}

/* ---- calls ---- */

struct slot {
    bool open, left_out, sequential;
    MPI_File file;
    const char *path;
    int waiting;
    MPI_Request requests[WAITING];
    int64_t made[SW_LINES]; /* calls of each function since it was opened */
};

struct run {
    struct replay *replay;
    struct slot *slots[REPLAY_SLOTS];
    struct replay_memory memory;
    int64_t next_memory; /* the type of the next transfer's data; REPLAY_ONE_PIECE */
    bool external;       /* the next view is in the representation external32 */
    struct replay_steps steps;
    struct replay_hdf5 *hdf5;   /* NULL until it is called */
    struct replay_posix *posix; /* likewise */
    struct replay_done done;
};

static void check(int code, enum sw_line line, const char *path) {
    if (code == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    replay_die("MPI_File_%s of %s: %s", sw_line_forms[line].name, path, text);
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * SECOND + time.tv_nsec;
}

static void think(int64_t nanoseconds) {
    const int64_t end = now() + nanoseconds;
    if (nanoseconds > SPUN) {
        const int64_t wake = end - SPUN;
        const struct timespec time = {.tv_sec = wake / SECOND, .tv_nsec = wake % SECOND};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
    }
    while (now() < end)
        ;
}

/* A record does not say when requests were waited for: before the next call that is not one of their kind. */
static void finish_requests(struct slot *slot) {
    /* One by one: clang-tidy 23 crashes on MPI_Waitall here, and does not see the calls that began the
     * requests. */
    for (int i = 0; i < slot->waiting; i++)
        MPI_Wait(&slot->requests[i], MPI_STATUS_IGNORE); /* NOLINT(clang-analyzer-optin.mpi.MPI-Checker) */
    slot->waiting = 0;
}

static bool repeats_too_often(const struct run *run, struct slot *slot, enum sw_line line) {
    const int64_t most = run->replay->options.repetitions;
    return most != 0 && slot->made[line]++ >= most;
}

static int amode_of(int64_t bits) {
    const int modes[] = {MPI_MODE_CREATE, MPI_MODE_RDONLY,          MPI_MODE_WRONLY,
                         MPI_MODE_RDWR,   MPI_MODE_DELETE_ON_CLOSE, MPI_MODE_UNIQUE_OPEN,
                         MPI_MODE_EXCL,   MPI_MODE_APPEND,          MPI_MODE_SEQUENTIAL};
    int amode = 0;
    for (int i = 0; i < (int)(sizeof modes / sizeof *modes); i++)
        amode |= bits & 1 << i ? modes[i] : 0;
    return amode;
}

static const struct replay_file *file_at(const struct run *run, int64_t number) {
    if (number < 0 || number >= run->replay->file_count)
        replay_die("the record is damaged: file %lld is not defined", (long long)number);
    return &run->replay->files[number];
}

/* Brings about what the program found. */
static void make_be_there_for(const struct replay *replay, const struct replay_comm *comm,
                              const struct replay_file *file, bool there) {
    int rank;
    MPI_Comm_rank(comm->comm, &rank);
    if (rank == 0)
        replay_make_be_there(replay, file->path, there);
}

/* A call that failed in the program. */
static bool open_in_vain(const struct run *run, const int64_t *numbers) {
    const struct replay *replay = run->replay;
    if (numbers[1] < 0 || numbers[1] >= replay->comm_count)
        replay_die("the record is damaged: an open names what is not defined");
    const struct replay_file *file = file_at(run, numbers[0]);
    const struct replay_comm *comm = &replay->comms[numbers[1]];
    const int amode = amode_of(numbers[2]);
    MPI_File handle;
    make_be_there_for(replay, comm, file, amode & MPI_MODE_EXCL);
    replay_meet(replay, comm);
    if (MPI_File_open(comm->comm, file->path, amode, file->hints, &handle) == MPI_SUCCESS) {
        MPI_File_close(&handle);
        replay_die("MPI_File_open of %s does not fail here, as it did in the program", file->path);
    }
    return true;
}

static bool open_file(struct run *run, const int64_t *numbers) {
    const struct replay *replay = run->replay;
    if (numbers[0] < 0 || numbers[0] >= REPLAY_SLOTS || numbers[2] < 0 || numbers[2] >= replay->comm_count)
        replay_die("the record is damaged: an open names what is not defined");
    const struct replay_file *file = file_at(run, numbers[1]);
    const struct replay_comm *comm = &replay->comms[numbers[2]];
    const int amode = amode_of(numbers[3]);
    struct slot *slot = run->slots[numbers[0]];
    if (slot == NULL)
        slot = run->slots[numbers[0]] = replay_grow(NULL, 0, sizeof *slot);
    memset(slot, 0, sizeof *slot);
    slot->open = true;
    slot->path = file->path;
    slot->sequential = amode & MPI_MODE_SEQUENTIAL;
    slot->left_out = replay_opens_too_many(&run->steps, replay, file, comm, amode & MPI_MODE_CREATE);
    if (slot->left_out)
        return false;
    if (amode & MPI_MODE_EXCL || !(amode & MPI_MODE_CREATE))
        make_be_there_for(replay, comm, file, !(amode & MPI_MODE_EXCL));
    replay_meet(replay, comm);
    check(MPI_File_open(comm->comm, file->path, amode, file->hints, &slot->file), SW_LINE_open, file->path);
    return true;
}

static void set_view(const struct run *run, const struct slot *slot, const int64_t *numbers, bool external) {
    if (numbers[3] < 0 || numbers[3] >= run->replay->type_count)
        replay_die("the record is damaged: a view names a type that is not defined");
    int count;
    MPI_Datatype bytes = replay_bytes(numbers[2], &count), etype = bytes;
    if (count != 1) {
        MPI_Type_contiguous(count, bytes, &etype);
        MPI_Type_commit(&etype);
    }
    const MPI_Offset displacement = slot->sequential ? MPI_DISPLACEMENT_CURRENT : numbers[1];
    check(MPI_File_set_view(slot->file, displacement, etype, run->replay->types[numbers[3]],
                            external ? "external32" : "native", MPI_INFO_NULL),
          SW_LINE_set_view, slot->path);
    replay_bytes_free(&etype);
}

#define CALL(OP, ...)                                                                                        \
    case SW_LINE_##OP:                                                                                       \
        return MPI_File_##OP(slot->file, __VA_ARGS__);
#define POINTER(OP) CALL(OP, data, count, type, MPI_STATUS_IGNORE)
#define EXPLICIT(OP) CALL(OP, offset, data, count, type, MPI_STATUS_IGNORE)
#define POINTER_REQUEST(OP) CALL(OP, data, count, type, &slot->requests[slot->waiting++])
#define EXPLICIT_REQUEST(OP) CALL(OP, offset, data, count, type, &slot->requests[slot->waiting++])
#define POINTER_BEGIN(OP) CALL(OP, data, count, type)
#define EXPLICIT_BEGIN(OP) CALL(OP, offset, data, count, type)
#define END(OP) CALL(OP, data, MPI_STATUS_IGNORE)
#define NONE(OP)
#define OPERATION(name, kind, mode, place, shape) shape(name)

static int move_data(struct slot *slot, enum sw_line line, MPI_Offset offset, char *data, int count,
                     MPI_Datatype type) {
    switch (line) {
#include "../core/operations.def"
    default:
        replay_die("%s cannot be replayed", sw_line_forms[line].name);
    }
}

static void transfer(struct run *run, struct slot *slot, enum sw_line line, const int64_t *numbers,
                     int64_t memory) {
    const char *word = sw_line_forms[line].name;
    const int arguments = sw_line_forms[line].numbers;
    const int64_t bytes = arguments > 1 ? numbers[arguments - 1] : 0;
    struct replay_place data = replay_memory_take(run->replay, &run->memory, memory, bytes);
    check(move_data(slot, line, arguments > 2 ? numbers[1] : 0, data.bytes, data.count, data.type), line,
          slot->path);
    if (data.own)
        replay_bytes_free(&data.type);
    if (strstr(word, "write") != NULL)
        run->done.written += bytes;
    else
        run->done.read += bytes;
}

/* Whether the call was made. */
static bool call_file(struct run *run, enum sw_line line, const int64_t *numbers, int64_t memory,
                      bool external) {
    struct slot *slot = numbers[0] >= 0 && numbers[0] < REPLAY_SLOTS ? run->slots[numbers[0]] : NULL;
    if (slot == NULL || !slot->open)
        replay_die("the record is damaged: a call on a file that is not open");
    const bool left_out = slot->left_out;
    const bool requests = sw_line_forms[line].name[0] == 'i';
    if (line == SW_LINE_close)
        slot->open = false;
    if (left_out)
        return false;
    if (slot->waiting > 0 && (!requests || slot->waiting == WAITING))
        finish_requests(slot);
    switch (line) {
    case SW_LINE_close:
        check(MPI_File_close(&slot->file), line, slot->path);
        break;
    case SW_LINE_set_view:
        set_view(run, slot, numbers, external);
        break;
    case SW_LINE_seek:
        check(MPI_File_seek(slot->file, numbers[1], MPI_SEEK_SET), line, slot->path);
        break;
    case SW_LINE_seek_shared:
        check(MPI_File_seek_shared(slot->file, numbers[1], MPI_SEEK_SET), line, slot->path);
        break;
    case SW_LINE_set_size:
        check(MPI_File_set_size(slot->file, numbers[1]), line, slot->path);
        break;
    case SW_LINE_preallocate:
        check(MPI_File_preallocate(slot->file, numbers[1]), line, slot->path);
        break;
    case SW_LINE_sync:
        check(MPI_File_sync(slot->file), line, slot->path);
        break;
    default:
        if (repeats_too_often(run, slot, line))
            return false;
        transfer(run, slot, line, numbers, memory);
    }
    return true;
}

static bool delete_file(const struct run *run, const struct replay_file *file, bool fails) {
    struct stat status;
    if (!fails && run->replay->options.steps != 0 && lstat(file->path, &status) != 0)
        return false; /* its open was left out */
    replay_make_be_there(run->replay, file->path, !fails);
    const int code = MPI_File_delete(file->path, MPI_INFO_NULL);
    if (!fails)
        check(code, SW_LINE_delete, file->path);
    return true;
}

/* Whether what comes later has to wait for what another rank did: programs say so by what they do to files.
 */
static bool is_order(const struct run *run, enum sw_line line, const int64_t *numbers) {
    if (line != SW_LINE_tell && line != SW_LINE_await)
        return false;
    if (numbers[0] < 0 || numbers[0] >= run->replay->ranks)
        replay_die("the record is damaged: it waits for a rank that the job does not have");
    if (line == SW_LINE_tell)
        MPI_Send(NULL, 0, MPI_BYTE, (int)numbers[0], 0, MPI_COMM_WORLD);
    else
        MPI_Recv(NULL, 0, MPI_BYTE, (int)numbers[0], 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return true;
}

static bool carry_out(struct run *run, enum sw_line line, const int64_t *numbers) {
    if (is_order(run, line, numbers))
        return false;
    if (replay_is_posix(line)) {
        if (run->posix == NULL)
            run->posix = replay_posix_new(run->replay);
        return replay_posix_call(run->posix, line, numbers, &run->done);
    }
    const int64_t memory = run->next_memory;
    run->next_memory = line == SW_LINE_memory ? numbers[0] : REPLAY_ONE_PIECE;
    const bool external = run->external;
    run->external = line == SW_LINE_external;
    if (line == SW_LINE_memory || line == SW_LINE_external)
        return false;
    if (line == SW_LINE_open)
        return open_file(run, numbers);
    if (line == SW_LINE_delete)
        return delete_file(run, file_at(run, numbers[0]), false);
    if (line == SW_LINE_failed_delete)
        return delete_file(run, file_at(run, numbers[0]), true);
    if (line == SW_LINE_failed_open)
        return open_in_vain(run, numbers);
    if (replay_is_hdf5(line)) {
        if (run->hdf5 == NULL)
            run->hdf5 = replay_hdf5_new(run->replay, &run->steps);
        return replay_hdf5_call(run->hdf5, line, numbers, &run->done);
    }
    return call_file(run, line, numbers, memory, external);
}

struct replay_done replay_calls(struct replay *replay) {
    struct run run = {.replay = replay, .memory = replay_memory_of(replay), .next_memory = REPLAY_ONE_PIECE};
    struct sw_walk walk = {.items = replay->calls.items, .count = replay->calls.count};
    int64_t numbers[SW_RECORD_NUMBERS];
    const struct sw_item *item;
    while ((item = sw_walk_next(&walk, numbers)) != NULL) {
        if (replay->options.think)
            think(item->pause);
        if (carry_out(&run, item->line, numbers)) {
            run.done.calls++;
            run.done.made[item->line]++;
        }
        replay_progress();
    }
    for (int slot = 0; slot < REPLAY_SLOTS; slot++)
        free(run.slots[slot]);
    if (run.hdf5 != NULL)
        replay_hdf5_free(run.hdf5);
    if (run.posix != NULL)
        replay_posix_free(run.posix);
    free(run.steps.families);
    replay_memory_free(&run.memory);
    return run.done;
}

/* ---- what the ranks of a communicator do before they open a file together ---- */

struct replay_family {
    uint64_t key;
    int64_t opened;
};

static int64_t opened_before(struct replay_steps *steps, uint64_t key) {
    for (int64_t i = 0; i < steps->count; i++)
        if (steps->families[i].key == key)
            return steps->families[i].opened++;
    steps->families = replay_grow(steps->families, steps->count, sizeof *steps->families);
    steps->families[steps->count++] = (struct replay_family){key, 1};
    return 0;
}

void replay_meet(const struct replay *replay, const struct replay_comm *comm) {
    if (!replay->options.think)
        MPI_Barrier(comm->comm);
}

/* What all ranks leave out together hangs on counts that are the same for them. */
bool replay_opens_too_many(struct replay_steps *steps, const struct replay *replay,
                           const struct replay_file *file, const struct replay_comm *comm, bool creates) {
    const int64_t most = replay->options.steps;
    if (most == 0)
        return false;
    const uint64_t key =
        mix64(file->family ^ mix64((uint64_t)comm->leader ^ mix64((uint64_t)comm->size + creates)));
    if (opened_before(steps, key) >= most)
        return true;
    int missing = 0;
    if (!creates) { /* perhaps it was left out when the program wrote it */
        struct stat status;
        int rank;
        MPI_Comm_rank(comm->comm, &rank);
        missing = rank == 0 && stat(file->path, &status) != 0;
        MPI_Bcast(&missing, 1, MPI_INT, 0, comm->comm);
    }
    return missing;
}
