/* SPDX-License-Identifier: BSD-3-Clause
 * Chunks and filters of new datasets, only where the plan says so. Reals lose digits only by rounding what is
 * written to the accuracy that the user states: HDF5's own filter for it (scaleoffset) loses NaN, infinities
 * and numbers near the fill value. Filters are used on a file of several ranks only where the user states
 * that all writes are collective: HDF5 refuses others. */
#include <stdio.h>
#include <string.h>

#include "h5_settings.h"
#include "hints.h"
#include "numeric.h"

#define KEEPS_MASKS 0x010e00 /* HDF5 before 1.14 forgets which chunks a filter could not shrink */
enum { INTEGER_SCALE = 2 };  /* H5Z_SO_scale_type_t */
enum { NEAREST_NEIGHBOUR = 32, ENCODES = 1 }; /* H5_SZIP_NN_OPTION_MASK, H5Z_FILTER_CONFIG_ENCODE_ENABLED */
enum { OPTIONAL = 1 }; /* H5Z_FLAG_OPTIONAL: chunks it cannot shrink stay as they are */

/* What is asked of the datasets of a file that was last opened; kept to the end, as groups may outlive the
 * file's identifier. */
struct asked {
    struct asked *next;
    const char *path; /* interned */
    const char *values[SW_H5_KEYS], *origin[SW_H5_KEYS];
};

static struct asked *_Atomic files_asked;
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
    if (!any && !files_asked)
        return;
    const char *path = sw_arena_intern(arena, request->path);
    sw_lock_take(&asked_lock);
    struct asked *asked = path ? find(path) : NULL;
    if (path && any && !asked) {
        asked = sw_arena_take(arena, sizeof *asked);
        if (asked) {
            asked->path = path;
            asked->next = files_asked;
            files_asked = asked;
        }
    }
    for (int key = SW_H5_FILE_KEYS; asked && key < SW_H5_KEYS; key++) {
        asked->values[key] = request->results[key].requested;
        asked->origin[key] = request->origin[key];
    }
    sw_lock_release(&asked_lock);
}

/* What is to be known of a dataset that is about to be made. */
struct shape {
    int rank, type_class, order;
    sw_hsize size[SW_H5_RANK], most[SW_H5_RANK];
    uint64_t element_size, bytes;
};

static bool shape_of(struct shape *shape, sw_hid type, sw_hid space) {
    *shape = (struct shape){.rank = 0};
    if (sw_h5.H5Sget_simple_extent_type(space) != SW_H5_SIMPLE)
        return false;
    shape->rank = sw_h5.H5Sget_simple_extent_dims(space, shape->size, shape->most);
    shape->element_size = sw_h5.H5Tget_size(type);
    shape->type_class = sw_h5.H5Tget_class(type);
    shape->order = sw_h5.H5Tget_order(type);
    shape->bytes = shape->element_size;
    for (int i = 0; i < shape->rank; i++)
        shape->bytes *= shape->size[i];
    return shape->rank > 0;
}

static const char *fill_text(int time) {
    char text[SW_H5_SPELLED];
    sw_h5_spell(SW_H5_FILL_TIME, (uint64_t)time, text);
    return sw_h5_keep("%s", text);
}

/* Filters that take the shape of a chunk from where they are used. Others may hold it in their values. */
static bool filters_follow(sw_hid creation) {
    enum { LAST_OF_HDF5 = 6 };
    for (int i = 0, count = sw_h5.H5Pget_nfilters(creation); i < count; i++) {
        unsigned flags = 0;
        size_t values = 0;
        int filter = sw_h5.H5Pget_filter2(creation, (unsigned)i, &flags, &values, NULL, 0, NULL, NULL);
        if (filter < 1 || filter > LAST_OF_HDF5)
            return false;
    }
    return true;
}

/* Chunks of another shape, where the dataset has chunks, or the plan overrides. True: nothing else is to cut
 * it. */
static bool reshape(struct sw_h5_tuning *tuning, const struct shape *shape, const char *name, int layout) {
    struct sw_h5_request *request = &tuning->request;
    sw_hsize own[SW_H5_RANK], wanted[SW_H5_RANK];
    const char *asked = request->results[SW_H5_CHUNK_SHAPE].requested;
    bool chunked = layout == SW_CHUNKED;
    if (!asked)
        return false;
    if (chunked && sw_h5.H5Pget_chunk(tuning->creation, SW_H5_RANK, own) != shape->rank) {
        sw_h5_outcome(request, SW_H5_CHUNK_SHAPE, SW_NOT_APPLICABLE, "the dataset's own chunk is not known");
        return false;
    }
    enum sw_h5_shape found =
        sw_h5_chunk_shape(asked, name, shape->rank, shape->size, shape->most, chunked ? own : NULL, wanted);
    double bytes = (double)shape->element_size;
    for (int i = 0; found == SW_H5_SHAPED && i < shape->rank; i++)
        bytes *= (double)wanted[i];
    const char *why = found == SW_H5_OWN_SHAPE  ? "the dataset is to keep its own chunks"
                      : found == SW_H5_NO_SHAPE ? "no entry of the value is for this dataset"
                      : !chunked && (layout != SW_CONTIGUOUS || !sw_runtime.plan.override)
                          ? "the dataset has no chunks, and the plan does not override"
                      : !chunked && sw_h5.H5Pget_external_count(tuning->creation) != 0
                          ? "the data lie in files of their own"
                      : !filters_follow(tuning->creation)
                          ? "a filter of the application may depend on the shape of its chunks"
                      : bytes<1 ? "a dimension has no elements" : bytes>(double) UINT32_MAX
                          ? "HDF5 allows less than 4 GiB a chunk"
                          : NULL;
    if (found == SW_H5_BAD_SHAPE) {
        sw_h5_outcome(request, SW_H5_CHUNK_SHAPE, SW_REFUSED, "no value of this setting");
        return false;
    }
    bool done = !why && sw_h5.H5Pset_chunk(tuning->creation, shape->rank, wanted) >= 0;
    sw_h5_outcome(request, SW_H5_CHUNK_SHAPE,
                  done  ? SW_APPLIED
                  : why ? SW_NOT_APPLICABLE
                        : SW_REFUSED,
                  done  ? NULL
                  : why ? why
                        : "HDF5 refused the chunk");
    return done;
}

static void chunk(struct sw_h5_tuning *tuning, const struct shape *shape, bool chunked) {
    struct sw_h5_request *request = &tuning->request;
    sw_hsize dimensions[SW_H5_RANK];
    uint64_t wanted;
    if (!sw_h5_parse(SW_H5_CHUNK_SIZE, request->results[SW_H5_CHUNK_SIZE].requested, &wanted)) {
        sw_h5_outcome(request, SW_H5_CHUNK_SIZE, SW_REFUSED, "no value of this setting");
        return;
    }
    if (chunked && !sw_runtime.plan.override) {
        request->results[SW_H5_CHUNK_SIZE].application = "chunks of its own";
        sw_h5_outcome(request, SW_H5_CHUNK_SIZE, SW_APPLICATION_WINS,
                      "the application chunks the dataset itself, and the plan does not override");
        return;
    }
    sw_h5_divide(wanted, shape->element_size, shape->rank, shape->size, dimensions);
    bool done = sw_h5.H5Pset_chunk(tuning->creation, shape->rank, dimensions) >= 0;
    sw_h5_outcome(request, SW_H5_CHUNK_SIZE, done ? SW_APPLIED : SW_REFUSED,
                  done ? NULL : "HDF5 refused the chunk");
}

/* When fill values are written: what nobody writes holds anything if they never are. */
static void fill(struct sw_h5_tuning *tuning, int layout) {
    enum { IF_SET = 2 }; /* H5D_FILL_TIME_IFSET, where nobody sets anything */
    struct sw_h5_request *request = &tuning->request;
    const char *asked = request->results[SW_H5_FILL_TIME].requested;
    uint64_t wanted;
    int now = IF_SET;
    if (!asked)
        return;
    if (!sw_h5_parse(SW_H5_FILL_TIME, asked, &wanted)) {
        sw_h5_outcome(request, SW_H5_FILL_TIME, SW_REFUSED, "no value of this setting");
    } else if (layout != SW_CONTIGUOUS && layout != SW_CHUNKED) {
        sw_h5_outcome(request, SW_H5_FILL_TIME, SW_NOT_APPLICABLE, "the dataset is laid out otherwise");
    } else if (sw_h5.H5Pget_fill_time(tuning->creation, &now) >= 0 && now != IF_SET && now != (int)wanted &&
               !sw_runtime.plan.override) {
        request->results[SW_H5_FILL_TIME].application = fill_text(now);
        sw_h5_outcome(request, SW_H5_FILL_TIME, SW_APPLICATION_WINS,
                      "the application sets it, and the plan does not override");
    } else {
        bool done = sw_h5.H5Pset_fill_time(tuning->creation, (int)wanted) >= 0;
        sw_h5_outcome(request, SW_H5_FILL_TIME, done ? SW_APPLIED : SW_REFUSED,
                      done ? NULL : "HDF5 refused the value");
    }
}

/* Why no filter may be used here; NULL if nothing speaks against it. */
static const char *obstacle(struct sw_h5_tuning *tuning, const struct shape *shape, bool parallel) {
    enum { BITFIELD = 4, COMPOUND = 6, ENUMERATION = 8, ARRAY = 10 };
    enum { BIG_ENDIAN_FIRST = 1 }; /* H5T_ORDER_BE */
    const uint16_t one = 1;
    bool foreign = shape->order == (*(const unsigned char *)&one ? BIG_ENDIAN_FIRST : 0);
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
    if (parallel && foreign)
        return "HDF5 converts elements of this byte order, and then writes them independently";
    return NULL;
}

static const char *const UNKNOWN = "no value of this setting", *const UNABLE =
                                                                   "this HDF5 library cannot do it";

/* Each answers NULL, or why the filter is not used; refused: the value or the library, not the dataset, is
 * why. */

static const char *scale(sw_hid list, const char *asked, const struct shape *shape, bool *refused) {
    uint64_t digits;
    if (shape->type_class == SW_H5_FLOAT)
        return "it can lose NaN, infinities and numbers near the fill value of reals: use accuracy with "
               "deflate";
    if (shape->type_class != SW_H5_INTEGER)
        return "the elements are not whole numbers";
    *refused = true;
    if (!sw_h5_parse(SW_H5_SCALEOFFSET, asked, &digits))
        return UNKNOWN;
    return sw_h5.H5Zfilter_avail(SW_H5_FILTER_SCALEOFFSET) > 0 &&
                   sw_h5.H5Pset_scaleoffset(list, INTEGER_SCALE, 0) >= 0
               ? NULL
               : UNABLE;
}

static const char *szip(sw_hid list, const char *asked, const struct shape *shape, bool *refused) {
    uint64_t pixels;
    unsigned can = 0;
    if ((shape->type_class != SW_H5_FLOAT && shape->type_class != SW_H5_INTEGER) || shape->element_size > 8)
        return "the elements are not numbers of at most 8 bytes";
    *refused = true;
    if (!sw_h5_parse(SW_H5_SZIP, asked, &pixels))
        return UNKNOWN;
    return sw_h5.H5Zfilter_avail(SW_H5_FILTER_SZIP) > 0 &&
                   sw_h5.H5Zget_filter_info(SW_H5_FILTER_SZIP, &can) >= 0 && can & ENCODES &&
                   sw_h5.H5Pset_szip(list, NEAREST_NEIGHBOUR, (unsigned)pixels) >= 0
               ? NULL
               : UNABLE;
}

static const char *plugin(sw_hid list, const char *asked, bool *refused) {
    unsigned filter = 0, values[SW_H5_PLUGIN_VALUES];
    int count = sw_h5_parse_plugin(asked, &filter, values);
    *refused = true;
    if (count < 0)
        return UNKNOWN;
    if (sw_h5.H5Zfilter_avail((int)filter) <= 0)
        return "HDF5 finds no such plugin: does HDF5_PLUGIN_PATH name its folder?";
    return sw_h5.H5Pset_filter(list, (int)filter, OPTIONAL, (size_t)count, values) >= 0 ? NULL : UNABLE;
}

static const char *lossless(sw_hid list, enum sw_h5_key key, const char *asked, bool *refused) {
    uint64_t value;
    *refused = true;
    if (!sw_h5_parse(key, asked, &value))
        return UNKNOWN;
    bool done = !value || (key == SW_H5_SHUFFLE   ? sw_h5.H5Pset_shuffle(list) >= 0
                           : key == SW_H5_DEFLATE ? sw_h5.H5Zfilter_avail(SW_H5_FILTER_DEFLATE) > 0 &&
                                                        sw_h5.H5Pset_deflate(list, (unsigned)value) >= 0
                                                  : sw_h5.H5Pset_fletcher32(list) >= 0);
    return done ? NULL : UNABLE;
}

/* Each in turn, in the order in which data go through them. */
static void filter(struct sw_h5_tuning *tuning, const struct shape *shape, bool parallel) {
    static const enum sw_h5_key order[] = {SW_H5_SCALEOFFSET, SW_H5_SHUFFLE, SW_H5_DEFLATE,
                                           SW_H5_SZIP,        SW_H5_PLUGIN,  SW_H5_FLETCHER32};
    struct sw_h5_request *request = &tuning->request;
    const char *obstructs = obstacle(tuning, shape, parallel);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        enum sw_h5_key key = order[i];
        const char *asked = request->results[key].requested, *why = obstructs;
        bool refused = false;
        if (!asked)
            continue;
        if (!why && (key == SW_H5_SZIP || key == SW_H5_PLUGIN) && parallel && sw_h5.version < KEEPS_MASKS)
            why = "HDF5 before 1.14 loses chunks that this filter cannot shrink where several ranks write";
        if (!why)
            why = key == SW_H5_SCALEOFFSET ? scale(tuning->creation, asked, shape, &refused)
                  : key == SW_H5_SZIP      ? szip(tuning->creation, asked, shape, &refused)
                  : key == SW_H5_PLUGIN    ? plugin(tuning->creation, asked, &refused)
                                           : lossless(tuning->creation, key, asked, &refused);
        sw_h5_outcome(request, key, why ? (refused ? SW_REFUSED : SW_NOT_APPLICABLE) : SW_APPLIED, why);
    }
}

/* Rounding pays only where a filter of the plan compresses what it leaves. */
static void approximate(struct sw_h5_tuning *tuning, const struct shape *shape, sw_hid type) {
    struct sw_h5_request *request = &tuning->request;
    const char *asked = request->results[SW_H5_ACCURACY].requested;
    static const enum sw_h5_key compressing[] = {SW_H5_DEFLATE, SW_H5_SZIP, SW_H5_PLUGIN};
    bool compressed = false, standard = false;
    if (!asked)
        return;
    for (size_t i = 0; i < sizeof compressing / sizeof *compressing; i++)
        compressed |= request->results[compressing[i]].outcome == SW_APPLIED;
    for (int order = 0; order < 2 && shape->type_class == SW_H5_FLOAT; order++)
        for (int wide = 0; wide < 2; wide++)
            standard |= sw_h5.standard[wide][order] && sw_h5.H5Tequal(type, *sw_h5.standard[wide][order]) > 0;
    char *end;
    double accuracy = sw_scan_double(asked, &end);
    if (*end || end == asked || sw_rounding_step(accuracy) == 0)
        sw_h5_outcome(request, SW_H5_ACCURACY, SW_REFUSED, "no value of this setting");
    else if (!standard)
        sw_h5_outcome(request, SW_H5_ACCURACY, SW_NOT_APPLICABLE,
                      "the elements are not IEEE reals of 4 or 8 bytes: they are stored as they are");
    else if (!compressed)
        sw_h5_outcome(request, SW_H5_ACCURACY, SW_NOT_APPLICABLE,
                      "no filter of the plan compresses the dataset");
    else if (!sw_h5_ready())
        sw_h5_outcome(request, SW_H5_ACCURACY, SW_NOT_APPLICABLE,
                      "only the preloaded library rounds, not HDF5's connector");
    else {
        tuning->accuracy = accuracy;
        sw_h5_outcome(request, SW_H5_ACCURACY, SW_APPLIED, NULL);
    }
}

/* What was stated; it is not a setting by itself. */
static void note_statements(struct sw_h5_request *request) {
    for (int key = SW_H5_COLLECTIVE_WRITES; key < SW_H5_KEYS; key++)
        if (request->results[key].requested)
            sw_h5_outcome(request, (enum sw_h5_key)key, SW_APPLIED, "a statement of the user");
}

/* Without a cache of chunks, which HDF5 has for serial files: a full disk would be seen only when the file is
 * closed, where the program's own layout lets H5Dwrite fail. */
static void write_through(struct sw_h5_tuning *tuning, sw_hid access) {
    size_t slots = 0, bytes = 0;
    double weight = 0;
    sw_hid list = access == SW_H5_DEFAULT ? sw_h5.H5Pcreate(*sw_h5.dataset_access) : sw_h5.H5Pcopy(access);
    if (list < 0)
        return;
    if (sw_h5.H5Pget_chunk_cache(list, &slots, &bytes, &weight) >= 0)
        sw_h5.H5Pset_chunk_cache(list, slots, 0, weight);
    tuning->access = list;
    tuning->copied = true;
}

bool sw_h5_dataset_settings(void) {
    return files_asked && sw_runtime.apply;
}

bool sw_h5_dataset_tuned(struct sw_h5_tuning *tuning, struct sw_file *record, const char *name,
                         sw_hid creation, sw_hid access, sw_hid type, sw_hid space) {
    struct shape shape;
    tuning->record = record;
    tuning->creation = creation;
    tuning->access = access;
    tuning->copied = false;
    tuning->accuracy = 0;
    if (!sw_h5_dataset_settings())
        return false;
    struct sw_h5_request *request = &tuning->request;
    memset(request, 0, sizeof *request);
    struct asked asked = {.path = NULL};
    sw_lock_take(&asked_lock);
    const struct asked *found = find(record->path);
    if (found)
        asked = *found;
    sw_lock_release(&asked_lock);
    sw_h5_silence_begin(&tuning->silence);
    const char *wanted = asked.values[SW_H5_DATASETS];
    bool known = asked.path && (!wanted || (name && sw_h5_names(wanted, name))) &&
                 shape_of(&shape, type, space) &&
                 /* What holds nothing yet is only given another chunk to grow in. */
                 (shape.bytes > 0 || asked.values[SW_H5_CHUNK_SHAPE]);
    if (known)
        tuning->creation =
            creation == SW_H5_DEFAULT ? sw_h5.H5Pcreate(*sw_h5.dataset_create) : sw_h5.H5Pcopy(creation);
    if (!known || tuning->creation < 0) {
        sw_h5_silence_end(&tuning->silence);
        return false;
    }
    for (int key = 0; key < SW_H5_KEYS; key++) {
        request->results[key] = (struct sw_result){
            .carrier = SW_HDF5, .key = sw_h5_key_names[key], .requested = asked.values[key]};
        request->origin[key] = asked.origin[key];
    }
    sw_lock_take(&record->lock);
    const struct sw_hdf5 *hdf5 = record->hdf5;
    bool mpio = hdf5 && hdf5->driver && strcmp(hdf5->driver, "mpio") == 0;
    bool parallel = mpio && record->facts.ranks > 1;
    sw_lock_release(&record->lock);
    int layout = sw_h5.H5Pget_layout(tuning->creation);
    if (reshape(tuning, &shape, name, layout) || !shape.bytes) {
        if (request->results[SW_H5_CHUNK_SIZE].requested)
            sw_h5_outcome(request, SW_H5_CHUNK_SIZE, SW_NOT_APPLICABLE,
                          shape.bytes ? "chunk_shape says more" : "the dataset has no elements yet");
    } else if (request->results[SW_H5_CHUNK_SIZE].requested &&
               (layout == SW_CONTIGUOUS || layout == SW_CHUNKED))
        chunk(tuning, &shape, layout == SW_CHUNKED);
    else if (request->results[SW_H5_CHUNK_SIZE].requested)
        sw_h5_outcome(request, SW_H5_CHUNK_SIZE, SW_NOT_APPLICABLE, "the dataset is laid out otherwise");
    fill(tuning, layout);
    filter(tuning, &shape, parallel);
    approximate(tuning, &shape, type);
    note_statements(request);
    if (!mpio && layout == SW_CONTIGUOUS && sw_h5.H5Pget_layout(tuning->creation) == SW_CHUNKED)
        write_through(tuning, access);
    return true;
}

/* The chunk that the dataset's own list tells of; the unit keeps it from being compared with bytes. */
static const char *chunk_text(sw_hid creation) {
    char text[120] = "";
    size_t used = 0;
    sw_hsize size[SW_H5_RANK];
    int rank = creation >= 0 && sw_h5.H5Pget_layout(creation) == SW_CHUNKED
                   ? sw_h5.H5Pget_chunk(creation, SW_H5_RANK, size)
                   : 0;
    for (int i = 0; i < rank && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, i ? "x%llu" : "%llu", size[i]);
    return rank > 0 ? sw_h5_keep("%s elements", text) : NULL;
}

void sw_h5_dataset_tried(struct sw_h5_tuning *tuning, bool made, sw_hid creation) {
    struct sw_h5_request *request = &tuning->request;
    for (int key = SW_H5_CHUNK_SIZE; !made && key < SW_H5_COLLECTIVE_WRITES; key++)
        if (request->results[key].outcome == SW_APPLIED)
            sw_h5_outcome(request, (enum sw_h5_key)key, SW_REFUSED,
                          "the dataset could not be made with it; the application's own list was used");
    for (int key = SW_H5_CHUNK_SIZE; made && key <= SW_H5_CHUNK_SHAPE; key++)
        if (request->results[key].requested)
            request->results[key].echoed = chunk_text(creation);
    int time;
    if (made && request->results[SW_H5_FILL_TIME].requested && creation >= 0 &&
        sw_h5.H5Pget_fill_time(creation, &time) >= 0)
        request->results[SW_H5_FILL_TIME].echoed = fill_text(time);
    sw_h5.H5Pclose(tuning->creation);
    if (tuning->copied)
        sw_h5.H5Pclose(tuning->access);
    sw_h5_silence_end(&tuning->silence);
    struct sw_file *record = tuning->record;
    sw_lock_take(&record->lock);
    /* Of a file of several ranks only rank 0 keeps results. */
    if (record->results || !record->facts.opens)
        sw_matches_add(record, request->results, SW_H5_KEYS);
    sw_lock_release(&record->lock);
}
