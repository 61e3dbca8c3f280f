! Relaxes towards a mean over all ranks; rank 0 prints the sum.
!
! SPDX-License-Identifier: BSD-3-Clause
program main
    use, intrinsic :: iso_fortran_env, only: error_unit
    use mpi_f08
    use ftkit
    implicit none
    type(ftkit_ctx) :: ft
    type(MPI_Comm), target :: comm
    integer, target :: step = 0
    real(8), target :: x(10, 100), total = 0
    integer :: ierr, rank, nranks

    call MPI_Init()
    call ftkit_open(MPI_COMM_WORLD, '', ft)
    call ftkit_bind_comm(ft, comm)
    call MPI_Comm_rank(comm, rank)
    call MPI_Comm_size(comm, nranks)
    x = rank + 0.125_8
    call ftkit_register_replicated(ft, 'step', step)
    call ftkit_register_replicated(ft, 'total', total)
    call ftkit_register(ft, 'x', x)
    do while (ftkit_step(ft, ierr))
        if (ierr < 0) call complain()
        if (ierr == FTKIT_ROLLED_BACK .and. rank == 0) write (error_unit, '(a, i0)') 'continues at step ', step
        if (step >= 100) then
            call ftkit_end(ft)
            cycle
        end if
        call MPI_Allreduce(x(1, 1), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, comm, ierr)
        x = 0.75_8 * x + 0.25_8 * total / nranks
        step = step + 1
    end do
    if (ierr < 0) call complain()
    if (rank == 0) print '(a, f0.16)', 'sum ', total
    call ftkit_close(ft, ierr)
    if (ierr < 0) call complain()
    call MPI_Finalize()

contains

    subroutine complain()
        write (error_unit, '(3a)') ftkit_strerror(ierr), ': ', ftkit_detail(ft)
        call MPI_Abort(MPI_COMM_WORLD, 1)
    end subroutine
end program
