! Procedures of the Fortran examples that print results of ftkit.
!
! SPDX-License-Identifier: BSD-3-Clause
module example_report
    use, intrinsic :: iso_fortran_env, only: output_unit
    use ftkit
    use example
    implicit none
    private
    public :: say, exit_code

contains

    ! Rank 0 says what was restored, and how long a repair took.
    subroutine tell(program, ctx, what, step)
        character(*), intent(in) :: program, what
        type(ftkit_ctx), intent(in) :: ctx
        integer, intent(in) :: step
        type(ftkit_info) :: now
        integer :: ierr
        call ftkit_query(ctx, now, ierr)
        if (ierr < 0 .or. now%rank /= 0) return
        write (*, '(4a,i0,a,i0)', advance='no') program, ': ', what, ' at step ', step, &
            ', set ', now%restored
        if (now%repairs > 0) write (*, '(a,i0,11a)', advance='no') ', repair ', &
            now%repairs, ' took ', ms(now%repair_s), ' ms (detect ', &
            ms(now%repair_detect_s), ', supply ', ms(now%repair_supply_s), ', rebuild ', &
            ms(now%repair_rebuild_s), ', restore ', ms(now%repair_restore_s), ')'
        write (*, '(a)') ''
        flush (output_unit) ! so that a death loses no complete line
    end subroutine tell

    function ms(seconds) result(text)
        real(dp), intent(in) :: seconds
        character(:), allocatable :: text
        character(20) :: wide
        write (wide, '(f20.1)') seconds*1e3_dp
        text = trim(adjustl(wide))
    end function ms

    ! Print the result of a call if it is an error or news.
    subroutine say(program, ctx, code, step)
        character(*), intent(in) :: program
        type(ftkit_ctx), intent(in) :: ctx
        integer, intent(in) :: code, step
        if (code == FTKIT_ROLLED_BACK) call tell(program, ctx, 'continues', step)
        if (code == FTKIT_HALT) call tell(program, ctx, 'halts', step)
        if (code < 0) then ! every rank has the code, ranks with an error of their own a text
            if (ftkit_detail(ctx) /= '') call complain(program, &
                ftkit_strerror(code)//': '//ftkit_detail(ctx))
        end if
    end subroutine say

    ! The exit code of the program.  ierr: from ftkit_open() or ftkit_close(); code: from run().
    ! A wrong configuration is the same on all ranks: one rank prints it.
    integer function exit_code(program, ierr, code, tells)
        character(*), intent(in) :: program
        logical, intent(in) :: tells
        integer, intent(in) :: ierr, code
        exit_code = code
        if (ierr == FTKIT_SPARE_DONE) exit_code = 0
        if (ierr >= 0) return
        exit_code = merge(EXIT_USAGE, 1, ierr == FTKIT_ERR_CONFIG)
        if (code == 0 .and. (tells .or. ierr /= FTKIT_ERR_CONFIG)) &
            call complain(program, ftkit_strerror(ierr)//': '//ftkit_detail())
    end function exit_code

end module example_report
