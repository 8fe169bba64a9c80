/* Reads a record: its own rank's part as it is to be carried out, of the other ranks' what tells with whom.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "replay.h"

#define MOST_OF_A_CALL 0x7ffff000 /* of the C library: the buffer for it is filled */

/* A number of a line: its first value, and its steps from turn to turn and from rank to rank. */
struct replay_number {
    int64_t base, steps[SW_RECORD_DEPTH], rank;
};

/* A communicator of a group of ranks, as its line says. */
struct named_comm {
    int64_t first, count;
    struct replay_number leader, size, distance;
};

struct replay_reader {
    struct replay *replay;
    long line;
    int64_t first, count; /* the group */
    bool own;
    enum sw_line before; /* the last line, where it belongs to the call after it; else SW_LINES */
    uint32_t depth;
    int64_t times[SW_RECORD_DEPTH]; /* of the loops that are open, the outermost first */
    struct replay_type *type;
    struct named_comm *comms; /* of all groups */
    int64_t comm_count;
    size_t common; /* the length of the folder that all files have in common */
    char folder[REPLAY_PATH];
    bool any_file;
};

/* ---- numbers and texts of lines ---- */

/* Ends the job with what is wrong with the line. */
__attribute__((noreturn)) static void damaged(const struct replay_reader *reader, const char *why) {
    replay_die("record %s is damaged in line %ld: %s", reader->replay->options.record, reader->line, why);
}

static int64_t at_rank(const struct replay_number *number, int64_t rank) {
    return (int64_t)((uint64_t)number->base + (uint64_t)number->rank * (uint64_t)rank); /* may wrap */
}

static int64_t take_whole(const struct replay_reader *reader, char **at) {
    char *end;
    errno = 0;
    long long value = strtoll(*at, &end, 10);
    if (end == *at || errno != 0)
        damaged(reader, "a number is missing");
    *at = end;
    return value;
}

/* NUMBER[,STEP...][~STEP] and the blank behind it. */
static struct replay_number take_number(const struct replay_reader *reader, char **at) {
    struct replay_number number = {.base = take_whole(reader, at)};
    for (uint32_t step = 0; **at == ','; step++) {
        ++*at;
        if (step == SW_RECORD_DEPTH)
            damaged(reader, "too many steps");
        number.steps[step] = take_whole(reader, at);
    }
    if (**at == '~') {
        ++*at;
        number.rank = take_whole(reader, at);
    }
    if (**at == ' ')
        ++*at;
    else if (**at != '\0')
        damaged(reader, "a number is malformed");
    return number;
}

/* %XX stands for a character. */
static void decode(char *text) {
    char *to = text;
    for (; *text; text++) {
        if (text[0] == '%' && isxdigit((unsigned char)text[1]) && isxdigit((unsigned char)text[2])) {
            const char code[3] = {text[1], text[2], '\0'};
            *to++ = (char)strtol(code, NULL, 16);
            text += 2;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
}

/* The next number as it is on the own rank. */
static int64_t own_number(const struct replay_reader *reader, char **at) {
    const struct replay_number number = take_number(reader, at);
    return at_rank(&number, reader->replay->rank - reader->first);
}

/* ---- communicators: of all ranks, since each says only what it took part in ---- */

static void take_comm(struct replay_reader *reader, char *rest) {
    struct replay *replay = reader->replay;
    struct named_comm comm = {.first = reader->first, .count = reader->count};
    comm.leader = take_number(reader, &rest);
    comm.size = take_number(reader, &rest);
    comm.distance = take_number(reader, &rest);
    reader->comms = replay_grow(reader->comms, reader->comm_count, sizeof comm);
    reader->comms[reader->comm_count++] = comm;
    if (!reader->own)
        return;
    int64_t distance = replay->rank - reader->first;
    replay->comms = replay_grow(replay->comms, replay->comm_count, sizeof *replay->comms);
    replay->comms[replay->comm_count++] =
        (struct replay_comm){at_rank(&comm.leader, distance), at_rank(&comm.size, distance),
                             at_rank(&comm.distance, distance), MPI_COMM_NULL};
}

/* Marks the ranks of the job that opened files in a communicator, and counts them. */
static int64_t mark_members(const struct replay_reader *reader, const struct replay_comm *wanted, char *in) {
    int64_t found = 0;
    for (int64_t i = 0; i < reader->comm_count; i++) {
        const struct named_comm *comm = &reader->comms[i];
        for (int64_t rank = 0; rank < comm->count; rank++)
            if (at_rank(&comm->leader, rank) == wanted->leader &&
                at_rank(&comm->size, rank) == wanted->size &&
                at_rank(&comm->distance, rank) == wanted->distance) {
                found += !in[comm->first + rank];
                in[comm->first + rank] = 1;
            }
    }
    return found;
}

/* The ranks of a communicator in their order. Irregular ones are sorted behind the first, as splits by rank
 * leave them: that is the nearest where their CRC says that they are in another order. False: damaged. */
static bool order_members(const struct replay *replay, const struct replay_comm *wanted, const char *in,
                          int *members) {
    int64_t count = 1;
    members[0] = (int)wanted->leader;
    if (wanted->distance < SW_RECORD_IRREGULAR) {
        if (wanted->distance == 0 || wanted->distance <= -replay->ranks || wanted->distance >= replay->ranks)
            return false;
        for (; count < wanted->size; count++) {
            const int64_t rank = wanted->leader + count * wanted->distance;
            if (rank < 0 || rank >= replay->ranks || !in[rank])
                return false;
            members[count] = (int)rank;
        }
        return true;
    }
    for (int rank = 0; rank < replay->ranks; rank++)
        if (in[rank] && rank != wanted->leader)
            members[count++] = rank;
    return true;
}

static MPI_Comm make_comm(const struct replay_reader *reader, const struct replay_comm *wanted) {
    const struct replay *replay = reader->replay;
    const int64_t leader = wanted->leader, size = wanted->size;
    if (size == 1)
        return MPI_COMM_SELF;
    if (size == replay->ranks && leader == 0 && wanted->distance == 1)
        return MPI_COMM_WORLD;
    char *in = replay_grow(NULL, replay->ranks, 1);
    memset(in, 0, (size_t)replay->ranks);
    const int64_t found = mark_members(reader, wanted, in);
    if (found != size || leader < 0 || leader >= replay->ranks || !in[leader])
        replay_die("record %s does not tell the ranks of a communicator: %" PRId64
                   " opened files in one of %" PRId64 " that rank %" PRId64 " leads",
                   replay->options.record, found, size, leader);
    int *members = replay_grow(NULL, size, sizeof *members);
    if (!order_members(replay, wanted, in, members))
        replay_die("record %s is damaged: the %" PRId64 " ranks of a communicator that rank %" PRId64
                   " leads are not in it",
                   replay->options.record, size, leader);
    MPI_Group world, group;
    MPI_Comm comm;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, (int)size, members, &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &comm);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    free(members);
    free(in);
    return comm;
}

static int by_leader(const void *one, const void *other) {
    const struct replay_comm *a = *(struct replay_comm *const *)one, *b = *(struct replay_comm *const *)other;
    if (a->leader != b->leader)
        return a->leader < b->leader ? -1 : 1;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return (a->distance > b->distance) - (a->distance < b->distance);
}

/* All ranks in one order: making a communicator waits for its members. */
static void make_comms(const struct replay_reader *reader) {
    struct replay *replay = reader->replay;
    struct replay_comm **order =
        (struct replay_comm **)replay_grow(NULL, replay->comm_count, sizeof(struct replay_comm *));
    for (int64_t i = 0; i < replay->comm_count; i++)
        order[i] = &replay->comms[i];
    if (replay->comm_count > 0)
        qsort((void *)order, (size_t)replay->comm_count, sizeof(struct replay_comm *), by_leader);
    for (int64_t i = 0; i < replay->comm_count; i++)
        order[i]->comm = make_comm(reader, order[i]);
    free((void *)order);
}

/* ---- files, and where the replay has them ---- */

static size_t folder_length(const char *path, size_t length) {
    while (length > 0 && path[length - 1] != '/')
        length--;
    return length;
}

/* Shortens what the paths have in common by one of which the first `fixed` characters are the same on all
 * ranks. */
static void share_folder(struct replay_reader *reader, const char *path, size_t fixed) {
    size_t length = folder_length(path, fixed);
    if (!reader->any_file) {
        if (length >= sizeof reader->folder)
            damaged(reader, "a path that is too long");
        memcpy(reader->folder, path, length);
        reader->common = length;
        reader->any_file = true;
        return;
    }
    size_t same = 0;
    while (same < length && same < reader->common && path[same] == reader->folder[same])
        same++;
    reader->common = folder_length(reader->folder, same);
}

/* The path of the group's rank `distance`, and where its first number that differs from rank to rank begins.
 */
static char *path_of(const struct replay_reader *reader, char *steps, const char *path, int64_t distance,
                     size_t *fixed, bool *moves) {
    char *made = replay_grow(NULL, REPLAY_PATH, 1);
    size_t used = 0;
    *moves = false;
    *fixed = strlen(path);
    for (const char *c = path; *c;) {
        size_t digits = strspn(c, "0123456789");
        if (digits == 0) {
            made[used++] = *c++;
        } else {
            int64_t step = take_whole(reader, &steps);
            steps += *steps == ',';
            if (step != 0 && !*moves) {
                *moves = true;
                *fixed = (size_t)(c - path);
            }
            int64_t number = strtoll(c, NULL, 10), more = 0;
            if (__builtin_mul_overflow(step, distance, &more) ||
                __builtin_add_overflow(number, more, &number))
                damaged(reader, "a path with a number that is too large");
            int printed = step == 0
                              ? snprintf(made + used, REPLAY_PATH - used, "%.*s", (int)digits, c)
                              : snprintf(made + used, REPLAY_PATH - used, "%0*" PRId64, (int)digits, number);
            used += (size_t)printed;
            c += digits;
        }
        if (used >= REPLAY_PATH - 1)
            damaged(reader, "a path that is too long");
    }
    made[used] = '\0';
    return made;
}

static uint64_t family_of(const char *path) {
    uint64_t hash = 0;
    for (const char *c = path; *c; c++) {
        bool digit = isdigit((unsigned char)*c);
        if (!digit || c == path || !isdigit((unsigned char)c[-1]))
            hash = mix64(hash ^ (unsigned char)(digit ? '#' : *c));
    }
    return hash;
}

static void take_file(struct replay_reader *reader, char *rest) {
    struct replay *replay = reader->replay;
    char *path = strchr(rest, ' ');
    if (path == NULL)
        damaged(reader, "a file without a path");
    *path++ = '\0';
    decode(path);
    size_t fixed;
    bool moves;
    char *made = path_of(reader, rest, path, reader->own ? replay->rank - reader->first : 0, &fixed, &moves);
    share_folder(reader, path, fixed);
    if (!reader->own) {
        free(made);
        return;
    }
    replay->files = replay_grow(replay->files, replay->file_count, sizeof *replay->files);
    replay->files[replay->file_count++] = (struct replay_file){.path = made,
                                                               .family = family_of(path),
                                                               .hints = MPI_INFO_NULL,
                                                               .own = moves || replay->rank == reader->first};
}

static void take_hint(const struct replay_reader *reader, char *hint) {
    struct replay *replay = reader->replay;
    decode(hint);
    char *value = strchr(hint, '=');
    if (replay->file_count == 0 || value == NULL)
        damaged(reader, "a hint without a file or a value");
    *value++ = '\0';
    struct replay_file *file = &replay->files[replay->file_count - 1];
    if (file->hints == MPI_INFO_NULL)
        MPI_Info_create(&file->hints);
    MPI_Info_set(file->hints, hint, value);
}

static void take_input(struct replay_reader *reader, char *rest) {
    struct replay *replay = reader->replay;
    struct replay_input input = {.size = take_whole(reader, &rest)};
    if (input.size < 0)
        damaged(reader, "an input file of negative size");
    rest += *rest == ' ';
    decode(rest);
    share_folder(reader, rest, strlen(rest));
    input.path = strdup(rest);
    if (input.path == NULL)
        replay_die("no memory for a path");
    replay->inputs = replay_grow(replay->inputs, replay->input_count, sizeof *replay->inputs);
    replay->inputs[replay->input_count++] = input;
}

static int by_path(const void *one, const void *other) {
    return strcmp(((const struct replay_input *)one)->path, ((const struct replay_input *)other)->path);
}

static bool leads_up(const char *path) {
    for (const char *dots = strstr(path, ".."); dots != NULL; dots = strstr(dots + 1, ".."))
        if ((dots == path || dots[-1] == '/') && (dots[2] == '/' || dots[2] == '\0'))
            return true;
    return false;
}

/* Puts a path of the program into the replay's folder, which no file of the replay may leave. */
static void move(const struct replay_reader *reader, char **path) {
    if (leads_up(*path))
        replay_die("record %s cannot be replayed: the path %s has '..'", reader->replay->options.record,
                   *path);
    char *moved = replay_grow(NULL, REPLAY_PATH, 2);
    int length =
        snprintf(moved, REPLAY_PATH, "%s/%s", reader->replay->options.directory, *path + reader->common);
    if (length >= REPLAY_PATH)
        replay_die("the path %s/%s is too long", reader->replay->options.directory, *path + reader->common);
    free(*path);
    *path = moved;
}

/* Puts all files into the replay's folder, which none may leave; inputs are then in the order of their paths.
 */
static void move_files(struct replay_reader *reader) {
    struct replay *replay = reader->replay;
    for (int64_t i = 0; i < replay->file_count; i++)
        move(reader, &replay->files[i].path);
    for (int64_t i = 0; i < replay->input_count; i++)
        move(reader, &replay->inputs[i].path);
    if (replay->input_count > 0)
        qsort(replay->inputs, (size_t)replay->input_count, sizeof *replay->inputs, by_path);
}

bool replay_is_posix(enum sw_line line) {
    return strncmp(sw_line_forms[line].name, "posix_", 6) == 0;
}

/* ---- what HDF5's calls refer to: how files are opened, and what datasets are like ---- */

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

static bool precedes(enum sw_line line) {
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (before[i].line == line)
            return true;
    return false;
}

static bool may_follow(enum sw_line line, enum sw_line next) {
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (before[i].line == line && before[i].next == next)
            return true;
    return false;
}

static void take(const struct replay_reader *reader, enum sw_line line, char *rest, int64_t *numbers) {
    for (int n = 0; n < sw_line_forms[line].numbers; n++)
        numbers[n] = own_number(reader, &rest);
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
        damaged(reader, "a property without an access");
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
        damaged(reader, "a dataset that cannot be");
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
        damaged(reader, "a part of no dataset");
    struct replay_shape *shape = &replay->shapes[replay->shape_count - 1];
    take(reader, line, rest, numbers);
    if (line == SW_LINE_h5dim) {
        if (shape->rank == REPLAY_RANK || numbers[0] < 0 || numbers[1] < -1 || numbers[2] < 0)
            damaged(reader, "a dimension that cannot be, or one too many");
        if (__builtin_mul_overflow(shape->bytes, numbers[0], &shape->bytes))
            damaged(reader, "a dataset of too many bytes");
        shape->dims[shape->rank++] = (struct replay_dim){numbers[0], numbers[1], numbers[2]};
    } else if (line == SW_LINE_h5filter) {
        shape->filters = replay_grow(shape->filters, shape->filter_count, sizeof *shape->filters);
        shape->filters[shape->filter_count++] =
            (struct replay_filter){.filter = numbers[0], .flags = numbers[1]};
    } else {
        struct replay_filter *filter = shape->filters ? &shape->filters[shape->filter_count - 1] : NULL;
        if (filter == NULL || filter->count == REPLAY_VALUES)
            damaged(reader, "a parameter of no filter, or one too many");
        filter->values[filter->count++] = (unsigned)numbers[0];
    }
}

static void take_hdf5(const struct replay_reader *reader, enum sw_line line, char *rest) {
    if (line == SW_LINE_h5access || line == SW_LINE_h5more || line == SW_LINE_h5space)
        take_of_access(reader, line, rest);
    else if (line == SW_LINE_h5dataset)
        take_dataset(reader, rest);
    else
        take_of_dataset(reader, line, rest);
}

static void free_hdf5(struct replay *replay) {
    for (int64_t i = 0; i < replay->shape_count; i++)
        free(replay->shapes[i].filters);
    free(replay->shapes);
    free(replay->accesses);
}

static struct sw_item *next_item(const struct replay_reader *reader) {
    struct sw_items *calls = &reader->replay->calls;
    if (calls->items == NULL && !sw_items_open(calls))
        replay_die("no memory for the calls of a rank");
    if (calls->count == SW_MAX_RECORD_ITEMS)
        damaged(reader, "more calls than a record has");
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
        const struct replay_number number = take_number(reader, &rest);
        item->numbers[n] = at_rank(&number, replay->rank - reader->first);
        for (uint32_t i = 0; i < SW_RECORD_DEPTH; i++)
            item->steps[i][n] = number.steps[i];
    }
    item->pause = take_number(reader, &rest).base;
    const bool moves = strstr(word, "read") != NULL || strstr(word, "write") != NULL;
    if (!moves || numbers < 2 || replay_is_hdf5(line)) /* HDF5's data have memory of their own */
        return;
    int64_t most = item->numbers[numbers - 1];
    for (uint32_t i = 0; i < reader->depth; i++) {
        const int64_t step = item->steps[i][numbers - 1], turns = reader->times[reader->depth - 1 - i];
        int64_t more = 0;
        if (step > 0 &&
            (__builtin_mul_overflow(step, turns - 1, &more) || __builtin_add_overflow(most, more, &most)))
            damaged(reader, "a call of too many bytes");
    }
    if (replay_is_posix(line) && most > MOST_OF_A_CALL)
        damaged(reader, "a call of more bytes than Linux moves at once");
    if (most > replay->largest)
        replay->largest = most;
}

static void take_loop(struct replay_reader *reader, enum sw_line line, char *rest) {
    if (line == SW_LINE_loop) {
        if (reader->depth == SW_RECORD_DEPTH)
            damaged(reader, "loops that are too deep");
        struct sw_item *item = next_item(reader);
        item->line = line;
        item->numbers[0] = reader->times[reader->depth++] = take_whole(reader, &rest);
        if (item->numbers[0] < 1)
            damaged(reader, "a loop without turns");
    } else {
        if (reader->depth == 0)
            damaged(reader, "an end without a loop");
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
    const int64_t a = own_number(reader, &rest), b = own_number(reader, &rest);
    if (line == SW_LINE_type) {
        end_type(reader);
        reader->type = replay_type_begin(a, b);
    } else if (reader->type == NULL) {
        damaged(reader, "a block outside of a type");
    } else if (line == SW_LINE_nearest) {
        return; /* for people */
    } else if (line == SW_LINE_block) {
        replay_type_block(reader->type, a, b);
    } else {
        replay_type_dim(reader->type, a, b);
    }
}

static void take_ranks(struct replay_reader *reader, char *rest) {
    const struct replay *replay = reader->replay;
    reader->first = take_number(reader, &rest).base;
    reader->count = take_number(reader, &rest).base;
    if (reader->first < 0 || reader->count < 1 || reader->count > replay->ranks - reader->first)
        damaged(reader, "ranks that the job does not have");
    reader->own = replay->rank >= reader->first && replay->rank < reader->first + reader->count;
}

/* Lines that belong to a call stand right before it, or before a loop that begins with it. */
static void check_order(struct replay_reader *reader, enum sw_line line) {
    if (reader->before != SW_LINES && line == SW_LINE_loop)
        return;
    if (reader->before != SW_LINES && !may_follow(reader->before, line))
        damaged(reader, "what belongs to a call stands without it");
    reader->before = reader->own && precedes(line) ? line : SW_LINES;
}

static void take_own(struct replay_reader *reader, enum sw_line line, char *rest) {
    if (line != SW_LINE_block && line != SW_LINE_dim && line != SW_LINE_nearest)
        end_type(reader);
    if (line == SW_LINE_hint)
        take_hint(reader, rest);
    else if (line == SW_LINE_type || line == SW_LINE_nearest || line == SW_LINE_block || line == SW_LINE_dim)
        take_type(reader, line, rest);
    else if (line == SW_LINE_loop || line == SW_LINE_end)
        take_loop(reader, line, rest);
    else if (sw_line_forms[line].call)
        take_call(reader, line, rest);
    else if (replay_is_hdf5(line))
        take_hdf5(reader, line, rest);
    else
        damaged(reader, "a line in a wrong place");
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
        damaged(reader, "it is not a line of a record");
    check_order(reader, line);
    if (line == SW_LINE_job) {
        const int64_t ranks = take_whole(reader, &rest);
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
        take_input(reader, rest);
    } else if (reader->count == 0) {
        damaged(reader, "a line outside of the ranks");
    } else if (line == SW_LINE_comm) {
        end_type(reader);
        take_comm(reader, rest);
    } else if (line == SW_LINE_file) {
        end_type(reader);
        take_file(reader, rest);
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
        damaged(&reader, "a loop has no end");
    if (reader.before != SW_LINES)
        damaged(&reader, "what belongs to a call stands without it");
    move_files(&reader);
    make_comms(&reader);
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
    free_hdf5(replay);
    sw_items_close(&replay->calls);
}
