! What the programs in Fortran that lose ranks have in common: options, state, messages, the
! result.  As tests/mpi/foreign.h, in short:
!
!   PROGRAM [-n STEPS] [-o RESULT] [-w FILE] [-m FAMILY]
!
! -o: rank 0 writes "OK step S hash H detail", or BAD for OK and exit code 1.  -w: every rank
! adds "rank step" to FILE.<rank> when a step begins.
!
! Every value that is received is compared with what its sender must have sent in this step,
! so that a wrong conversion shows without a failure, too.  What depends on the past goes along
! with it and into the state.
!
! SPDX-License-Identifier: BSD-3-Clause
#include "binding.h"
module foreign
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int64, real64, error_unit
    use ftkit
#include "use.h"

    integer, parameter :: ranks = 8      ! at most
    integer, parameter :: longest = 9000 ! words of a message
    integer, parameter :: head = 4
    integer, parameter :: lengths(0:5) = [head, 40, 64, 65, 600, longest]

    type(ftkit_ctx) :: ft
    COMM_T, target :: comm
    integer, target :: step = 0          ! steps done, registered
    integer :: me, np, steps = 40
    character(len=256) :: out = '', watch = '', family = 'blocking'
    integer :: unused                    ! an error code

    ! registered: the state; sums of tokens, of messages sent and received by partner;
    ! what was not as it must be
    integer(int64), target :: state, tokens, bad
    integer(int64), target :: sent(0:ranks - 1) = 0, received(0:ranks - 1) = 0
    logical :: passed                    ! the fault point in the middle of this step
    integer :: unit_watch = -1

    interface
        integer(c_int) function test_fault(point) bind(c)
            import :: c_int, c_char
            character(kind=c_char), intent(in) :: point(*)
        end function
        integer(c_int64_t) function test_hash(p, bytes, seed) bind(c)
            import :: c_int64_t
            type(*), intent(in) :: p(*)
            integer(c_int64_t), value :: bytes, seed
        end function
        subroutine test_fill(m, words, token, state, step) bind(c)
            import :: c_int64_t, c_int
            integer(c_int64_t), intent(inout) :: m(*)
            integer(c_int), value :: words
            integer(c_int64_t), value :: token, state, step
        end subroutine
        integer(c_int) function test_good(m, words, token, step) bind(c)
            import :: c_int64_t, c_int
            integer(c_int64_t), intent(in) :: m(*)
            integer(c_int), value :: words
            integer(c_int64_t), value :: token, step
        end function
        subroutine test_add(to, what) bind(c)
            import :: c_int64_t
            integer(c_int64_t), intent(inout) :: to
            integer(c_int64_t), value :: what
        end subroutine
        integer(c_int64_t) function test_from_fortran() bind(c)
            import :: c_int64_t
        end function
    end interface

contains

    !> What must be so; the first that is not is told of.
    subroutine check(good, what)
        logical, intent(in) :: good
        character(len=*), intent(in) :: what
        if (good) return
        if (bad == 0) write (error_unit, '(a, i0, a, i0, 2a)') 'calls: rank ', me, ', step ', &
            step, ': ', what
        bad = bad + 1
    end subroutine

    integer(int64) function mix(a, b)
        integer(int64), intent(in) :: a, b
        mix = test_hash([a], 8_int64, b)
    end function

    subroutine mid()
        integer :: ignored
        if (passed) return
        passed = .true.
        ignored = test_fault('app.mid'//c_null_char)
    end subroutine

    ! ---- Messages -----------------------------------------------------------------------

    integer function partner(k)
        integer, intent(in) :: k
        partner = modulo(me + k, np)
    end function

    integer function words_of(from, to, i)
        integer, intent(in) :: from, to, i
        words_of = lengths(mod(step + from*3 + to*5 + i*2, 6))
        if (i > 2) words_of = min(words_of, 65)
    end function

    integer(int64) function token(from, to, at, i)
        integer, intent(in) :: from, to, at, i
        token = mix(int(from*1000 + to*100 + i, int64), int(at, int64))
    end function

    !> Message i of the step to a rank, with the state at this moment.
    subroutine make(to, i, m, words)
        integer, intent(in) :: to, i, words
        integer(int64), intent(inout) :: m(*)
        call test_fill(m, words, token(me, to, step, i), state, int(step, int64))
        call test_add(sent(to), test_hash(m, 8_int64*words, 5_int64))
    end subroutine

    !> It goes into the state; at: the step it was sent in.
    subroutine take(from, i, m, words, at)
        integer, intent(in) :: from, i, words
        integer(int64), intent(in) :: m(*)
        integer, intent(in), optional :: at
        integer :: then
        then = step
        if (present(at)) then = at
        call check(test_good(m, words, token(from, me, then, i), int(then, int64)) /= 0, &
            'a message')
        call test_add(received(from), test_hash(m, 8_int64*words, 5_int64))
        call test_add(tokens, m(1))
        state = test_hash(m, 8_int64*words, state + from)
    end subroutine

    !> A status of a message: its source, tag and length.
    subroutine check_status(st, from, tag, words)
        STATUS_T(st)
        integer, intent(in) :: from, tag, words
        integer :: n
        n = -1
        call MPI_Get_count(st, MPI_INTEGER8, n NO_E)
        call check(SOURCE_OF(st) == from, 'MPI_SOURCE')
        call check(TAG_OF(st) == tag, 'MPI_TAG')
        call check(n == words, 'MPI_Get_count')
    end subroutine

    ! ---- The program --------------------------------------------------------------------

    subroutine options()
        character(len=256) :: name, value
        integer :: i
        do i = 1, command_argument_count(), 2
            call get_command_argument(i, name)
            call get_command_argument(i + 1, value)
            select case (name)
            case ('-n')
                read (value, *) steps
            case ('-o')
                out = value
            case ('-w')
                watch = value
            case ('-m')
                family = value
            case default
                error stop 'see foreign.F90 for the options'
            end select
        end do
    end subroutine

    subroutine begin()
        integer :: ierr
        call ftkit_open(MPI_COMM_WORLD, '', ft, ierr)
        if (ierr /= FTKIT_OK) then
            write (error_unit, *) 'open: ', ftkit_detail()
            call MPI_Finalize(ierr)
            stop 1
        end if
        call ftkit_bind_comm(ft, comm)
        call MPI_Comm_rank(comm, me NO_E)
        call MPI_Comm_size(comm, np NO_E)
        call MPI_Bcast(steps, 1, MPI_INTEGER, 0, comm NO_E)
        state = mix(int(me, int64), 7_int64)
        tokens = 0
        bad = 0
        call ftkit_register_replicated(ft, 'step', step)
        call ftkit_register(ft, 'state', state)
        call ftkit_register(ft, 'tokens', tokens)
        call ftkit_register(ft, 'bad', bad)
        call ftkit_register(ft, 'sent', sent)
        call ftkit_register(ft, 'received', received)
    end subroutine

    !> At the top of a step.
    subroutine begin_step()
        character(len=280) :: path
        integer :: ignored
        passed = .false.
        if (watch /= '') then
            if (unit_watch == -1) then
                write (path, '(2a, i0)') trim(watch), '.', me
                open (newunit=unit_watch, file=path, position='append', action='write')
            end if
            write (unit_watch, '(i0, 1x, i0)') me, step
            flush (unit_watch)
        end if
        ignored = test_fault('app.step'//c_null_char)
    end subroutine

    !> Partners with another history than this rank has of them.
    subroutine compare_pairs()
        integer :: k, to, from
        integer(int64) :: theirs
        do k = 0, np - 1
            to = partner(k)
            from = partner(-k)
            theirs = -1
            call MPI_Sendrecv(sent(to), 1, MPI_INTEGER8, to, 99, theirs, 1, MPI_INTEGER8, &
                from, 99, comm, MPI_STATUS_IGNORE NO_E)
            call check(theirs == received(from), 'sent is not what was received')
        end do
    end subroutine

    !> The result line, and whether all is well.
    logical function verdict(ordered)
        logical, intent(in) :: ordered
        integer(int64) :: mine(3), all(3), counted
        character(len=3) :: word
        logical :: on
        integer :: u
        call MPI_Barrier(comm NO_E)
        call compare_pairs()
        mine = [iand(mix(merge(state, 0_int64, ordered), int(me, int64)), 2_int64**50 - 1), &
            iand(tokens, 2_int64**50 - 1), bad]
        all = -1
        call MPI_Allreduce(mine, all, 3, MPI_INTEGER8, MPI_SUM, comm NO_E)
        counted = test_from_fortran()
        on = logged()
        verdict = all(3) == 0 .and. (counted > 0 .eqv. on)
        if (me /= 0 .or. out == '') return
        word = merge('OK ', 'BAD', verdict)
        open (newunit=u, file=out, action='write')
        write (u, '(2a, i0, a, z16.16, 3a)') trim(word), ' step ', step, ' hash ', &
            mix(all(1), mix(all(2), int(step, int64))), ' ', trim(family)
        close (u)
    end function

    !> Whether messages are logged.
    logical function logged()
        type(ftkit_info) :: info
        call ftkit_query(ft, info)
        logged = info%mode == FTKIT_MODE_TEAM
    end function
end module
