! A library that repeats a call until it succeeds, in the body of ftkit_escape(): a failure ends it.
!
! SPDX-License-Identifier: BSD-3-Clause
module left_body
    use, intrinsic :: iso_c_binding
    use mpi_f08
    implicit none
    interface
        integer(c_int) function test_fault(point) bind(c)
            import :: c_int, c_char
            character(kind=c_char), intent(in) :: point(*)
        end function
    end interface
    type(MPI_Comm), target :: comm
    integer, target :: step = 0
    real(8), target :: total = 0
    integer :: rank

contains

    subroutine body(arg) bind(c)
        type(c_ptr), value :: arg
        real(8) :: all
        integer :: failed, ignored
        associate (none => arg) ! the compiler would warn
        end associate
        ignored = test_fault('app.step'//c_null_char)
        do
            call MPI_Allreduce(real(rank + step, 8), all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, &
                comm, failed)
            if (failed == MPI_SUCCESS) exit
        end do
        total = total + all
        step = step + 1
    end subroutine
end module

program left
    use mpi_f08
    use ftkit
    use left_body
    implicit none
    type(ftkit_ctx) :: ft
    integer :: ierr, escapes = 0

    call MPI_Init()
    call ftkit_open(MPI_COMM_WORLD, '', ft)
    call ftkit_bind_comm(ft, comm)
    call MPI_Comm_rank(comm, rank)
    call ftkit_register_replicated(ft, 'step', step)
    call ftkit_register(ft, 'total', total)
    do while (ftkit_step(ft, ierr))
        if (step >= 20) then
            call ftkit_end(ft)
            cycle
        end if
        call ftkit_escape(ft, body, ierr=ierr)
        if (ierr == FTKIT_ESCAPED) escapes = escapes + 1
    end do
    if (rank == 0) print '(a, f0.1, a, i0)', 'total ', total, ', escapes ', escapes
    if (ftkit_fatal(ierr)) error stop
    call ftkit_close(ft)
    call MPI_Finalize()
end program
