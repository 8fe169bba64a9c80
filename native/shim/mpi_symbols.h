/* SPDX-License-Identifier: BSD-3-Clause
 * MPI without a link to it. The library is preloaded into every program of a job, also into those that know
 * no MPI, so each MPI symbol is looked up while the program runs: functions through sw_next (the next library
 * in the chain: Darshan, then MPI) and through the table sw_pmpi (MPI itself), Open MPI's predefined handles
 * through sw_predefined. */
#ifndef STRIPEWISE_MPI_SYMBOLS_H
#define STRIPEWISE_MPI_SYMBOLS_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>

/* ---- libraries ----
 * The program's libraries, which the runtime is not linked to: where their functions and objects are. * */

/* A library, known by a function that no other has. */
struct sw_library {
    const char *mark;
    _Atomic(void *) handle; /* of one that came by dlopen; filled in when it is needed */
};

/* The function behind ours; NULL if there is none. */
void *sw_library_function(struct sw_library *library, const char *name);

/* A variable or constant. These are sought from the program downward: where the program refers to one itself,
 * a copy relocation has moved it into the program, and the library's own is never used. */
void *sw_library_object(struct sw_library *library, const char *name);

#ifdef OPEN_MPI
/* mpi.h makes handles such as MPI_COMM_WORLD addresses of libmpi's data, which would bind the library to
 * libmpi. */
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) ((type)sw_predefined(#global))
#define SW_MPI_ABI "openmpi"
#define SW_DEFAULT_IO(library) "unknown"
#elif defined(MPICH_VERSION) || defined(MPICH) || defined(MVAPICH2_VERSION) || defined(I_MPI_VERSION)
#define SW_MPI_ABI "mpich"
#define SW_DEFAULT_IO(library) "romio"
#elif defined(MPI_ABI_VERSION)
/* mpi.h of the standard ABI (MPI 5), which several libraries have. It declares nothing for Fortran: Fortran's
 * own library calls the C functions. MPICH's has ROMIO. */
#define SW_STANDARD_ABI
#define SW_MPI_ABI "standard"
#define SW_DEFAULT_IO(library) (strncmp(library, "MPICH", 5) == 0 ? "romio" : "unknown")
#else
#define SW_MPI_ABI "other"
#define SW_DEFAULT_IO(library) "unknown"
#endif

#define SW_EXPORT __attribute__((visibility("default")))

/* The function of this name behind this library, or NULL. */
void *sw_next(const char *name);

/* Declares pointer with what found, a static _Atomic, holds. That is filled once; the search is repeated
 * while it fails. Threads come here together, and gcc loads an atomic pointer like any other where it is
 * called. */
#define SW_RESOLVE_BY(find, pointer, found, name)                                                            \
    /* NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared takes none */                     \
    __typeof__(atomic_load(&(found))) pointer = atomic_load_explicit(&(found), memory_order_relaxed);        \
    if (!(pointer)) {                                                                                        \
        (pointer) = (__typeof__(pointer))find(name);                                                         \
        atomic_store_explicit(&(found), pointer, memory_order_relaxed);                                      \
    }
#define SW_RESOLVE(pointer, found, name) SW_RESOLVE_BY(sw_next, pointer, found, name)

/* The same; where such a function does not exist, the calling function returns an error. */
#define SW_RESOLVE_OR_FAIL(pointer, found, name)                                                             \
    SW_RESOLVE(pointer, found, name);                                                                        \
    if (!(pointer))                                                                                          \
    return MPI_ERR_INTERN

/* The address of a global object of libmpi; NULL while there is none. */
void *sw_predefined(const char *name);

/* clang-format off */
#define SW_PMPI_FUNCTIONS(X)                                                                                 \
    X(Allreduce)                                                                                             \
    X(Barrier)                                                                                               \
    X(Bcast) X(Comm_create_group) X(Comm_dup) X(Comm_free) X(Comm_get_parent) X(Comm_group) X(Comm_rank) X(Comm_set_errhandler)   \
        X(Comm_size) X(Comm_split) X(Comm_split_type) X(Comm_test_inter) X(Errhandler_free) X(Error_class)   \
            X(File_get_errhandler) X(File_get_group) X(File_get_info) X(File_get_position) X(File_get_position_shared)             \
                X(File_set_errhandler) X(File_set_info) X(File_sync) X(Gather) X(Get_library_version) X(Get_processor_name) X(Group_free)  \
                    X(Group_translate_ranks) X(Info_create) X(Info_dup) X(Info_free) X(Info_get)             \
                        X(Info_get_nkeys) X(Info_get_nthkey) X(Info_set) X(Op_create) X(Query_thread) X(Recv) X(Reduce) X(Send) X(Type_commit) X(Type_contiguous)           \
                            X(Type_create_keyval) X(Type_free) X(Type_get_attr) X(Type_set_attr) X(Type_get_contents) X(Type_get_envelope) X(Type_get_extent_x)      \
                                X(Type_get_true_extent_x) X(Type_size_x)
/* clang-format on */

#ifdef OPEN_MPI /* macros elsewhere: handles are integers there */
#define SW_PMPI_CONVERSIONS(X) X(File_c2f) X(File_f2c) X(Comm_f2c) X(Info_c2f) X(Info_f2c) X(Type_f2c)
#elif defined(SW_STANDARD_ABI)
#define SW_PMPI_CONVERSIONS(X)
#else
#define SW_PMPI_CONVERSIONS(X) X(File_c2f) X(File_f2c)
#endif

struct sw_pmpi {
#define X(name) __typeof__(&PMPI_##name) name; /* NOLINT(bugprone-macro-parentheses) */
    SW_PMPI_FUNCTIONS(X)
    SW_PMPI_CONVERSIONS(X)
#undef X
};

extern struct sw_pmpi sw_pmpi;

/* Datatypes whose size is known. Filled by sw_pmpi_load. */
#define SW_KNOWN_TYPES 6
extern struct sw_known_type {
    MPI_Datatype datatype;
    MPI_Count size;
} sw_known_types[SW_KNOWN_TYPES];

/* Fills sw_pmpi; false if any of it is missing. */
bool sw_pmpi_load(void);

#endif
