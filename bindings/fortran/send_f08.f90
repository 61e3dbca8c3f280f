! A message to nobody, as a program with mpi_f08 sends it: see paths.c.
!
! SPDX-License-Identifier: BSD-3-Clause
subroutine ftkit_f_send_f08() bind(c)
    use mpi_f08, only: MPI_Send, MPI_INTEGER, MPI_PROC_NULL, MPI_COMM_SELF
    implicit none
    integer :: nothing(1)
    nothing = 0
    call MPI_Send(nothing, 0, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_SELF)
end subroutine
