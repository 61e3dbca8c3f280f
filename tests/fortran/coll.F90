! Collectives: every step does one, now blocking, now non-blocking, now persistent, on another
! communicator, with another root and another length: see calls.F90.
!
! SPDX-License-Identifier: BSD-3-Clause
#include "binding.h"
module coll
    use foreign
    implicit none
    private
    public :: coll_begin, coll_step, coll_end, coll_count

    integer, parameter :: coll_count = 40, first_reducing = 17, first_neighbouring = 35
    integer, parameter :: lens(0:4) = [1, 7, 64, 65, 600]
    integer, parameter :: room = 6100
    integer(int64), parameter :: prime = 2147483647_int64
    integer, parameter :: world = 1, across = 2, backwards = 3, most = 4, ring = 5, grid = 6, &
        graph = 7, star = 8, made = 8

    real(real64), asynchronous :: a(room), b(room) ! what goes in, what comes out
    integer :: used                                ! of b
    COMM_T :: comms(made), comm_of
    integer :: rank, size, root, len, form
    logical :: logs
    integer, asynchronous :: counts(ranks), displs(ranks), from(ranks), fdispls(ranks), &
        fbytes(ranks)
    integer(MPI_ADDRESS_KIND), asynchronous :: far(ranks), ffar(ranks)
    DATATYPE_T, asynchronous :: types(ranks)
    integer :: n_in, n_out, from_of(ranks), place_of(ranks) ! of neighbours
    REQUEST_T :: kept(3)
    real(real64), asynchronous :: kept_in(ranks), kept_out(ranks, 3)
    DATATYPE_T :: pair
    OP_T :: composition
    integer(int64), asynchronous :: pairs(2, 600, 2)
    real(real64), asynchronous :: places(2, 20, 2)
    real, asynchronous :: singles(2, 20, 2)
    integer, asynchronous :: integers(2, 20, 2)
    complex(real64), asynchronous :: z(20, 2)
    complex, asynchronous :: c(20, 2)
    logical, asynchronous :: flags(20, 3)

contains

    ! ---- What must come out -------------------------------------------------------------

    real(real64) function value(r, i)
        integer, intent(in) :: r, i
        value = mod(r*1009 + step*31 + i*7, 1000)
    end function

    !> b(at + 1:at + n) is what rank r has behind a(off).
    subroutine expect(at, n, r, off)
        integer, intent(in) :: at, n, r, off
        integer :: i
        do i = 1, n
            if (b(at + i) /= value(r, off + i)) then
                call check(.false., 'what a collective has moved')
                return
            end if
        end do
    end subroutine

    !> b has n items of each rank: those that are meant for this one.
    subroutine expect_column(n)
        integer, intent(in) :: n
        integer :: r
        do r = 0, size - 1
            call expect(r*n, n, r, rank*n)
        end do
    end subroutine

    !> b(:n) is the sum of what the first m ranks have behind a(off).
    subroutine expect_sums(n, m, off)
        integer, intent(in) :: n, m, off
        integer :: i, r
        real(real64) :: total
        do i = 1, n
            total = 0
            do r = 0, m - 1
                total = total + value(r, off + i)
            end do
            if (b(i) /= total) then
                call check(.false., 'a sum')
                return
            end if
        end do
    end subroutine

    integer(int64) function part(r, i)
        integer, intent(in) :: r, i
        part = 1 + mod(r*7919_int64 + step*104729_int64 + i*1299709_int64, prime - 1)
    end function

    !> Of the first m ranks.
    subroutine expect_composed(n, m)
        integer, intent(in) :: n, m
        integer(int64) :: f(2)
        integer :: i, r
        do i = 1, n
            f = [part(0, 2*i - 1), part(0, 2*i)]
            do r = 1, m - 1
                f(2) = mod(part(r, 2*i - 1)*f(2) + part(r, 2*i), prime)
                f(1) = mod(part(r, 2*i - 1)*f(1), prime)
            end do
            call check(all(pairs(:, i, 2) == f), 'an operation of the program')
            b(2*i - 1:2*i) = real(pairs(:, i, 2), real64)
        end do
        used = 2*n
    end subroutine

    subroutine expect_places(m)
        integer, intent(in) :: m
        integer :: i, r, best
        do i = 1, 20
            best = 0
            do r = 1, m - 1
                if (mod(r*5 + i*3 + step, 7) > mod(best*5 + i*3 + step, 7)) best = r
            end do
            call check(all(places(:, i, 2) == [mod(best*5 + i*3 + step, 7), best]), 'MPI_MAXLOC')
        end do
        b(:40) = reshape(places(:, :, 2), [40])
        used = 40
    end subroutine

    !> Between two ranks of a collective with different counts; now and then nothing.
    integer function between(p, q)
        integer, intent(in) :: p, q
        between = len*mod(p + 2*q, 3)/2
    end function

    !> Where what p has for q begins.
    integer function at_of(p, q)
        integer, intent(in) :: p, q
        integer :: r
        at_of = 0
        do r = 0, q - 1
            at_of = at_of + between(p, r)
        end do
    end function

    subroutine lay_out()
        integer :: r
        used = 0
        do r = 0, size - 1
            counts(r + 1) = between(rank, r)
            displs(r + 1) = at_of(rank, r)
            from(r + 1) = between(r, rank)
            fdispls(r + 1) = used
            used = used + from(r + 1)
        end do
    end subroutine

    ! ---- What moves data -----------------------------------------------------------------

    subroutine moving(which)
        integer, intent(in) :: which
        REQUEST_T :: q
        integer :: r
        select case (which)
        case (0) ! barrier
#define CALL1 MPI_Barrier
#define CALL2 MPI_Ibarrier
#define CALL3 MPI_Barrier_init
#define ARGS comm_of
#include "form.inc"
        case (1) ! bcast
            if (rank == root) b(:len) = a(:len)
            used = len
#define CALL1 MPI_Bcast
#define CALL2 MPI_Ibcast
#define CALL3 MPI_Bcast_init
#define ARGS b, len, MPI_DOUBLE_PRECISION, root, comm_of
#include "form.inc"
            call expect(0, len, root, 0)
        case (2) ! gather
            used = merge(len*size, 0, rank == root)
#define CALL1 MPI_Gather
#define CALL2 MPI_Igather
#define CALL3 MPI_Gather_init
#define ARGS a, len, MPI_DOUBLE_PRECISION, b, len, MPI_DOUBLE_PRECISION, root, comm_of
#include "form.inc"
            do r = 0, merge(size, 0, rank == root) - 1
                call expect(r*len, len, r, 0)
            end do
        case (3) ! gather in place
            used = merge(len*size, 0, rank == root)
            if (rank == root) then
                b(root*len + 1:(root + 1)*len) = a(:len)
#define CALL1 MPI_Gather
#define CALL2 MPI_Igather
#define CALL3 MPI_Gather_init
#define ARGS MPI_IN_PLACE, 0, MPI_INTEGER, b, len, MPI_DOUBLE_PRECISION, root, comm_of
#include "form.inc"
            else
#define CALL1 MPI_Gather
#define CALL2 MPI_Igather
#define CALL3 MPI_Gather_init
#define ARGS a, len, MPI_DOUBLE_PRECISION, b, len, MPI_DOUBLE_PRECISION, root, comm_of
#include "form.inc"
            end if
            do r = 0, merge(size, 0, rank == root) - 1
                call expect(r*len, len, r, 0)
            end do
        case (4) ! gatherv
            call lay_out()
            used = merge(used, 0, rank == root)
#define CALL1 MPI_Gatherv
#define CALL2 MPI_Igatherv
#define CALL3 MPI_Gatherv_init
#define ARGS a, between(rank, root), MPI_DOUBLE_PRECISION, b, from, fdispls, MPI_DOUBLE_PRECISION, root, comm_of
#include "form.inc"
            do r = 0, merge(size, 0, rank == root) - 1
                call expect(fdispls(r + 1), from(r + 1), r, 0)
            end do
        case (5) ! scatter
            used = len
#define CALL1 MPI_Scatter
#define CALL2 MPI_Iscatter
#define CALL3 MPI_Scatter_init
#define ARGS a, len, MPI_DOUBLE_PRECISION, b, len, MPI_DOUBLE_PRECISION, root, comm_of
#include "form.inc"
            call expect(0, len, root, rank*len)
        case (6) ! scatter in place
            used = merge(0, len, rank == root)
            if (rank == root) then
#define CALL1 MPI_Scatter
#define CALL2 MPI_Iscatter
#define CALL3 MPI_Scatter_init
#define ARGS a, len, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, 0, MPI_INTEGER, root, comm_of
#include "form.inc"
            else
#define CALL1 MPI_Scatter
#define CALL2 MPI_Iscatter
#define CALL3 MPI_Scatter_init
#define ARGS a, len, MPI_DOUBLE_PRECISION, b, len, MPI_DOUBLE_PRECISION, root, comm_of
#include "form.inc"
                call expect(0, len, root, rank*len)
            end if
        case (7) ! scatterv
            call lay_out()
            used = between(root, rank)
#define CALL1 MPI_Scatterv
#define CALL2 MPI_Iscatterv
#define CALL3 MPI_Scatterv_init
#define ARGS a, counts, displs, MPI_DOUBLE_PRECISION, b, used, MPI_DOUBLE_PRECISION, root, comm_of
#include "form.inc"
            call expect(0, used, root, at_of(root, rank))
        case (8) ! allgather
            used = len*size
#define CALL1 MPI_Allgather
#define CALL2 MPI_Iallgather
#define CALL3 MPI_Allgather_init
#define ARGS a, len, MPI_DOUBLE_PRECISION, b, len, MPI_DOUBLE_PRECISION, comm_of
#include "form.inc"
            do r = 0, size - 1
                call expect(r*len, len, r, 0)
            end do
        case (9) ! allgather in place
            used = len*size
            b(rank*len + 1:(rank + 1)*len) = a(:len)
#define CALL1 MPI_Allgather
#define CALL2 MPI_Iallgather
#define CALL3 MPI_Allgather_init
#define ARGS MPI_IN_PLACE, 0, MPI_INTEGER, b, len, MPI_DOUBLE_PRECISION, comm_of
#include "form.inc"
            do r = 0, size - 1
                call expect(r*len, len, r, 0)
            end do
        case (10) ! allgatherv
            from(:size) = [(between(r, 0), r=0, size - 1)]
            fdispls(:size) = [(sum(from(:r)), r=0, size - 1)]
            used = sum(from(:size))
#define CALL1 MPI_Allgatherv
#define CALL2 MPI_Iallgatherv
#define CALL3 MPI_Allgatherv_init
#define ARGS a, from(rank + 1), MPI_DOUBLE_PRECISION, b, from, fdispls, MPI_DOUBLE_PRECISION, comm_of
#include "form.inc"
            do r = 0, size - 1
                call expect(fdispls(r + 1), from(r + 1), r, 0)
            end do
        case (11) ! allgatherv in place
            from(:size) = [(between(r, 0), r=0, size - 1)]
            fdispls(:size) = [(sum(from(:r)), r=0, size - 1)]
            used = sum(from(:size))
            b(fdispls(rank + 1) + 1:fdispls(rank + 1) + from(rank + 1)) = a(:from(rank + 1))
#define CALL1 MPI_Allgatherv
#define CALL2 MPI_Iallgatherv
#define CALL3 MPI_Allgatherv_init
#define ARGS MPI_IN_PLACE, 0, MPI_INTEGER, b, from, fdispls, MPI_DOUBLE_PRECISION, comm_of
#include "form.inc"
            do r = 0, size - 1
                call expect(fdispls(r + 1), from(r + 1), r, 0)
            end do
        case (12) ! alltoall
            used = len*size
#define CALL1 MPI_Alltoall
#define CALL2 MPI_Ialltoall
#define CALL3 MPI_Alltoall_init
#define ARGS a, len, MPI_DOUBLE_PRECISION, b, len, MPI_DOUBLE_PRECISION, comm_of
#include "form.inc"
            call expect_column(len)
        case (13) ! alltoall in place
            used = len*size
            b(:used) = a(:used)
#define CALL1 MPI_Alltoall
#define CALL2 MPI_Ialltoall
#define CALL3 MPI_Alltoall_init
#define ARGS MPI_IN_PLACE, 0, MPI_INTEGER, b, len, MPI_DOUBLE_PRECISION, comm_of
#include "form.inc"
            call expect_column(len)
        case (14) ! alltoallv
            call lay_out()
#define CALL1 MPI_Alltoallv
#define CALL2 MPI_Ialltoallv
#define CALL3 MPI_Alltoallv_init
#define ARGS a, counts, displs, MPI_DOUBLE_PRECISION, b, from, fdispls, MPI_DOUBLE_PRECISION, comm_of
#include "form.inc"
            do r = 0, size - 1
                call expect(fdispls(r + 1), from(r + 1), r, at_of(r, rank))
            end do
        case (15) ! alltoallw
            call lay_out()
            displs = 8*displs
            fbytes = 8*fdispls
#define CALL1 MPI_Alltoallw
#define CALL2 MPI_Ialltoallw
#define CALL3 MPI_Alltoallw_init
#define ARGS a, counts, displs, types, b, from, fbytes, types, comm_of
#include "form.inc"
            do r = 0, size - 1
                call expect(fdispls(r + 1), from(r + 1), r, at_of(r, rank))
            end do
        case (16) ! alltoallw in place
            used = len*size
            b(:used) = a(:used)
            from = len
            fbytes = [(8*r*len, r=0, ranks - 1)]
#define CALL1 MPI_Alltoallw
#define CALL2 MPI_Ialltoallw
#define CALL3 MPI_Alltoallw_init
#define ARGS MPI_IN_PLACE, from, fbytes, types, b, from, fbytes, types, comm_of
#include "form.inc"
            call expect_column(len)
        end select
    end subroutine

    ! ---- What computes -------------------------------------------------------------------

    subroutine reducing(which)
        integer, intent(in) :: which
        REQUEST_T :: q
        integer :: r, k
        REQUEST_T :: several(4)
        select case (which)
        case (17) ! reduce
            used = merge(len, 0, rank == root)
#define CALL1 MPI_Reduce
#define CALL2 MPI_Ireduce
#define CALL3 MPI_Reduce_init
#define ARGS a, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, root, comm_of
#include "form.inc"
            if (rank == root) call expect_sums(len, size, 0)
        case (18) ! reduce in place
            used = merge(len, 0, rank == root)
            if (rank == root) then
                b(:len) = a(:len)
#define CALL1 MPI_Reduce
#define CALL2 MPI_Ireduce
#define CALL3 MPI_Reduce_init
#define ARGS MPI_IN_PLACE, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, root, comm_of
#include "form.inc"
            else
#define CALL1 MPI_Reduce
#define CALL2 MPI_Ireduce
#define CALL3 MPI_Reduce_init
#define ARGS a, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, root, comm_of
#include "form.inc"
            end if
            if (rank == root) call expect_sums(len, size, 0)
        case (19) ! allreduce
            used = len
#define CALL1 MPI_Allreduce
#define CALL2 MPI_Iallreduce
#define CALL3 MPI_Allreduce_init
#define ARGS a, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, comm_of
#include "form.inc"
            call expect_sums(len, size, 0)
        case (20) ! allreduce in place
            used = len
            b(:len) = a(:len)
#define CALL1 MPI_Allreduce
#define CALL2 MPI_Iallreduce
#define CALL3 MPI_Allreduce_init
#define ARGS MPI_IN_PLACE, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, comm_of
#include "form.inc"
            call expect_sums(len, size, 0)
        case (21) ! an operation of the program
            pairs = 0
            pairs(:, :len, 1) = reshape([(part(rank, r), r=1, 2*len)], [2, len])
#define CALL1 MPI_Allreduce
#define CALL2 MPI_Iallreduce
#define CALL3 MPI_Allreduce_init
#define ARGS pairs(1, 1, 1), pairs(1, 1, 2), len, pair, composition, comm_of
#include "form.inc"
            call expect_composed(len, size)
        case (22) ! an operation of the program, in order
            pairs = 0
            pairs(:, :len, 1) = reshape([(part(rank, r), r=1, 2*len)], [2, len])
#define CALL1 MPI_Scan
#define CALL2 MPI_Iscan
#define CALL3 MPI_Scan_init
#define ARGS pairs(1, 1, 1), pairs(1, 1, 2), len, pair, composition, comm_of
#include "form.inc"
            call expect_composed(len, rank + 1)
        case (23) ! places of the greatest
            places(1, :, 1) = [(real(mod(rank*5 + r*3 + step, 7), real64), r=1, 20)]
            places(2, :, 1) = rank
            places(:, :, 2) = -1
#define CALL1 MPI_Allreduce
#define CALL2 MPI_Iallreduce
#define CALL3 MPI_Allreduce_init
#define ARGS places(1, 1, 1), places(1, 1, 2), 20, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, comm_of
#include "form.inc"
            call expect_places(size)
        case (24) ! places of the least, single and integer
            singles(1, :, 1) = [(real(mod(rank*5 + r*3 + step, 7)), r=1, 20)]
            singles(2, :, 1) = rank
            integers(:, :, 1) = int(singles(:, :, 1))
            singles(:, :, 2) = -1
            integers(:, :, 2) = -1
            call MPI_Allreduce(integers(1, 1, 1), integers(1, 1, 2), 20, MPI_2INTEGER, MPI_MINLOC, &
                comm_of NO_E)
#define CALL1 MPI_Allreduce
#define CALL2 MPI_Iallreduce
#define CALL3 MPI_Allreduce_init
#define ARGS singles(1, 1, 1), singles(1, 1, 2), 20, MPI_2REAL, MPI_MINLOC, comm_of
#include "form.inc"
            call check(all(int(singles(:, :, 2)) == integers(:, :, 2)), 'MPI_MINLOC')
            do r = 1, 20
                associate (all_of => [(mod(k*5 + r*3 + step, 7), k=0, size - 1)])
                    call check(all(integers(:, r, 2) == [minval(all_of), minloc(all_of, 1) - 1]), &
                        'MPI_2INTEGER')
                end associate
            end do
            b(:20) = integers(2, :, 2)
            used = 20
        case (25) ! complex
            z(:, 1) = [(cmplx(mod(rank + r, 3), mod(step + r, 2), real64), r=1, 20)]
            z(:, 2) = 0
#define CALL1 MPI_Allreduce
#define CALL2 MPI_Iallreduce
#define CALL3 MPI_Allreduce_init
#define ARGS z(1, 1), z(1, 2), 20, MPI_DOUBLE_COMPLEX, MPI_PROD, comm_of
#include "form.inc"
            do r = 1, 20
                call check(z(r, 2) == product([(cmplx(mod(k + r, 3), mod(step + r, 2), real64), &
                    k=0, size - 1)]), 'MPI_DOUBLE_COMPLEX')
            end do
            b(:20) = real(z(:, 2))
            used = 20
            c(:, 1) = [(cmplx(mod(rank + r, 3), mod(step + r, 2)), r=1, 20)]
            call MPI_Reduce(c(1, 1), c(1, 2), 20, MPI_COMPLEX, MPI_SUM, root, comm_of NO_E)
            do r = 1, merge(20, 0, rank == root)
                call check(c(r, 2) == sum([(cmplx(mod(k + r, 3), mod(step + r, 2)), k=0, size - 1)]), &
                    'MPI_COMPLEX')
            end do
        case (26) ! logical
            flags(:, 1) = [(mod(rank + r + step, 3) == 0, r=1, 20)]
            flags(:, 2:) = .true.
            call MPI_Allreduce(flags(1, 1), flags(1, 3), 20, MPI_LOGICAL, MPI_LAND, comm_of NO_E)
#define CALL1 MPI_Allreduce
#define CALL2 MPI_Iallreduce
#define CALL3 MPI_Allreduce_init
#define ARGS flags(1, 1), flags(1, 2), 20, MPI_LOGICAL, MPI_LXOR, comm_of
#include "form.inc"
            do r = 1, 20
                call check(flags(r, 2) .eqv. parity([(mod(k + r + step, 3) == 0, k=0, size - 1)]), 'MPI_LXOR')
                call check(flags(r, 3) .eqv. all([(mod(k + r + step, 3) == 0, k=0, size - 1)]), 'MPI_LAND')
            end do
        case (27) ! reduce_scatter
            if (.not. logs) form = 0 ! see coll_begin()
            from(:size) = [(between(r, 1), r=0, size - 1)]
            used = from(rank + 1)
#define CALL1 MPI_Reduce_scatter
#define CALL2 MPI_Ireduce_scatter
#define CALL3 MPI_Reduce_scatter_init
#define ARGS a, b, from, MPI_DOUBLE_PRECISION, MPI_SUM, comm_of
#include "form.inc"
            call expect_sums(used, size, sum(from(:rank)))
        case (28) ! reduce_scatter_block
            used = len
#define CALL1 MPI_Reduce_scatter_block
#define CALL2 MPI_Ireduce_scatter_block
#define CALL3 MPI_Reduce_scatter_block_init
#define ARGS a, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, comm_of
#include "form.inc"
            call expect_sums(len, size, rank*len)
        case (29) ! reduce_scatter_block in place
            used = len
            b(:len*size) = a(:len*size)
#define CALL1 MPI_Reduce_scatter_block
#define CALL2 MPI_Ireduce_scatter_block
#define CALL3 MPI_Reduce_scatter_block_init
#define ARGS MPI_IN_PLACE, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, comm_of
#include "form.inc"
            call expect_sums(len, size, rank*len)
        case (30) ! scan
            used = len
#define CALL1 MPI_Scan
#define CALL2 MPI_Iscan
#define CALL3 MPI_Scan_init
#define ARGS a, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, comm_of
#include "form.inc"
            call expect_sums(len, rank + 1, 0)
        case (31) ! scan in place
            used = len
            b(:len) = a(:len)
#define CALL1 MPI_Scan
#define CALL2 MPI_Iscan
#define CALL3 MPI_Scan_init
#define ARGS MPI_IN_PLACE, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, comm_of
#include "form.inc"
            call expect_sums(len, rank + 1, 0)
        case (32) ! exscan
            used = merge(len, 0, rank > 0)
#define CALL1 MPI_Exscan
#define CALL2 MPI_Iexscan
#define CALL3 MPI_Exscan_init
#define ARGS a, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, comm_of
#include "form.inc"
            if (rank > 0) call expect_sums(len, rank, 0)
        case (33) ! several at once
            if (rank == root) b(:len) = a(:len)
            used = len*(2 + size)
            call MPI_Ibcast(b, len, MPI_DOUBLE_PRECISION, root, comm_of, several(1) NO_E)
            call MPI_Iallgather(a, len, MPI_DOUBLE_PRECISION, b(len + 1), len, MPI_DOUBLE_PRECISION, &
                comm_of, several(2) NO_E)
            call MPI_Ibarrier(comm_of, several(3) NO_E)
            call MPI_Iscan(a, b(len*(1 + size) + 1), len, MPI_DOUBLE_PRECISION, MPI_SUM, comm_of, &
                several(4) NO_E)
            call mid()
            do r = 0, 3
                call MPI_Wait(several(1 + mod(3 - r + rank, 4)), MPI_STATUS_IGNORE NO_E)
            end do
            call expect(0, len, root, 0)
            do r = 0, size - 1
                call expect(len*(1 + r), len, r, 0)
            end do
        case (34) ! those of before the loop
            kept_in = a(:ranks)
            kept_out(:, 1) = a(:ranks)
            call MPI_Startall(3, kept NO_E)
            call mid()
            call MPI_Waitall(3, kept, MPI_STATUSES_IGNORE NO_E)
            call check(all(kept /= MPI_REQUEST_NULL), 'persistent: gone')
            b(:3*ranks) = reshape(kept_out, [3*ranks])
            used = 3*ranks
            call expect(0, ranks, 0, 0)
            b(:ranks) = kept_out(:, 2)
            call expect_sums(ranks, np, 0)
        end select
    end subroutine

    ! ---- With neighbours -----------------------------------------------------------------

    subroutine neighbouring(which)
        integer, intent(in) :: which
        REQUEST_T :: q
        integer :: r
        select case (which)
        case (35) ! neighbor_allgather
            used = len*n_in
#define CALL1 MPI_Neighbor_allgather
#define CALL2 MPI_Ineighbor_allgather
#define CALL3 MPI_Neighbor_allgather_init
#define ARGS a, len, MPI_DOUBLE_PRECISION, b, len, MPI_DOUBLE_PRECISION, comm_of
#include "form.inc"
            do r = 1, n_in
                if (from_of(r) >= 0) call expect((r - 1)*len, len, from_of(r), 0)
            end do
        case (36) ! neighbor_allgatherv
            from(:n_in) = len
            fdispls(:n_in) = [((r - 1)*(len + 2), r=1, n_in)]
            used = n_in*(len + 2)
#define CALL1 MPI_Neighbor_allgatherv
#define CALL2 MPI_Ineighbor_allgatherv
#define CALL3 MPI_Neighbor_allgatherv_init
#define ARGS a, len, MPI_DOUBLE_PRECISION, b, from, fdispls, MPI_DOUBLE_PRECISION, comm_of
#include "form.inc"
            do r = 1, n_in
                if (from_of(r) >= 0) call expect(fdispls(r), len, from_of(r), 0)
            end do
        case (37) ! neighbor_alltoall
            used = len*n_in
#define CALL1 MPI_Neighbor_alltoall
#define CALL2 MPI_Ineighbor_alltoall
#define CALL3 MPI_Neighbor_alltoall_init
#define ARGS a, len, MPI_DOUBLE_PRECISION, b, len, MPI_DOUBLE_PRECISION, comm_of
#include "form.inc"
            do r = 1, n_in
                if (from_of(r) >= 0) call expect((r - 1)*len, len, from_of(r), place_of(r)*len)
            end do
        case (38) ! neighbor_alltoallv
            if (.not. logs) form = 0
            counts(:n_out) = len
            displs(:n_out) = [((r - 1)*len, r=1, n_out)]
            from(:n_in) = len
            fdispls(:n_in) = [((n_in - r)*len, r=1, n_in)]
            used = n_in*len
#define CALL1 MPI_Neighbor_alltoallv
#define CALL2 MPI_Ineighbor_alltoallv
#define CALL3 MPI_Neighbor_alltoallv_init
#define ARGS a, counts, displs, MPI_DOUBLE_PRECISION, b, from, fdispls, MPI_DOUBLE_PRECISION, comm_of
#include "form.inc"
            do r = 1, n_in
                if (from_of(r) >= 0) call expect(fdispls(r), len, from_of(r), place_of(r)*len)
            end do
        case (39) ! neighbor_alltoallw
            if (.not. logs) form = 0
            counts(:n_out) = len
            displs(:n_out) = [((r - 1)*len, r=1, n_out)]
            from(:n_in) = len
            fdispls(:n_in) = [((n_in - r)*len, r=1, n_in)]
            used = n_in*len
            far = 8_MPI_ADDRESS_KIND*displs
            ffar = 8_MPI_ADDRESS_KIND*fdispls
#define CALL1 MPI_Neighbor_alltoallw
#define CALL2 MPI_Ineighbor_alltoallw
#define CALL3 MPI_Neighbor_alltoallw_init
#define ARGS a, counts, far, types, b, from, ffar, types, comm_of
#include "form.inc"
            do r = 1, n_in
                if (from_of(r) >= 0) call expect(fdispls(r), len, from_of(r), place_of(r)*len)
            end do
        end select
    end subroutine

    ! ---- Sums that are rounded ----------------------------------------------------------

    !> They depend on their order, which is the same with every failure.
    subroutine rounded()
        integer :: i, r
        REQUEST_T :: q
        real(real64), parameter :: scale = 2.0_real64**(-40)
        do i = 1, len*size
            a(i) = real(ibits(mix(state, int(i, int64)), 0, 50), real64)*scale**mod(i, 3)
        end do
        from(:size) = len
        used = len
        select case (mod(step, 6))
        case (0)
            call MPI_Allreduce(a, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, comm_of NO_E)
        case (1)
            call MPI_Reduce(a, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, root, comm_of NO_E)
        case (2)
            call MPI_Scan(a, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, comm_of NO_E)
        case (3)
            call MPI_Exscan(a, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, comm_of NO_E)
        case (4)
            call MPI_Reduce_scatter(a, b, from, MPI_DOUBLE_PRECISION, MPI_SUM, comm_of NO_E)
        case default
            call MPI_Iallreduce(a, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, comm_of, q NO_E)
            call mid()
            call MPI_Wait(q, MPI_STATUS_IGNORE NO_E)
        end select
        call mid()
        do r = 1, 3
            call MPI_Allreduce(MPI_IN_PLACE, b, len, MPI_DOUBLE_PRECISION, MPI_SUM, comm_of NO_E)
        end do
    end subroutine

    ! ---- The program --------------------------------------------------------------------

    !> Pairs (p, q) stand for the function x -> p x + q, done one after the other.
#ifdef USE_F08
    subroutine compose(invec, inoutvec, length, datatype)
        type(c_ptr), value :: invec, inoutvec
        integer :: length
        type(MPI_Datatype) :: datatype
        integer(int64), pointer :: f(:, :), g(:, :)
        integer :: i
        call c_f_pointer(invec, f, [2, length])
        call c_f_pointer(inoutvec, g, [2, length])
#else
    subroutine compose(f, g, length, datatype)
        integer :: length, datatype
        integer(int64) :: f(2, length), g(2, length)
        integer :: i
#endif
        if (datatype /= pair) g = -1
        do i = 1, length
            g(2, i) = mod(g(1, i)*f(2, i) + g(2, i), prime)
            g(1, i) = mod(f(1, i)*g(1, i), prime)
        end do
    end subroutine

    subroutine coll_begin()
        integer :: i, index(ranks), edges(2*ranks)
        call MPI_Type_contiguous(2, MPI_INTEGER8, pair NO_E)
        call MPI_Type_commit(pair NO_E)
        call MPI_Op_create(compose, .false., composition NO_E)
        types = MPI_DOUBLE_PRECISION
        ! without, Open MPI 5.0.7 crashes in or after non-blocking reduce_scatter and non-blocking
        ! neighbour collectives with counts
        logs = logged()
        kept_in = 0
        kept_out = 0
        call MPI_Comm_dup(comm, comms(world) NO_E)
        call MPI_Comm_split(comm, mod(me, 2), me, comms(across) NO_E)
        call MPI_Comm_split(comm, 0, -me, comms(backwards) NO_E)
        call MPI_Comm_split(comm, merge(0, MPI_UNDEFINED, me < np - 1), 0, comms(most) NO_E)
        call MPI_Cart_create(comm, 1, [np], [.true.], .false., comms(ring) NO_E)
        call MPI_Cart_create(comm, 2, [2, np/2], [.false., .false.], .false., comms(grid) NO_E)
        do i = 1, np
            index(i) = 2*i
            edges(2*i - 1:2*i) = [modulo(i - 2, np), mod(i, np)]
        end do
        call MPI_Graph_create(comm, np, index, edges, .false., comms(graph) NO_E)
        call MPI_Dist_graph_create_adjacent(comm, merge(np - 1, merge(1, 0, me == 1), me == 0), &
            merge([(i, i=1, ranks)], 0, me == 0), MPI_UNWEIGHTED, 1, [merge(1, 0, me == 0)], &
            MPI_UNWEIGHTED, MPI_INFO_NULL, .false., comms(star) NO_E)
        call MPI_Bcast_init(kept_out(1, 1), ranks, MPI_DOUBLE_PRECISION, 0, comms(world), &
            MPI_INFO_NULL, kept(1) NO_E)
        call MPI_Allreduce_init(kept_in, kept_out(1, 2), ranks, MPI_DOUBLE_PRECISION, MPI_SUM, &
            comms(world), MPI_INFO_NULL, kept(2) NO_E)
        call MPI_Alltoall_init(kept_in, 1, MPI_DOUBLE_PRECISION, kept_out(1, 3), 1, &
            MPI_DOUBLE_PRECISION, comms(world), MPI_INFO_NULL, kept(3) NO_E)
    end subroutine

    subroutine coll_end()
        integer :: i
        do i = 1, 3
            call MPI_Request_free(kept(i) NO_E)
        end do
        do i = 1, made
            if (comms(i) /= MPI_COMM_NULL) call MPI_Comm_free(comms(i) NO_E)
        end do
        call MPI_Type_free(pair NO_E)
        call MPI_Op_free(composition NO_E)
        call check(composition == MPI_OP_NULL, 'MPI_Op_free')
    end subroutine

    !> Who they are, and which of their blocks is for this rank.
    subroutine neighbours(kind)
        integer, intent(in) :: kind
        integer :: d, r
        place_of = 0
        if (kind == star) then
            n_out = 1
            n_in = merge(size - 1, merge(1, 0, rank == 1), rank == 0)
            from_of = merge([(r, r=1, ranks)], 0, rank == 0)
            return
        end if
        n_in = merge(4, 2, kind == grid)
        n_out = n_in
        place_of(:4) = [1, 0, 3, 2]
        from_of(:2) = [modulo(rank - 1, size), mod(rank + 1, size)]
        do d = 1, merge(2, 0, kind == grid)
            call MPI_Cart_shift(comm_of, d - 1, 1, from_of(2*d - 1), from_of(2*d) NO_E)
        end do
    end subroutine

    !> A step of a family that is in here.
    logical function coll_step()
        integer :: which, on, i
        coll_step = family == 'collective' .or. family == 'rounded'
        if (.not. coll_step) return
        which = mod(step, coll_count)
        form = mod(step + step/coll_count, 3)
        on = 1 + mod(step*3/2, 4)
        if (family == 'collective' .and. which == first_neighbouring - 1) on = world
        if (family == 'collective' .and. which >= first_neighbouring) &
            on = ring + mod(step + step/coll_count, 4)
        comm_of = comms(on)
        if (comm_of == MPI_COMM_NULL) then
            call mid()
            return
        end if
        call MPI_Comm_rank(comm_of, rank NO_E)
        call MPI_Comm_size(comm_of, size NO_E)
        root = mod(step*3 + step/5, size)
        len = lens(mod(step*5 + step/coll_count + step, 5))
        b = 0
        used = 0
        if (family == 'rounded') then
            call rounded()
        else
            do i = 1, room
                a(i) = value(rank, i)
            end do
            if (on >= ring) call neighbours(on)
            if (which >= first_neighbouring) then
                call neighbouring(which)
            else if (which >= first_reducing) then
                call reducing(which)
            else
                call moving(which)
            end if
        end if
        call mid()
        state = test_hash(b, 8_int64*used, state + 1)
    end function
end module
