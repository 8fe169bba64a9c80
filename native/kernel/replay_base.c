/* What all parts of the replay use: the end of the job, and memory. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "ending.h"
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
