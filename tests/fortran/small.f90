! The least that a program does: open, register, recover, checkpoint, finish, close.
!
! SPDX-License-Identifier: BSD-3-Clause
program small
    use mpi_f08
    use ftkit
    implicit none
    type(ftkit_ctx) :: ft
    type(MPI_Comm), target :: comm
    integer, target :: step = 0
    real(8), allocatable, target :: x(:, :)
    real(8) :: total
    integer :: ierr, rank

    call MPI_Init()
    call ftkit_open(MPI_COMM_WORLD, '', ft)
    call ftkit_bind_comm(ft, comm)
    call MPI_Comm_rank(comm, rank)
    allocate (x(10, 20), source=0.0_8)
    call ftkit_register_replicated(ft, 'step', step)
    call ftkit_register(ft, 'x', x)
    call ftkit_recover(ft)
    do
        call ftkit_checkpoint(ft)
        if (step >= 20) then
            call ftkit_finish(ft, ierr)
            if (ierr == FTKIT_ROLLED_BACK) cycle
            exit
        end if
        call MPI_Allreduce(sum(x), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, comm, ierr)
        x = x + rank + total / 1e3
        step = step + 1
    end do
    if (rank == 0) print *, 'total', total
    call ftkit_close(ft)
    call MPI_Finalize()
end program
