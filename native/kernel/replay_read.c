/* Reads a record: its own rank's part as it is to be carried out, of the other ranks' what tells with whom.
 */
#include "replay_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct sw_item *next_item(const struct replay_reader *reader) {
    struct sw_items *calls = &reader->replay->calls;
    if (calls->items == NULL && !sw_items_open(calls))
        replay_die("no memory for the calls of a rank");
    if (calls->count == SW_MAX_RECORD_ITEMS)
        replay_damaged(reader, "more calls than a record has");
    struct sw_item *item = &calls->items[calls->count++];
    *item = (struct sw_item){.depth = reader->depth};
    return item;
}

static void take_call(const struct replay_reader *reader, enum sw_line line, char *rest) {
    struct replay *replay = reader->replay;
    const int numbers = sw_line_forms[line].numbers;
    const char *word = sw_line_forms[line].name;
    struct sw_item *item = next_item(reader);
    item->line = line;
    for (int n = 0; n < numbers; n++) {
        const struct replay_number number = replay_take_number(reader, &rest);
        item->numbers[n] = replay_at_rank(&number, replay->rank - reader->first);
        for (uint32_t i = 0; i < SW_RECORD_DEPTH; i++)
            item->steps[i][n] = number.steps[i];
    }
    item->pause = replay_take_number(reader, &rest).base;
    const bool moves = strstr(word, "read") != NULL || strstr(word, "write") != NULL;
    if (!moves || numbers < 2 || replay_is_hdf5(line)) /* HDF5's data have memory of their own */
        return;
    int64_t most = item->numbers[numbers - 1];
    for (uint32_t i = 0; i < reader->depth; i++) {
        const int64_t step = item->steps[i][numbers - 1], turns = reader->times[reader->depth - 1 - i];
        int64_t more = 0;
        if (step > 0 &&
            (__builtin_mul_overflow(step, turns - 1, &more) || __builtin_add_overflow(most, more, &most)))
            replay_damaged(reader, "a call of too many bytes");
    }
    if (most > replay->largest)
        replay->largest = most;
}

static void take_loop(struct replay_reader *reader, enum sw_line line, char *rest) {
    if (line == SW_LINE_loop) {
        if (reader->depth == SW_RECORD_DEPTH)
            replay_damaged(reader, "loops that are too deep");
        struct sw_item *item = next_item(reader);
        item->line = line;
        item->numbers[0] = reader->times[reader->depth++] = replay_whole(reader, &rest);
        if (item->numbers[0] < 1)
            replay_damaged(reader, "a loop without turns");
    } else {
        if (reader->depth == 0)
            replay_damaged(reader, "an end without a loop");
        reader->depth--;
        next_item(reader)->line = line;
    }
}

static void end_type(struct replay_reader *reader) {
    if (reader->type == NULL)
        return;
    struct replay *replay = reader->replay;
    replay->types = replay_grow(replay->types, replay->type_count, sizeof *replay->types);
    replay->types[replay->type_count++] = replay_type_end(reader->type);
    reader->type = NULL;
}

static void take_type(struct replay_reader *reader, enum sw_line line, char *rest) {
    const int64_t a = replay_take_own(reader, &rest), b = replay_take_own(reader, &rest);
    if (line == SW_LINE_type) {
        end_type(reader);
        reader->type = replay_type_begin(a, b);
    } else if (reader->type == NULL) {
        replay_damaged(reader, "a block outside of a type");
    } else if (line == SW_LINE_block) {
        replay_type_block(reader->type, a, b);
    } else {
        replay_type_dim(reader->type, a, b);
    }
}

static void take_ranks(struct replay_reader *reader, char *rest) {
    const struct replay *replay = reader->replay;
    reader->first = replay_take_number(reader, &rest).base;
    reader->count = replay_take_number(reader, &rest).base;
    if (reader->first < 0 || reader->count < 1 || reader->count > replay->ranks - reader->first)
        replay_damaged(reader, "ranks that the job does not have");
    reader->own = replay->rank >= reader->first && replay->rank < reader->first + reader->count;
}

/* Lines that belong to a call stand right before it, or before a loop that begins with it. */
static void check_order(struct replay_reader *reader, enum sw_line line) {
    if (reader->before != SW_LINES && line == SW_LINE_loop)
        return;
    if (reader->before != SW_LINES && !replay_may_follow(reader->before, line))
        replay_damaged(reader, "what belongs to a call stands without it");
    reader->before = reader->own && replay_precedes(line) ? line : SW_LINES;
}

static void take_own(struct replay_reader *reader, enum sw_line line, char *rest) {
    if (line != SW_LINE_block && line != SW_LINE_dim)
        end_type(reader);
    if (line == SW_LINE_hint)
        replay_take_hint(reader, rest);
    else if (line == SW_LINE_type || line == SW_LINE_block || line == SW_LINE_dim)
        take_type(reader, line, rest);
    else if (line == SW_LINE_loop || line == SW_LINE_end)
        take_loop(reader, line, rest);
    else if (sw_line_forms[line].call)
        take_call(reader, line, rest);
    else if (replay_is_hdf5(line))
        replay_take_hdf5_name(reader, line, rest);
    else
        replay_damaged(reader, "a line in a wrong place");
}

static enum sw_line line_of(const char *word) {
    int line = 0;
    while (line < SW_LINES && strcmp(word, sw_line_forms[line].name) != 0)
        line++;
    return (enum sw_line)line;
}

static void take_line(struct replay_reader *reader, char *text) {
    char *rest = strchr(text, ' ');
    if (rest != NULL)
        *rest++ = '\0';
    else
        rest = text + strlen(text);
    const enum sw_line line = line_of(text);
    if (line == SW_LINES)
        replay_damaged(reader, "it is not a line of a record");
    check_order(reader, line);
    if (line == SW_LINE_job) {
        const int64_t ranks = replay_whole(reader, &rest);
        if (ranks != reader->replay->ranks)
            replay_die("record %s is of %" PRId64 " ranks, and this job has %d: start as many",
                       reader->replay->options.record, ranks, reader->replay->ranks);
    } else if (line == SW_LINE_incomplete) {
        replay_die("record %s is incomplete and cannot be replayed: %s", reader->replay->options.record,
                   rest);
    } else if (line == SW_LINE_ranks) {
        end_type(reader);
        take_ranks(reader, rest);
    } else if (line == SW_LINE_input) {
        end_type(reader);
        replay_take_input(reader, rest);
    } else if (reader->count == 0) {
        replay_damaged(reader, "a line outside of the ranks");
    } else if (line == SW_LINE_comm) {
        end_type(reader);
        replay_take_comm(reader, rest);
    } else if (line == SW_LINE_file) {
        end_type(reader);
        replay_take_file(reader, rest);
    } else if (reader->own) {
        take_own(reader, line, rest);
    }
}

void replay_read(struct replay *replay, char *text) {
    struct replay_reader reader = {.replay = replay, .before = SW_LINES};
    char *save = NULL, *line = strtok_r(text, "\n", &save);
    for (; line != NULL; line = strtok_r(NULL, "\n", &save))
        if (++reader.line > 1) /* the header */
            take_line(&reader, line);
    end_type(&reader);
    if (reader.depth != 0)
        replay_damaged(&reader, "a loop has no end");
    if (reader.before != SW_LINES)
        replay_damaged(&reader, "what belongs to a call stands without it");
    replay_move_files(&reader);
    replay_make_comms(&reader);
    free(reader.comms);
}

void replay_free(struct replay *replay) {
    for (int64_t i = 0; i < replay->file_count; i++) {
        free(replay->files[i].path);
        if (replay->files[i].hints != MPI_INFO_NULL)
            MPI_Info_free(&replay->files[i].hints);
    }
    for (int64_t i = 0; i < replay->input_count; i++)
        free(replay->inputs[i].path);
    for (int64_t i = 0; i < replay->type_count; i++)
        MPI_Type_free(&replay->types[i]);
    for (int64_t i = 0; i < replay->comm_count; i++)
        if (replay->comms[i].comm != MPI_COMM_SELF && replay->comms[i].comm != MPI_COMM_WORLD)
            MPI_Comm_free(&replay->comms[i].comm);
    free(replay->files);
    free(replay->inputs);
    free(replay->types);
    free(replay->comms);
    replay_free_hdf5_names(replay);
    sw_items_close(&replay->calls);
}