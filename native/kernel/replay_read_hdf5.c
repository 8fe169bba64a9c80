/* What HDF5's calls in a record refer to: how files are opened, and what datasets are like. */
#include "replay_reader.h"

#include <stdlib.h>
#include <string.h>

bool replay_is_hdf5(enum sw_line line) {
    return strncmp(sw_line_forms[line].name, "h5", 2) == 0;
}

/* Lines that belong to a call below them, with those that may follow each. */
static const struct {
    enum sw_line line, next;
} before[] = {
#define X(name, other) {SW_LINE_##name, SW_LINE_##other},
    SW_RECORD_BEFORE(X)
#undef X
};

bool replay_precedes(enum sw_line line) {
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (before[i].line == line)
            return true;
    return false;
}

bool replay_may_follow(enum sw_line line, enum sw_line next) {
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (before[i].line == line && before[i].next == next)
            return true;
    return false;
}

static void take(const struct replay_reader *reader, enum sw_line line, char *rest, int64_t *numbers) {
    for (int n = 0; n < sw_line_forms[line].numbers; n++)
        numbers[n] = replay_take_own(reader, &rest);
}

static void take_of_access(const struct replay_reader *reader, enum sw_line line, char *rest) {
    struct replay *replay = reader->replay;
    if (line == SW_LINE_h5access) {
        replay->accesses = replay_grow(replay->accesses, replay->access_count, sizeof *replay->accesses);
        replay->accesses[replay->access_count] = (struct replay_access){.spaced = false};
        take(reader, line, rest, replay->accesses[replay->access_count++].sizes);
        return;
    }
    if (replay->access_count == 0)
        replay_damaged(reader, "a property without an access");
    struct replay_access *access = &replay->accesses[replay->access_count - 1];
    access->spaced |= line == SW_LINE_h5space;
    take(reader, line, rest, line == SW_LINE_h5space ? access->space : access->more);
}

static void take_dataset(const struct replay_reader *reader, char *rest) {
    struct replay *replay = reader->replay;
    int64_t numbers[SW_RECORD_NUMBERS] = {0};
    take(reader, SW_LINE_h5dataset, rest, numbers);
    if (numbers[0] < 0 || numbers[0] >= REPLAY_CLASSES || numbers[1] < 1 || numbers[1] > INT32_MAX ||
        numbers[2] < 0 || numbers[2] >= REPLAY_LAYOUTS || numbers[3] < 0 || numbers[3] >= REPLAY_FILLS)
        replay_damaged(reader, "a dataset that cannot be");
    replay->shapes = replay_grow(replay->shapes, replay->shape_count, sizeof *replay->shapes);
    replay->shapes[replay->shape_count++] = (struct replay_shape){.class = numbers[0],
                                                                  .size = numbers[1],
                                                                  .bytes = numbers[1],
                                                                  .layout = numbers[2],
                                                                  .fills = numbers[3],
                                                                  .allocation = numbers[4]};
}

static void take_of_dataset(const struct replay_reader *reader, enum sw_line line, char *rest) {
    struct replay *replay = reader->replay;
    int64_t numbers[SW_RECORD_NUMBERS] = {0};
    if (replay->shape_count == 0)
        replay_damaged(reader, "a part of no dataset");
    struct replay_shape *shape = &replay->shapes[replay->shape_count - 1];
    take(reader, line, rest, numbers);
    if (line == SW_LINE_h5dim) {
        if (shape->rank == REPLAY_RANK || numbers[0] < 0 || numbers[1] < -1 || numbers[2] < 0)
            replay_damaged(reader, "a dimension that cannot be, or one too many");
        if (__builtin_mul_overflow(shape->bytes, numbers[0], &shape->bytes))
            replay_damaged(reader, "a dataset of too many bytes");
        shape->dims[shape->rank++] = (struct replay_dim){numbers[0], numbers[1], numbers[2]};
    } else if (line == SW_LINE_h5filter) {
        shape->filters = replay_grow(shape->filters, shape->filter_count, sizeof *shape->filters);
        shape->filters[shape->filter_count++] =
            (struct replay_filter){.filter = numbers[0], .flags = numbers[1]};
    } else {
        struct replay_filter *filter = shape->filters ? &shape->filters[shape->filter_count - 1] : NULL;
        if (filter == NULL || filter->count == REPLAY_VALUES)
            replay_damaged(reader, "a parameter of no filter, or one too many");
        filter->values[filter->count++] = (unsigned)numbers[0];
    }
}

void replay_take_hdf5_name(const struct replay_reader *reader, enum sw_line line, char *rest) {
    if (line == SW_LINE_h5access || line == SW_LINE_h5more || line == SW_LINE_h5space)
        take_of_access(reader, line, rest);
    else if (line == SW_LINE_h5dataset)
        take_dataset(reader, rest);
    else
        take_of_dataset(reader, line, rest);
}

void replay_free_hdf5_names(struct replay *replay) {
    for (int64_t i = 0; i < replay->shape_count; i++)
        free(replay->shapes[i].filters);
    free(replay->shapes);
    free(replay->accesses);
}
