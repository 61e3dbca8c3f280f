! The last of the modules that a scope uses, by the binding that it is compiled for.
!
! SPDX-License-Identifier: BSD-3-Clause
#if defined(USE_F08)
    use mpi_f08
#elif defined(USE_MPI)
    use mpi
#endif
    implicit none
#if defined(USE_MPIFH)
    include 'mpif.h'
#endif
