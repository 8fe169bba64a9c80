/* SPDX-License-Identifier: BSD-3-Clause
 * Callbacks that take objects of the connector in other places than the first, or none at all. */
#include "vol.h"

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
