/* SPDX-License-Identifier: BSD-3-Clause
 * Which connector is below: "under_vol=VALUE;under_info={TEXT}", as other pass-through connectors have it
 * too; nothing means HDF5's own, without a word to it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vol.h"

#define VALUE "under_vol="
#define TEXT "under_info={"

/* Takes over connector and below. */
static struct sw_vol_info *new_info(hid_t connector, void *below) {
    struct sw_vol_info *info = connector >= 0 ? malloc(sizeof *info) : NULL;
    if (info)
        *info = (struct sw_vol_info){connector, below};
    return info;
}

static struct sw_vol_info *native(void) {
    return new_info(sw_vol.H5VLregister_connector_by_value(H5_VOL_NATIVE, H5P_DEFAULT), NULL);
}

struct sw_vol_info *sw_vol_info_of(hid_t access) {
    void *info = NULL;
    if (sw_vol.H5Pget_vol_info(access, &info) >= 0 && info)
        return info;
    return native();
}

void *sw_vol_info_copy(const void *given) {
    const struct sw_vol_info *from = given;
    void *below = NULL;
    if (from->info && sw_vol.H5VLcopy_connector_info(from->connector, &below, from->info) < 0)
        return NULL;
    struct sw_vol_info *info = new_info(from->connector, below);
    if (info)
        sw_vol.H5Iinc_ref(info->connector);
    else if (below)
        sw_vol.H5VLfree_connector_info(from->connector, below);
    return info;
}

herr_t sw_vol_info_cmp(int *order, const void *one, const void *other) {
    const struct sw_vol_info *a = one, *b = other;
    *order = 0;
    if (sw_vol.H5VLcmp_connector_cls(order, a->connector, b->connector) < 0)
        return -1;
    return *order ? 0 : sw_vol.H5VLcmp_connector_info(order, a->connector, a->info, b->info);
}

herr_t sw_vol_info_free(void *given) {
    struct sw_vol_info *info = given;
    hid_t errors = sw_vol_errors_aside();
    if (info->info)
        sw_vol.H5VLfree_connector_info(info->connector, info->info);
    sw_vol.H5Idec_ref(info->connector);
    sw_vol_errors_back(errors);
    free(info);
    return 0;
}

herr_t sw_vol_info_to_str(const void *given, char **text) {
    const struct sw_vol_info *info = given;
    H5VL_class_value_t value = 0;
    char *below = NULL;
    if (sw_vol.H5VLget_value(info->connector, &value) < 0 ||
        sw_vol.H5VLconnector_info_to_str(info->info, info->connector, &below) < 0)
        return -1;
    size_t size = sizeof VALUE + sizeof TEXT + 20 + (below ? strlen(below) : 0);
    *text = sw_vol.H5allocate_memory(size, false);
    if (*text)
        snprintf(*text, size, VALUE "%d;" TEXT "%s}", value, below ? below : "");
    if (below)
        sw_vol.H5free_memory(below);
    return *text ? 0 : -1;
}

/* By its number, or its name. */
static hid_t connector_named(const char *word, size_t length) {
    char name[256], *end;
    if (!length || length >= sizeof name)
        return -1;
    memcpy(name, word, length);
    name[length] = '\0';
    long value = strtol(name, &end, 10);
    return *end ? sw_vol.H5VLregister_connector_by_name(name, H5P_DEFAULT)
                : sw_vol.H5VLregister_connector_by_value((H5VL_class_value_t)value, H5P_DEFAULT);
}

herr_t sw_vol_info_from_str(const char *text, void **info) {
    *info = NULL;
    if (!text || !*text) {
        *info = native();
        return *info ? 0 : -1;
    }
    if (strncmp(text, VALUE, sizeof VALUE - 1) != 0)
        return -1;
    const char *word = text + sizeof VALUE - 1;
    size_t length = strcspn(word, ";");
    hid_t connector = connector_named(word, length);
    if (connector < 0)
        return -1;
    const char *begin = strstr(word + length, TEXT), *end = strrchr(word + length, '}');
    void *below = NULL;
    herr_t done = 0;
    if (begin && end && end > begin + sizeof TEXT - 1) {
        char *inner = strndup(begin + sizeof TEXT - 1, (size_t)(end - begin) - (sizeof TEXT - 1));
        done = inner ? sw_vol.H5VLconnector_str_to_info(inner, connector, &below) : -1;
        free(inner);
    }
    *info = done < 0 ? NULL : new_info(connector, below);
    if (*info)
        return 0;
    if (below)
        sw_vol.H5VLfree_connector_info(connector, below);
    sw_vol.H5Idec_ref(connector);
    return -1;
}

hid_t sw_vol_list_below(hid_t access, const struct sw_vol_info *info) {
    hid_t list = sw_vol.H5Pcopy(access);
    if (list >= 0)
        sw_vol.H5Pset_vol(list, info->connector, info->info);
    return list;
}
