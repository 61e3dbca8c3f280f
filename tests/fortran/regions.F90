! All regions of module ftkit, with the handles of each binding: each step has other contents,
! and what a checkpoint leaves is compared, byte by byte.
!
!   PROGRAM RESULT: rank 0 writes "OK step S repairs R restored SET" to the file RESULT
!
! SPDX-License-Identifier: BSD-3-Clause
#include "binding.h"
include 'state.inc'

module callbacks
    use, intrinsic :: iso_c_binding
    use ftkit
#include "use.h"
    private
    public :: halves, set_callback
    COMM_T :: halves = MPI_COMM_NULL
    integer, target :: canary
contains
    integer function rebuild(ctx, comm, arg) result(status)
        type(ftkit_ctx), intent(in) :: ctx
        COMM_T, intent(in) :: comm
        type(c_ptr), intent(in) :: arg
        integer :: rank, ierr
        status = merge(0, 1, c_associated(arg, c_loc(canary)))
        if (halves /= MPI_COMM_NULL) call MPI_Comm_free(halves, ierr)
        call MPI_Comm_rank(comm, rank, ierr)
        call MPI_Comm_split(comm, mod(rank, 2), rank, halves, ierr)
        if (ierr == MPI_SUCCESS) call ftkit_track_comm(ctx, halves)
    end function

    subroutine set_callback(ft)
        type(ftkit_ctx), intent(in) :: ft
#ifdef USE_F08
        call ftkit_on_repair(ft, rebuild, c_loc(canary))
#else
        call ftkit_on_repair_integer(ft, rebuild, c_loc(canary))
#endif
    end subroutine
end module

program regions
    use, intrinsic :: iso_c_binding
    use ftkit
    use state
    use callbacks
#include "use.h"
    type(ftkit_ctx) :: ft
    type(ftkit_info) :: info
    COMM_T, target :: comm, own
    COMM_T :: now
    DATATYPE_T :: half
    character(len=1000) :: result_file
    integer :: ierr, rank, unit, bad = 0, all_bad = 0, total
    call get_command_argument(1, result_file)
    call MPI_Init(ierr)
    call ftkit_open(MPI_COMM_WORLD, '  ', ft, ierr)
    if (ierr /= FTKIT_OK) error stop 'open: '//ftkit_strerror(ierr)//': '//ftkit_detail()
    call ftkit_bind_comm(ft, comm)
    call MPI_Comm_rank(comm, rank, ierr)
    call setup(rank)
    call register_all(ft)
    call MPI_Type_create_resized(MPI_DOUBLE_PRECISION, 0_MPI_ADDRESS_KIND, &
        2 * storage_size(1d0) / 8_MPI_ADDRESS_KIND, half, ierr)
    call ftkit_register(ft, 'strided', c_loc(strided), size(strided) / 2, half)
    call MPI_Type_free(half, ierr)
    call ftkit_register_growing(ft, 'list', list, nlist, MPI_INTEGER2, resize, c_loc(object))
    call ftkit_register_comm(ft, 'own', own)
    own = MPI_COMM_SELF
    call set_callback(ft)
    call ftkit_recover(ft)
    do
        call ftkit_checkpoint(ft, ierr)
        if (ierr < 0) error stop 'checkpoint: '//ftkit_strerror(ierr)//': '//ftkit_detail(ft)
        bad = bad + contents(rank, 1)
        call ftkit_comm(ft, now)
        if (now /= comm) bad = bad + 1000
        if (ierr == FTKIT_ROLLED_BACK .and. own /= MPI_COMM_NULL) bad = bad + 2000
        own = MPI_COMM_SELF
        if (step >= 12) then
            call MPI_Reduce(bad, all_bad, 1, MPI_INTEGER, MPI_SUM, 0, comm, ierr)
            call ftkit_finish(ft, ierr)
            if (ierr == FTKIT_ROLLED_BACK) cycle
            if (ierr < 0) error stop 'finish: '//ftkit_strerror(ierr)//': '//ftkit_detail(ft)
            exit
        end if
        ierr = test_fault('app.step'//c_null_char)
        call MPI_Barrier(comm, ierr)
        call MPI_Allreduce(1, total, 1, MPI_INTEGER, MPI_SUM, halves, ierr)
        step = step + 1
        if (contents(rank, 0) /= 0) error stop 'contents'
    end do
    call ftkit_query(ft, info)
    if (rank == 0) then
        open (newunit=unit, file=trim(result_file), action='write')
        write (unit, '(a, 4(i0, a))') trim(merge('OK ', 'BAD', all_bad == 0))//' step ', &
            step, ' repairs ', info%repairs, ' restored ', info%restored, ' bad ', all_bad
        close (unit)
    end if
    if (halves /= MPI_COMM_NULL) call MPI_Comm_free(halves, ierr)
    call ftkit_close(ft)
    call MPI_Finalize(ierr)
end program
