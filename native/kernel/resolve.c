/* What the options mean together: defaults, --size, and every check that needs the number of ranks or the
 * disk. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "kernel.h"

/* ---- tiles ----
 * The tile layout's sizes. A block is one tile; a segment is one array of all tiles. */

#define DEFAULT_EDGE 512
#define DEFAULT_ELEMENT 8

static int choose_counts(const struct job *job, struct tile *tile, char *reason) {
    const int64_t ranks = job->ranks;
    if (tile->tiles_x == 0 && tile->tiles_y == 0) {
        int dims[2] = {0, 0};
        MPI_Dims_create(job->ranks, 2, dims);
        tile->tiles_x = dims[0];
        tile->tiles_y = dims[1];
    }
    if (tile->tiles_x == 0 && ranks % tile->tiles_y == 0)
        tile->tiles_x = ranks / tile->tiles_y;
    if (tile->tiles_y == 0 && ranks % tile->tiles_x == 0)
        tile->tiles_y = ranks / tile->tiles_x;
    if (tile->tiles_x > ranks || tile->tiles_y > ranks || tile->tiles_x * tile->tiles_y != ranks) {
        if (tile->tiles_x == 0 || tile->tiles_y == 0)
            return refuse(reason, "--tiles-%c: %" PRId64 " does not divide the %d ranks",
                          tile->tiles_x == 0 ? 'y' : 'x', tile->tiles_x + tile->tiles_y, job->ranks);
        return refuse(reason,
                      "--tiles-x %" PRId64 " x --tiles-y %" PRId64 " are not the %d ranks; one tile a rank",
                      tile->tiles_x, tile->tiles_y, job->ranks);
    }
    return 0;
}

/* With --size and no tile size: the squarest tile whose bytes do not exceed a rank's share. */
static int choose_edges(const struct job *job, const struct options *options, struct tile *tile,
                        char *reason) {
    if (options->size == 0) {
        if (tile->size_x == 0)
            tile->size_x = DEFAULT_EDGE;
        if (tile->size_y == 0)
            tile->size_y = DEFAULT_EDGE;
        return 0;
    }
    const int64_t elements = options->size / job->ranks / tile->element;
    if (tile->size_x == 0)
        tile->size_x = tile->size_y > 0 ? elements / tile->size_y : (int64_t)sqrt((double)elements);
    if (tile->size_y == 0 && tile->size_x > 0)
        tile->size_y = elements / tile->size_x;
    if (tile->size_x == 0 || tile->size_y == 0)
        return refuse(reason, "--size: %" PRId64 " bytes are less than one row of elements a rank (%d ranks)",
                      options->size, job->ranks);
    return 0;
}

/* MPI counts an array's elements a dimension in an int. */
static int array_edge(char axis, int64_t tiles, int64_t size, int64_t overlap, int64_t *edge, char *reason) {
    if (overlap >= size)
        return refuse(reason, "--overlap-%c: %" PRId64 " is not smaller than the tile's %" PRId64 " elements",
                      axis, overlap, size);
    if (__builtin_mul_overflow(size - overlap, tiles, edge) || *edge > INT_MAX - overlap)
        return refuse(reason, "--tile-%c: the array has more than %d elements in this dimension", axis,
                      INT_MAX);
    *edge += overlap;
    return 0;
}

static int resolve_tile(const struct job *job, struct options *options, char *reason) {
    struct geometry *geometry = &options->geometry;
    struct tile *tile = &geometry->tile;
    int64_t width = 0, height = 0;
    if (tile->element == 0)
        tile->element = DEFAULT_ELEMENT;
    if (tile->element > INT_MAX)
        return refuse(reason, "--element: at most %d bytes", INT_MAX);
    if (choose_counts(job, tile, reason) != 0 || choose_edges(job, options, tile, reason) != 0 ||
        array_edge('x', tile->tiles_x, tile->size_x, tile->overlap_x, &width, reason) != 0 ||
        array_edge('y', tile->tiles_y, tile->size_y, tile->overlap_y, &height, reason) != 0)
        return -1;
    if (__builtin_mul_overflow(tile->size_x * tile->size_y, tile->element, &geometry->block) ||
        __builtin_mul_overflow(width * height, tile->element, &geometry->file_bytes) || geometry->block <= 0)
        return refuse(reason, "--element: the array exceeds the largest file offset; make it smaller");
    if (options->size > 0)
        geometry->segments = options->size / job->ranks / geometry->block;
    else if (geometry->segments == 0)
        geometry->segments = 1;
    if (geometry->segments == 0)
        return refuse(reason,
                      "--size: %" PRId64 " bytes are less than one tile of %" PRId64
                      " bytes for each of %d ranks",
                      options->size, geometry->block, job->ranks);
    if (__builtin_mul_overflow(geometry->file_bytes, geometry->segments, &geometry->file_bytes))
        return refuse(reason, "--segments: the file exceeds the largest file offset; make it smaller");
    if (geometry->transfer == 0)
        geometry->transfer = geometry->block;
    if (geometry->block % geometry->transfer != 0 || geometry->transfer % tile->element != 0)
        return refuse(reason,
                      "--transfer: %" PRId64 " bytes are not whole elements that divide the tile of %" PRId64
                      " bytes",
                      geometry->transfer, geometry->block);
    geometry->view = true;
    return 0;
}

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
