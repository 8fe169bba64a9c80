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
