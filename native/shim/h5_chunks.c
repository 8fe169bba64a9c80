/* SPDX-License-Identifier: BSD-3-Clause
 * Chunks and filters of new datasets, only where the plan says so. What loses digits is used only within the
 * error that the user has stated, and filters on a file of several ranks only where the user states that all
 * writes are collective: HDF5 refuses others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5_settings.h"
#include "hints.h"

#define MOST_CHUNK 0xffffffffull               /* bytes; HDF5's own limit */
enum { INTEGER_SCALE = 2, DECIMAL_SCALE = 0 }; /* H5Z_SO_scale_type_t */

/* What the plan asks of the datasets of a file; kept to the end, as groups may outlive the file's identifier.
 */
struct asked {
    struct asked *next;
    const char *path; /* interned */
    const char *values[SW_H5_KEYS];
};

static struct asked *files_asked;
static sw_lock asked_lock = ATOMIC_FLAG_INIT;

static struct asked *find(const char *path) {
    struct asked *asked = files_asked;
    while (asked && strcmp(asked->path, path) != 0)
        asked = asked->next;
    return asked;
}

void sw_h5_remember(const struct sw_h5_request *request) {
    struct sw_arena *arena = &sw_runtime.files.arena;
    bool any = false;
    for (int key = SW_H5_FILE_KEYS; key < SW_H5_KEYS; key++)
        any |= request->results[key].requested != NULL;
    if (!any)
        return;
    const char *path = sw_arena_intern(arena, request->path);
    sw_lock_take(&asked_lock);
    if (path && !find(path)) {
        struct asked *asked = sw_arena_take(arena, sizeof *asked);
        if (asked) {
            asked->path = path;
            for (int key = SW_H5_FILE_KEYS; key < SW_H5_KEYS; key++)
                asked->values[key] = request->results[key].requested;
            asked->next = files_asked;
            files_asked = asked;
        }
    }
    sw_lock_release(&asked_lock);
}

/* What is to be known of a dataset that is about to be made. */
struct shape {
    int rank, type_class;
    sw_hsize size[SW_H5_RANK];
    uint64_t element_size, bytes;
};

static bool shape_of(struct shape *shape, sw_hid type, sw_hid space) {
    *shape = (struct shape){.rank = 0};
    if (sw_h5.H5Sget_simple_extent_type(space) != SW_H5_SIMPLE)
        return false;
    shape->rank = sw_h5.H5Sget_simple_extent_dims(space, shape->size, NULL);
    shape->element_size = sw_h5.H5Tget_size(type);
    shape->type_class = sw_h5.H5Tget_class(type);
    shape->bytes = shape->element_size;
    for (int i = 0; i < shape->rank; i++)
        shape->bytes *= shape->size[i];
    return shape->rank > 0 && shape->bytes > 0;
}

/* The largest block of about so many bytes that keeps the fastest dimensions whole: what a rank's rows are.
 */
static void divide(const struct shape *shape, uint64_t bytes, sw_hsize chunk[SW_H5_RANK]) {
    uint64_t left = bytes / shape->element_size;
    if (!left)
        left = 1;
    for (int i = shape->rank - 1; i >= 0; i--) {
        chunk[i] = shape->size[i] < left ? shape->size[i] : left;
        left = left / chunk[i] ? left / chunk[i] : 1;
    }
}

static void chunk(struct sw_h5_tuning *tuning, const struct shape *shape, bool chunked) {
    struct sw_h5_request *request = &tuning->request;
    sw_hsize dimensions[SW_H5_RANK];
    uint64_t wanted;
    if (!sw_h5_parse(SW_H5_CHUNK_SIZE, request->results[SW_H5_CHUNK_SIZE].requested, &wanted) || !wanted ||
        wanted > MOST_CHUNK) {
        sw_h5_outcome(request, SW_H5_CHUNK_SIZE, SW_REFUSED, "no value of this setting");
        return;
    }
    if (chunked && !sw_runtime.plan.override) {
        request->results[SW_H5_CHUNK_SIZE].application = "chunks of its own";
        sw_h5_outcome(request, SW_H5_CHUNK_SIZE, SW_APPLICATION_WINS,
                      "the application chunks the dataset itself, and the plan does not override");
        return;
    }
    divide(shape, wanted, dimensions);
    bool done = sw_h5.H5Pset_chunk(tuning->creation, shape->rank, dimensions) >= 0;
    sw_h5_outcome(request, SW_H5_CHUNK_SIZE, done ? SW_APPLIED : SW_REFUSED,
                  done ? NULL : "HDF5 refused the chunk");
}

/* Why no filter may be used here; NULL if nothing speaks against it. */
static const char *obstacle(struct sw_h5_tuning *tuning, const struct shape *shape, bool parallel) {
    enum { BITFIELD = 4, COMPOUND = 6, ENUMERATION = 8, ARRAY = 10 };
    uint64_t collective = 0;
    const char *said = tuning->request.results[SW_H5_COLLECTIVE_WRITES].requested;
    if (sw_h5.H5Pget_layout(tuning->creation) != SW_CHUNKED)
        return "filters want chunks: the plan asks for no chunk_size, or the dataset is laid out otherwise";
    if (sw_h5.H5Pget_nfilters(tuning->creation) > 0)
        return "the application has filters of its own";
    if (shape->type_class != SW_H5_INTEGER && shape->type_class != SW_H5_FLOAT &&
        shape->type_class != BITFIELD && shape->type_class != COMPOUND && shape->type_class != ENUMERATION &&
        shape->type_class != ARRAY)
        return "elements of this type are stored elsewhere";
    if (parallel && (!said || !sw_h5_parse(SW_H5_COLLECTIVE_WRITES, said, &collective) || !collective))
        return "several ranks can write through filters only collectively: state collective_writes if all do";
    return NULL;
}

static void scale(struct sw_h5_tuning *tuning, const struct shape *shape) {
    struct sw_h5_request *request = &tuning->request;
    const char *accuracy = request->results[SW_H5_ACCURACY].requested;
    uint64_t digits = 0;
    bool decimal = shape->type_class == SW_H5_FLOAT;
    if (!sw_h5_parse(SW_H5_SCALEOFFSET, request->results[SW_H5_SCALEOFFSET].requested, &digits) ||
        digits > 15) {
        sw_h5_outcome(request, SW_H5_SCALEOFFSET, SW_REFUSED, "no value of this setting");
        return;
    }
    if (!decimal && shape->type_class != SW_H5_INTEGER) {
        sw_h5_outcome(request, SW_H5_SCALEOFFSET, SW_NOT_APPLICABLE, "the elements are not numbers");
        return;
    }
    double error = 0.5, allowed = accuracy ? strtod(accuracy, NULL) : 0;
    for (uint64_t i = 0; i < digits; i++) /* values are rounded to so many decimals */
        error /= 10;
    /* A little less is promised, for the rounding of the numbers themselves. */
    if (decimal && !(error * 1.001 <= allowed)) {
        sw_h5_outcome(request, SW_H5_SCALEOFFSET, SW_REFUSED,
                      accuracy ? "it would lose more than the accuracy that is stated"
                               : "it loses digits, and the plan states no accuracy");
        return;
    }
    bool done = sw_h5.H5Zfilter_avail(SW_H5_FILTER_SCALEOFFSET) > 0 &&
                sw_h5.H5Pset_scaleoffset(tuning->creation, decimal ? DECIMAL_SCALE : INTEGER_SCALE,
                                         decimal ? (int)digits : 0) >= 0;
    sw_h5_outcome(request, SW_H5_SCALEOFFSET, done ? SW_APPLIED : SW_REFUSED,
                  done ? NULL : "this HDF5 library cannot do it");
}

/* Each in turn, in the order in which data go through them. */
static void filter(struct sw_h5_tuning *tuning, const struct shape *shape, bool parallel) {
    static const enum sw_h5_key order[] = {SW_H5_SCALEOFFSET, SW_H5_SHUFFLE, SW_H5_DEFLATE, SW_H5_FLETCHER32};
    struct sw_h5_request *request = &tuning->request;
    const char *why = obstacle(tuning, shape, parallel);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        enum sw_h5_key key = order[i];
        const char *asked = request->results[key].requested;
        uint64_t value = 0;
        if (!asked)
            continue;
        if (why) {
            sw_h5_outcome(request, key, SW_NOT_APPLICABLE, why);
        } else if (key == SW_H5_SCALEOFFSET) {
            scale(tuning, shape);
        } else if (!sw_h5_parse(key, asked, &value) || (key == SW_H5_DEFLATE && value > 9)) {
            sw_h5_outcome(request, key, SW_REFUSED, "no value of this setting");
        } else {
            bool done = !value || (key == SW_H5_SHUFFLE ? sw_h5.H5Pset_shuffle(tuning->creation) >= 0
                                   : key == SW_H5_DEFLATE
                                       ? sw_h5.H5Zfilter_avail(SW_H5_FILTER_DEFLATE) > 0 &&
                                             sw_h5.H5Pset_deflate(tuning->creation, (unsigned)value) >= 0
                                       : sw_h5.H5Pset_fletcher32(tuning->creation) >= 0);
            sw_h5_outcome(request, key, done ? SW_APPLIED : SW_REFUSED,
                          done ? NULL : "this HDF5 library cannot do it");
        }
    }
}

/* What was stated; it is not a setting by itself. */
static void note_statements(struct sw_h5_request *request) {
    for (int key = SW_H5_ACCURACY; key < SW_H5_KEYS; key++)
        if (request->results[key].requested)
            sw_h5_outcome(request, (enum sw_h5_key)key, SW_APPLIED, "a statement of the user");
}

bool sw_h5_dataset_settings(void) {
    return files_asked && sw_runtime.apply;
}

bool sw_h5_dataset_tuned(struct sw_h5_tuning *tuning, struct sw_file *record, sw_hid creation, sw_hid type,
                         sw_hid space) {
    struct shape shape;
    tuning->record = record;
    tuning->creation = creation;
    if (!sw_h5_dataset_settings())
        return false;
    struct sw_h5_request *request = &tuning->request;
    memset(request, 0, sizeof *request);
    sw_lock_take(&asked_lock);
    const struct asked *asked = find(tuning->record->path);
    sw_lock_release(&asked_lock);
    sw_h5_silence_begin(&tuning->silence);
    bool known = asked && shape_of(&shape, type, space);
    if (known)
        tuning->creation =
            creation == SW_H5_DEFAULT ? sw_h5.H5Pcreate(*sw_h5.dataset_create) : sw_h5.H5Pcopy(creation);
    if (!known || tuning->creation < 0) {
        sw_h5_silence_end(&tuning->silence);
        return false;
    }
    for (int key = 0; key < SW_H5_KEYS; key++)
        request->results[key] = (struct sw_result){
            .carrier = SW_HDF5, .key = sw_h5_key_names[key], .requested = asked->values[key]};
    const struct sw_hdf5 *hdf5 = tuning->record->hdf5;
    bool parallel =
        hdf5 && hdf5->driver && strcmp(hdf5->driver, "mpio") == 0 && tuning->record->facts.ranks > 1;
    int layout = sw_h5.H5Pget_layout(tuning->creation);
    if (request->results[SW_H5_CHUNK_SIZE].requested && (layout == SW_CONTIGUOUS || layout == SW_CHUNKED))
        chunk(tuning, &shape, layout == SW_CHUNKED);
    else if (request->results[SW_H5_CHUNK_SIZE].requested)
        sw_h5_outcome(request, SW_H5_CHUNK_SIZE, SW_NOT_APPLICABLE, "the dataset is laid out otherwise");
    filter(tuning, &shape, parallel);
    note_statements(request);
    return true;
}

/* The chunk that the dataset's own list tells of. */
static const char *chunk_text(sw_hid creation) {
    char text[120] = "";
    size_t used = 0;
    sw_hsize size[SW_H5_RANK];
    int rank = creation >= 0 && sw_h5.H5Pget_layout(creation) == SW_CHUNKED
                   ? sw_h5.H5Pget_chunk(creation, SW_H5_RANK, size)
                   : 0;
    for (int i = 0; i < rank && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, i ? "x%llu" : "%llu", size[i]);
    return rank > 0 ? sw_h5_keep("%s", text) : NULL;
}

void sw_h5_dataset_tried(struct sw_h5_tuning *tuning, bool made, sw_hid creation) {
    struct sw_h5_request *request = &tuning->request;
    for (int key = SW_H5_CHUNK_SIZE; !made && key < SW_H5_ACCURACY; key++)
        if (request->results[key].outcome == SW_APPLIED)
            sw_h5_outcome(request, (enum sw_h5_key)key, SW_REFUSED,
                          "the dataset could not be made with it; the application's own list was used");
    if (made && request->results[SW_H5_CHUNK_SIZE].requested)
        request->results[SW_H5_CHUNK_SIZE].echoed = chunk_text(creation);
    sw_h5.H5Pclose(tuning->creation);
    sw_h5_silence_end(&tuning->silence);
    struct sw_file *record = tuning->record;
    sw_lock_take(&record->lock);
    /* Of a file of several ranks only rank 0 keeps results. */
    if (record->results || !record->facts.opens)
        sw_matches_add(record, request->results, SW_H5_KEYS);
    sw_lock_release(&record->lock);
}
