/* Files of a record, and where the replay has them. */
#include "replay_reader.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

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
            replay_damaged(reader, "a path that is too long");
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
            int64_t step = replay_whole(reader, &steps);
            steps += *steps == ',';
            if (step != 0 && !*moves) {
                *moves = true;
                *fixed = (size_t)(c - path);
            }
            int64_t number = strtoll(c, NULL, 10), more = 0;
            if (__builtin_mul_overflow(step, distance, &more) ||
                __builtin_add_overflow(number, more, &number))
                replay_damaged(reader, "a path with a number that is too large");
            int printed = step == 0
                              ? snprintf(made + used, REPLAY_PATH - used, "%.*s", (int)digits, c)
                              : snprintf(made + used, REPLAY_PATH - used, "%0*" PRId64, (int)digits, number);
            used += (size_t)printed;
            c += digits;
        }
        if (used >= REPLAY_PATH - 1)
            replay_damaged(reader, "a path that is too long");
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

void replay_take_file(struct replay_reader *reader, char *rest) {
    struct replay *replay = reader->replay;
    char *path = strchr(rest, ' ');
    if (path == NULL)
        replay_damaged(reader, "a file without a path");
    *path++ = '\0';
    replay_decode(path);
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

void replay_take_hint(const struct replay_reader *reader, char *hint) {
    struct replay *replay = reader->replay;
    replay_decode(hint);
    char *value = strchr(hint, '=');
    if (replay->file_count == 0 || value == NULL)
        replay_damaged(reader, "a hint without a file or a value");
    *value++ = '\0';
    struct replay_file *file = &replay->files[replay->file_count - 1];
    if (file->hints == MPI_INFO_NULL)
        MPI_Info_create(&file->hints);
    MPI_Info_set(file->hints, hint, value);
}

void replay_take_input(struct replay_reader *reader, char *rest) {
    struct replay *replay = reader->replay;
    struct replay_input input = {.size = replay_whole(reader, &rest)};
    if (input.size < 0)
        replay_damaged(reader, "an input file of negative size");
    rest += *rest == ' ';
    replay_decode(rest);
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

void replay_move_files(struct replay_reader *reader) {
    struct replay *replay = reader->replay;
    for (int64_t i = 0; i < replay->file_count; i++)
        move(reader, &replay->files[i].path);
    for (int64_t i = 0; i < replay->input_count; i++)
        move(reader, &replay->inputs[i].path);
    if (replay->input_count > 0)
        qsort(replay->inputs, (size_t)replay->input_count, sizeof *replay->inputs, by_path);
}
