/* Stands between a Fortran program and libftkit_mpi, as the MPI's own library does when it comes
 * first: messages go past the log.  MPIFH or F08: which of them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>

#define ARGS                                                                                       \
    void *buf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *dest, MPI_Fint *tag, MPI_Fint *comm,     \
        MPI_Fint *ierr

#ifdef MPIFH
#define SEND mpi_send_
#define PSEND pmpi_send_
#else
#define SEND mpi_send_f08_
#define PSEND pmpi_send_f08_
#endif

void PSEND(ARGS);
void SEND(ARGS);
void SEND(ARGS)
{
    PSEND(buf, count, type, dest, tag, comm, ierr);
}
