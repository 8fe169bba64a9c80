/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "h5_settings.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "choose.h"
#include "hints.h"
#include "mpi_comm.h"
#include "mpi_init.h"

void sw_h5_outcome(struct sw_h5_request *request, enum sw_h5_key key, enum sw_outcome outcome,
                   const char *note) {
    struct sw_result *result = &request->results[key];
    result->outcome = outcome;
    result->note = note ? note : request->origin[key];
    result->given = outcome == SW_APPLIED            ? result->requested
                    : outcome == SW_APPLICATION_WINS ? result->application
                                                     : NULL;
}

/* ---- property lists ---- */

const char *sw_h5_keep(const char *format, ...) {
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return sw_arena_intern(&sw_runtime.files.arena, text);
}

static const char *spelling(enum sw_h5_key key, uint64_t value) {
    char text[SW_H5_SPELLED];
    sw_h5_spell(key, value, text);
    return sw_arena_intern(&sw_runtime.files.arena, text);
}

/* H5AC_cache_config_t, the same from 1.10 to 2.2: HDF5 orders it. */
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct cache_config {
    int version;
    bool reports, opens_trace, closes_trace;
    char trace[1025];
    bool evicts, sets_initial;
    size_t initial;
    double least_clean;
    size_t most, least;
    long epoch;
    int increments;
    double lower_rate, increment;
    bool limits_increment;
    size_t largest_increment;
    int flash;
    double flash_multiple, flash_threshold;
    int decrements;
    double upper_rate, decrement;
    bool limits_decrement;
    size_t largest_decrement;
    int epochs;
    bool keeps_reserve;
    double reserve;
    size_t dirty;
    int strategy;
};

/* False where its numbers are not what HDF5 allows: then it has another form here. */
static bool get_cache_config(sw_hid list, struct cache_config *config) {
    *config = (struct cache_config){.version = 1};
    return sw_h5.H5Pget_mdc_config(list, config) >= 0 && config->version == 1 && config->least >= 1024 &&
           config->least <= config->most && config->most <= 134217728 && config->least_clean >= 0 &&
           config->least_clean <= 1 && config->epoch >= 100 && config->epoch <= 1000000;
}

static uint64_t usual(enum sw_h5_key key);

/* As many slots as chunks of this size want, unless the program has chosen a number itself. */
static size_t slots_for(uint64_t bytes, size_t slots) {
    return slots == usual(SW_H5_CHUNK_SLOTS) || sw_runtime.plan.override ? sw_h5_slots(bytes, slots) : slots;
}

/* What a property list of a file says, and is to say; false where this HDF5 cannot. */
static bool get(sw_hid list, enum sw_h5_key key, uint64_t *value) {
    sw_hsize first = 0, second = 0;
    size_t slots = 0, bytes = 0;
    double weight = 0;
    int number = 0, other = 0;
    unsigned percent[2] = {0, 0};
    uint64_t flag = 0; /* of which HDF5 fills one byte or four */
    struct cache_config config;
    switch (key) {
    case SW_H5_ALIGNMENT:
    case SW_H5_ALIGNMENT_THRESHOLD:
        if (sw_h5.H5Pget_alignment(list, &first, &second) < 0)
            return false;
        *value = key == SW_H5_ALIGNMENT ? second : first;
        return true;
    case SW_H5_META_BLOCK_SIZE:
        return sw_h5.H5Pget_meta_block_size(list, &first) >= 0 && (*value = first, true);
    case SW_H5_COLL_METADATA_WRITE:
        return sw_h5.H5Pget_coll_metadata_write && sw_h5.H5Pget_coll_metadata_write(list, &flag) >= 0 &&
               (*value = flag & 1, true);
    case SW_H5_ALL_COLL_METADATA_OPS:
        return sw_h5.H5Pget_all_coll_metadata_ops && sw_h5.H5Pget_all_coll_metadata_ops(list, &flag) >= 0 &&
               (*value = flag & 1, true);
    case SW_H5_SIEVE_BUF_SIZE:
        return sw_h5.H5Pget_sieve_buf_size(list, &bytes) >= 0 && (*value = bytes, true);
    case SW_H5_CHUNK_CACHE:
        return sw_h5.H5Pget_cache(list, &number, &slots, &bytes, &weight) >= 0 && (*value = bytes, true);
    case SW_H5_CHUNK_SLOTS:
        return sw_h5.H5Pget_cache(list, &number, &slots, &bytes, &weight) >= 0 && (*value = slots, true);
    case SW_H5_MDC_SIZE:
        return get_cache_config(list, &config) && (*value = config.initial, true);
    case SW_H5_LIBVER_LOW:
        return sw_h5.H5Pget_libver_bounds(list, &number, &other) >= 0 && (*value = (uint64_t)number, true);
    case SW_H5_PAGE_BUFFER_SIZE: /* since 2.0 a list says -1 where nobody sets anything */
        return sw_h5.H5Pget_page_buffer_size &&
               sw_h5.H5Pget_page_buffer_size(list, &bytes, &percent[0], &percent[1]) >= 0 &&
               (*value = bytes == (size_t)-1 ? 0 : bytes, true);
    case SW_H5_FILE_SPACE_STRATEGY:
        return sw_h5.H5Pget_file_space_strategy &&
               sw_h5.H5Pget_file_space_strategy(list, &number, &flag, &first) >= 0 &&
               (*value = (uint64_t)number, true);
    case SW_H5_FILE_SPACE_PAGE_SIZE:
        return sw_h5.H5Pget_file_space_page_size && sw_h5.H5Pget_file_space_page_size(list, &first) >= 0 &&
               (*value = first, true);
    default:
        return false;
    }
}

static bool set(sw_hid list, enum sw_h5_key key, uint64_t value) {
    sw_hsize first = 0, second = 0;
    size_t slots = 0, bytes = 0;
    double weight = 0;
    int number = 0, other = 0;
    unsigned percent[2] = {0, 0};
    uint64_t flag = 0;
    struct cache_config config;
    switch (key) {
    case SW_H5_ALIGNMENT:
    case SW_H5_ALIGNMENT_THRESHOLD:
        return sw_h5.H5Pget_alignment(list, &first, &second) >= 0 &&
               sw_h5.H5Pset_alignment(list, key == SW_H5_ALIGNMENT ? first : value,
                                      key == SW_H5_ALIGNMENT ? value : second) >= 0;
    case SW_H5_META_BLOCK_SIZE:
        return sw_h5.H5Pset_meta_block_size(list, value) >= 0;
    case SW_H5_COLL_METADATA_WRITE:
        return sw_h5.H5Pset_coll_metadata_write && sw_h5.H5Pset_coll_metadata_write(list, value != 0) >= 0;
    case SW_H5_ALL_COLL_METADATA_OPS:
        return sw_h5.H5Pset_all_coll_metadata_ops &&
               sw_h5.H5Pset_all_coll_metadata_ops(list, value != 0) >= 0;
    case SW_H5_SIEVE_BUF_SIZE:
        return sw_h5.H5Pset_sieve_buf_size(list, (size_t)value) >= 0;
    case SW_H5_CHUNK_CACHE:
        return sw_h5.H5Pget_cache(list, &number, &slots, &bytes, &weight) >= 0 &&
               sw_h5.H5Pset_cache(list, number, slots_for(value, slots), (size_t)value, weight) >= 0;
    case SW_H5_CHUNK_SLOTS:
        return sw_h5.H5Pget_cache(list, &number, &slots, &bytes, &weight) >= 0 &&
               sw_h5.H5Pset_cache(list, number, (size_t)value, bytes, weight) >= 0;
    case SW_H5_MDC_SIZE:
        if (!get_cache_config(list, &config))
            return false;
        config.sets_initial = true;
        config.initial = (size_t)value;
        config.most = config.most < value ? (size_t)value : config.most;
        config.least = config.least > value ? (size_t)value : config.least;
        return sw_h5.H5Pset_mdc_config(list, &config) >= 0;
    case SW_H5_LIBVER_LOW:
        return sw_h5.H5Pget_libver_bounds(list, &number, &other) >= 0 &&
               sw_h5.H5Pset_libver_bounds(list, (int)value, other) >= 0;
    case SW_H5_PAGE_BUFFER_SIZE:
        return sw_h5.H5Pget_page_buffer_size && sw_h5.H5Pset_page_buffer_size &&
               sw_h5.H5Pget_page_buffer_size(list, &bytes, &percent[0], &percent[1]) >= 0 &&
               sw_h5.H5Pset_page_buffer_size(list, (size_t)value, percent[0], percent[1]) >= 0;
    case SW_H5_FILE_SPACE_STRATEGY:
        if (!sw_h5.H5Pget_file_space_strategy || !sw_h5.H5Pset_file_space_strategy ||
            sw_h5.H5Pget_file_space_strategy(list, &number, &flag, &first) < 0)
            return false;
        return sw_h5.H5Pset_file_space_strategy(list, (int)value, flag & 1, first ? first : 1) >= 0;
    case SW_H5_FILE_SPACE_PAGE_SIZE:
        return sw_h5.H5Pset_file_space_page_size && sw_h5.H5Pset_file_space_page_size(list, value) >= 0;
    default:
        return false;
    }
}

/* What this HDF5 has where nobody sets anything, by a list that nobody has touched. */
static uint64_t usual(enum sw_h5_key key) {
    static uint64_t values[SW_H5_FILE_KEYS];
    static bool asked;
    static sw_lock lock = ATOMIC_FLAG_INIT;
    unsigned version[3];
    sw_lock_take(&lock);
    if (!asked && sw_h5.H5get_libversion(&version[0], &version[1], &version[2]) >= 0) {
        const sw_hid lists[2] = {sw_h5.H5Pcreate(*sw_h5.file_access), sw_h5.H5Pcreate(*sw_h5.file_create)};
        for (int i = 0; i < SW_H5_FILE_KEYS; i++)
            if (!get(lists[i >= SW_H5_FILE_SPACE_STRATEGY], (enum sw_h5_key)i, &values[i]))
                values[i] = 0;
        for (int i = 0; i < 2; i++)
            sw_h5.H5Pclose(lists[i]);
        asked = true;
    }
    sw_lock_release(&lock);
    return values[key];
}

/* ---- what is asked ---- */

static bool in_plan(const char *path, int indexes[SW_H5_KEYS]) {
    const struct sw_plan *plan = &sw_runtime.plan;
    bool any = false;
    for (int key = 0; key < SW_H5_KEYS; key++)
        indexes[key] = -1;
    for (size_t i = 0; i < plan->count; i++) {
        enum sw_h5_key key = sw_h5_key_of(plan->settings[i].key);
        if (plan->settings[i].carrier != SW_HDF5 || key == SW_H5_KEYS ||
            !sw_setting_matches(&plan->settings[i], path))
            continue;
        indexes[key] = (int)i;
        any = true;
    }
    return any;
}

static bool plan_has_hdf5(void) {
    for (size_t i = 0; sw_runtime.apply && i < sw_runtime.plan.count; i++)
        if (sw_runtime.plan.settings[i].carrier == SW_HDF5)
            return true;
    return false;
}

/* Without MPI_Init in sight each process has read mode and plan by itself. */
static bool one_plan(MPI_Comm comm) {
    int count = (int)sw_runtime.plan.count, mode = (int)sw_runtime.mode,
        here[4] = {count, -count, mode, -mode}, least[4] = {0, 0, 0, 0};
    if (!sw_world_is_up())
        sw_pmpi.Allreduce(here, least, 4, MPI_INT, MPI_MIN, comm);
    return sw_world_is_up() || (least[0] == -least[1] && least[2] == -least[3]);
}

/* What a property has that no decision may change, as sw_opening wants it; "" where it cannot be told. */
static const char *fixed(const void *lists, const char *name) {
    const struct sw_h5_opening *opening = lists;
    enum sw_h5_key key = sw_h5_key_of(name);
    bool creation = key >= SW_H5_FILE_SPACE_STRATEGY && key < SW_H5_FILE_KEYS;
    uint64_t now;
    /* Exclusively nothing is tried. Metadata is read collectively only by programs whose ranks all make the
     * same calls: others hang. A plugin may lose digits; what users state cannot be chosen. A shape is of one
     * program's datasets. */
    if (key >= SW_H5_PLUGIN || key == SW_H5_CHUNK_SHAPE || (opening->flags & SW_H5_EXCLUSIVE) ||
        key == SW_H5_ALL_COLL_METADATA_OPS || key == SW_H5_PAGE_BUFFER_SIZE ||
        (creation && !opening->creates))
        return "";
    sw_hid list = creation ? opening->creation : opening->access;
    if (key >= SW_H5_FILE_KEYS || list == SW_H5_DEFAULT)
        return NULL;
    if (!get(list, key, &now))
        return "";
    return now == usual(key) || sw_runtime.plan.override ? NULL : spelling(key, now);
}

static const char *usual_text(const char *name) {
    enum sw_h5_key key = sw_h5_key_of(name);
    return key < SW_H5_FILE_KEYS ? spelling(key, usual(key)) : NULL;
}

/* What rank 0 tells the others. */
struct told {
    int indexes[SW_H5_KEYS]; /* settings of the plan */
    bool decided;
    char values[SW_H5_KEYS][SW_DECIDED_VALUE]; /* of the decision; "" where it has none */
    struct sw_orders orders;                   /* last: told only where something was decided */
};

int sw_h5_amode(const struct sw_h5_opening *opening) {
    int amode = opening->creates                  ? MPI_MODE_CREATE | MPI_MODE_RDWR
                : opening->flags & SW_H5_WRITABLE ? MPI_MODE_RDWR
                                                  : MPI_MODE_RDONLY;
    return opening->flags & SW_H5_EXCLUSIVE ? amode | MPI_MODE_EXCL : amode;
}

/* On rank 0: one decision for the properties here and for what MPI_File_open below will set. */
static void decide(const struct sw_h5_request *request, const struct sw_h5_opening *opening, MPI_Info info,
                   int nodes, struct told *told, struct sw_orders *orders) {
    struct sw_matches matches;
    struct sw_h5_silence silence;
    int amode = sw_h5_amode(opening);
    struct sw_opening below = {.comm = request->comm,
                               .size = request->size,
                               .nodes = nodes,
                               .mode = sw_runtime.mode,
                               .path = request->path,
                               .amode = amode,
                               .info = info,
                               .hdf5 = true,
                               .blind = opening->blind,
                               .fixed = fixed,
                               .usual = usual_text,
                               .lists = opening};
    sw_h5_silence_begin(&silence);
    sw_matches_open(&matches, request->path);
    sw_decide_open(&below, &matches, orders);
    for (int key = 0; key < SW_H5_KEYS; key++)
        if (!sw_matches_get(&matches, SW_HDF5, sw_h5_key_names[key]))
            told->indexes[key] = -1; /* online, the plan is one of the candidates */
    orders->settled = !(amode & MPI_MODE_CREATE) || !sw_layout_place(request->path);
    sw_matches_close(&matches);
    sw_h5_silence_end(&silence);
    told->decided = orders->decided;
    for (uint32_t i = 0; i < orders->decision.chosen.count; i++) {
        const struct sw_decided *setting = &orders->decision.chosen.settings[i];
        enum sw_h5_key key = setting->carrier == SW_HDF5 ? sw_h5_key_of(setting->key) : SW_H5_KEYS;
        if (key < SW_H5_KEYS)
            memcpy(told->values[key], setting->value, sizeof setting->value);
    }
}

void sw_h5_request_open(struct sw_h5_request *request, const char *path, const struct sw_h5_opening *opening,
                        struct sw_orders *orders) {
    struct told told = {.decided = false};
    memset(request, 0, sizeof *request);
    request->path = path;
    request->size = 1;
    request->comm = MPI_COMM_NULL;
    request->parallel = sw_h5_is_parallel(opening->access);
    /* Orders are carried out by MPI_File_open. */
    enum sw_run_mode last = opening->blind ? SW_RUN_ONLINE : SW_RUN_ORDERS;
    bool decides = request->parallel && sw_runtime.mode > SW_RUN_APPLY && sw_runtime.mode <= last;
    if (!plan_has_hdf5() && !decides && (!request->parallel || sw_world_is_up()))
        return;
    MPI_Info info = MPI_INFO_NULL;
    /* All ranks take this way: the open is collective. */
    if (request->parallel) {
        sw_comm_lend_begin();
        bool got =
            sw_h5.H5Pget_fapl_mpio && sw_h5.H5Pget_fapl_mpio(opening->access, &request->comm, &info) >= 0;
        request->lent = sw_comm_lend_end();
        if (!got)
            return;
    }
    bool goes_on = (!request->parallel || one_plan(request->comm)) && (plan_has_hdf5() || decides);
    if (goes_on && request->parallel) {
        sw_pmpi.Comm_rank(request->comm, &request->rank);
        sw_pmpi.Comm_size(request->comm, &request->size);
        decides = decides && sw_comm_is_ours(request->comm, request->size);
    }
    if (goes_on)
        in_plan(path, told.indexes);
    if (goes_on && decides) {
        int nodes = sw_comm_nodes(request->comm, request->rank, request->size);
        if (request->rank == 0)
            decide(request, opening, info, nodes, &told, orders);
    }
    if (goes_on && request->size > 1) {
        int64_t start = sw_now();
        told.orders = *orders;
        sw_pmpi.Bcast(&told, (int)(decides ? sizeof told : offsetof(struct told, orders)), MPI_BYTE, 0,
                      request->comm);
        if (decides)
            *orders = told.orders;
        orders->broadcast = sw_now() - start;
    }
    if (info != MPI_INFO_NULL)
        sw_pmpi.Info_free(&info);
    for (int key = 0; goes_on && key < SW_H5_KEYS; key++) {
        struct sw_result *result = &request->results[key];
        *result = (struct sw_result){.carrier = SW_HDF5, .key = sw_h5_key_names[key]};
        if (told.indexes[key] >= 0)
            result->requested = sw_runtime.plan.settings[told.indexes[key]].value;
        else if (told.decided && *told.values[key])
            result->requested = sw_h5_keep("%s", told.values[key]);
        if (told.indexes[key] < 0 && result->requested)
            request->origin[key] = sw_decided_note(sw_runtime.mode);
        request->any |= result->requested != NULL;
    }
}

void sw_h5_request_close(struct sw_h5_request *request) {
    if (request->comm != MPI_COMM_NULL && !request->lent)
        sw_pmpi.Comm_free(&request->comm);
}

sw_hid sw_h5_lend(const struct sw_h5_request *request, sw_hid (*list_of)(sw_hid), sw_hid id) {
    if (request->lent)
        sw_comm_lend_begin();
    sw_hid list = list_of(id);
    if (request->lent)
        sw_comm_lend_end();
    return list;
}

void sw_h5_close_lent(const struct sw_h5_request *request, sw_hid list) {
    if (request->lent)
        sw_comm_lend_begin();
    sw_h5.H5Pclose(list);
    if (request->lent)
        sw_comm_lend_end();
}

/* The list with one more setting, unless the application has set it itself in its own. */
static void tune(struct sw_h5_request *request, enum sw_h5_key key, sw_hid own, sw_hid list) {
    struct sw_result *result = &request->results[key];
    uint64_t wanted, now = usual(key);
    if (!sw_h5_parse(key, result->requested, &wanted)) {
        sw_h5_outcome(request, key, SW_REFUSED, "no value of this setting");
    } else if (!get(own == SW_H5_DEFAULT ? list : own, key, &now)) {
        sw_h5_outcome(request, key, SW_NOT_APPLICABLE, "this HDF5 library does not know it");
    } else if (own != SW_H5_DEFAULT && now != usual(key) && now != wanted && !sw_runtime.plan.override) {
        result->application = spelling(key, now);
        sw_h5_outcome(request, key, SW_APPLICATION_WINS,
                      "the application sets it, and the plan does not override");
    } else {
        bool done = set(list, key, wanted);
        sw_h5_outcome(request, key, done ? SW_APPLIED : SW_REFUSED, done ? NULL : "HDF5 refused the value");
    }
}

/* Is it asked for, and has nothing been said of it yet? */
static bool open_to(const struct sw_h5_request *request, int key) {
    return request->results[key].requested && !request->results[key].note;
}

static sw_hid tuned(struct sw_h5_request *request, sw_hid list, const sw_hid *class, int first, int last) {
    bool any = false;
    for (int key = first; key < last; key++)
        any |= open_to(request, key);
    if (!any)
        return list;
    sw_hid copy = list == SW_H5_DEFAULT ? sw_h5.H5Pcreate(*class) : sw_h5_lend(request, sw_h5.H5Pcopy, list);
    for (int key = first; key < last; key++)
        if (open_to(request, key)) {
            if (copy < 0)
                sw_h5_outcome(request, (enum sw_h5_key)key, SW_REFUSED, "HDF5 made no new property list");
            else
                tune(request, (enum sw_h5_key)key, list, copy);
        }
    return copy < 0 ? list : copy;
}

/* Why the file can have no page buffer, with which its open would fail; NULL if nothing is known against it.
 */
static const char *without_pages(const struct sw_h5_request *request, const struct sw_h5_opening *opening) {
    const char *asked = request->results[SW_H5_FILE_SPACE_STRATEGY].requested;
    uint64_t strategy = usual(SW_H5_FILE_SPACE_STRATEGY);
    if (request->parallel)
        return "HDF5 refuses a page buffer for files that are used in parallel";
    if (!opening->creates)
        return NULL;
    if (opening->creation != SW_H5_DEFAULT && !get(opening->creation, SW_H5_FILE_SPACE_STRATEGY, &strategy))
        return "this HDF5 library knows no pages";
    if (asked && !sw_h5_parse(SW_H5_FILE_SPACE_STRATEGY, asked, &strategy))
        return "no value of file_space_strategy";
    return strategy == SW_H5_PAGE ? NULL : "only files with file_space_strategy page have pages to buffer";
}

sw_hid sw_h5_tuned_access(struct sw_h5_request *request, const struct sw_h5_opening *opening) {
    const char *obstacle =
        request->results[SW_H5_PAGE_BUFFER_SIZE].requested ? without_pages(request, opening) : NULL;
    if (obstacle)
        sw_h5_outcome(request, SW_H5_PAGE_BUFFER_SIZE, SW_NOT_APPLICABLE, obstacle);
    for (int key = SW_H5_COLL_METADATA_WRITE; !request->parallel && key <= SW_H5_ALL_COLL_METADATA_OPS; key++)
        if (request->results[key].requested)
            sw_h5_outcome(request, (enum sw_h5_key)key, SW_NOT_APPLICABLE,
                          "the file is not used in parallel");
    return tuned(request, opening->access, sw_h5.file_access, SW_H5_ALIGNMENT, SW_H5_FILE_SPACE_STRATEGY);
}

sw_hid sw_h5_tuned_creation(struct sw_h5_request *request, sw_hid creation) {
    return tuned(request, creation, sw_h5.file_create, SW_H5_FILE_SPACE_STRATEGY, SW_H5_FILE_KEYS);
}

void sw_h5_withdrawn(struct sw_h5_request *request, const char *reason) {
    for (int key = 0; key < SW_H5_FILE_KEYS; key++)
        if (request->results[key].outcome == SW_APPLIED)
            sw_h5_outcome(request, (enum sw_h5_key)key, SW_REFUSED, reason);
}

/* ---- what HDF5 says ---- */

void sw_h5_echo(struct sw_h5_request *request, sw_hid access, sw_hid creation, struct sw_file *record) {
    char text[1000] = "";
    size_t used = 0;
    for (int key = 0; key < SW_H5_FILE_KEYS; key++) {
        sw_hid list = key < SW_H5_FILE_SPACE_STRATEGY ? access : creation;
        uint64_t value = usual((enum sw_h5_key)key);
        if (list < 0 || (list != SW_H5_DEFAULT && !get(list, (enum sw_h5_key)key, &value)))
            continue;
        const char *spelled = spelling((enum sw_h5_key)key, value);
        if (request->results[key].requested)
            request->results[key].echoed = spelled;
        if (spelled && used < sizeof text)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s\n%s\n", sw_h5_key_names[key], spelled);
    }
    sw_lock_take(&record->lock);
    struct sw_hdf5 *hdf5 = sw_file_hdf5(&sw_runtime.files, record);
    if (hdf5) {
        hdf5->properties = sw_arena_intern(&sw_runtime.files.arena, text);
        hdf5->driver = request->parallel ? "mpio" : "serial";
        hdf5->library = sw_h5_version();
    }
    sw_lock_release(&record->lock);
}

void sw_h5_record(const struct sw_h5_request *request, struct sw_file *record) {
    /* Of a file of several ranks rank 0 keeps the results. */
    if (!request->any || (request->parallel && request->rank != 0))
        return;
    sw_lock_take(&record->lock);
    sw_matches_add(record, request->results, SW_H5_KEYS);
    sw_lock_release(&record->lock);
}

void sw_h5_silence_begin(struct sw_h5_silence *silence) {
    *silence = (struct sw_h5_silence){NULL, NULL};
    sw_h5.H5Eget_auto2(SW_H5_DEFAULT, &silence->handler, &silence->data);
    sw_h5.H5Eset_auto2(SW_H5_DEFAULT, NULL, NULL);
}

void sw_h5_silence_end(const struct sw_h5_silence *silence) {
    sw_h5.H5Eset_auto2(SW_H5_DEFAULT, silence->handler, silence->data);
}
