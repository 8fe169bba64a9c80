/* What a synthetic program would take on storage with a latency: the accelerator's own decisions, a modelled
 * clock.
 *
 * Every request that reaches the storage costs a latency and its bytes; an answer from memory costs its copy.
 * Nothing else is cached. Built as a library, so that thousands of runs cost seconds. */
#include "pattern.h"
#include "smallread.h"

#include <stddef.h>

struct storage {
    double latency;        /* seconds a request */
    double bandwidth;      /* bytes a second */
    double write_latency;  /* seconds a written request */
    double copy_bandwidth; /* bytes a second from memory */
};

/* Seconds, or a negative number where memory is short. Settings NULL: without the accelerator. */
double replay(const struct pattern *pattern, const struct smallread_settings *settings,
              const struct storage *storage);

double replay(const struct pattern *pattern, const struct smallread_settings *settings,
              const struct storage *storage) {
    struct smallread *file = settings != NULL ? smallread_new(settings) : NULL;
    if (settings != NULL && file == NULL)
        return -1.0;
    struct walk walk = walk_begin(pattern);
    struct access access;
    double seconds = 0.0;
    while (walk_next(&walk, &access)) {
        int64_t start, length;
        double copy = (double)access.size / storage->copy_bandwidth;
        if (!access.read) {
            seconds += storage->write_latency + (double)access.size / storage->bandwidth;
            if (file != NULL)
                smallread_wrote(file, access.offset, access.size, "");
            continue;
        }
        bool fetch = file != NULL && smallread_note(file, access.offset, access.size, &start, &length);
        if (file != NULL && smallread_get(file, access.offset, access.size, 0)) {
            seconds += copy;
        } else if (fetch) {
            if (length > pattern->file_size - start)
                length = pattern->file_size - start;
            seconds += storage->latency + (double)length / storage->bandwidth + copy;
            smallread_keep(file, start, length, 0);
        } else {
            seconds += storage->latency + (double)access.size / storage->bandwidth;
        }
    }
    smallread_free(file);
    return seconds;
}
