! All regions with integer handles of mpif.h.
!
! SPDX-License-Identifier: BSD-3-Clause
include 'state.inc'

module callbacks
    use, intrinsic :: iso_c_binding
    use ftkit
    implicit none
    include 'mpif.h'
    private
    public :: halves, set_callback
    integer :: halves = MPI_COMM_NULL
    integer, target :: canary
contains
    integer function rebuild(ctx, comm, arg) result(status)
        type(ftkit_ctx), intent(in) :: ctx
        integer, intent(in) :: comm
        type(c_ptr), intent(in) :: arg
        include 'rebuild.inc'
    end function

    subroutine set_callback(ft)
        type(ftkit_ctx), intent(in) :: ft
        call ftkit_on_repair_integer(ft, rebuild, c_loc(canary))
    end subroutine
end module

program mpifh
    use, intrinsic :: iso_c_binding
    use ftkit
    use state
    use callbacks
    implicit none
    include 'mpif.h'
    type(ftkit_ctx) :: ft
    type(ftkit_info) :: info
    integer, target :: comm, own
    integer :: now
    integer :: half
    character(len=1000) :: result_file
    integer :: ierr, rank, unit, bad = 0, all_bad = 0, total
    include 'loop.inc'
end program
