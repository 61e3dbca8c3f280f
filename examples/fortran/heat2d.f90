! heat2d: the heat equation on a rectangle, on any number of ranks, through failures.
!
! SPDX-License-Identifier: BSD-3-Clause
!
! The twin of heat2d.c, with the module mpi_f08: an explicit 5-point scheme on a global
! array of NX rows of NY cells, cut into blocks with a ghost layer of one cell.  It is an
! ordinary MPI program that checks no MPI call.  After a failure these calls return errors,
! and the program computes worthless values until ftkit_checkpoint() restores the last
! committed values.
!
! The calls that make the program survive are in run(), in this order:
!   register the state of the loop, recover,
!   loop { checkpoint; are we done?; exchange; compute; step = step + 1 }.
!
! In Fortran the first index of an array varies fastest, in C and in HDF5 the last one:
! u(j, i) in this program has the same bytes as u[i][j] in C.  ftkit gets the shapes of
! Fortran; in the files the dimensions are in reverse order.  So this program can continue
! from a set of heat2d.c, and heat2d.c from a set of this program, with the same result to
! the last bit.

! ---- The grid --------------------------------------------------------------------------

module heat_grid
    use mpi_f08
    use example, only: dp, int64
    implicit none
    private
    public :: block, layout, advance, gather

    integer, public :: n(2) = [256, 256] ! rows, and cells of a row, of the whole array
    integer, public :: p(2)              ! blocks; ranks beyond p(1)*p(2) have none
    integer, public :: ranks = 0         ! for which the layout was made, 0: none yet
    integer, public :: local(2), first(2) ! this rank's block, and what is before it
    integer :: near(4)                   ! ranks above, below, left, right
    ! (0:local(2) + 1, 0:local(1) + 1); target: ftkit keeps its address
    real(dp), allocatable, target, public :: u(:, :)
    real(dp), allocatable :: next(:, :)
    logical, allocatable :: held(:, :)   ! where the temperature is fixed
    type(MPI_Datatype) :: column         ! of the block without ghost cells

contains

    ! p(1) x p(2) = ranks with the shortest cuts and no empty block.  When the grid is too
    ! small for so many ranks, the last ones get nothing to do.
    subroutine factorize(at_most)
        integer, intent(in) :: at_most
        integer :: size, rows, columns
        real(dp) :: length, best
        best = huge(best)
        do size = at_most, 1, -1
            do rows = 1, size
                columns = size/rows
                length = real(rows, dp)*n(2) + real(columns, dp)*n(1)
                if (rows*columns /= size .or. rows > n(1) .or. columns > n(2)) cycle
                if (length >= best) cycle
                best = length
                p = [rows, columns]
            end do
            if (best < huge(best)) return
        end do
    end subroutine factorize

    ! The block of any rank, computed without a message.
    subroutine block(rank, local, first)
        integer, intent(in) :: rank
        integer, intent(out) :: local(2), first(2)
        integer(int64) :: at(2)
        at = [rank/p(2), mod(rank, p(2))]
        first = int(n*at/p)
        local = int(n*(at + 1)/p) - first
        if (at(1) < p(1)) return
        local = 0
        first = 0
    end subroutine block

    ! Temperature of cell (i, j), from 0, in the beginning.  It stays so where held says: on
    ! the rim, hot on a part of the left edge, and in two cold discs.  A hot disc is left to
    ! itself.
    subroutine beginning(i, j, value, held)
        integer, intent(in) :: i, j
        real(dp), intent(out) :: value
        logical, intent(out) :: held
        real(dp) :: a, b, r
        a = n(1)
        b = n(2)
        r = min(a, b)
        value = 0
        held = .true.
        if (i == 0 .or. j == 0 .or. i == n(1) - 1 .or. j == n(2) - 1) then
            if (j == 0 .and. 4*i >= n(1) .and. 4*i < 3*n(1)) value = 100
        else if (.not. inside(a*0.28_dp, b*0.70_dp, r*0.06_dp) &
            .and. .not. inside(a*0.72_dp, b*0.30_dp, r*0.06_dp)) then
            held = .false.
            if (inside(a*0.5_dp, b*0.5_dp, r*0.2_dp)) value = 100
        end if
    contains
        pure logical function inside(ci, cj, radius)
            real(dp), intent(in) :: ci, cj, radius
            inside = (i - ci)*(i - ci) + (j - cj)*(j - cj) <= radius*radius
        end function inside
    end subroutine beginning

    ! Decompose the grid over the ranks of comm and fill this rank's block with the values
    ! of the beginning.  Local: no other rank has to call it.
    subroutine layout(comm)
        type(MPI_Comm), intent(in) :: comm
        integer :: rank, i, j
        if (ranks > 0) then
            call MPI_Type_free(column)
            deallocate (u, next, held)
        end if
        call MPI_Comm_size(comm, ranks)
        call MPI_Comm_rank(comm, rank)
        call factorize(ranks)
        call block(rank, local, first)
        call find_neighbours(rank)
        allocate (u(0:local(2) + 1, 0:local(1) + 1), source=0.0_dp)
        allocate (next(local(2), local(1)), held(local(2), local(1)))
        call MPI_Type_vector(local(1), 1, local(2) + 2, MPI_DOUBLE_PRECISION, column)
        call MPI_Type_commit(column)
        do i = 1, local(1)
            do j = 1, local(2)
                call beginning(first(1) + i - 1, first(2) + j - 1, u(j, i), held(j, i))
            end do
        end do
    end subroutine layout

    subroutine find_neighbours(rank)
        integer, intent(in) :: rank
        integer :: row, col
        row = rank/p(2)
        col = mod(rank, p(2))
        near = MPI_PROC_NULL
        if (local(1) == 0) return
        if (row > 0) near(1) = rank - p(2)
        if (row < p(1) - 1) near(2) = rank + p(2)
        if (col > 0) near(3) = rank - 1
        if (col < p(2) - 1) near(4) = rank + 1
    end subroutine find_neighbours

    ! One step: exchange the rims of the blocks, then compute all cells.
    subroutine advance(comm)
        type(MPI_Comm), intent(in) :: comm
        real(dp) :: flow
        integer :: i, j
        call exchange(comm, u)
        do i = 1, local(1)
            do j = 1, local(2)
                flow = (u(j, i - 1) + u(j, i + 1)) + (u(j - 1, i) + u(j + 1, i)) - 4*u(j, i)
                next(j, i) = u(j, i)
                if (.not. held(j, i)) next(j, i) = u(j, i) + 0.2_dp*flow
            end do
        end do
        u(1:local(2), 1:local(1)) = next ! u stays where it is: it is registered
    end subroutine advance

    ! Arguments are elements, not sections: the compiler could pass a copy of a section.
    subroutine exchange(comm, u)
        type(MPI_Comm), intent(in) :: comm
        real(dp), intent(inout), asynchronous :: u(0:, 0:)
        type(MPI_Datatype) :: real8
        type(MPI_Request) :: r(8)
        integer :: rows, cols
        rows = local(1)
        cols = local(2)
        real8 = MPI_DOUBLE_PRECISION
        r = MPI_REQUEST_NULL ! a call that fails may leave its request unchanged
        call MPI_Irecv(u(1, 0), cols, real8, near(1), 1, comm, r(1))
        call MPI_Irecv(u(1, rows + 1), cols, real8, near(2), 0, comm, r(2))
        call MPI_Irecv(u(0, 1), 1, column, near(3), 3, comm, r(3))
        call MPI_Irecv(u(cols + 1, 1), 1, column, near(4), 2, comm, r(4))
        call MPI_Isend(u(1, 1), cols, real8, near(1), 0, comm, r(5))
        call MPI_Isend(u(1, rows), cols, real8, near(2), 1, comm, r(6))
        call MPI_Isend(u(1, 1), 1, column, near(3), 2, comm, r(7))
        call MPI_Isend(u(cols, 1), 1, column, near(4), 3, comm, r(8))
        call MPI_Waitall(8, r, MPI_STATUSES_IGNORE)
    end subroutine exchange

    ! Bring the whole array together in whole(n(2), n(1)) on rank 0 (no cells elsewhere).
    subroutine gather(comm, whole)
        type(MPI_Comm), intent(in) :: comm
        real(dp), intent(inout) :: whole(:, :)
        type(MPI_Request) :: request
        type(MPI_Datatype) :: part
        integer :: rank, their_local(2), their_first(2)
        request = MPI_REQUEST_NULL
        if (local(1) > 0) then
            part = piece(local + 2, local, [1, 1])
            call MPI_Isend(u(0, 0), 1, part, 0, 4, comm, request)
            call MPI_Type_free(part)
        end if
        if (size(whole) > 0) then
            do rank = 0, p(1)*p(2) - 1
                call block(rank, their_local, their_first)
                part = piece(n, their_local, their_first)
                call MPI_Recv(whole(1, 1), 1, part, rank, 4, comm, MPI_STATUS_IGNORE)
                call MPI_Type_free(part)
            end do
        end if
        call MPI_Wait(request, MPI_STATUS_IGNORE)
    end subroutine gather

    ! A part of an array; the arguments are rows first
    function piece(shape, size, first) result(type)
        integer, intent(in) :: shape(2), size(2), first(2)
        type(MPI_Datatype) :: type
        call MPI_Type_create_subarray(2, shape(2:1:-1), size(2:1:-1), first(2:1:-1), &
            MPI_ORDER_FORTRAN, MPI_DOUBLE_PRECISION, type)
        call MPI_Type_commit(type)
    end function piece

end module heat_grid

! ---- The program -----------------------------------------------------------------------

module heat_app
    use, intrinsic :: iso_c_binding, only: c_null_ptr, c_ptr
    use mpi_f08
    use ftkit
    use example
    use example_report
    use heat_grid
    implicit none
    private
    public :: options, run

    character(*), parameter, public :: NAME = 'heat2d'
    character(WORD), public :: config = ' '
    character(WORD) :: out = ' ', pidfile = ' '
    integer :: steps = 1000, delay_ms = 0
    ! target: the addresses of these are kept by ftkit until ftkit_close()
    type(MPI_Comm), target :: comm       ! the working ranks, now and after every repair
    integer, target :: step = 0          ! steps done: the state of the loop, beside u
    integer :: rank                      ! this rank; a shrink may change it
    real(dp), allocatable :: whole(:, :) ! the whole array on rank 0

contains

    ! false: an option is wrong, or only help was wanted; code is then the exit code
    logical function options(rank, code)
        integer, intent(in) :: rank
        integer, intent(out) :: code
        logical :: help
        help = .false.
        call option('-h', help)
        call option('-n', n, 1)
        call option('-s', steps, 0)
        call option('-o', out)
        call option('-c', config)
        call option('-d', delay_ms, 0)
        call option('--pidfile', pidfile)
        code = 0
        if (options_wrong(NAME, rank == 0)) code = EXIT_USAGE
        options = code == 0 .and. .not. help
        if (help .and. rank == 0) write (*, '(a)') &
            'usage: heat2d [options]', &
            '  -n NX[xNY]          cells of the grid (256x256)', &
            '  -s STEPS            time steps (1000)', &
            '  -o FILE             write the result: NX rows of NY float64', &
            '  -c CONFIG           configuration file of ftkit', &
            '  -d MS               sleep so long in every step', &
            '  --pidfile PREFIX    write pid and step of rank R to PREFIX.R'
    end function options

    ! Runs at the start and after every repair, before ftkit fills the arrays.  Normally lost
    ! ranks are replaced, and nothing changes.  Otherwise there are fewer ranks, and each gets
    ! another block.
    integer function divide(ctx, comm, unused) result(failed)
        type(ftkit_ctx), intent(in) :: ctx
        type(MPI_Comm), intent(in) :: comm
        type(c_ptr), intent(in) :: unused
        integer :: size
        associate (none => unused) ! the compiler would warn
        end associate
        failed = 0
        call MPI_Comm_size(comm, size)
        call MPI_Comm_rank(comm, rank)
        call note_pid(pidfile, rank, step)
        if (size == ranks) return
        call layout(comm)
        if (allocated(whole)) deallocate (whole)
        allocate (whole(merge(n(2), 0, rank == 0), n(1)))
        ! the order of the dimensions is that of the array in Fortran
        call ftkit_register_array(ctx, 'u', u, global=n(2:1:-1), local=local(2:1:-1), &
            offset=first(2:1:-1), halo=[1, 1], ierr=failed)
    end function divide

    integer function run(ctx) result(code)
        type(ftkit_ctx), intent(in) :: ctx
        integer :: ierr
        code = 1
        ! No communication from here to ftkit_step(): a replacement runs this part alone,
        ! while the other ranks are in their loop.  In a call without ierr an error ends the
        ! program.
        call ftkit_bind_comm(ctx, comm)
        if (divide(ctx, comm, c_null_ptr) /= 0) return
        call ftkit_register_replicated(ctx, 'step', step)
        call ftkit_attribute(ctx, 'u', 'units', 'K') ! for readers of the files
        call ftkit_on_repair(ctx, divide)

        do while (ftkit_step(ctx, ierr)) ! restore, write a set, repair: whatever is due
            call say(NAME, ctx, ierr, step)
            call note_pid(pidfile, rank, step)
            if (step >= steps) then
                ! The last messages come before ftkit_end(), so that a failure during them is
                ! repaired, too.  After the loop whole has the result.
                call gather(comm, whole)
                call ftkit_end(ctx)
                cycle ! if another rank is lost now, this one returns to an earlier step
            end if
            call advance(comm)
            call pause_ms(delay_ms)
            step = step + 1
        end do
        call say(NAME, ctx, ierr, step)
        if (ierr < 0) return
        code = 0
        if (rank == 0 .and. ierr == FTKIT_OK) call result(code) ! after FTKIT_HALT a start continues
    end function run

    subroutine result(code)
        integer, intent(out) :: code
        integer(int64) :: hash(2)
        character(WORD) :: why
        integer :: i, j, unit
        hash = 0
        do i = 1, n(1)
            do j = 1, n(2)
                hash = hash + hash_cell((i - 1_int64)*n(2) + j - 1, whole(j, i))
            end do
        end do
        write (*, '(2a,2(i0,a),2(i0,a),2(i0,a))') NAME, ': ', n(1), ' x ', n(2), &
            ' cells, ', step, ' steps done on ', ranks, ' ranks in ', p(1), ' x ', p(2), ' blocks'
        write (*, '(4a)') NAME, ': hash ', hash_text(hash)
        code = 0
        if (out == ' ') return
        open (newunit=unit, file=out, access='stream', form='unformatted', &
            status='replace', iostat=code, iomsg=why)
        if (code == 0) write (unit, iostat=code, iomsg=why) whole
        if (code == 0) close (unit, iostat=code, iomsg=why)
        if (code /= 0) call complain(NAME, trim(out)//': '//why)
        code = min(abs(code), 1)
    end subroutine result

end module heat_app

program heat2d
    use mpi_f08
    use ftkit
    use example
    use example_report
    use heat_app
    implicit none
    type(ftkit_ctx) :: ctx
    integer :: code, ierr, rank

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    if (options(rank, code)) then
        call ftkit_open(MPI_COMM_WORLD, config, ctx, ierr) ! spares wait in here
        if (ierr == FTKIT_OK) then
            code = run(ctx)
            call ftkit_close(ctx, ierr)
        end if
        code = exit_code(NAME, ierr, code, rank == 0)
    end if
    call MPI_Finalize()
    call leave(code)
end program heat2d
