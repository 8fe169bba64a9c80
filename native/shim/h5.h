/* SPDX-License-Identifier: BSD-3-Clause
 * HDF5 without a link to it, and without its headers: the library serves programs of HDF5 1.10 to 2.x alike,
 * and those that have none. What is declared here has been the same in all of them. Everything is looked up
 * while the program runs; identifiers of property list classes are variables there, not numbers. */
#ifndef STRIPEWISE_H5_H
#define STRIPEWISE_H5_H

#include <sys/types.h>

#include "files.h"
#include "mpi_symbols.h"

typedef int64_t sw_hid;              /* hid_t since 1.10 */
typedef unsigned long long sw_hsize; /* hsize_t, haddr_t */
typedef long long sw_hssize;

#define SW_H5_DEFAULT 0 /* H5P_DEFAULT, H5S_ALL, H5E_DEFAULT */
#define SW_H5_RANK 32   /* H5S_MAX_RANK */
#define SW_H5_UNDEFINED ((sw_hsize) - 1)
enum { SW_H5_WRITABLE = 1, SW_H5_TRUNCATE = 2, SW_H5_EXCLUSIVE = 4 }; /* H5F_ACC_ */
enum { SW_H5_SIMPLE = 1 };                                            /* H5S_class_t */
enum { SW_H5_NONE, SW_H5_POINTS, SW_H5_HYPERSLABS, SW_H5_ALL };       /* H5S_sel_type */
enum { SW_H5_INTEGER = 0, SW_H5_FLOAT = 1 };                          /* H5T_class_t */
enum { SW_H5_FSM_AGGR, SW_H5_PAGE, SW_H5_AGGR, SW_H5_NO_STRATEGY };   /* H5F_fspace_strategy_t */
enum { SW_H5_IS_DATASET = 5 };                                        /* H5I_type_t */
enum { SW_H5_COLLECTIVE = 1 };                                        /* H5FD_mpio_xfer_t */
/* H5Z_filter_t */
enum { SW_H5_FILTER_DEFLATE = 1, SW_H5_FILTER_SZIP = 4, SW_H5_FILTER_SCALEOFFSET = 6 };

typedef int (*sw_h5_handler)(sw_hid, void *);

/* X(result, name, parameters) */
#define SW_H5_FUNCTIONS(X)                                                                                   \
    X(sw_hid, H5Dget_access_plist, (sw_hid))                                                                 \
    X(sw_hid, H5Dget_create_plist, (sw_hid))                                                                 \
    X(sw_hsize, H5Dget_offset, (sw_hid))                                                                     \
    X(sw_hid, H5Dget_space, (sw_hid))                                                                        \
    X(sw_hid, H5Dget_type, (sw_hid))                                                                         \
    X(int, H5Eget_auto2, (sw_hid, sw_h5_handler *, void **))                                                 \
    X(int, H5Eset_auto2, (sw_hid, sw_h5_handler, void *))                                                    \
    X(sw_hid, H5Fget_access_plist, (sw_hid))                                                                 \
    X(sw_hid, H5Fget_create_plist, (sw_hid))                                                                 \
    X(ssize_t, H5Fget_name, (sw_hid, char *, size_t))                                                        \
    X(ssize_t, H5Iget_name, (sw_hid, char *, size_t))                                                        \
    X(int, H5get_libversion, (unsigned *, unsigned *, unsigned *))                                           \
    X(int, H5Pclose, (sw_hid))                                                                               \
    X(sw_hid, H5Pcopy, (sw_hid))                                                                             \
    X(sw_hid, H5Pcreate, (sw_hid))                                                                           \
    X(int, H5Pget_alignment, (sw_hid, sw_hsize *, sw_hsize *))                                               \
    X(int, H5Pget_cache, (sw_hid, int *, size_t *, size_t *, double *))                                      \
    X(int, H5Pget_chunk, (sw_hid, int, sw_hsize *))                                                          \
    X(int, H5Pget_chunk_cache, (sw_hid, size_t *, size_t *, double *))                                       \
    X(sw_hid, H5Pget_driver, (sw_hid))                                                                       \
    X(int, H5Pfill_value_defined, (sw_hid, int *))                                                           \
    X(int, H5Pget_alloc_time, (sw_hid, int *))                                                               \
    X(int, H5Pget_external_count, (sw_hid))                                                                  \
    X(int, H5Pget_fill_time, (sw_hid, int *))                                                                \
    X(int, H5Pget_libver_bounds, (sw_hid, int *, int *))                                                     \
    X(int, H5Pget_filter2, (sw_hid, unsigned, unsigned *, size_t *, unsigned *, size_t, char *, unsigned *)) \
    X(int, H5Pget_layout, (sw_hid))                                                                          \
    X(int, H5Pget_mdc_config, (sw_hid, void *))                                                              \
    X(int, H5Pget_meta_block_size, (sw_hid, sw_hsize *))                                                     \
    X(int, H5Pget_nfilters, (sw_hid))                                                                        \
    X(int, H5Pget_sieve_buf_size, (sw_hid, size_t *))                                                        \
    X(int, H5Pset_alignment, (sw_hid, sw_hsize, sw_hsize))                                                   \
    X(int, H5Pset_cache, (sw_hid, int, size_t, size_t, double))                                              \
    X(int, H5Pset_chunk, (sw_hid, int, const sw_hsize *))                                                    \
    X(int, H5Pset_chunk_cache, (sw_hid, size_t, size_t, double))                                             \
    X(int, H5Pset_deflate, (sw_hid, unsigned))                                                               \
    X(int, H5Pset_fill_time, (sw_hid, int))                                                                  \
    X(int, H5Pset_filter, (sw_hid, int, unsigned, size_t, const unsigned *))                                 \
    X(int, H5Pset_fletcher32, (sw_hid))                                                                      \
    X(int, H5Pset_libver_bounds, (sw_hid, int, int))                                                         \
    X(int, H5Pset_mdc_config, (sw_hid, const void *))                                                        \
    X(int, H5Pset_meta_block_size, (sw_hid, sw_hsize))                                                       \
    X(int, H5Pset_scaleoffset, (sw_hid, int, int))                                                           \
    X(int, H5Pset_shuffle, (sw_hid))                                                                         \
    X(int, H5Pset_szip, (sw_hid, unsigned, unsigned))                                                        \
    X(int, H5Pset_sieve_buf_size, (sw_hid, size_t))                                                          \
    X(int, H5Sclose, (sw_hid))                                                                               \
    X(int, H5Sget_regular_hyperslab, (sw_hid, sw_hsize *, sw_hsize *, sw_hsize *, sw_hsize *))               \
    X(int, H5Sget_select_bounds, (sw_hid, sw_hsize *, sw_hsize *))                                           \
    X(sw_hssize, H5Sget_select_npoints, (sw_hid))                                                            \
    X(int, H5Sget_select_type, (sw_hid))                                                                     \
    X(int, H5Sget_simple_extent_dims, (sw_hid, sw_hsize *, sw_hsize *))                                      \
    X(int, H5Sget_simple_extent_ndims, (sw_hid))                                                             \
    X(int, H5Sget_simple_extent_type, (sw_hid))                                                              \
    X(int, H5Sis_regular_hyperslab, (sw_hid))                                                                \
    X(int, H5Tclose, (sw_hid))                                                                               \
    X(int, H5Tdetect_class, (sw_hid, int))                                                                   \
    X(int, H5Tequal, (sw_hid, sw_hid))                                                                       \
    X(int, H5Tis_variable_str, (sw_hid))                                                                     \
    X(int, H5Tget_class, (sw_hid))                                                                           \
    X(int, H5Tget_order, (sw_hid))                                                                           \
    X(size_t, H5Tget_size, (sw_hid))                                                                         \
    X(int, H5Zfilter_avail, (int))                                                                           \
    X(int, H5Zget_filter_info, (int, unsigned *))

/* Missing in serial libraries, or in the oldest ones: NULL then. hbool_t has been one byte and four. */
#define SW_H5_OPTIONAL(X)                                                                                    \
    X(sw_hid, H5FD_mpio_init, (void))                                                                        \
    X(int, H5Pget_all_coll_metadata_ops, (sw_hid, void *))                                                   \
    X(int, H5Pget_coll_metadata_write, (sw_hid, void *))                                                     \
    X(int, H5Pget_dxpl_mpio, (sw_hid, int *))                                                                \
    X(int, H5Pget_fapl_mpio, (sw_hid, MPI_Comm *, MPI_Info *))                                               \
    X(int, H5Pget_file_space_page_size, (sw_hid, sw_hsize *))                                                \
    X(int, H5Pget_file_space_strategy, (sw_hid, int *, void *, sw_hsize *))                                  \
    X(int, H5Pget_mpio_no_collective_cause, (sw_hid, uint32_t *, uint32_t *))                                \
    X(int, H5Pget_page_buffer_size, (sw_hid, size_t *, unsigned *, unsigned *))                              \
    X(int, H5Pset_all_coll_metadata_ops, (sw_hid, unsigned))                                                 \
    X(int, H5Pset_coll_metadata_write, (sw_hid, unsigned))                                                   \
    X(int, H5Pset_file_space_page_size, (sw_hid, sw_hsize))                                                  \
    X(int, H5Pset_file_space_strategy, (sw_hid, int, unsigned, sw_hsize))                                    \
    X(int, H5Pset_page_buffer_size, (sw_hid, size_t, unsigned, unsigned))

struct sw_h5 {
#define X(result, name, parameters) result(*name) parameters; /* NOLINT(bugprone-macro-parentheses) */
    SW_H5_FUNCTIONS(X)
    SW_H5_OPTIONAL(X)
#undef X
    /* property list classes; filled by H5open */
    const sw_hid *file_access, *file_create, *dataset_access, *dataset_create;
    const sw_hid *mpio; /* the driver, since 2.0; before it is asked of H5FD_mpio_init */
    const sw_hid *native[2], *standard[2][2]; /* reals of 4 and 8 bytes; either byte order */
    unsigned version;                         /* major * 65536 + minor * 256 + release */
};

extern struct sw_h5 sw_h5;

/* Is the runtime active, and HDF5 here of a version it knows? */
bool sw_h5_usable(void);

/* The same, for the functions that are taken the place of: false as well from when HDF5 uses the connector
 * (native/vol), which sees whatever they would see. */
bool sw_h5_ready(void);
void sw_h5_leave_to_connector(void);

/* The function of this name behind this library, wherever HDF5 was loaded from; NULL if there is none. */
void *sw_h5_next(const char *name);

#define SW_H5_RESOLVE(pointer, found, name) SW_RESOLVE_BY(sw_h5_next, pointer, found, name)
#define SW_H5_RESOLVE_OR_FAIL(pointer, found, name)                                                          \
    SW_H5_RESOLVE(pointer, found, name);                                                                     \
    if (!(pointer))                                                                                          \
    return -1

bool sw_h5_is_parallel(sw_hid access);

/* The version of HDF5 here, as MAJOR.MINOR.RELEASE; interned. */
const char *sw_h5_version(void);

/* An open file or dataset of HDF5. */
struct sw_h5_object {
    struct sw_h5_object *next; /* in the table of identifiers, as id */
    sw_hid id;
    struct sw_file *record;     /* held */
    struct sw_dataset *dataset; /* held; NULL for a file */
    uint64_t element_size, elements;
    bool contiguous; /* stored in one piece, whose address is to be asked for */
    bool again;      /* by H5Freopen: not an open of its own */
    int slot;        /* its number in the record; -1: what is done with it is not recorded */
    double accuracy; /* to which the runtime rounds what is written; 0: not at all */
};

struct sw_h5_object *sw_h5_find(sw_hid id);
/* Takes over the caller's hold of record and dataset. NULL (and both let go) if memory is out. */
struct sw_h5_object *sw_h5_add(sw_hid id, struct sw_file *record, struct sw_dataset *dataset);
/* Takes the object out of the table and lets go of it. */
void sw_h5_drop(sw_hid id);
/* Lets go of record and dataset (or NULL). */
void sw_h5_let_go(struct sw_file *record, struct sw_dataset *dataset);

/* The record, held, of the file that an open object is in; NULL if it is not followed. */
struct sw_file *sw_h5_file_of(sw_hid id);

/* Selection, bytes and place of a transfer between memory and a dataset; the call has succeeded, so the
 * dataspaces are good. */
void sw_h5_describe(const struct sw_h5_object *object, sw_hid memory_space, sw_hid file_space,
                    struct sw_transfer *transfer);

/* Counts an operation of HDF5 on the file that an object is in. */
void sw_h5_count(sw_hid id, enum sw_h5_op op, int64_t began);

#endif
