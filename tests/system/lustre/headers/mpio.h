/* In the place of ROMIO's own: the MPI library that it is built for declares MPI's functions on files itself.
 */
#ifndef LUSTRE_TEST_MPIO_H
#define LUSTRE_TEST_MPIO_H

#include <mpi.h>
/* This ROMIO is no part of the MPI library, and must not use its inner functions. */
#undef MPICH

#ifndef MPIO_USES_MPI_REQUEST
#define MPIO_USES_MPI_REQUEST
#define MPIO_Request MPI_Request
#define MPIO_Test MPI_Test
#define MPIO_Wait MPI_Wait
#endif
#ifndef ROMIO_API_PUBLIC
#define ROMIO_API_PUBLIC
#endif

#endif
