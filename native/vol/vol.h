/* SPDX-License-Identifier: BSD-3-Clause
 * The pass-through connector: HDF5 since 1.14 loads this library by itself (HDF5_PLUGIN_PATH,
 * HDF5_VOL_CONNECTOR) and hands it every call on files and what is in them, also those that no function can
 * be put in front of. Each call goes on to the connector below; what is counted and set is the shim's
 * (h5_settings.h, h5_datasets.h). */
#ifndef STRIPEWISE_VOL_H
#define STRIPEWISE_VOL_H

#include "h5_datasets.h"
#include "hdf5_vol.h"
#include "runtime.h"

#define SW_VOL_NAME "stripewise"
/* From the range that HDF5 leaves to connectors without a registered number. */
#define SW_VOL_VALUE 473

/* What the connector below has given: a file, a group, a dataset, an attribute, a request ... */
struct sw_vol {
    void *under;
    hid_t connector;              /* kept for good by sw_vol_keep */
    bool later;                   /* a file that may not be open yet: what is asked of it would wait */
    struct sw_tracking *tracking; /* of a file whose phase is measured without MPI_File_close; or NULL */
    bool root;                    /* of such a file, this is rank 0 */
    /* Its record is NULL where nothing is counted, its dataset unless this is one whose transfers are. */
    struct sw_h5_object seen;
    /* A collective transfer of which HDF5 has not told yet how it went. */
    struct sw_vol *older;
    hid_t list; /* held; 0: none */
    bool wrote;
};

/* What the connector of a property list is given: the connector below and what that is given. */
struct sw_vol_info {
    hid_t connector; /* held */
    void *info;
};

/* X(result, name, parameters): beside those of callbacks.def. */
#define SW_VOL_FUNCTIONS(X)                                                                                  \
    X(hid_t, H5Eget_current_stack, (void))                                                                   \
    X(herr_t, H5Eget_auto2, (hid_t, H5E_auto2_t *, void **))                                                 \
    X(herr_t, H5Eset_auto2, (hid_t, H5E_auto2_t, void *))                                                    \
    X(herr_t, H5Eset_current_stack, (hid_t))                                                                 \
    X(int, H5Idec_ref, (hid_t))                                                                              \
    X(int, H5Iinc_ref, (hid_t))                                                                              \
    X(herr_t, H5Pclose, (hid_t))                                                                             \
    X(hid_t, H5Pcopy, (hid_t))                                                                               \
    X(herr_t, H5Pget_vol_info, (hid_t, void **))                                                             \
    X(herr_t, H5Pset_vol, (hid_t, hid_t, const void *))                                                      \
    X(herr_t, H5free_memory, (void *))                                                                       \
    X(void *, H5allocate_memory, (size_t, bool))                                                             \
    X(herr_t, H5VLcmp_connector_cls, (int *, hid_t, hid_t))                                                  \
    X(herr_t, H5VLcmp_connector_info, (int *, hid_t, const void *, const void *))                            \
    X(herr_t, H5VLconnector_info_to_str, (const void *, hid_t, char **))                                     \
    X(herr_t, H5VLconnector_str_to_info, (const char *, hid_t, void **))                                     \
    X(herr_t, H5VLcopy_connector_info, (hid_t, void **, void *))                                             \
    X(herr_t, H5VLfree_connector_info, (hid_t, void *))                                                      \
    X(herr_t, H5VLfree_wrap_ctx, (void *, hid_t))                                                            \
    X(void *, H5VLget_object, (void *, hid_t))                                                               \
    X(herr_t, H5VLget_value, (hid_t, H5VL_class_value_t *))                                                  \
    X(herr_t, H5VLget_wrap_ctx, (void *, hid_t, void **))                                                    \
    X(hid_t, H5VLregister_connector_by_name, (const char *, hid_t))                                          \
    X(hid_t, H5VLregister_connector_by_value, (H5VL_class_value_t, hid_t))                                   \
    X(void *, H5VLunwrap_object, (void *, hid_t))                                                            \
    X(void *, H5VLwrap_object, (void *, H5I_type_t, hid_t, void *))                                          \
    X(herr_t, H5VLoptional, (void *, hid_t, H5VL_optional_args_t *, hid_t, void **))

/* NOLINTBEGIN(bugprone-macro-parentheses): types and names cannot have them */
struct sw_vol_functions {
#define X(result, name, parameters) result(*name) parameters;
    SW_VOL_FUNCTIONS(X)
#undef X
#define GROUP(group)
#define MAKES(group, name, parameters, below, arguments) void *(*H5VL##group##_##name)below;
#define ASKS(group, name, parameters, below, arguments) herr_t(*H5VL##group##_##name) below;
#define TELLS ASKS
#define SPECIAL(result, group, name, parameters, below) result(*H5VL##group##_##name) below;
#define END(group)
#include "callbacks.def"
};

/* Looked up before HDF5 is told of the connector. */
extern struct sw_vol_functions sw_vol;
bool sw_vol_load(void);

/* What only passes on. Written-out callbacks have the same kind of name. */
#define GROUP(group)
#define MAKES(group, name, parameters, below, arguments) void *sw_vol_##group##_##name parameters;
#define ASKS(group, name, parameters, below, arguments) herr_t sw_vol_##group##_##name parameters;
#define TELLS ASKS
#define SPECIAL(result, group, name, parameters, below) result sw_vol_##group##_##name parameters;
#define END(group)
#include "callbacks.def"
/* NOLINTEND(bugprone-macro-parentheses) */

/* As HDF5 is told of it; NULL where HDF5 lacks what it needs. */
const void *stripewise_connector(void);
extern const H5VL_class_t sw_vol_class;

/* An object that the connector has given; NULL (and nothing lost but that) where memory is out. */
struct sw_vol *sw_vol_new(void *under, hid_t connector);
/* The same for a request, if there is one. */
void sw_vol_wrap_request(const struct sw_vol *o, void **request);
void sw_vol_free(struct sw_vol *o);

/* A connector whose objects will be used: it stays to the end of HDF5. */
hid_t sw_vol_keep(hid_t connector);
void sw_vol_forget(void);

/* HDF5's errors, put aside while its functions are called that clear them: they are the program's to read. */
hid_t sw_vol_errors_aside(void);
void sw_vol_errors_back(hid_t errors);

/* HDF5 prints an error where its own function fails, and would do so for the connector's call as well. Not
 * for calls in which the program's functions may be called. */
struct sw_vol_printing {
    H5E_auto2_t how;
    void *data;
};
struct sw_vol_printing sw_vol_print_nothing(void);
void sw_vol_print_again(struct sw_vol_printing printing);

/* The connector below as a property list names it: its info; the native one where it names none. Held; to be
 * given to sw_vol_info_free. NULL where memory is out. */
struct sw_vol_info *sw_vol_info_of(hid_t access);
void *sw_vol_info_copy(const void *info);
herr_t sw_vol_info_cmp(int *order, const void *one, const void *other);
herr_t sw_vol_info_free(void *info);
herr_t sw_vol_info_to_str(const void *info, char **text);
herr_t sw_vol_info_from_str(const char *text, void **info);

/* A copy of the list, for the connector below. */
hid_t sw_vol_list_below(hid_t access, const struct sw_vol_info *info);

/* When it began, or 0 if the object's calls are not counted. */
int64_t sw_vol_begin(const struct sw_vol *o);
void sw_vol_count(const struct sw_vol *o, enum sw_h5_op op, int64_t began);
/* The new object belongs to the file of the other. */
void sw_vol_follow(struct sw_vol *o, const struct sw_vol *of);

/* Asks HDF5 how the collective transfers went of which it has not told. */
void sw_vol_settle(void);

void *sw_vol_counted_dataset_create(void *object, const H5VL_loc_params_t *loc, const char *name, hid_t links,
                                    hid_t type, hid_t space, hid_t creation, hid_t access, hid_t list,
                                    void **request);
void *sw_vol_counted_dataset_open(void *object, const H5VL_loc_params_t *loc, const char *name, hid_t access,
                                  hid_t list, void **request);
void *sw_vol_counted_object_open(void *object, const H5VL_loc_params_t *loc, H5I_type_t *opened, hid_t list,
                                 void **request);
herr_t sw_vol_counted_dataset_specific(void *object, H5VL_dataset_specific_args_t *args, hid_t list,
                                       void **request);
herr_t sw_vol_counted_dataset_close(void *object, hid_t list, void **request);
herr_t sw_vol_counted_file_close(void *object, hid_t list, void **request);

#endif
