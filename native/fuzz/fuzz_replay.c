/* SPDX-License-Identifier: BSD-3-Clause
 * The reader of records of stripewise-replay on any text, as the first and the last rank of the job that the
 * text names. MPI is not started: the functions below stand in for it, and the end of a job is the end of an
 * input. Memory is counted, because such an end frees nothing. */
#include <mpi.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BLOCKS (1 << 20)

static void *blocks[MOST_BLOCKS]; /* that the reader has */
static size_t block_count;
static FILE *nowhere;
static jmp_buf end_of_job;

/* In front of each block stands its place in the list. */
#define ROOM (2 * sizeof(size_t))

static void *kept_realloc(void *old, size_t size) {
    char *block = old ? (char *)old - ROOM : NULL;
    size_t place = block_count;
    if (block)
        memcpy(&place, block, sizeof place);
    else if (block_count++ == MOST_BLOCKS)
        abort();
    if (size > SIZE_MAX / 4 || !(blocks[place] = block = realloc(block, size + ROOM)))
        exit(1);
    memcpy(block, &place, sizeof place);
    return block + ROOM;
}

static void kept_free(void *memory) {
    if (!memory)
        return;
    char *block = (char *)memory - ROOM;
    size_t place;
    memcpy(&place, block, sizeof place);
    blocks[place] = NULL;
    free(block);
}

static char *kept_strdup(const char *text) {
    const size_t size = strlen(text) + 1;
    return memcpy(kept_realloc(NULL, size), text, size);
}

static void free_all(void) {
    while (block_count > 0)
        free(blocks[--block_count]);
}

/* ---- the reader, with this memory ---- */

#define free kept_free
#define realloc kept_realloc
#undef strdup
#define strdup kept_strdup
#undef stderr
#define stderr nowhere
#define end_job end_real_job /* no launcher waits here */
#include "../kernel/kernel.h"
#undef end_job
static void end_job(int code) {
    (void)code;
    longjmp(end_of_job, 1);
}
#include "../kernel/number.c"
#include "../kernel/replay_base.c"
#include "../kernel/replay_read.c"
#undef free
#undef realloc

/* ---- MPI ---- */

int MPI_Comm_rank(MPI_Comm comm, int *rank) {
    (void)comm;
    *rank = 0;
    return MPI_SUCCESS;
}

int MPI_Comm_group(MPI_Comm comm, MPI_Group *group) {
    (void)comm;
    *group = MPI_GROUP_EMPTY;
    return MPI_SUCCESS;
}

int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made) {
    (void)group, (void)tag;
    *made = comm;
    return MPI_SUCCESS;
}

int MPI_Comm_free(MPI_Comm *comm) {
    *comm = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

/* Each rank is named once, and is one of the job's. */
int MPI_Group_incl(MPI_Group group, int count, const int ranks[], MPI_Group *made) {
    uint64_t seen = 0;
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] > 63 || seen >> ranks[i] & 1)
            abort();
        seen |= UINT64_C(1) << ranks[i];
    }
    *made = group;
    return MPI_SUCCESS;
}

int MPI_Group_free(MPI_Group *group) {
    *group = MPI_GROUP_NULL;
    return MPI_SUCCESS;
}

int MPI_Info_create(MPI_Info *info) {
    *info = MPI_INFO_ENV;
    return MPI_SUCCESS;
}

int MPI_Info_set(MPI_Info info, const char *key, const char *value) {
    (void)info;
    return strlen(key) + strlen(value) < SIZE_MAX ? MPI_SUCCESS : MPI_ERR_INFO;
}

int MPI_Info_free(MPI_Info *info) {
    *info = MPI_INFO_NULL;
    return MPI_SUCCESS;
}

static int made_type(MPI_Datatype *type) {
    *type = MPI_INT;
    return MPI_SUCCESS;
}

int MPI_Type_contiguous(int count, MPI_Datatype old, MPI_Datatype *type) {
    (void)old;
    if (count < 0)
        abort();
    return made_type(type);
}

int MPI_Type_create_hvector(int count, int length, MPI_Aint stride, MPI_Datatype old, MPI_Datatype *type) {
    (void)length, (void)stride, (void)old;
    if (count < 0)
        abort();
    return made_type(type);
}

int MPI_Type_create_struct(int count, const int lengths[], const MPI_Aint places[],
                           const MPI_Datatype types[], MPI_Datatype *type) {
    for (int i = 0; i < count; i++)
        if (lengths[i] < 0 || types[i] == MPI_DATATYPE_NULL || places[i] == MPI_UNDEFINED)
            return MPI_ERR_ARG;
    return made_type(type);
}

int MPI_Type_create_resized(MPI_Datatype old, MPI_Aint lower, MPI_Aint extent, MPI_Datatype *type) {
    (void)old, (void)lower, (void)extent;
    return made_type(type);
}

int MPI_Type_commit(MPI_Datatype *type) {
    (void)type;
    return MPI_SUCCESS;
}

int MPI_Type_free(MPI_Datatype *type) {
    *type = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
}

/* ---- what must hold ---- */

static const char directory[] = "/replays/folder";

static void demand(int condition) {
    if (!condition)
        abort();
}

static void demand_within(const char *path) {
    demand(strncmp(path, directory, strlen(directory)) == 0 && path[strlen(directory)] == '/');
    demand(strstr(path, "/../") == NULL);
    const size_t length = strlen(path);
    demand(length < REPLAY_PATH && (length < 3 || strcmp(path + length - 3, "/..") != 0));
}

static void check(const struct replay *replay) {
    for (int64_t i = 0; i < replay->file_count; i++)
        demand_within(replay->files[i].path);
    for (int64_t i = 0; i < replay->input_count; i++)
        demand_within(replay->inputs[i].path);
    struct sw_walk walk = {.items = replay->calls.items, .count = replay->calls.count};
    int64_t numbers[SW_RECORD_NUMBERS];
    for (int calls = 0; calls < 200 && sw_walk_next(&walk, numbers) != NULL; calls++)
        demand(walk.depth <= SW_RECORD_DEPTH);
}

static void read_as(const uint8_t *data, size_t size, int ranks, int rank) {
    static struct replay replay; /* longjmp leaves it as it is */
    memset(&replay, 0, sizeof replay);
    replay.rank = rank;
    replay.ranks = ranks;
    memcpy(replay.options.directory, directory, sizeof directory);
    char *text = kept_realloc(NULL, size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    if (setjmp(end_of_job) == 0) {
        replay_read(&replay, text);
        check(&replay);
        replay_free(&replay);
        kept_free(text);
        for (size_t i = 0; i < block_count; i++)
            demand(blocks[i] == NULL); /* all is freed */
    } else {
        sw_items_close(&replay.calls);
    }
    free_all();
}

static int ranks_of(const uint8_t *data, size_t size) {
    const char *job = memmem(data, size, "\njob ", 5);
    const size_t at = job ? (size_t)(job - (const char *)data) + 5 : size;
    const int ranks = at < size ? data[at] - '0' : 0;
    return ranks > 0 && ranks < 10 ? ranks : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!nowhere && !(nowhere = fopen("/dev/null", "w")))
        exit(1);
    const int ranks = ranks_of(data, size);
    read_as(data, size, ranks, 0);
    if (ranks > 1)
        read_as(data, size, ranks, ranks - 1);
    return 0;
}
