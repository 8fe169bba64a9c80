/* SPDX-License-Identifier: BSD-3-Clause
 * Datasets: what is learnt of them is asked of the connector below. */
#include <stdlib.h>
#include <string.h>

#include "h5_settings.h"
#include "vol.h"

#define FEW 16

/* A dataset, and the list of the call that it is asked in. */
struct asked {
    const struct sw_vol *o;
    hid_t list;
};

static ssize_t name_of(void *dataset, char *name, size_t size) {
    const struct asked *asked = dataset;
    size_t length = 0;
    H5VL_loc_params_t self = {.obj_type = H5I_DATASET, .type = H5VL_OBJECT_BY_SELF};
    H5VL_object_get_args_t args = {.op_type = H5VL_OBJECT_GET_NAME};
    args.args.get_name.buf_size = size;
    args.args.get_name.buf = name;
    args.args.get_name.name_len = &length;
    herr_t done =
        sw_vol.H5VLobject_get(asked->o->under, &self, asked->o->connector, &args, asked->list, NULL);
    return done < 0 ? -1 : (ssize_t)length;
}

static sw_hid ask(const struct asked *asked, H5VL_dataset_get_t what) {
    H5VL_dataset_get_args_t args = {.op_type = what};
    if (sw_vol.H5VLdataset_get(asked->o->under, asked->o->connector, &args, asked->list, NULL) < 0)
        return -1;
    return what == H5VL_DATASET_GET_SPACE  ? args.args.get_space.space_id
           : what == H5VL_DATASET_GET_TYPE ? args.args.get_type.type_id
           : what == H5VL_DATASET_GET_DAPL ? args.args.get_dapl.dapl_id
                                           : args.args.get_dcpl.dcpl_id;
}

static sw_hid space_of(void *dataset) {
    return ask(dataset, H5VL_DATASET_GET_SPACE);
}

static sw_hid type_of(void *dataset) {
    return ask(dataset, H5VL_DATASET_GET_TYPE);
}

static sw_hid creation_of(void *dataset) {
    return ask(dataset, H5VL_DATASET_GET_DCPL);
}

static sw_hid access_of(void *dataset) {
    return ask(dataset, H5VL_DATASET_GET_DAPL);
}

/* A dataset that was made or opened in the file of of; later: it may not be there yet, and questions would
 * wait for it. */
static void follow(struct sw_vol *dataset, const struct sw_vol *of, bool created, bool later, hid_t list,
                   int64_t began) {
    struct asked asked = {dataset, list};
    struct sw_h5_told told = {&asked, name_of, space_of, type_of, creation_of, access_of};
    int64_t time = sw_tick() - began;
    sw_vol_follow(dataset, of);
    if (!sw_h5_dataset_opened(&dataset->seen, dataset->seen.record, later ? NULL : &told, created, time))
        dataset->seen.record = NULL;
}

static bool is_later(void **request) {
    return request && *request;
}

void *sw_vol_counted_dataset_create(void *object, const H5VL_loc_params_t *loc, const char *name, hid_t links,
                                    hid_t type, hid_t space, hid_t creation, hid_t access, hid_t list,
                                    void **request) {
    const struct sw_vol *of = object;
    int64_t began = sw_vol_begin(of);
    struct sw_h5_tuning tuning;
    struct sw_vol *made = NULL;
    if (!began)
        return sw_vol_dataset_create(object, loc, name, links, type, space, creation, access, list, request);
    if (sw_h5_dataset_tuned(&tuning, of->seen.record, name, creation, access, type, space)) {
        /* Waited for, since it may fail. */
        made = sw_vol_dataset_create(object, loc, name, links, type, space, tuning.creation, tuning.access,
                                     list, NULL);
        struct asked asked = {made, list};
        sw_hid own = made ? creation_of(&asked) : -1;
        sw_h5_dataset_tried(&tuning, made != NULL, own);
        if (own >= 0)
            sw_h5.H5Pclose(own);
    }
    if (!made)
        made = sw_vol_dataset_create(object, loc, name, links, type, space, creation, access, list, request);
    if (made)
        follow(made, of, true, is_later(request), list, began);
    return made;
}

void *sw_vol_counted_dataset_open(void *object, const H5VL_loc_params_t *loc, const char *name, hid_t access,
                                  hid_t list, void **request) {
    int64_t began = sw_vol_begin(object);
    struct sw_vol *opened = sw_vol_dataset_open(object, loc, name, access, list, request);
    if (opened && began)
        follow(opened, object, false, is_later(request), list, began);
    return opened;
}

void *sw_vol_counted_object_open(void *object, const H5VL_loc_params_t *loc, H5I_type_t *opened, hid_t list,
                                 void **request) {
    int64_t began = sw_vol_begin(object);
    struct sw_vol *o = sw_vol_object_open(object, loc, opened, list, request);
    if (o && began && *opened == H5I_DATASET)
        follow(o, object, false, is_later(request), list, began);
    else if (o && began)
        sw_vol_follow(o, object);
    return o;
}

/* ---- transfers ---- */

/* Datasets whose last collective transfer HDF5 has not told of: it does when the program's own call ends. */
static struct sw_vol *unsettled;

void sw_vol_settle(void) {
    while (unsettled) {
        struct sw_vol *o = unsettled;
        unsettled = o->older;
        if (sw_h5_usable())
            sw_h5_ask_cause(&o->seen, o->wrote, o->list);
        sw_vol.H5Idec_ref(o->list);
        o->list = 0;
    }
}

/* The list is held: the program may close it before it is asked. */
static void ask_soon(struct sw_vol *o, bool write, hid_t list) {
    if (o->list || sw_vol.H5Iinc_ref(list) < 0)
        return;
    o->list = list;
    o->wrote = write;
    o->older = unsettled;
    unsettled = o;
}

static void count(size_t number, void *objects[], bool write, const hid_t memory_spaces[],
                  const hid_t file_spaces[], hid_t list, int64_t began) {
    /* Several datasets count as a call each, the time with the first. */
    for (size_t i = 0; i < number; i++) {
        struct sw_vol *o = objects[i];
        if (o->seen.dataset &&
            sw_h5_transferred(&o->seen, write, memory_spaces[i], file_spaces[i], list, i ? sw_tick() : began))
            ask_soon(o, write, list);
    }
}

/* The objects below; in few if they are. NULL where memory is out. */
static void **unwrap(size_t number, void *objects[], void *few[FEW]) {
    void **under = number <= FEW ? few : (void **)malloc(number * sizeof *under);
    for (size_t i = 0; under && i < number; i++)
        under[i] = ((struct sw_vol *)objects[i])->under;
    return under;
}

#define TRANSFER(NAME, WRITES, BUFFERS)                                                                      \
    herr_t sw_vol_dataset_##NAME(size_t number, void *objects[], hid_t types[], hid_t memory_spaces[],       \
                                 hid_t file_spaces[], hid_t list, BUFFERS buffers[], void **request) {       \
        void *few[FEW], **under = number ? unwrap(number, objects, few) : NULL;                              \
        if (!under)                                                                                          \
            return -1;                                                                                       \
        const struct sw_vol *o = objects[0];                                                                 \
        sw_vol_settle();                                                                                     \
        int64_t began = sw_h5_usable() ? sw_tick() : 0;                                                      \
        herr_t done = sw_vol.H5VLdataset_##NAME(number, under, o->connector, types, memory_spaces,           \
                                                file_spaces, list, buffers, request);                        \
        sw_vol_wrap_request(o, request);                                                                     \
        if (began && done >= 0)                                                                              \
            count(number, objects, WRITES, memory_spaces, file_spaces, list, began);                         \
        if (under != few)                                                                                    \
            free((void *)under);                                                                             \
        return done;                                                                                         \
    }

TRANSFER(write, true, const void *)
TRANSFER(read, false, void *)

herr_t sw_vol_counted_dataset_specific(void *object, H5VL_dataset_specific_args_t *args, hid_t list,
                                       void **request) {
    struct sw_vol *o = object;
    bool extends = args->op_type == H5VL_DATASET_SET_EXTENT;
    int64_t began = o->seen.dataset ? sw_vol_begin(o) : 0;
    herr_t done = sw_vol_dataset_specific(object, args, list, request);
    if (began && done >= 0 && extends) {
        struct asked asked = {o, list};
        int64_t time = sw_tick() - began;
        sw_h5_dataset_extended(&o->seen, is_later(request) ? -1 : space_of(&asked), time);
    }
    return done;
}

/* Only a connector that knows HDF5's own format can tell where data lie. */
static void ask_place(struct sw_vol *o, hid_t list) {
    uint64_t flags = 0;
    haddr_t address = (haddr_t)-1;
    H5VL_native_dataset_optional_args_t place = {.get_offset = {&address}};
    H5VL_optional_args_t args = {H5VL_NATIVE_DATASET_GET_OFFSET, &place};
    if (sw_h5_dataset_asks_place(&o->seen) &&
        sw_vol.H5VLintrospect_opt_query(o->under, o->connector, H5VL_SUBCLS_DATASET, args.op_type, &flags) >=
            0 &&
        (flags & H5VL_OPT_QUERY_SUPPORTED) &&
        sw_vol.H5VLdataset_optional(o->under, o->connector, &args, list, NULL) >= 0)
        sw_h5_dataset_place(&o->seen, address);
}

herr_t sw_vol_counted_dataset_close(void *object, hid_t list, void **request) {
    struct sw_vol *o = object;
    sw_vol_settle();
    int64_t began = 0;
    if (o->seen.dataset && sw_vol_begin(o)) {
        ask_place(o, list);
        began = sw_tick();
    }
    herr_t done = sw_vol_dataset_close(object, list, request);
    if (done < 0)
        return done;
    if (began)
        sw_vol_count(o, SW_H5_dataset_close, began);
    sw_vol_free(o);
    return done;
}
