! A message to nobody, as a program with mpif.h sends it: see paths.c.
!
! SPDX-License-Identifier: BSD-3-Clause
subroutine ftkit_f_send_mpifh() bind(c)
    implicit none
    include 'mpif.h'
    external :: MPI_Send
    integer :: nothing(1), ierr
    nothing = 0
    call MPI_Send(nothing, 0, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_SELF, ierr)
end subroutine
