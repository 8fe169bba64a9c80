/* SPDX-License-Identifier: BSD-3-Clause
 * What a connector shares with HDF5 since 1.14: version 3 of H5VL_class_t. HDF5's own headers are not needed,
 * as elsewhere in the runtime: a library that is built where there is no HDF5, or an older one, serves newer
 * ones too. With STRIPEWISE_HDF5_HEADERS they are used in place of what is declared here, under the same
 * names, so that a compiler compares the two (tests/integration/test_runtime_connector.py). */
#ifndef STRIPEWISE_HDF5_VOL_H
#define STRIPEWISE_HDF5_VOL_H

#ifdef STRIPEWISE_HDF5_HEADERS
#include <H5PLextern.h>
#include <H5VLconnector.h>
#include <H5VLconnector_passthru.h>
#include <H5VLnative.h>
#include <hdf5.h>
#else

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int64_t hid_t;
typedef int herr_t;
typedef unsigned long long hsize_t, haddr_t;

#define H5P_DEFAULT 0
#define H5E_DEFAULT 0
#define H5VL_VERSION 3
#define H5_VOL_NATIVE 0
#define H5VL_CAP_FLAG_NONE 0
#define H5VL_OPT_QUERY_SUPPORTED 1
#define H5VL_NATIVE_DATASET_GET_OFFSET 9

typedef herr_t (*H5E_auto2_t)(hid_t, void *);
typedef int H5VL_class_value_t;
typedef enum { H5PL_TYPE_ERROR = -1, H5PL_TYPE_VOL = 1 } H5PL_type_t;
typedef enum {
    H5I_BADID = -1,
    H5I_FILE = 1,
    H5I_GROUP,
    H5I_DATATYPE,
    H5I_DATASPACE,
    H5I_DATASET,
    H5I_MAP,
    H5I_ATTR
} H5I_type_t;
typedef enum { H5VL_SUBCLS_DATASET = 4 } H5VL_subclass_t;
typedef enum { H5VL_GET_CONN_LVL_CURR, H5VL_GET_CONN_LVL_TERM } H5VL_get_conn_lvl_t;
typedef enum { H5VL_REQUEST_STATUS_IN_PROGRESS } H5VL_request_status_t;
typedef herr_t (*H5VL_request_notify_t)(void *, H5VL_request_status_t);
typedef struct H5O_token_t H5O_token_t;

typedef enum { H5VL_OBJECT_BY_SELF } H5VL_loc_type_t;
typedef struct {
    H5I_type_t obj_type;
    H5VL_loc_type_t type;
    union {
        struct {
            H5O_token_t *token;
        } loc_by_token;
        struct {
            const char *name;
            int idx_type, order;
            hsize_t n;
            hid_t lapl_id;
        } loc_by_idx;
    } loc_data;
} H5VL_loc_params_t;

typedef struct {
    int op_type;
    void *args;
} H5VL_optional_args_t;

/* What is asked; of the arguments only those that are looked at here. */
typedef enum {
    H5VL_DATASET_GET_DAPL,
    H5VL_DATASET_GET_DCPL,
    H5VL_DATASET_GET_SPACE,
    H5VL_DATASET_GET_TYPE = 5
} H5VL_dataset_get_t;
typedef struct {
    H5VL_dataset_get_t op_type;
    union {
        struct {
            hid_t dapl_id;
        } get_dapl;
        struct {
            hid_t dcpl_id;
        } get_dcpl;
        struct {
            hid_t space_id;
        } get_space;
        struct {
            hid_t type_id;
        } get_type;
    } args;
} H5VL_dataset_get_args_t;

typedef enum { H5VL_DATASET_SET_EXTENT } H5VL_dataset_specific_t;
typedef struct {
    H5VL_dataset_specific_t op_type;
} H5VL_dataset_specific_args_t;

typedef struct {
    struct {
        haddr_t *offset;
    } get_offset;
} H5VL_native_dataset_optional_args_t;

typedef enum { H5VL_FILE_GET_FAPL = 1, H5VL_FILE_GET_FCPL } H5VL_file_get_t;
typedef struct {
    H5VL_file_get_t op_type;
    union {
        struct {
            hid_t fapl_id;
        } get_fapl;
        struct {
            hid_t fcpl_id;
        } get_fcpl;
    } args;
} H5VL_file_get_args_t;

typedef enum {
    H5VL_FILE_FLUSH,
    H5VL_FILE_REOPEN,
    H5VL_FILE_IS_ACCESSIBLE,
    H5VL_FILE_DELETE,
    H5VL_FILE_IS_EQUAL
} H5VL_file_specific_t;
typedef struct {
    H5VL_file_specific_t op_type;
    union {
        struct {
            void **file;
        } reopen;
        struct {
            const char *filename;
            hid_t fapl_id;
            bool *accessible;
        } is_accessible;
        struct {
            const char *filename;
            hid_t fapl_id;
        } del;
        struct {
            void *obj2;
            bool *same_file;
        } is_equal;
    } args;
} H5VL_file_specific_args_t;

typedef enum { H5VL_GROUP_MOUNT } H5VL_group_specific_t;
typedef struct {
    H5VL_group_specific_t op_type;
    union {
        struct {
            const char *name;
            void *child_file;
            hid_t fmpl_id;
        } mount;
    } args;
} H5VL_group_specific_args_t;

typedef enum { H5VL_LINK_CREATE_HARD } H5VL_link_create_t;
typedef struct {
    H5VL_link_create_t op_type;
    union {
        struct {
            void *curr_obj;
            H5VL_loc_params_t curr_loc_params;
        } hard;
    } args;
} H5VL_link_create_args_t;

typedef enum { H5VL_OBJECT_GET_NAME = 1 } H5VL_object_get_t;
typedef struct {
    H5VL_object_get_t op_type;
    union {
        struct {
            size_t buf_size;
            char *buf;
            size_t *name_len;
        } get_name;
    } args;
} H5VL_object_get_args_t;

/* These only pass through. */
typedef struct H5VL_attr_get_args_t H5VL_attr_get_args_t;
typedef struct H5VL_attr_specific_args_t H5VL_attr_specific_args_t;
typedef struct H5VL_datatype_get_args_t H5VL_datatype_get_args_t;
typedef struct H5VL_datatype_specific_args_t H5VL_datatype_specific_args_t;
typedef struct H5VL_group_get_args_t H5VL_group_get_args_t;
typedef struct H5VL_link_get_args_t H5VL_link_get_args_t;
typedef struct H5VL_link_specific_args_t H5VL_link_specific_args_t;
typedef struct H5VL_object_specific_args_t H5VL_object_specific_args_t;
typedef struct H5VL_request_specific_args_t H5VL_request_specific_args_t;
typedef struct H5VL_blob_specific_args_t H5VL_blob_specific_args_t;

/* The class: what describes it, then the callbacks in groups. */
typedef struct H5VL_class_t {
    unsigned version;
    H5VL_class_value_t value;
    const char *name;
    unsigned conn_version;
    uint64_t cap_flags;
    herr_t (*initialize)(hid_t);
    herr_t (*terminate)(void);
    struct {
        size_t size;
        void *(*copy)(const void *);
        herr_t (*cmp)(int *, const void *, const void *);
        herr_t (*free)(void *);
        herr_t (*to_str)(const void *, char **);
        herr_t (*from_str)(const char *, void **);
    } info_cls;
    struct {
        void *(*get_object)(const void *);
        herr_t (*get_wrap_ctx)(const void *, void **);
        void *(*wrap_object)(void *, H5I_type_t, void *);
        void *(*unwrap_object)(void *);
        herr_t (*free_wrap_ctx)(void *);
    } wrap_cls;
/* NOLINTBEGIN(bugprone-macro-parentheses): types and names cannot have them */
#define GROUP(group) struct {
#define MAKES(group, name, parameters, below, arguments) void *(*name)parameters;
#define ASKS(group, name, parameters, below, arguments) herr_t(*name) parameters;
#define TELLS ASKS
#define SPECIAL(result, group, name, parameters, below) result(*name) parameters;
#define END(group)                                                                                           \
    }                                                                                                        \
    group##_cls;
#include "callbacks.def"
    /* NOLINTEND(bugprone-macro-parentheses) */
    herr_t (*optional)(void *, H5VL_optional_args_t *, hid_t, void **);
} H5VL_class_t;

H5PL_type_t H5PLget_plugin_type(void) __attribute__((visibility("default")));
const void *H5PLget_plugin_info(void) __attribute__((visibility("default")));

#endif
#endif
