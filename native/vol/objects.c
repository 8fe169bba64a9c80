/* SPDX-License-Identifier: BSD-3-Clause
 * What the connector gives HDF5 in the place of the objects of the one below. */
#include <stdlib.h>

#include "vol.h"

#define MOST_KEPT 16

static hid_t kept[MOST_KEPT];
static int kept_count;

/* HDF5 calls connectors one thread at a time. */
hid_t sw_vol_keep(hid_t connector) {
    for (int i = 0; i < kept_count; i++)
        if (kept[i] == connector)
            return connector;
    sw_vol.H5Iinc_ref(connector);
    if (kept_count < MOST_KEPT)
        kept[kept_count++] = connector;
    return connector;
}

void sw_vol_forget(void) {
    kept_count = 0;
}

struct sw_vol *sw_vol_new(void *under, hid_t connector) {
    struct sw_vol *o = calloc(1, sizeof *o);
    if (o) {
        o->under = under;
        o->connector = connector;
    }
    return o;
}

void sw_vol_wrap_request(const struct sw_vol *o, void **request) {
    if (request && *request)
        *request = sw_vol_new(*request, o->connector);
}

void sw_vol_free(struct sw_vol *o) {
    if (o->seen.record)
        sw_h5_let_go(o->seen.record, o->seen.dataset);
    free(o);
}

hid_t sw_vol_errors_aside(void) {
    return sw_vol.H5Eget_current_stack();
}

void sw_vol_errors_back(hid_t errors) {
    sw_vol.H5Eset_current_stack(errors);
}

struct sw_vol_printing sw_vol_print_nothing(void) {
    struct sw_vol_printing printing = {NULL, NULL};
    sw_vol.H5Eget_auto2(H5E_DEFAULT, &printing.how, &printing.data);
    sw_vol.H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return printing;
}

void sw_vol_print_again(struct sw_vol_printing printing) {
    sw_vol.H5Eset_auto2(H5E_DEFAULT, printing.how, printing.data);
}

int64_t sw_vol_begin(const struct sw_vol *o) {
    return o->seen.record && sw_h5_usable() ? sw_tick() : 0;
}

void sw_vol_count(const struct sw_vol *o, enum sw_h5_op op, int64_t began) {
    sw_file_count_hdf5(&sw_runtime.files, o->seen.record, op, sw_tick() - began);
}

void sw_vol_follow(struct sw_vol *o, const struct sw_vol *of) {
    o->seen.record = of->seen.record;
    if (o->seen.record)
        atomic_fetch_add(&o->seen.record->handles, 1);
}

/* ---- other places ----
 * Callbacks that take objects of the connector in other places than the first, or none at all. */

/* A link may be given NULL for "the same place". */
static void *under(void *object) {
    return object ? ((struct sw_vol *)object)->under : NULL;
}

static const struct sw_vol *either(const void *one, const void *other) {
    return one ? one : other;
}

herr_t sw_vol_link_create(H5VL_link_create_args_t *args, void *object, const H5VL_loc_params_t *loc,
                          hid_t links, hid_t access, hid_t list, void **request) {
    const struct sw_vol *o = object;
    H5VL_link_create_args_t hard, *given = args;
    if (args->op_type == H5VL_LINK_CREATE_HARD) {
        o = either(object, args->args.hard.curr_obj);
        hard.op_type = args->op_type;
        hard.args.hard = args->args.hard;
        hard.args.hard.curr_obj = under(args->args.hard.curr_obj);
        given = &hard;
    }
    herr_t done =
        sw_vol.H5VLlink_create(given, under(object), loc, o->connector, links, access, list, request);
    sw_vol_wrap_request(o, request);
    return done;
}

#define BETWEEN(NAME)                                                                                        \
    herr_t sw_vol_link_##NAME(void *from, const H5VL_loc_params_t *from_loc, void *to,                       \
                              const H5VL_loc_params_t *to_loc, hid_t links, hid_t access, hid_t list,        \
                              void **request) {                                                              \
        const struct sw_vol *o = either(from, to);                                                           \
        herr_t done = sw_vol.H5VLlink_##NAME(under(from), from_loc, under(to), to_loc, o->connector, links,  \
                                             access, list, request);                                         \
        sw_vol_wrap_request(o, request);                                                                     \
        return done;                                                                                         \
    }

BETWEEN(copy)
BETWEEN(move)

herr_t sw_vol_object_copy(void *from, const H5VL_loc_params_t *from_loc, const char *from_name, void *to,
                          const H5VL_loc_params_t *to_loc, const char *to_name, hid_t copying, hid_t links,
                          hid_t list, void **request) {
    const struct sw_vol *o = from;
    herr_t done = sw_vol.H5VLobject_copy(o->under, from_loc, from_name, under(to), to_loc, to_name,
                                         o->connector, copying, links, list, request);
    sw_vol_wrap_request(o, request);
    return done;
}

herr_t sw_vol_group_specific(void *object, H5VL_group_specific_args_t *args, hid_t list, void **request) {
    const struct sw_vol *o = object;
    H5VL_group_specific_args_t mount, *given = args;
    if (args->op_type == H5VL_GROUP_MOUNT) {
        mount.op_type = args->op_type;
        mount.args.mount = args->args.mount;
        mount.args.mount.child_file = under(args->args.mount.child_file);
        given = &mount;
    }
    herr_t done = sw_vol.H5VLgroup_specific(o->under, o->connector, given, list, request);
    sw_vol_wrap_request(o, request);
    return done;
}

herr_t sw_vol_introspect_get_conn_cls(void *object, H5VL_get_conn_lvl_t level,
                                      const struct H5VL_class_t **class) {
    const struct sw_vol *o = object;
    if (level != H5VL_GET_CONN_LVL_CURR)
        return sw_vol.H5VLintrospect_get_conn_cls(o->under, o->connector, level, class);
    *class = &sw_vol_class;
    return 0;
}

herr_t sw_vol_introspect_get_cap_flags(const void *given, uint64_t *flags) {
    const struct sw_vol_info *info = given;
    if (info)
        return sw_vol.H5VLintrospect_get_cap_flags(info->info, info->connector, flags);
    hid_t native = sw_vol.H5VLregister_connector_by_value(H5_VOL_NATIVE, H5P_DEFAULT);
    if (native < 0)
        return -1;
    herr_t done = sw_vol.H5VLintrospect_get_cap_flags(NULL, native, flags);
    sw_vol.H5Idec_ref(native);
    return done;
}
