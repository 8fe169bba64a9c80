/* Memory of a replay: data of its own, which lie as the program's did. */
#include "replay.h"

#include <limits.h>
#include <stdlib.h>

#include "kernel.h"

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

struct replay_memory replay_memory_of(const struct replay *replay) {
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

struct replay_place replay_memory_take(const struct replay *replay, struct replay_memory *memory,
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

void replay_memory_free(struct replay_memory *memory) {
    while (memory->outgrown != NULL) {
        struct replay_outgrown *kept = memory->outgrown;
        memory->outgrown = kept->before;
        free(kept->bytes);
        free(kept);
    }
    free(memory->bytes);
}
