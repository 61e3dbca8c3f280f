! All regions with the handles of mpi_f08.
!
! SPDX-License-Identifier: BSD-3-Clause
include 'state.inc'

module callbacks
    use, intrinsic :: iso_c_binding
    use mpi_f08
    use ftkit
    implicit none
    type(MPI_Comm) :: halves = MPI_COMM_NULL
    integer, target :: canary
contains
    integer function rebuild(ctx, comm, arg) result(status)
        type(ftkit_ctx), intent(in) :: ctx
        type(MPI_Comm), intent(in) :: comm
        type(c_ptr), intent(in) :: arg
        include 'rebuild.inc'
    end function

    subroutine set_callback(ft)
        type(ftkit_ctx), intent(in) :: ft
        call ftkit_on_repair(ft, rebuild, c_loc(canary))
    end subroutine
end module

program f08
    use, intrinsic :: iso_c_binding
    use mpi_f08
    use ftkit
    use state
    use callbacks
    implicit none
    type(ftkit_ctx) :: ft
    type(ftkit_info) :: info
    type(MPI_Comm), target :: comm, own
    type(MPI_Comm) :: now
    type(MPI_Datatype) :: half
    character(len=1000) :: result_file
    integer :: ierr, rank, unit, bad = 0, all_bad = 0, total
    include 'loop.inc'
end program
