/* The tile layout's sizes. A block is one tile; a segment is one array of all tiles. */
#include "kernel.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>

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

int resolve_tile(const struct job *job, struct options *options, char *reason) {
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
