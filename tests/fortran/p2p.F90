! The calls of point-to-point communication, family by family: see calls.F90.
!
! SPDX-License-Identifier: BSD-3-Clause
#include "binding.h"
module p2p
    use foreign
    implicit none
    private
    public :: p2p_begin, p2p_step, p2p_end

    integer, parameter :: most = 6       ! messages to each partner
    integer, parameter :: room = 4*ranks*most ! requests: more than are converted without a heap
    integer(int64), target, asynchronous :: mine(longest, 0:ranks - 1, most)
    integer(int64), target, asynchronous :: theirs(longest, 0:ranks - 1, most)
    integer(int64), target, asynchronous :: answers(2, 0:ranks - 1, most)
    integer(int64), target, asynchronous :: vain(ranks)
    integer(int64), allocatable, target, asynchronous :: attached(:)
    COMM_T :: other                      ! so that messages of two kinds do not mix
    REQUEST_T :: kept(2*ranks)

contains

    ! ---- Blocking -----------------------------------------------------------------------

    subroutine send_one(to, kind)
        integer, intent(in) :: to, kind
        integer :: words, dummy(1)
        words = words_of(me, to, 1)
        call make(to, 1, mine(:, to, 1), words)
        dummy = 0
        select case (kind)
        case (0)
            call MPI_Send(mine(1, to, 1), words, MPI_INTEGER8, to, 1, comm NO_E)
        case (1)
            call MPI_Ssend(mine(1, to, 1), words, MPI_INTEGER8, to, 1, comm NO_E)
        case (2)
            call MPI_Bsend(mine(1, to, 1), words, MPI_INTEGER8, to, 1, comm NO_E)
        case default
            call MPI_Recv(dummy, 0, MPI_BYTE, to, 2, comm, MPI_STATUS_IGNORE NO_E)
            call MPI_Rsend(mine(1, to, 1), words, MPI_INTEGER8, to, 1, comm NO_E)
        end select
    end subroutine

    subroutine receive_one(from, kind)
        integer, intent(in) :: from, kind
        integer :: words, dummy(1), ierr
        REQUEST_T :: q
        STATUS_T(st)
        words = words_of(from, me, 1)
        dummy = 0
        if (kind == 3) then
            call MPI_Irecv(theirs(1, from, 1), words, MPI_INTEGER8, from, 1, comm, q NO_E)
            call MPI_Send(dummy, 0, MPI_BYTE, from, 2, comm NO_E)
            call MPI_Wait(q, st, ierr)
            call check(q == MPI_REQUEST_NULL, 'MPI_Wait leaves a request')
        else
            call MPI_Recv(theirs(1, from, 1), longest, MPI_INTEGER8, from, 1, comm, st, ierr)
        end if
        call check(ierr == MPI_SUCCESS, 'a receive')
        call check_status(st, from, 1, words)
        call take(from, 1, theirs(:, from, 1), words)
    end subroutine

    subroutine exchange(k)
        integer, intent(in) :: k
        integer :: to, from, words, own
        STATUS_T(st)
        to = partner(k)
        from = partner(-k)
        if (mod(step + k, 2) == 1) then
            words = words_of(from, me, 2)
            own = words_of(me, to, 2)
            call make(to, 2, mine(:, to, 2), own)
            call MPI_Sendrecv(mine(1, to, 2), own, MPI_INTEGER8, to, 3, theirs(1, from, 2), &
                words, MPI_INTEGER8, from, 3, comm, st NO_E)
            call check_status(st, from, 3, words)
        else
            words = lengths(mod(step + k, 6))
            call make(to, 2, theirs(:, from, 2), words)
            call MPI_Sendrecv_replace(theirs(1, from, 2), words, MPI_INTEGER8, to, 4, from, &
                4, comm, st NO_E)
            call check_status(st, from, 4, words)
        end if
        call take(from, 2, theirs(:, from, 2), words)
    end subroutine

    subroutine blocking()
        integer :: a, b, kind, k
        do a = 0, np - 1
            do b = 0, np - 1
                kind = mod(a*5 + b*3 + step, 4)
                if (a /= b .and. a == me) call send_one(b, kind)
                if (a /= b .and. b == me) call receive_one(a, kind)
            end do
        end do
        call mid()
        do k = 1, np - 1
            call exchange(k)
        end do
    end subroutine

    ! ---- Non-blocking -------------------------------------------------------------------

    subroutine begin_send(to, i, kind, on, tag, q)
        integer, intent(in) :: to, i, kind, tag
        COMM_T, intent(in) :: on
        REQUEST_T, intent(out) :: q
        integer :: words
        words = words_of(me, to, i)
        call make(to, i, mine(:, to, i), words)
        select case (kind)
        case (0)
            call MPI_Isend(mine(1, to, i), words, MPI_INTEGER8, to, tag, on, q NO_E)
        case (1)
            call MPI_Issend(mine(1, to, i), words, MPI_INTEGER8, to, tag, on, q NO_E)
        case (2)
            call MPI_Ibsend(mine(1, to, i), words, MPI_INTEGER8, to, tag, on, q NO_E)
        case default
            call MPI_Irsend(mine(1, to, i), words, MPI_INTEGER8, to, tag, on, q NO_E)
        end select
        call check(q /= MPI_REQUEST_NULL, 'no request')
    end subroutine

    !> All to and from all, and a combined one between two partners at the end.
    subroutine nonblocking()
        REQUEST_T :: q(room)
        integer :: from_of(room), tag_of_q(room), words(room)
        integer :: n, k, i, last, receives, ierr, to, from
        logical :: done
        STATUSES_T(st, room)
        n = 0
        last = np - 1
        do k = 1, np - 1
            do i = 1, most
                if (k == last .and. i == most) cycle
                n = n + 1
                from_of(n) = partner(-k)
                tag_of_q(n) = i
                words(n) = words_of(from_of(n), me, i)
                call MPI_Irecv(theirs(1, from_of(n), i), longest, MPI_INTEGER8, from_of(n), i, &
                    comm, q(n) NO_E)
            end do
        end do
        receives = n
        call MPI_Barrier(comm NO_E)
        do k = 1, np - 1
            do i = 1, most
                if (k == last .and. i == most) cycle
                n = n + 1
                call begin_send(partner(k), i, mod(step + k + i, 4), comm, i, q(n))
            end do
        end do
        n = n + 1
        to = partner(last)
        from = partner(-last)
        from_of(n) = from
        tag_of_q(n) = most
        if (mod(step, 2) == 1) then
            words(n) = words_of(from, me, most)
            call make(to, most, mine(:, to, most), words_of(me, to, most))
            call MPI_Isendrecv(mine(1, to, most), words_of(me, to, most), MPI_INTEGER8, to, 33, &
                theirs(1, from, most), longest, MPI_INTEGER8, from, 33, comm, q(n) NO_E)
        else
            words(n) = lengths(mod(step, 6))
            call make(to, most, theirs(:, from, most), words(n))
            call MPI_Isendrecv_replace(theirs(1, from, most), words(n), MPI_INTEGER8, to, 34, &
                from, 34, comm, q(n) NO_E)
        end if
        call mid()
        done = .false.
        ierr = MPI_SUCCESS
        select case (mod(step, 4))
        case (0)
            call MPI_Waitall(n, q, st, ierr)
        case (1)
            call MPI_Waitall(n, q, MPI_STATUSES_IGNORE, ierr)
        case (2)
            do while (done .eqv. .false.)
                call MPI_Testall(n, q, done, st, ierr)
                if (ierr /= MPI_SUCCESS) exit
            end do
            call check(done .eqv. .true., 'MPI_Testall')
        case default
            do while (.not. done)
                call MPI_Testall(n, q, done, MPI_STATUSES_IGNORE, ierr)
                if (ierr /= MPI_SUCCESS) exit
            end do
        end select
        call check(ierr == MPI_SUCCESS, 'completion')
        do i = 1, n
            call check(q(i) == MPI_REQUEST_NULL, 'a request is left')
        end do
        do i = 1, receives
            if (mod(step, 2) == 0) &
                call check_status(STATUS_AT(st, i), from_of(i), tag_of_q(i), words(i))
            call take(from_of(i), tag_of_q(i), theirs(:, from_of(i), tag_of_q(i)), words(i))
        end do
        if (mod(step, 2) == 0) call check_status(STATUS_AT(st, n), from, 34, words(n))
        call take(from, most, theirs(:, from, most), words(n))
    end subroutine

    ! ---- Any and some -------------------------------------------------------------------
    ! The first requests are receives; the others are sends, and answers to what has come.

    subroutine any_of_them()
        REQUEST_T :: q(room)
        integer :: from_of(room), which_of(room), which(room)
        integer :: n, total, left, k, i, j, count, words
        integer(int64) :: answer(2)
        STATUSES_T(st, room)
        n = 0
        do k = 1, np - 1
            do i = 1, most
                n = n + 1
                from_of(n) = partner(-k)
                which_of(n) = i
                call MPI_Irecv(theirs(1, from_of(n), i), longest, MPI_INTEGER8, from_of(n), i, &
                    comm, q(n) NO_E)
            end do
        end do
        total = n
        do k = 1, np - 1
            do i = 1, most
                total = total + 1
                call begin_send(partner(k), i, mod(step + k + i, 3), comm, i, q(total))
            end do
        end do
        left = total
        do while (left > 0)
            call completed(total, q, count, which, st)
            if (count < 0) return
            do j = 1, count
                i = which(j)
                call check(i >= 1 .and. i <= total, 'an index')
                if (i < 1 .or. i > total) return
                call check(q(i) == MPI_REQUEST_NULL, 'a request is left')
                left = left - 1
                if (i > n) cycle
                words = words_of(from_of(i), me, which_of(i))
                if (mod(step, 8) < 4) &
                    call check_status(STATUS_AT(st, j), from_of(i), which_of(i), words)
                call take(from_of(i), which_of(i), theirs(:, from_of(i), which_of(i)), words)
                total = total + 1
                left = left + 1
                answers(1, from_of(i), which_of(i)) = state
                answers(2, from_of(i), which_of(i)) = token(me, from_of(i), step, 50)
                call MPI_Isend(answers(1, from_of(i), which_of(i)), 2, MPI_INTEGER8, from_of(i), &
                    which_of(i), other, q(total) NO_E)
            end do
            if (count > 0) call mid()
        end do
        ! all are null by now
        call completed(total, q, count, which, st)
        call check(count == -1, 'completion of nothing')
        do i = 1, n
            call MPI_Recv(answer, 2, MPI_INTEGER8, from_of(i), which_of(i), other, &
                MPI_STATUS_IGNORE NO_E)
            call check(answer(2) == token(from_of(i), me, step, 50), 'an answer')
            state = mix(answer(1), state)
        end do
    end subroutine

    !> One call; count: what it has completed, -1: there was nothing to complete.
    subroutine completed(total, q, count, which, st)
        integer, intent(in) :: total
        REQUEST_T, intent(inout) :: q(:)
        integer, intent(out) :: count, which(:)
        STATUSES_T(st, room)
        integer :: ierr
        logical :: flag, ignore
        ignore = mod(step, 8) >= 4
        count = 0
        which = -7
        select case (mod(step, 4))
        case (0)
            if (ignore) then
                call MPI_Waitany(total, q, which(1), MPI_STATUS_IGNORE, ierr)
            else
                call MPI_Waitany(total, q, which(1), STATUS_AT(st, 1), ierr)
            end if
            count = merge(-1, 1, which(1) == MPI_UNDEFINED)
        case (1)
            if (ignore) then
                call MPI_Waitsome(total, q, count, which, MPI_STATUSES_IGNORE, ierr)
            else
                call MPI_Waitsome(total, q, count, which, st, ierr)
            end if
        case (2)
            if (ignore) then
                call MPI_Testany(total, q, which(1), flag, MPI_STATUS_IGNORE, ierr)
            else
                call MPI_Testany(total, q, which(1), flag, STATUS_AT(st, 1), ierr)
            end if
            if (flag .eqv. .true.) count = merge(-1, 1, which(1) == MPI_UNDEFINED)
            call check((flag .eqv. .true.) .or. which(1) == MPI_UNDEFINED, 'MPI_Testany')
        case default
            if (ignore) then
                call MPI_Testsome(total, q, count, which, MPI_STATUSES_IGNORE, ierr)
            else
                call MPI_Testsome(total, q, count, which, st, ierr)
            end if
        end select
        if (ierr /= MPI_SUCCESS .or. count == MPI_UNDEFINED) count = -1
    end subroutine

    ! ---- Persistent ---------------------------------------------------------------------

    integer function kept_words(from, to)
        integer, intent(in) :: from, to
        kept_words = lengths(mod(from*3 + to*5, 6))
    end function

    subroutine persistent_begin()
        integer :: n, k, to, from, words, kind
        logical :: on
        on = logged()
        n = 0
        do k = 1, np - 1
            n = n + 1
            from = partner(-k)
            call MPI_Recv_init(theirs(1, from, 1), longest, MPI_INTEGER8, from, 1, comm, &
                kept(n) NO_E)
        end do
        do k = 1, np - 1
            n = n + 1
            to = partner(k)
            words = kept_words(me, to)
            kind = mod(me + k, 4)
            if (kind == 2 .and. .not. on) kind = 0 ! Open MPI 5.0.7 itself sends wrong data
            select case (kind)
            case (0)
                call MPI_Send_init(mine(1, to, 1), words, MPI_INTEGER8, to, 1, comm, &
                    kept(n) NO_E)
            case (1)
                call MPI_Ssend_init(mine(1, to, 1), words, MPI_INTEGER8, to, 1, comm, &
                    kept(n) NO_E)
            case (2)
                call MPI_Bsend_init(mine(1, to, 1), words, MPI_INTEGER8, to, 1, comm, &
                    kept(n) NO_E)
            case default
                call MPI_Rsend_init(mine(1, to, 1), words, MPI_INTEGER8, to, 1, comm, &
                    kept(n) NO_E)
            end select
        end do
    end subroutine

    !> Made, started twice and freed in one step.
    subroutine passing_request()
        REQUEST_T :: q(2)
        STATUSES_T(st, 2)
        integer :: to, from, words, own, i
        to = partner(1)
        from = partner(-1)
        words = words_of(from, me, 2)
        own = words_of(me, to, 2)
        call MPI_Send_init(mine(1, to, 2), own, MPI_INTEGER8, to, 2, comm, q(1) NO_E)
        call MPI_Recv_init(theirs(1, from, 2), words, MPI_INTEGER8, from, 2, comm, q(2) NO_E)
        do i = 1, 2
            call make(to, 2, mine(:, to, 2), own)
            call MPI_Startall(2, q NO_E)
            call MPI_Waitall(2, q, st NO_E)
            call check_status(STATUS_AT(st, 2), from, 2, words)
            call take(from, 2, theirs(:, from, 2), words)
        end do
        call check(q(1) /= MPI_REQUEST_NULL .and. q(2) /= MPI_REQUEST_NULL, 'persistent: gone')
        call MPI_Request_free(q(1) NO_E)
        call MPI_Request_free(q(2) NO_E)
        call check(q(1) == MPI_REQUEST_NULL .and. q(2) == MPI_REQUEST_NULL, 'MPI_Request_free')
    end subroutine

    subroutine persistent()
        integer :: n, i, k, from
        n = np - 1
        call MPI_Startall(n, kept NO_E)
        call MPI_Barrier(comm NO_E)
        do k = 1, np - 1
            call make(partner(k), 1, mine(:, partner(k), 1), kept_words(me, partner(k)))
        end do
        if (mod(step, 2) == 1) then
            do i = 1, n
                call MPI_Start(kept(n + i) NO_E)
            end do
        else
            call MPI_Startall(n, kept(n + 1:) NO_E)
        end if
        call mid()
        if (mod(step, 3) > 0) then
            call MPI_Waitall(2*n, kept, MPI_STATUSES_IGNORE NO_E)
        else
            do i = 2*n, 1, -1
                call MPI_Wait(kept(i), MPI_STATUS_IGNORE NO_E)
            end do
        end if
        do k = 1, np - 1
            from = partner(-k)
            call take(from, 1, theirs(:, from, 1), kept_words(from, me))
        end do
        if (mod(step, 3) == 1) call passing_request()
    end subroutine

    ! ---- Probe and wildcard -------------------------------------------------------------
    ! Receives that do not name their source may take a message of the next step: messages in
    ! steps that do not end with a barrier are short, so that nobody waits for another.

    subroutine send_to_all(named, q)
        logical, intent(in) :: named
        REQUEST_T, intent(out) :: q(:)
        integer :: k, to, words
        logical :: synchronous
        COMM_T :: on
        on = comm
        if (named) on = other
        do k = 1, np - 1
            to = partner(k)
            words = words_of(me, to, 1)
            synchronous = mod(step + k, 4) == 0
            if (.not. named .and. mod(step, 2) == 0) then
                words = head + mod(step, 3)
                synchronous = .false.
            end if
            call make(to, 1, mine(:, to, 1), words)
            if (synchronous) then
                call MPI_Issend(mine(1, to, 1), words, MPI_INTEGER8, to, 1 + mod(k, 2), on, &
                    q(k) NO_E)
            else
                call MPI_Isend(mine(1, to, 1), words, MPI_INTEGER8, to, 1 + mod(k, 2), on, &
                    q(k) NO_E)
            end if
        end do
    end subroutine

    !> Find a message in one of four ways and receive it: its length, or -1.
    integer function find(source, on, st)
        integer, intent(in) :: source
        COMM_T, intent(in) :: on
        STATUS_T(st)
        MESSAGE_T :: message
        REQUEST_T :: q
        integer :: how, ierr, words, from, tag
        logical :: flag
        find = -1
        how = mod(step/3, 4)
        flag = .false.
        ierr = MPI_SUCCESS
        message = MPI_MESSAGE_NULL
        select case (how)
        case (0)
            call MPI_Probe(source, MPI_ANY_TAG, on, st, ierr)
        case (1)
            do while (ierr == MPI_SUCCESS .and. (flag .eqv. .false.))
                call MPI_Iprobe(source, MPI_ANY_TAG, on, flag, st, ierr)
            end do
            call check(flag .eqv. .true., 'MPI_Iprobe')
        case (2)
            call MPI_Mprobe(source, MPI_ANY_TAG, on, message, st, ierr)
        case default
            do while (ierr == MPI_SUCCESS .and. .not. flag)
                call MPI_Improbe(source, MPI_ANY_TAG, on, flag, message, st, ierr)
            end do
            call check(flag .eqv. .true., 'MPI_Improbe')
        end select
        if (ierr /= MPI_SUCCESS) return
        call MPI_Get_count(st, MPI_INTEGER8, words NO_E)
        from = SOURCE_OF(st)
        tag = TAG_OF(st)
        call check(source == MPI_ANY_SOURCE .or. source == from, 'the source of a probe')
        call check(words >= head .and. words <= longest, 'the length of a probe')
        if (words < head .or. words > longest) return
        select case (how)
        case (0, 1)
            call MPI_Recv(theirs, words, MPI_INTEGER8, from, tag, on, st, ierr)
        case (2)
            call check(message /= MPI_MESSAGE_NULL, 'MPI_Mprobe')
            call MPI_Mrecv(theirs, words, MPI_INTEGER8, message, st, ierr)
            call check(message == MPI_MESSAGE_NULL, 'MPI_Mrecv')
        case default
            call MPI_Imrecv(theirs, words, MPI_INTEGER8, message, q, ierr)
            call check(message == MPI_MESSAGE_NULL, 'MPI_Imrecv')
            if (ierr == MPI_SUCCESS) call MPI_Wait(q, st, ierr)
        end select
        call check(ierr == MPI_SUCCESS, 'the receive of what was found')
        call check_status(st, from, tag, words)
        find = words
    end function

    subroutine probe()
        REQUEST_T :: q(ranks)
        STATUS_T(st)
        integer :: k, words, source
        logical :: named
        COMM_T :: on
        named = mod(step, 3) == 0
        on = comm
        if (named) on = other
        call send_to_all(named, q)
        do k = 1, np - 1
            source = MPI_ANY_SOURCE
            if (named) source = partner(-k)
            words = find(source, on, st)
            if (words < 0) return
            call take(SOURCE_OF(st), 1, theirs(:, 0, 1), words, int(theirs(3, 0, 1)))
            call mid()
        end do
        call MPI_Waitall(np - 1, q, MPI_STATUSES_IGNORE NO_E)
        if (mod(step, 2) == 1) call MPI_Barrier(comm NO_E)
    end subroutine

    subroutine wildcard()
        REQUEST_T :: q(ranks), in(ranks)
        STATUS_T(st)
        integer :: k, n, words, ierr, from
        integer(int64) :: answer(1)
        logical :: begun
        n = np - 1
        begun = mod(step, 3) > 0
        if (mod(step, 3) == 2) call send_to_all(.false., q)
        do k = 1, n
            if (begun) call MPI_Irecv(theirs(1, k, 1), longest, MPI_INTEGER8, MPI_ANY_SOURCE, &
                MPI_ANY_TAG, comm, in(k) NO_E)
        end do
        if (mod(step, 3) /= 2) call send_to_all(.false., q)
        do k = 1, n
            if (begun) then
                call MPI_Wait(in(k), st, ierr)
            else
                call MPI_Recv(theirs(1, k, 1), longest, MPI_INTEGER8, MPI_ANY_SOURCE, &
                    MPI_ANY_TAG, comm, st, ierr)
            end if
            if (ierr /= MPI_SUCCESS) return
            call MPI_Get_count(st, MPI_INTEGER8, words NO_E)
            from = SOURCE_OF(st)
            call check(words >= head .and. from >= 0 .and. from < np .and. from /= me, &
                'what has come from any')
            if (words < head) return
            call take(from, 1, theirs(:, k, 1), words, int(theirs(3, k, 1)))
            if (mod(theirs(3, k, 1), 2_int64) == 1) then
                answers(1, from, 1) = state
                call MPI_Send(answers(1, from, 1), 1, MPI_INTEGER8, from, 9, other NO_E)
            end if
            call mid()
        end do
        do k = 1, merge(n, 0, mod(step, 2) == 1)
            from = partner(k)
            if (mod(step, 4) == 1) from = MPI_ANY_SOURCE
            call MPI_Recv(answer, 1, MPI_INTEGER8, from, 9, other, MPI_STATUS_IGNORE NO_E)
            state = mix(answer(1), state)
        end do
        call MPI_Waitall(n, q, MPI_STATUSES_IGNORE NO_E)
        if (mod(step, 2) == 1) call MPI_Barrier(comm NO_E)
    end subroutine

    ! ---- Cancelled and freed ------------------------------------------------------------

    subroutine cancel_all(q)
        REQUEST_T, intent(inout) :: q(:)
        STATUS_T(st)
        integer :: k
        logical :: cancelled
        do k = 1, np - 1
            cancelled = .false.
            call MPI_Cancel(q(k) NO_E)
            call MPI_Wait(q(k), st NO_E)
            call MPI_Test_cancelled(st, cancelled NO_E)
            call check(cancelled .eqv. .true., 'MPI_Cancel')
        end do
    end subroutine

    subroutine cancel()
        REQUEST_T :: nothing(ranks), in(ranks), q
        STATUS_T(st)
        logical :: flag
        integer :: k, from, ierr
        do k = 1, np - 1
            from = partner(k)
            if (k == 1 .and. mod(step, 2) == 1) from = MPI_ANY_SOURCE
            call MPI_Irecv(vain(k), 1, MPI_INTEGER8, from, 77, comm, nothing(k) NO_E)
        end do
        do k = 1, np - 1
            from = partner(-k)
            call MPI_Irecv(theirs(1, from, 1), longest, MPI_INTEGER8, from, 1, comm, in(k) NO_E)
        end do
        do k = 1, np - 1
            call begin_send(partner(k), 1, mod(step + k, 3), comm, 1, q)
            call MPI_Request_free(q NO_E)
            call check(q == MPI_REQUEST_NULL, 'MPI_Request_free')
        end do
        call mid()
        do k = 1, np - 1
            from = partner(-k)
            flag = mod(k, 2) == 0
            do while (flag .eqv. .false.)
                call MPI_Request_get_status(in(k), flag, st, ierr)
                if (ierr /= MPI_SUCCESS) exit
                if (flag) call check_status(st, from, 1, words_of(from, me, 1))
            end do
            call check(in(k) /= MPI_REQUEST_NULL, 'MPI_Request_get_status')
            if (k == min(2, np - 1)) call cancel_all(nothing)
            flag = .false.
            do while (mod(step, 2) == 0 .and. .not. flag)
                call MPI_Test(in(k), flag, st NO_E)
            end do
            if (mod(step, 2) == 1) call MPI_Wait(in(k), st NO_E)
            call check_status(st, from, 1, words_of(from, me, 1))
            call take(from, 1, theirs(:, from, 1), words_of(from, me, 1))
        end do
        call MPI_Barrier(comm NO_E)
    end subroutine

    ! ---- The program --------------------------------------------------------------------

    subroutine p2p_begin()
        integer :: bytes
        kept = MPI_REQUEST_NULL
        call MPI_Comm_dup(comm, other NO_E)
        allocate (attached(most*ranks*(longest + MPI_BSEND_OVERHEAD)))
        bytes = size(attached)*8
        call MPI_Buffer_attach(attached, bytes NO_E)
        if (family == 'persistent') call persistent_begin()
    end subroutine

    subroutine p2p_end()
#ifdef USE_F08
        type(c_ptr) :: address
#elif defined(USE_MPI)
        integer(MPI_ADDRESS_KIND) :: address
#else
        integer(8) :: address
#endif
        integer :: i, bytes
        do i = 1, size(kept)
            if (kept(i) /= MPI_REQUEST_NULL) call MPI_Request_free(kept(i) NO_E)
        end do
        call MPI_Comm_free(other NO_E)
        call check(other == MPI_COMM_NULL, 'MPI_Comm_free')
        call MPI_Buffer_detach(address, bytes NO_E)
        deallocate (attached)
    end subroutine

    !> A step of a family that is in here.
    logical function p2p_step()
        p2p_step = .true.
        select case (family)
        case ('blocking')
            call blocking()
        case ('nonblocking')
            call nonblocking()
        case ('any')
            call any_of_them()
        case ('persistent')
            call persistent()
        case ('probe')
            call probe()
        case ('wildcard')
            call wildcard()
        case ('cancel')
            call cancel()
        case default
            p2p_step = .false.
        end select
    end function
end module
