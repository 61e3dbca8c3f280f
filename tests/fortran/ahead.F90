! Requests and a matched message under way at ftkit_checkpoint: see calls.F90.
!
! SPDX-License-Identifier: BSD-3-Clause
#include "binding.h"
module ahead
    use foreign
    implicit none
    private
    public :: ahead_begin, ahead_step, ahead_end

    ! registered: the messages of the step before, and what is under way
    integer(int64), target, asynchronous :: mine(longest, 0:ranks - 1)
    integer(int64), target, asynchronous :: theirs(longest, 0:ranks - 1)
    integer, target, asynchronous :: totals(2)
    integer(int64), target :: told(2)
    integer(int64), target, asynchronous :: table(200), copied(200)
    real :: seconds
    REQUEST_T, target, asynchronous :: q(2, 0:ranks - 1)
    REQUEST_T, target, asynchronous :: sum
    MESSAGE_T, target, asynchronous :: message

contains

    subroutine ahead_begin()
        if (family /= 'ahead') return
        q = MPI_REQUEST_NULL
        sum = MPI_REQUEST_NULL
        message = MPI_MESSAGE_NULL
        mine = 0
        theirs = 0
        totals = 0
        call ftkit_register(ft, 'mine', mine)
        call ftkit_register(ft, 'theirs', theirs)
        call ftkit_register(ft, 'totals', totals)
        told = 0
        call ftkit_register(ft, 'told', told)
        call ftkit_register_requests(ft, 'q', q)
        call ftkit_register_requests(ft, 'sum', sum)
        call ftkit_register_messages(ft, 'message', message)
    end subroutine

    !> Begin what the next step completes.
    subroutine begin_all()
        integer :: k, to, from, words
        STATUS_T(st)
        do k = 1, np - 1
            from = partner(-k)
            call MPI_Irecv(theirs(1, from), longest, MPI_INTEGER8, from, 1, comm, q(1, from) NO_E)
        end do
        call mid()
        do k = 1, np - 1
            to = partner(k)
            words = words_of(me, to, 1)
            call make(to, 1, mine(:, to), words)
            call MPI_Isend(mine(1, to), words, MPI_INTEGER8, to, 1, comm, q(2, to) NO_E)
        end do
        totals(1) = step + me
        call MPI_Iallreduce(totals(1), totals(2), 1, MPI_INTEGER, MPI_SUM, comm, sum NO_E)
        call MPI_Send(step, 1, MPI_INTEGER, partner(1), 2, comm NO_E)
        call MPI_Mprobe(partner(-1), 2, comm, message, st NO_E)
    end subroutine

    !> The time goes round, and each rank keeps what it has told and what it was told.
    subroutine send_decided()
        integer :: clock(2), theirs(2), ierr
        call system_clock(clock(1))
        call cpu_time(seconds)
        clock(2) = transfer(seconds, 0)
        call ftkit_decide(ft, clock)
        call MPI_Sendrecv(clock, 2, MPI_INTEGER, partner(1), 3, theirs, 2, MPI_INTEGER, partner(-1), &
            3, comm, MPI_STATUS_IGNORE, ierr)
        if (ierr /= MPI_SUCCESS) return
        told(1) = ieor(31*told(1), int(clock(1), int64) + clock(2))
        told(2) = ieor(31*told(2), int(theirs(1), int64) + theirs(2))
    end subroutine

    !> A table goes round that stays as it is until ftkit_unshare().
    subroutine send_shared()
        integer :: ierr, code
        table = step
        call ftkit_share(ft, table, code)
        call check(code == FTKIT_OK, 'ftkit_share')
        call MPI_Sendrecv(table, size(table), MPI_INTEGER8, partner(1), 5, copied, size(copied), &
            MPI_INTEGER8, partner(-1), 5, comm, MPI_STATUS_IGNORE, ierr)
        call ftkit_unshare(ft, table, code)
        call check(code == FTKIT_OK, 'ftkit_unshare')
        table = -1
        if (ierr == MPI_SUCCESS) call check(all(copied == step), 'a table that is shared')
    end subroutine

    !> Complete what the step before has begun.
    subroutine end_all()
        integer :: k, from, their_step, words(0:ranks - 1), ierr
        STATUS_T(st)
        step = step - 1
        do k = 1, np - 1
            words(partner(-k)) = words_of(partner(-k), me, 1)
        end do
        step = step + 1
        do k = 1, np - 1
            from = partner(-k)
            call MPI_Wait(q(1, from), st, ierr)
            if (ierr /= MPI_SUCCESS) return
            call check_status(st, from, 1, words(from))
            call take(from, 1, theirs(:, from), words(from), step - 1)
            call MPI_Wait(q(2, from), MPI_STATUS_IGNORE NO_E)
        end do
        call MPI_Wait(sum, MPI_STATUS_IGNORE NO_E)
        call check(totals(2) == np*(step - 1) + np*(np - 1)/2, 'MPI_Iallreduce')
        their_step = -1
        call MPI_Mrecv(their_step, 1, MPI_INTEGER, message, st NO_E)
        call check(their_step == step - 1, 'a matched message')
    end subroutine

    logical function ahead_step()
        ahead_step = family == 'ahead'
        if (.not. ahead_step) return
        if (step > 0) call end_all()
        call send_decided()
        call send_shared()
        call begin_all()
    end function

    !> What the last step has begun.
    subroutine ahead_end()
        integer(int64) :: theirs
        integer :: ierr
        if (family /= 'ahead') return
        if (step > 0) call end_all()
        call MPI_Sendrecv(told(1), 1, MPI_INTEGER8, partner(1), 4, theirs, 1, MPI_INTEGER8, &
            partner(-1), 4, comm, MPI_STATUS_IGNORE, ierr)
        call check(ierr /= MPI_SUCCESS .or. theirs == told(2), 'ftkit_decide')
    end subroutine
end module
