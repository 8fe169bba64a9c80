/* What the options mean together: defaults, --size, and every check that needs the number of ranks or the
 * disk. */
#include "kernel.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#define REPETITIONS_MAX 1000000

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Derives what one rank, one file and the job move; the only place where sizes are multiplied unchecked is
 * after. */
static int multiply_out(const struct job *job, struct geometry *geometry, char *reason) {
    int64_t job_bytes;
    if (__builtin_mul_overflow(geometry->block, geometry->segments, &geometry->rank_bytes) ||
        __builtin_mul_overflow(geometry->rank_bytes, (int64_t)job->ranks, &job_bytes))
        return refuse(reason,
                      "block %" PRId64 " x segments %" PRId64 " x %d ranks exceeds the largest file offset; "
                      "make one smaller",
                      geometry->block, geometry->segments, job->ranks);
    geometry->calls = geometry->rank_bytes / geometry->transfer;
    if (geometry->layout != LAYOUT_TILE)
        geometry->file_bytes = geometry->rank_bytes * geometry->sharers;
    return 0;
}

/* --size: whole segments, or without --block one block a rank of whole transfers; rounded down, and said so.
 */
static int resolve_size(const struct job *job, struct options *options, char *reason) {
    struct geometry *geometry = &options->geometry;
    const int64_t share = options->size / job->ranks;
    if (geometry->block == 0) {
        if (geometry->transfer == 0)
            geometry->transfer = smaller((int64_t)256 << 10, share);
        if (geometry->piece > 0 && geometry->transfer > geometry->piece)
            geometry->transfer -= geometry->transfer % geometry->piece;
        if (geometry->transfer > 0)
            geometry->block = share - share % geometry->transfer;
        geometry->segments = 1;
    } else {
        geometry->segments = share / geometry->block;
    }
    if (geometry->block == 0 || geometry->segments == 0)
        return refuse(reason, "--size: %" PRId64 " bytes are less than one %s for each of the %d ranks",
                      options->size, geometry->block == 0 ? "transfer" : "block", job->ranks);
    return 0;
}

static void say_resolution(const struct job *job, struct options *options) {
    const struct geometry *geometry = &options->geometry;
    const int64_t moved = geometry->rank_bytes * job->ranks;
    int used = snprintf(options->resolution, sizeof options->resolution,
                        "%d ranks x block %" PRId64 " x segments %" PRId64 " = %" PRId64 " bytes", job->ranks,
                        geometry->block, geometry->segments, moved);
    if (moved < options->size)
        snprintf(options->resolution + used, sizeof options->resolution - (size_t)used,
                 "; rounded down from %" PRId64, options->size);
}

static int resolve_linear(const struct job *job, struct options *options, char *reason) {
    struct geometry *geometry = &options->geometry;
    if (options->size > 0) {
        if (resolve_size(job, options, reason) != 0)
            return -1;
    } else {
        if (geometry->block == 0)
            geometry->block = (int64_t)1 << 20;
        if (geometry->transfer == 0)
            geometry->transfer = smaller((int64_t)256 << 10, geometry->block);
        if (geometry->segments == 0)
            geometry->segments = 1;
    }
    if (geometry->block % geometry->transfer != 0)
        return refuse(reason, "--transfer: %" PRId64 " bytes%s do not divide the block of %" PRId64 " bytes",
                      geometry->transfer, option_given(options, "transfer") ? "" : " (the default)",
                      geometry->block);
    if (geometry->piece == 0)
        geometry->piece = geometry->transfer;
    if (geometry->transfer % geometry->piece != 0)
        return refuse(reason, "--piece: %" PRId64 " bytes do not divide the transfer of %" PRId64 " bytes",
                      geometry->piece, geometry->transfer);
    geometry->view = option_given(options, "piece");
    return 0;
}

static int refuse_foreign(const struct options *options, char *reason) {
    static const char *const tile_only[] = {"tiles-x",   "tiles-y",   "tile-x", "tile-y",
                                            "overlap-x", "overlap-y", "element"};
    static const char *const dummy_only[] = {"dummy-bandwidth",  "dummy-latency",  "dummy-noise",
                                             "dummy-rank-noise", "dummy-effect",   "dummy-fail-probability",
                                             "dummy-fail-if",    "dummy-hang",     "dummy-hang-if",
                                             "dummy-virtual",    "dummy-seed-from"};
    const bool tile = options->geometry.layout == LAYOUT_TILE, dummy = strcmp(options->api, "dummy") == 0;
    for (size_t i = 0; i < sizeof tile_only / sizeof tile_only[0] && !tile; i++)
        if (option_given(options, tile_only[i]))
            return refuse(reason, "--%s needs --layout tile", tile_only[i]);
    for (size_t i = 0; i < sizeof dummy_only / sizeof dummy_only[0] && !dummy; i++)
        if (option_given(options, dummy_only[i]))
            return refuse(reason, "--%s needs --api dummy", dummy_only[i]);
    if (options->geometry.piece > 0 && options->geometry.layout != LAYOUT_STRIDED)
        return refuse(reason, "--piece needs --layout strided");
    if (option_given(options, "random") && option_given(options, "layout"))
        return refuse(reason, "--random and --layout both choose the layout; give one");
    if (tile && options->geometry.block > 0)
        return refuse(
            reason,
            "--block does not go with --layout tile, whose block is a tile; use --tile-x and --tile-y");
    if (tile && options->file_per_process)
        return refuse(reason,
                      "--file-per-process does not go with --layout tile, whose ranks share one array");
    return 0;
}

static int check_combination(const struct job *job, struct options *options, char *reason) {
    if (refuse_foreign(options, reason) != 0)
        return -1;
    if (options->size > 0 && options->geometry.segments > 0)
        return refuse(reason, "--size and --segments both choose the amount of I/O; give one");
    if (options->collective && !backend_find(options->api)->collective)
        return refuse(reason, "--collective: the %s api has no collective calls; use --api mpiio",
                      options->api);
    if (options->repetitions > REPETITIONS_MAX)
        return refuse(reason, "--repetitions: at most %d", REPETITIONS_MAX);
    if (options->fsync && !options->write)
        return refuse(reason, "--fsync needs a write (-w)");
    if (options->verify_write && !options->write)
        return refuse(reason, "--verify-write needs a write (-w)");
    if (options->existing && !options->write)
        return refuse(reason, "--existing needs a write (-w)");
    if (options->reorder && !options->read)
        return refuse(reason, "--reorder needs a read (-r)");
    if (options->shift > 0 && !options->reorder)
        return refuse(reason, "--shift needs --reorder");
    if (options->shift > INT_MAX)
        return refuse(reason, "--shift: at most %d", INT_MAX);
    if (options->reorder && options->shift == 0)
        options->shift = job->nodes > 1 ? (job->ranks + job->nodes - 1) / job->nodes : 1;
    options->shift %= job->ranks;
    if (options->dummy.bandwidth == 0)
        return refuse(reason, "--dummy-bandwidth: must be greater than 0");
    if (options->dummy.fail_probability > 1)
        return refuse(reason, "--dummy-fail-probability: %g is greater than 1",
                      options->dummy.fail_probability);
    return 0;
}

int options_resolve(const struct job *job, struct options *options, char *reason) {
    if (!options->write && !options->read)
        options->write = options->read = true;
    options->geometry.sharers = options->file_per_process ? 1 : job->ranks;
    if (check_combination(job, options, reason) != 0)
        return -1;
    if (options->geometry.layout == LAYOUT_TILE ? resolve_tile(job, options, reason)
                                                : resolve_linear(job, options, reason))
        return -1;
    if (multiply_out(job, &options->geometry, reason) != 0)
        return -1;
    if (options->size > 0)
        say_resolution(job, options);
    if (backend_find(options->api)->stores && file_check_before(job, options, reason) != 0)
        return -1;
    if (options->hints_file[0] != '\0' && hints_read(options->hints_file, &options->hints, reason) != 0)
        return -1;
    if (strcmp(options->api, "dummy") != 0)
        return 0;
    if (options->file[0] == '\0')
        snprintf(options->file, sizeof options->file,
                 "dummy"); /* for messages, and for the `file` lines of a plan */
    return dummy_resolve(options, reason);
}
