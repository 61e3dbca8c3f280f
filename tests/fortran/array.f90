! A global array in three dimensions of different sizes, with halo, and what each element
! says of its place: 10000 i + 100 j + k of a(i, j, k).
!
!   array save|check
!
! save: writes a set.  check: loads it, on any number of ranks, and compares.  Ranks share
! the last dimension.  Also regions whose types a reader of the files looks at.
!
! SPDX-License-Identifier: BSD-3-Clause
program array
    use, intrinsic :: iso_c_binding
    use mpi_f08
    use ftkit
    implicit none
    integer, parameter :: whole(3) = [3, 5, 8], halo(3) = [1, 0, 2]
    type(ftkit_ctx) :: ft
    type(MPI_Comm) :: comm
    integer(4), allocatable, target :: a(:, :, :)
    real(4), allocatable, target :: column(:)
    integer(1), target :: bytes(2) = [1_1, -1_1]
    logical, target :: flags(3) = [.true., .false., .true.]
    complex(8), target :: z(2) = [(1, 2), (3, 4)]
    character(len=4), target :: words(2) = ['abcd', 'efgh']
    character(len=10) :: what
    integer :: rank, size, first, n, ierr, wrong
    integer(c_int64_t) :: set = 0

    call get_command_argument(1, what)
    call MPI_Init()
    call ftkit_open(MPI_COMM_WORLD, '', ft)
    call ftkit_comm(ft, comm)
    call MPI_Comm_rank(comm, rank)
    call MPI_Comm_size(comm, size)
    first = rank * whole(3) / size
    n = (rank + 1) * whole(3) / size - first
    allocate (a(0:whole(1) + 1, whole(2), first - 1:first + n + 2), source=-1)
    allocate (column(first + 1:first + n), source=-1.0)
    call ftkit_register_array(ft, 'a', a, whole, [whole(:2), n], [0, 0, first], halo)
    call ftkit_register_array(ft, 'column', column, [whole(3)], [n], [first])
    call ftkit_register_replicated(ft, 'bytes', bytes)
    call ftkit_register_replicated(ft, 'flags', flags)
    call ftkit_register_replicated(ft, 'z', z)
    call ftkit_register_replicated(ft, 'words', words)
    call ftkit_attribute(ft, 'a', 'units', 'm/s')
    if (what == 'save') call fill()
    call ftkit_recover(ft, set)
    if (what == 'save') then
        call ftkit_request(ft, .true.)
        call ftkit_checkpoint(ft)
        call ftkit_finish(ft, ierr)
    else
        wrong = count(a(1:whole(1), :, first + 1:first + n) /= expected())
        if (any(nint(column) /= [(ierr, ierr=first + 1, first + n)])) wrong = wrong + 1000
        if (set /= 1) wrong = wrong + 10000
        print '(a, i0, a, i0)', trim(merge('OK ', 'BAD', wrong == 0))//' rank ', rank, ' wrong ', wrong
    end if
    call ftkit_close(ft)
    call MPI_Finalize()

contains

    function expected() result(e)
        integer :: e(whole(1), whole(2), n)
        integer :: i, j, k
        do concurrent(i=1:whole(1), j=1:whole(2), k=1:n)
            e(i, j, k) = 10000 * i + 100 * j + first + k
        end do
    end function

    subroutine fill()
        integer :: i
        a(1:whole(1), :, first + 1:first + n) = expected()
        column = [(real(i), i=first + 1, first + n)]
    end subroutine
end program
