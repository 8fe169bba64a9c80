/* What the options mean together: defaults, --size, and every check that needs the number of ranks or the
 * disk. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"

/* ---- the test file ----
 * What can be known of it without the backend: whether it can be used, and whether a write
 * reached it. */

static const char *path_of(const struct options *options, const char *name) {
    return mpi_prefixed(options->api, name) ? strchr(name, ':') + 1 : name;
}

static int check_folder(const char *path, char *reason) {
    char folder[TEXT_MAX];
    struct stat status;
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder ? 1 : 0] = '\0';
    if (stat(slash != NULL ? folder : ".", &status) != 0)
        return refuse(reason, "--file: the folder of %s: %s; make it first", path, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return refuse(reason, "--file: %s is not a directory", folder);
    return 0;
}

/* A file to write needs its folder, and deletes only regular files; a file only to be read must be there. */
static int check_one(const struct options *options, const char *path, char *reason) {
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return refuse(reason, "--file: %s is a directory; name a file in it", path);
    if (!options->write && access(path, R_OK) != 0)
        return refuse(reason, "--file: cannot read %s: %s; write it first with -w -k", path, strerror(errno));
    if (options->write && !options->existing && lstat(path, &status) == 0 && !S_ISREG(status.st_mode) &&
        !S_ISLNK(status.st_mode))
        return refuse(reason, "--file: %s is not a regular file; only --existing writes into such a file",
                      path);
    return 0;
}

/* on rank 0 only */
static int file_check_before(const struct job *job, const struct options *options, char *reason) {
    if (options->file[0] == '\0')
        return refuse(reason, "no test file; name one with -o PATH");
    const char *path = path_of(options, options->file);
    if (options->write && check_folder(path, reason) != 0)
        return -1;
    if (!options->file_per_process)
        return check_one(options, path, reason);
    char name[TEXT_MAX + 16];
    for (int rank = 0; rank < job->ranks; rank++) {
        snprintf(name, sizeof name, "%s.%08d", path, rank);
        if (check_one(options, name, reason) != 0)
            return -1;
    }
    return 0;
}

/*
 * Open MPI's OMPIO (seen in 5.0) returns success and the full count from collective writes to a full disk, so
 * a write is only believed if the file has its size. Opening it makes NFS ask the server for that.
 */
int file_check_after(const struct session *session, struct fault *fault) {
    const char *path = path_of(session->options, session->path);
    const int64_t expected = session->options->geometry.file_bytes;
    struct stat status;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return fault_set(fault, "open after the write", path, "%s", strerror(errno));
    const int failed = fstat(descriptor, &status);
    close(descriptor);
    if (failed != 0)
        return fault_set(fault, "fstat", path, "%s", strerror(errno));
    if (S_ISREG(status.st_mode) && (int64_t)status.st_size < expected)
        return fault_set(
            fault, "write", path,
            "the file has %lld of %lld bytes although no call reported an error; is the disk full?",
            (long long)status.st_size, (long long)expected);
    return 0;
}

/* ---- the hints file: what goes into the MPI_Info of every open ---- */

#define LINE_MAX_BYTES 4096
#define SPACE " \t\r\n"

static int add_hint(struct hints *hints, const char *key, const char *value, char *wrong) {
    if (strlen(key) > MPI_MAX_INFO_KEY - 1 || strlen(key) >= HINT_KEY_MAX)
        return refuse(wrong, "the key is too long");
    if (strlen(value) > MPI_MAX_INFO_VAL - 1 || strlen(value) >= HINT_VALUE_MAX)
        return refuse(wrong, "the value is too long");
    for (int i = 0; i < hints->count; i++)
        if (strcmp(hints->list[i].key, key) == 0)
            return refuse(wrong, "the key '%s' stands twice in the file", key);
    if (hints->count == HINTS_MAX)
        return refuse(wrong, "more than %d hints", HINTS_MAX);
    struct hint *hint = &hints->list[hints->count++];
    snprintf(hint->key, sizeof hint->key, "%s", key);
    snprintf(hint->value, sizeof hint->value, "%s", value);
    return 0;
}

static char *skip_space(char *text) {
    // NOLINTNEXTLINE(clang-analyzer-security.ArrayBound): fgets ended the line with a NUL
    while (*text != '\0' && strchr(SPACE, *text) != NULL)
        text++;
    return text;
}

static int parse_line(struct hints *hints, char *line, char *wrong) {
    static const char ior[] = "IOR_HINT__MPI__";
    static const char ior_other[] = "IOR_HINT__";
    static const char setenv_word[] = "setenv ";
    line = skip_space(line);
    if (*line == '\0' || *line == '#')
        return 0;
    for (const char *c = line; *c != '\0'; c++)
        if (((unsigned char)*c < ' ' && strchr(SPACE, *c) == NULL) || *c == 0x7f)
            return refuse(wrong, "a control character");
    if (strncmp(line, setenv_word, sizeof setenv_word - 1) == 0) {
        line = skip_space(line + sizeof setenv_word - 1);
    }
    if (strncmp(line, ior, sizeof ior - 1) == 0)
        line += sizeof ior - 1;
    else if (strncmp(line, ior_other, sizeof ior_other - 1) == 0)
        return refuse(wrong, "only MPI hints are known (IOR_HINT__MPI__key)");
    size_t key_length = strcspn(line, SPACE "=");
    char *value = skip_space(line + key_length);
    if (*value == '=')
        value = skip_space(value + 1);
    size_t value_length = strcspn(value, SPACE);
    if (key_length == 0 || value_length == 0)
        return refuse(wrong, "expected `key value`, `key = value` or a # comment");
    if (*skip_space(value + value_length) != '\0')
        return refuse(wrong, "a third word; expected `key value`");
    // NOLINTNEXTLINE(clang-analyzer-security.ArrayBound): strcspn stops at the line's NUL
    line[key_length] = '\0';
    value[value_length] = '\0';
    return add_hint(hints, line, value, wrong);
}

static int hints_read(const char *path, struct hints *hints, char *reason) {
    FILE *stream = fopen(path, "r");
    if (stream == NULL)
        return refuse(reason, "cannot read the hints file %s: %s", path, strerror(errno));
    char line[LINE_MAX_BYTES];
    char wrong[REASON_MAX];
    int number = 0, failed = 0;
    while (failed == 0 && fgets(line, sizeof line, stream) != NULL) {
        number++;
        if (strlen(line) == sizeof line - 1 && line[sizeof line - 2] != '\n')
            failed = refuse(wrong, "longer than %d bytes", LINE_MAX_BYTES - 2);
        else
            failed = parse_line(hints, line, wrong);
    }
    if (failed != 0)
        refuse(reason, "hints file %s line %d: %.200s", path, number, wrong);
    else if (ferror(stream))
        failed = refuse(reason, "cannot read the hints file %s: %s", path, strerror(errno));
    fclose(stream);
    return failed;
}

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
    const bool tile = options->geometry.layout == LAYOUT_TILE, dummy = strcmp(options->api, "dummy") == 0;
    for (int i = 0; i < option_rows; i++) {
        const struct option_row *row = &option_table[i];
        if (option_given(options, row->name) && row->group == GROUP_TILE && !tile)
            return refuse(reason, "--%s needs --layout tile", row->name);
        if (option_given(options, row->name) && row->group == GROUP_DUMMY && !dummy)
            return refuse(reason, "--%s needs --api dummy", row->name);
    }
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
