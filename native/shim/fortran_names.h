/* SPDX-License-Identifier: BSD-3-Clause
 * Fortran's names for MPI's functions. */
#ifndef STRIPEWISE_FORTRAN_NAMES_H
#define STRIPEWISE_FORTRAN_NAMES_H

#include "call.h"

/* SHAPE(symbol, OP) for each symbol under which compilers and libraries know mpi_NAME: mpif.h and mpi with
 * one underscore or two; mpi_f08 of Open MPI and of MPICH (f08ts: with a descriptor of the buffer); what Open
 * MPI's mpi_f08 calls. Large-count f08 calls reach the C functions (MPICH). */
#ifdef SW_STANDARD_ABI
#define SW_FORTRAN_NAMES(NAME, SHAPE, OP)
#else
#define SW_FORTRAN_NAMES(NAME, SHAPE, OP)                                                                    \
    SHAPE(mpi_##NAME##_, OP)                                                                                 \
    SHAPE(mpi_##NAME##__, OP)                                                                                \
    SHAPE(mpi_##NAME##_f08_, OP)                                                                             \
    SHAPE(mpi_##NAME##_f08ts_, OP)                                                                           \
    SHAPE(ompi_##NAME##_f, OP)
#endif

#ifdef OPEN_MPI
#define SW_COMM_F2C(comm) sw_pmpi.Comm_f2c(comm)
#define SW_INFO_F2C(info) sw_pmpi.Info_f2c(info)
#define SW_INFO_C2F(info) sw_pmpi.Info_c2f(info)
#define SW_TYPE_F2C(type) sw_pmpi.Type_f2c(type)
#else
#define SW_COMM_F2C(comm) ((MPI_Comm)(comm))
#define SW_INFO_F2C(info) ((MPI_Info)(info))
#define SW_INFO_C2F(info) ((MPI_Fint)(info))
#define SW_TYPE_F2C(type) ((MPI_Datatype)(type))
#endif

#endif
