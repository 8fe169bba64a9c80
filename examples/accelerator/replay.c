/* What a synthetic program would take on storage with a latency: the accelerator's own decisions, a modelled
 * clock.
 *
 * Every request that reaches the storage costs a latency and its bytes; an answer from memory costs its copy.
 * Nothing else is cached. Built as a library, so that thousands of runs cost seconds. */
#include "../../native/accelerator/windows.h"
#include "pattern.h"

#include <stdlib.h>

struct storage {
    double latency;        /* seconds a request */
    double bandwidth;      /* bytes a second */
    double write_latency;  /* seconds a written request */
    double copy_bandwidth; /* bytes a second from memory */
};

/* Seconds, or a negative number where memory is short. Settings NULL: without the accelerator. */
double replay(const struct pattern *pattern, const struct window_settings *settings,
              const struct storage *storage);

double replay(const struct pattern *pattern, const struct window_settings *settings,
              const struct storage *storage) {
    struct windows *all = settings != NULL ? malloc(sizeof *all) : NULL;
    if (settings != NULL && all == NULL)
        return -1.0;
    struct window_file *file = NULL;
    if (all != NULL) {
        windows_begin(all, settings, NULL);
        file = windows_file(all, 1, 1);
    }
    struct walk walk = walk_begin(pattern);
    struct access access;
    double seconds = 0.0;
    while (walk_next(&walk, &access)) {
        int64_t start, length;
        struct window_fetch fetch;
        double copy = (double)access.size / storage->copy_bandwidth;
        if (!access.read) {
            seconds += storage->write_latency + (double)access.size / storage->bandwidth;
            if (file != NULL)
                windows_wrote(all, file, access.offset, access.size, "");
            continue;
        }
        bool wanted = file != NULL && windows_note(all, file, access.offset, access.size, &start, &length);
        if (file != NULL && windows_get(all, file, access.offset, access.size, NULL)) {
            seconds += copy;
            continue;
        }
        if (wanted && windows_reserve(all, file, start, length, pattern->file_size, &fetch)) {
            seconds += storage->latency + (double)fetch.length / storage->bandwidth;
            windows_filled(all, file, &fetch, fetch.length);
            if (windows_get(all, file, access.offset, access.size, NULL)) {
                seconds += copy;
                continue;
            }
        }
        seconds += storage->latency + (double)access.size / storage->bandwidth;
    }
    free(all);
    return seconds;
}
