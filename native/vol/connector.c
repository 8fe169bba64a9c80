/* SPDX-License-Identifier: BSD-3-Clause
 * The connector as HDF5 is told of it, and the callbacks that only count besides. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "vol.h"

/* ---- groups and attributes ---- */

/* NOLINTBEGIN(bugprone-macro-parentheses): types and names cannot have them */
#define COUNTED_MAKE(GROUP, NAME, OP, PARAMETERS, ...)                                                       \
    static void *GROUP##_##NAME PARAMETERS {                                                                 \
        int64_t began = sw_vol_begin(object);                                                                \
        struct sw_vol *made = sw_vol_##GROUP##_##NAME(__VA_ARGS__);                                          \
        if (made && began) {                                                                                 \
            sw_vol_follow(made, object);                                                                     \
            sw_vol_count(object, SW_H5_##OP, began);                                                         \
        }                                                                                                    \
        return made;                                                                                         \
    }

#define COUNTED(GROUP, NAME, OP, PARAMETERS, ...)                                                            \
    static herr_t GROUP##_##NAME PARAMETERS {                                                                \
        int64_t began = sw_vol_begin(object);                                                                \
        herr_t done = sw_vol_##GROUP##_##NAME(__VA_ARGS__);                                                  \
        if (done >= 0 && began)                                                                              \
            sw_vol_count(object, SW_H5_##OP, began);                                                         \
        return done;                                                                                         \
    }

#define CLOSES(GROUP)                                                                                        \
    static herr_t GROUP##_close(void *object, hid_t list, void **request) {                                  \
        herr_t done = sw_vol_##GROUP##_close(object, list, request);                                         \
        if (done >= 0)                                                                                       \
            sw_vol_free(object);                                                                             \
        return done;                                                                                         \
    }

/* NOLINTEND(bugprone-macro-parentheses) */

COUNTED_MAKE(group, create, group_create,
             (void *object, const H5VL_loc_params_t *loc, const char *name, hid_t links, hid_t creation,
              hid_t access, hid_t list, void **request),
             object, loc, name, links, creation, access, list, request)
COUNTED_MAKE(group, open, group_open,
             (void *object, const H5VL_loc_params_t *loc, const char *name, hid_t access, hid_t list,
              void **request),
             object, loc, name, access, list, request)
COUNTED_MAKE(attr, create, attribute_create,
             (void *object, const H5VL_loc_params_t *loc, const char *name, hid_t type, hid_t space,
              hid_t creation, hid_t access, hid_t list, void **request),
             object, loc, name, type, space, creation, access, list, request)
COUNTED_MAKE(attr, open, attribute_open,
             (void *object, const H5VL_loc_params_t *loc, const char *name, hid_t access, hid_t list,
              void **request),
             object, loc, name, access, list, request)
COUNTED(attr, write, attribute_write,
        (void *object, hid_t type, const void *buffer, hid_t list, void **request), object, type, buffer,
        list, request)
COUNTED(attr, read, attribute_read, (void *object, hid_t type, void *buffer, hid_t list, void **request),
        object, type, buffer, list, request)
CLOSES(attr)
CLOSES(group)
CLOSES(datatype)

static herr_t request_free(void *object) {
    herr_t done = sw_vol_request_free(object);
    if (done >= 0)
        sw_vol_free(object);
    return done;
}

static herr_t optional(void *object, H5VL_optional_args_t *args, hid_t list, void **request) {
    const struct sw_vol *o = object;
    herr_t done = sw_vol.H5VLoptional(o->under, o->connector, args, list, request);
    sw_vol_wrap_request(o, request);
    return done;
}

/* ---- objects that HDF5 makes by itself ---- */

struct context {
    hid_t connector;
    void *below;
    struct sw_file *record; /* held; NULL: not counted */
};

/* One is needed for every call: the last is kept for the next. */
static struct context *spare;

static void *get_object(const void *object) {
    const struct sw_vol *o = object;
    return sw_vol.H5VLget_object(o->under, o->connector);
}

static herr_t get_wrap_ctx(const void *object, void **given) {
    const struct sw_vol *o = object;
    struct context *context = __atomic_exchange_n(&spare, NULL, __ATOMIC_ACQ_REL);
    if (!context)
        context = malloc(sizeof *context);
    if (!context)
        return -1;
    *context = (struct context){o->connector, NULL, o->seen.record};
    if (context->record)
        atomic_fetch_add(&context->record->handles, 1);
    sw_vol.H5VLget_wrap_ctx(o->under, o->connector, &context->below);
    *given = context;
    return 0;
}

static void *wrap_object(void *below, H5I_type_t type, void *given) {
    const struct context *context = given;
    void *under = sw_vol.H5VLwrap_object(below, type, context->connector, context->below);
    struct sw_vol *o = under ? sw_vol_new(under, context->connector) : NULL;
    if (o && context->record) {
        o->seen.record = context->record;
        atomic_fetch_add(&o->seen.record->handles, 1);
    }
    return o;
}

static void *unwrap_object(void *object) {
    struct sw_vol *o = object;
    void *under = sw_vol.H5VLunwrap_object(o->under, o->connector);
    if (under)
        sw_vol_free(o);
    return under;
}

static herr_t free_wrap_ctx(void *given) {
    struct context *context = given;
    if (context->below) {
        hid_t errors = sw_vol_errors_aside();
        sw_vol.H5VLfree_wrap_ctx(context->below, context->connector);
        sw_vol_errors_back(errors);
    }
    if (context->record)
        sw_files_put(context->record);
    free(__atomic_exchange_n(&spare, context, __ATOMIC_ACQ_REL));
    return 0;
}

/* ---- the class ---- */

static herr_t initialize(hid_t list) {
    (void)list;
    sw_h5_leave_to_connector();
    return 0;
}

static herr_t terminate(void) {
    sw_vol_forget();
    return 0;
}

const H5VL_class_t sw_vol_class = {
    .version = H5VL_VERSION,
    .value = SW_VOL_VALUE,
    .name = SW_VOL_NAME,
    .conn_version = 1,
    .cap_flags = H5VL_CAP_FLAG_NONE, /* those of the connector below are answered */
    .initialize = initialize,
    .terminate = terminate,
    .info_cls = {sizeof(struct sw_vol_info), sw_vol_info_copy, sw_vol_info_cmp, sw_vol_info_free,
                 sw_vol_info_to_str, sw_vol_info_from_str},
    .wrap_cls = {get_object, get_wrap_ctx, wrap_object, unwrap_object, free_wrap_ctx},
    .attr_cls = {attr_create, attr_open, attr_read, attr_write, sw_vol_attr_get, sw_vol_attr_specific,
                 sw_vol_attr_optional, attr_close},
    .dataset_cls = {sw_vol_counted_dataset_create, sw_vol_counted_dataset_open, sw_vol_dataset_read,
                    sw_vol_dataset_write, sw_vol_dataset_get, sw_vol_counted_dataset_specific,
                    sw_vol_dataset_optional, sw_vol_counted_dataset_close},
    .datatype_cls = {sw_vol_datatype_commit, sw_vol_datatype_open, sw_vol_datatype_get,
                     sw_vol_datatype_specific, sw_vol_datatype_optional, datatype_close},
    .file_cls = {sw_vol_file_create, sw_vol_file_open, sw_vol_file_get, sw_vol_file_specific,
                 sw_vol_file_optional, sw_vol_counted_file_close},
    .group_cls = {group_create, group_open, sw_vol_group_get, sw_vol_group_specific, sw_vol_group_optional,
                  group_close},
    .link_cls = {sw_vol_link_create, sw_vol_link_copy, sw_vol_link_move, sw_vol_link_get,
                 sw_vol_link_specific, sw_vol_link_optional},
    .object_cls = {sw_vol_counted_object_open, sw_vol_object_copy, sw_vol_object_get, sw_vol_object_specific,
                   sw_vol_object_optional},
    .introspect_cls = {sw_vol_introspect_get_conn_cls, sw_vol_introspect_get_cap_flags,
                       sw_vol_introspect_opt_query},
    .request_cls = {sw_vol_request_wait, sw_vol_request_notify, sw_vol_request_cancel,
                    sw_vol_request_specific, sw_vol_request_optional, request_free},
    .blob_cls = {sw_vol_blob_put, sw_vol_blob_get, sw_vol_blob_specific, sw_vol_blob_optional},
    .token_cls = {sw_vol_token_cmp, sw_vol_token_to_str, sw_vol_token_from_str},
    .optional = optional,
};

SW_EXPORT H5PL_type_t H5PLget_plugin_type(void) {
    return H5PL_TYPE_VOL;
}

SW_EXPORT const void *stripewise_connector(void) {
    return sw_vol_load() ? &sw_vol_class : NULL;
}

/* Where another copy of this library is preloaded, that one is the connector: it has the records. NULL: HDF5
 * looks for another. */
SW_EXPORT const void *H5PLget_plugin_info(void) {
    const void *(*first)(void) = NULL;
    *(void **)&first = dlsym(RTLD_DEFAULT, "stripewise_connector");
    return first ? first() : stripewise_connector();
}
