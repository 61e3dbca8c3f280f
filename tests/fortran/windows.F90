! Windows of MPI with the message log, from Fortran: attributes, hints, error handlers, put, get and
! accumulates with fences and with post, start, complete and wait; with log.teams = all also locks,
! requests and shared memory.
!
!  A rank passes app.mid once, behind operations of an epoch.  Rank 0 prints "OK checks"; the first mismatch ends the job.
!
! SPDX-License-Identifier: BSD-3-Clause
#include "binding.h"
program windows
    use, intrinsic :: iso_c_binding
    use ftkit
#include "use.h"
    type(ftkit_ctx) :: ft
    COMM_T, target :: comm
    integer :: me, np, ierr, checks = 0, next, last
    integer, target, asynchronous :: x(8)
    character(len=8) :: teams
    WIN_T :: win
    integer(MPI_ADDRESS_KIND), parameter :: bytes = 32
    interface
        integer(c_int) function test_fault(point) bind(c)
            import :: c_int, c_char
            character(kind=c_char), intent(in) :: point(*)
        end function
    end interface
    integer :: ignored
#ifndef USE_F08
    integer :: unused
#endif

    call MPI_Init(ierr)
    call ftkit_open(MPI_COMM_WORLD, '', ft)
    call ftkit_bind_comm(ft, comm)
    call MPI_Comm_rank(comm, me NO_E)
    call MPI_Comm_size(comm, np NO_E)
    next = mod(me + 1, np)
    last = mod(me + np - 1, np)
    call MPI_Win_create(x, bytes, 4, MPI_INFO_NULL, comm, win, ierr)
    call check(ierr == MPI_SUCCESS .and. win /= MPI_WIN_NULL, 'MPI_Win_create')
    x = 0
    call ftkit_register(ft, 'x', x)
    call ftkit_recover(ft)
    call ftkit_checkpoint(ft)
    call facts()
    call attributes()
    call errors()
    call fences()
    call combined()
    call epochs()
    call get_environment_variable('FTKIT_LOG_TEAMS', teams)
    if (teams == 'all') call locks()
    call MPI_Win_free(win, ierr)
    call check(ierr == MPI_SUCCESS .and. win == MPI_WIN_NULL, 'MPI_Win_free')
    call allocated()
    call attached()
    call from_bottom()
    if (teams == 'all') call shared()
    call ftkit_close(ft)
    if (me == 0) print '(a, i0)', 'OK ', checks
    call MPI_Finalize(ierr)

contains

    subroutine check(good, what)
        logical, intent(in) :: good
        character(len=*), intent(in) :: what
        checks = checks + 1
        if (good) return
        print '(a, i0, 2a)', 'windows: rank ', me, ': ', what
        call MPI_Abort(MPI_COMM_WORLD, 1 NO_E)
        stop 1
    end subroutine

    subroutine facts()
        integer(MPI_ADDRESS_KIND) :: value
        logical :: flag
        integer :: length, order
        character(len=MPI_MAX_OBJECT_NAME) :: name
        GROUP_T :: group, world
        call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag NO_E)
        call check(flag .and. value == bytes, 'MPI_WIN_SIZE')
        call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, flag NO_E)
        call check(flag .and. value == 4, 'MPI_WIN_DISP_UNIT')
        call MPI_Win_get_attr(win, MPI_WIN_BASE, value, flag NO_E)
        call check(flag .and. value /= 0, 'MPI_WIN_BASE')
        call MPI_Win_set_name(win, 'a window' NO_E)
        call MPI_Win_get_name(win, name, length NO_E)
#ifndef USE_F08
        ! mpi_f08 of Open MPI 5.0 returns another text
        call check(name(1:length) == 'a window', 'MPI_Win_get_name')
#endif
        call MPI_Win_get_group(win, group NO_E)
        call MPI_Comm_group(comm, world NO_E)
        call MPI_Group_compare(group, world, order NO_E)
        call check(order == MPI_IDENT, 'MPI_Win_get_group')
        call MPI_Group_free(group NO_E)
        call MPI_Group_free(world NO_E)
    end subroutine

    subroutine attributes()
        integer(MPI_ADDRESS_KIND), parameter :: mine = 4711
        integer(MPI_ADDRESS_KIND) :: value
        integer :: key
        logical :: flag
        character(len=MPI_MAX_INFO_VAL) :: text
        INFO_T :: info
        value = 0
        call MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, key, value NO_E)
        call MPI_Win_set_attr(win, key, mine, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Win_set_attr')
        call MPI_Win_get_attr(win, key, value, flag NO_E)
        call check(flag .and. value == mine, 'the value of MPI_Win_set_attr')
        call MPI_Win_delete_attr(win, key NO_E)
        call MPI_Win_get_attr(win, key, value, flag NO_E)
        call check(.not. flag, 'MPI_Win_delete_attr')
        call MPI_Win_free_keyval(key NO_E)
        call MPI_Info_create(info NO_E)
        call MPI_Info_set(info, 'no_locks', 'false' NO_E)
        call MPI_Win_set_info(win, info, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Win_set_info')
        call MPI_Info_free(info NO_E)
        call MPI_Win_get_info(win, info NO_E)
        call MPI_Info_get(info, 'no_locks', MPI_MAX_INFO_VAL, text, flag NO_E)
        call check(flag .and. text(1:5) == 'false', 'the value of MPI_Win_set_info')
        call MPI_Info_free(info NO_E)
    end subroutine

    subroutine errors()
        integer, asynchronous :: mine(1)
        integer(MPI_ADDRESS_KIND), parameter :: at = 0
        integer :: class
        call MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN NO_E)
        mine = 0
        call MPI_Put(mine, 1, MPI_INTEGER, me, at, 1, MPI_INTEGER, win, ierr) ! in no epoch
        call MPI_Error_class(ierr, class NO_E)
        call check(class == MPI_ERR_RMA_SYNC, 'MPI_Win_set_errhandler')
        call MPI_Win_set_errhandler(win, MPI_ERRORS_ARE_FATAL NO_E)
    end subroutine

    subroutine combined()
        integer, asynchronous :: one(1), wanted(1), was(1), more(2), old(2)
        integer(MPI_ADDRESS_KIND) :: at
        x = [100*me + 1, 100*me + 2, 100*me + 3, 100*me + 4, 0, 0, 0, 0]
        call MPI_Win_fence(0, win NO_E)
        one = 5
        wanted = 100*next + 1
        at = 0
        call MPI_Compare_and_swap(one, wanted, was, MPI_INTEGER, next, at, win, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Compare_and_swap')
        more = [7, 8]
        at = 2
        call MPI_Get_accumulate(more, 2, MPI_INTEGER, old, 2, MPI_INTEGER, next, at, 2, MPI_INTEGER, &
            MPI_SUM, win, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Get_accumulate')
        call MPI_Win_fence(MPI_MODE_NOSUCCEED, win NO_E)
        call check(was(1) == 100*next + 1 .and. x(1) == 5, 'what MPI_Compare_and_swap has swapped')
        call check(all(old == [100*next + 3, 100*next + 4]), 'what MPI_Get_accumulate has got')
        call check(x(3) == 100*me + 10 .and. x(4) == 100*me + 12, '... and has added')
    end subroutine

    subroutine fences()
        integer, asynchronous :: mine(2), got(2), old(1), one(1)
        integer(MPI_ADDRESS_KIND) :: at
        x = 0
        mine = [10 * me, 10 * me + 1]
        at = 2
        call MPI_Win_fence(MPI_MODE_NOPRECEDE, win, ierr)
        call MPI_Put(mine, 2, MPI_INTEGER, next, at, 2, MPI_INTEGER, win, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Put')
        ignored = test_fault('app.mid'//c_null_char)
        call MPI_Win_fence(0, win NO_E)
        call check(x(3) == 10 * last .and. x(4) == 10 * last + 1, 'what MPI_Put has put')
        call MPI_Get(got, 2, MPI_INTEGER, next, at, 2, MPI_INTEGER, win, ierr)
        at = 5
        one = 1
        call MPI_Accumulate(one, 1, MPI_INTEGER, 0, at, 1, MPI_INTEGER, MPI_SUM, win NO_E)
        at = 6
        call MPI_Fetch_and_op(one, old, MPI_INTEGER, next, at, MPI_SUM, win NO_E)
        call MPI_Win_fence(0, win NO_E)
        call check(got(1) == 10 * me .and. got(2) == 10 * me + 1, 'what MPI_Get has got')
        call check(old(1) == 0 .and. x(7) == 1, 'MPI_Fetch_and_op')
        if (me == 0) call check(x(6) == np, 'MPI_Accumulate')
        call MPI_Win_fence(MPI_MODE_NOSUCCEED, win NO_E)
    end subroutine

    subroutine epochs()
        GROUP_T :: world, to, from
        integer, asynchronous :: mine(1)
        integer(MPI_ADDRESS_KIND), parameter :: first = 0
        logical :: done
        integer :: ranks(1)
        call MPI_Comm_group(comm, world NO_E)
        ranks = next
        call MPI_Group_incl(world, 1, ranks, to NO_E)
        ranks = last
        call MPI_Group_incl(world, 1, ranks, from NO_E)
        mine = 70 + me
        call MPI_Win_post(from, 0, win NO_E)
        call MPI_Win_start(to, 0, win NO_E)
        call MPI_Put(mine, 1, MPI_INTEGER, next, first, 1, MPI_INTEGER, win NO_E)
        call MPI_Win_complete(win, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Win_complete')
        call MPI_Win_wait(win, ierr)
        call check(ierr == MPI_SUCCESS .and. x(1) == 70 + last, 'MPI_Win_wait')
        call MPI_Win_post(from, 0, win NO_E)
        call MPI_Win_start(to, 0, win NO_E)
        call MPI_Win_complete(win NO_E)
        done = .false.
        do while (.not. done)
            call MPI_Win_test(win, done, ierr)
            call check(ierr == MPI_SUCCESS, 'MPI_Win_test')
        end do
        call MPI_Group_free(world NO_E)
        call MPI_Group_free(to NO_E)
        call MPI_Group_free(from NO_E)
    end subroutine

    subroutine locks()
        integer, asynchronous :: mine(1), got(1)
        integer(MPI_ADDRESS_KIND), parameter :: at = 1
        REQUEST_T :: request
        mine = 90 + me
        call MPI_Win_lock_all(0, win, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Win_lock_all')
        call MPI_Rput(mine, 1, MPI_INTEGER, next, at, 1, MPI_INTEGER, win, request NO_E)
        call MPI_Wait(request, MPI_STATUS_IGNORE NO_E)
        call MPI_Win_flush(next, win NO_E)
        call MPI_Rget(got, 1, MPI_INTEGER, next, at, 1, MPI_INTEGER, win, request NO_E)
        call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
        call check(ierr == MPI_SUCCESS .and. got(1) == 90 + me, 'MPI_Rget')
        mine = 1000
        call MPI_Rget_accumulate(mine, 1, MPI_INTEGER, got, 1, MPI_INTEGER, next, at, 1, MPI_INTEGER, &
            MPI_SUM, win, request NO_E)
        call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
        call check(ierr == MPI_SUCCESS .and. got(1) == 90 + me, 'MPI_Rget_accumulate')
        call MPI_Win_flush_all(win, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Win_flush_all')
        mine = -1000
        call MPI_Raccumulate(mine, 1, MPI_INTEGER, next, at, 1, MPI_INTEGER, MPI_SUM, win, request NO_E)
        call MPI_Wait(request, MPI_STATUS_IGNORE NO_E)
        call MPI_Win_flush_local(next, win, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Win_flush_local')
        call MPI_Win_flush_local_all(win, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Win_flush_local_all')
        call MPI_Win_unlock_all(win NO_E)
        call MPI_Barrier(comm NO_E)
        call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win NO_E)
        call check(x(2) == 90 + last, 'MPI_Win_lock')
        call MPI_Win_unlock(me, win, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Win_unlock')
    end subroutine

    subroutine allocated()
        WIN_T :: own
        integer, asynchronous :: mine(1)
        integer, pointer :: memory(:)
        integer(MPI_ADDRESS_KIND), parameter :: at = 3
        type(c_ptr) :: base
        integer(MPI_ADDRESS_KIND) :: value
        logical :: flag
#ifdef USE_MPIFH
        integer(MPI_ADDRESS_KIND) :: address
        call MPI_Win_allocate(bytes, 4, MPI_INFO_NULL, comm, address, own, ierr)
        base = transfer(address, base)
#else
        call MPI_Win_allocate(bytes, 4, MPI_INFO_NULL, comm, base, own, ierr)
#endif
        call check(ierr == MPI_SUCCESS, 'MPI_Win_allocate')
        call MPI_Win_get_attr(own, MPI_WIN_CREATE_FLAVOR, value, flag NO_E)
        call check(flag .and. value == MPI_WIN_FLAVOR_ALLOCATE, 'MPI_WIN_CREATE_FLAVOR')
        call c_f_pointer(base, memory, [8])
        memory = -1
        mine = me
        call MPI_Win_fence(0, own NO_E)
        call MPI_Put(mine, 1, MPI_INTEGER, next, at, 1, MPI_INTEGER, own NO_E)
        call MPI_Win_fence(0, own NO_E)
        call check(memory(4) == last .and. memory(3) == -1, 'memory of MPI_Win_allocate')
        call MPI_Win_free(own NO_E)
    end subroutine

    subroutine shared()
        WIN_T :: own
        integer, pointer :: memory(:), others(:)
        integer(MPI_ADDRESS_KIND) :: length
        integer :: unit
        type(c_ptr) :: base
#ifdef USE_MPIFH
        integer(MPI_ADDRESS_KIND) :: address
        call MPI_Win_allocate_shared(bytes, 4, MPI_INFO_NULL, comm, address, own, ierr)
        base = transfer(address, base)
#else
        call MPI_Win_allocate_shared(bytes, 4, MPI_INFO_NULL, comm, base, own, ierr)
#endif
        call check(ierr == MPI_SUCCESS, 'MPI_Win_allocate_shared')
        call c_f_pointer(base, memory, [8])
        memory = me
        call MPI_Win_sync(own NO_E)
        call MPI_Barrier(comm NO_E)
#ifdef USE_MPIFH
        call MPI_Win_shared_query(own, next, length, unit, address, ierr)
        base = transfer(address, base)
#else
        call MPI_Win_shared_query(own, next, length, unit, base, ierr)
#endif
        call check(ierr == MPI_SUCCESS .and. length == bytes .and. unit == 4, 'MPI_Win_shared_query')
        call c_f_pointer(base, others, [8])
        call check(all(others == next), 'memory of MPI_Win_allocate_shared')
        call MPI_Barrier(comm NO_E)
        call MPI_Win_free(own NO_E)
    end subroutine

    !> All memory of the process, with the displacements that MPI_Get_address gives.
    subroutine from_bottom()
        WIN_T :: own
        integer, asynchronous :: mine(1)
        integer(MPI_ADDRESS_KIND) :: address(1), there(1)
        call MPI_Get_address(x, address(1) NO_E)
        call MPI_Win_create(MPI_BOTTOM, address(1) + bytes, 1, MPI_INFO_NULL, comm, own, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Win_create of MPI_BOTTOM')
        call MPI_Sendrecv(address, 1, MPI_AINT, last, 6, there, 1, MPI_AINT, next, 6, comm, &
            MPI_STATUS_IGNORE NO_E)
        x = -1
        mine = 50 + me
        call MPI_Win_fence(0, own NO_E)
        call MPI_Put(mine, 1, MPI_INTEGER, next, there(1) + 8, 1, MPI_INTEGER, own NO_E)
        call MPI_Win_fence(0, own NO_E)
        call check(x(3) == 50 + last .and. x(2) == -1, 'memory from MPI_BOTTOM on')
        call MPI_Win_free(own NO_E)
    end subroutine

    subroutine attached()
        WIN_T :: own
        integer, asynchronous :: mine(1), memory(4)
        integer(MPI_ADDRESS_KIND), parameter :: room = 16
        integer(MPI_ADDRESS_KIND) :: address(1), there(1)
        call MPI_Win_create_dynamic(MPI_INFO_NULL, comm, own, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Win_create_dynamic')
        call MPI_Win_attach(own, memory, room, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Win_attach')
        call MPI_Get_address(memory(2), address(1) NO_E)
        call MPI_Sendrecv(address, 1, MPI_AINT, last, 5, there, 1, MPI_AINT, next, 5, comm, &
            MPI_STATUS_IGNORE NO_E)
        memory = -1
        mine = me
        call MPI_Win_fence(0, own NO_E)
        call MPI_Put(mine, 1, MPI_INTEGER, next, there(1), 1, MPI_INTEGER, own NO_E)
        call MPI_Win_fence(0, own NO_E)
        call check(memory(2) == last .and. memory(1) == -1, 'memory of MPI_Win_attach')
        call MPI_Win_detach(own, memory, ierr)
        call check(ierr == MPI_SUCCESS, 'MPI_Win_detach')
        call MPI_Win_free(own NO_E)
    end subroutine
end program
