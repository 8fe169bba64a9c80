/* What all parts of the replay use: the end of the job, and memory. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "ending.h"
#include "replay.h"
#include "replay_reader.h"

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

/* ---- numbers and texts of a record's lines ---- */

void replay_damaged(const struct replay_reader *reader, const char *why) {
    replay_die("record %s is damaged in line %ld: %s", reader->replay->options.record, reader->line, why);
}

int64_t replay_at_rank(const struct replay_number *number, int64_t rank) {
    return (int64_t)((uint64_t)number->base + (uint64_t)number->rank * (uint64_t)rank); /* may wrap */
}

int64_t replay_whole(const struct replay_reader *reader, char **at) {
    char *end;
    errno = 0;
    long long value = strtoll(*at, &end, 10);
    if (end == *at || errno != 0)
        replay_damaged(reader, "a number is missing");
    *at = end;
    return value;
}

/* NUMBER[,STEP...][~STEP] and the blank behind it. */
struct replay_number replay_take_number(const struct replay_reader *reader, char **at) {
    struct replay_number number = {.base = replay_whole(reader, at)};
    for (uint32_t step = 0; **at == ','; step++) {
        ++*at;
        if (step == SW_RECORD_DEPTH)
            replay_damaged(reader, "too many steps");
        number.steps[step] = replay_whole(reader, at);
    }
    if (**at == '~') {
        ++*at;
        number.rank = replay_whole(reader, at);
    }
    if (**at == ' ')
        ++*at;
    else if (**at != '\0')
        replay_damaged(reader, "a number is malformed");
    return number;
}

/* %XX stands for a character. */
void replay_decode(char *text) {
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

int64_t replay_take_own(const struct replay_reader *reader, char **at) {
    const struct replay_number number = replay_take_number(reader, at);
    return replay_at_rank(&number, reader->replay->rank - reader->first);
}
