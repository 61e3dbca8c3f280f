! What cannot be done while messages are logged, from Fortran: each such call fails with
! MPI_ERR_UNSUPPORTED_OPERATION, and nothing else happens; on MPI_COMM_SELF it still works.
! As tests/mpi/refused.c.  That results are left alone is seen with mpif.h: elsewhere they are
! intent(out), and not defined after an error.  And attributes of communicators, which have callbacks
! and values of Fortran: a duplicate has what the copy callback gives it (MPI 4.0, 7.7.2).
!
!  Rank 0 prints "OK checks"; the first mismatch ends the job.
!
! SPDX-License-Identifier: BSD-3-Clause
#include "binding.h"
! Open MPI 5.0 has forgotten it in mpi_f08.
#ifdef USE_F08
#define PSEND_INFO
#else
#define PSEND_INFO , MPI_INFO_NULL
#endif
program refused
    use, intrinsic :: iso_c_binding
    use ftkit
#include "use.h"
    type(ftkit_ctx) :: ft
    COMM_T, target :: comm
    COMM_T :: half
    external :: adds_one, drops
    integer :: me, np, ierr, checks = 0, i
#ifndef USE_F08
    integer :: unused
#endif

    call MPI_Init(ierr)
    call ftkit_open(MPI_COMM_WORLD, '', ft)
    call ftkit_bind_comm(ft, comm)
    call MPI_Comm_rank(comm, me NO_E)
    call MPI_Comm_size(comm, np NO_E)
    call ftkit_recover(ft)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN NO_E)
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN NO_E)
    call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN NO_E)
    call MPI_Comm_split(comm, mod(me, 2), me, half NO_E)
    do i = 1, 2
        call processes(merge_comm(i))
        call sessions(merge_comm(i))
        call others(merge_comm(i))
        call goes_on(merge_comm(i))
        call ftkit_checkpoint(ft)
    end do
    call on_self()
    call attributes(MPI_COMM_WORLD)
    call attributes(comm)
    call attributes(half)
    call attributes(MPI_COMM_SELF)
    call goes_on(comm)
    call MPI_Comm_free(half NO_E)
    call ftkit_close(ft)
    if (me == 0) print '(a, i0)', 'OK ', checks
    call MPI_Finalize(ierr)

contains

    function merge_comm(i) result(on)
        integer, intent(in) :: i
        COMM_T :: on
        on = comm
        if (i == 2) on = half
    end function

    subroutine check(good, what)
        logical, intent(in) :: good
        character(len=*), intent(in) :: what
        checks = checks + 1
        if (good) return
        print '(a, i0, 2a)', 'refused: rank ', me, ': ', what
        call MPI_Abort(MPI_COMM_WORLD, 1 NO_E)
        stop 1
    end subroutine

    subroutine expect(code, what)
        integer, intent(in) :: code
        character(len=*), intent(in) :: what
        integer :: class
        call MPI_Error_class(code, class NO_E)
        call check(class == MPI_ERR_UNSUPPORTED_OPERATION, what)
    end subroutine

    subroutine processes(on)
        COMM_T, intent(in) :: on
        COMM_T :: made, dup
        integer :: codes(1), counts(1)
        INFO_T :: infos(1)
        character(len=8) :: commands(1), arguments(2), tables(1, 2)
        commands = 'none'
        arguments = ['a', ' ']
        tables = ' '
        counts = 1
        infos = MPI_INFO_NULL
        made = MPI_COMM_NULL
        call MPI_Comm_spawn('none', MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, on, made, &
            MPI_ERRCODES_IGNORE, ierr)
        call expect(ierr, 'MPI_Comm_spawn')
        call MPI_Comm_spawn('none', arguments, 1, MPI_INFO_NULL, 0, on, made, codes, ierr)
        call expect(ierr, 'MPI_Comm_spawn with arguments')
        call MPI_Comm_spawn_multiple(1, commands, tables, counts, infos, 0, on, made, codes, ierr)
        call expect(ierr, 'MPI_Comm_spawn_multiple')
        call MPI_Comm_accept('none', MPI_INFO_NULL, 0, on, made, ierr)
        call expect(ierr, 'MPI_Comm_accept')
        call MPI_Comm_connect('none', MPI_INFO_NULL, 0, on, made, ierr)
        call expect(ierr, 'MPI_Comm_connect')
        call MPI_Comm_join(-1, made, ierr)
        call expect(ierr, 'MPI_Comm_join')
#ifdef USE_MPIFH
        call check(made == MPI_COMM_NULL, 'a communicator')
#endif
        call MPI_Comm_dup(on, dup NO_E)
        call MPI_Comm_disconnect(dup, ierr)
        call check(ierr == MPI_SUCCESS .and. dup == MPI_COMM_NULL, 'MPI_Comm_disconnect')
    end subroutine

    subroutine sessions(on)
        COMM_T, intent(in) :: on
        GROUP_T :: group
        SESSION_T :: session
        COMM_T :: made
        made = MPI_COMM_NULL
        session = MPI_SESSION_NULL
        call MPI_Comm_group(on, group NO_E)
        call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session, ierr)
        call expect(ierr, 'MPI_Session_init')
        call MPI_Comm_create_from_group(group, 'here', MPI_INFO_NULL, MPI_ERRORS_RETURN, made, ierr)
        call expect(ierr, 'MPI_Comm_create_from_group')
#ifndef USE_F08 /* it is not there in Open MPI 5.0 */
        call MPI_Intercomm_create_from_groups(group, 0, group, 0, 'here', MPI_INFO_NULL, &
            MPI_ERRORS_RETURN, made, ierr)
        call expect(ierr, 'MPI_Intercomm_create_from_groups')
#endif
#ifdef USE_MPIFH
        call check(made == MPI_COMM_NULL, 'a communicator of a session')
#endif
        call MPI_Group_free(group NO_E)
    end subroutine

    subroutine others(on)
        COMM_T, intent(in) :: on
        real(8), asynchronous :: x(4)
        integer(MPI_COUNT_KIND), parameter :: two = 2
        REQUEST_T :: q
        FILE_T :: file
        integer :: members
        x = 0
        q = MPI_REQUEST_NULL
        file = MPI_FILE_NULL
        call MPI_Psend_init(x, 2, two, MPI_DOUBLE_PRECISION, 0, 6, on PSEND_INFO, q, ierr)
        call expect(ierr, 'MPI_Psend_init')
        call MPI_Precv_init(x, 2, two, MPI_DOUBLE_PRECISION, 0, 6, on PSEND_INFO, q, ierr)
        call expect(ierr, 'MPI_Precv_init')
        call MPI_Comm_size(on, members NO_E)
        if (members > 1) then
            call MPI_File_open(on, 'none', ior(MPI_MODE_CREATE, MPI_MODE_WRONLY), &
                MPI_INFO_NULL, file, ierr)
            call expect(ierr, 'MPI_File_open')
        end if
#ifdef USE_MPIFH
        call check(q == MPI_REQUEST_NULL .and. file == MPI_FILE_NULL, 'a file')
#endif
    end subroutine

    subroutine goes_on(on)
        COMM_T, intent(in) :: on
        integer :: total, rank, size
        call MPI_Comm_rank(on, rank NO_E)
        call MPI_Comm_size(on, size NO_E)
        call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, on, ierr)
        call check(ierr == MPI_SUCCESS .and. total == size*(size - 1)/2, 'it goes on')
    end subroutine

    !> A duplicate gets value from a key with this callback, or nothing.
    subroutine copied(on, key, value, found, what)
        COMM_T, intent(in) :: on
        integer, intent(in) :: key
        integer(MPI_ADDRESS_KIND), intent(in) :: value
        logical, intent(in) :: found
        character(len=*), intent(in) :: what
        COMM_T :: dup
        integer(MPI_ADDRESS_KIND) :: got
        logical :: has
        got = -1
        call MPI_Comm_dup(on, dup NO_E)
        call MPI_Comm_get_attr(dup, key, got, has NO_E)
        call check((has .eqv. found) .and. (got == value .or. .not. found), what)
        call MPI_Comm_free(dup NO_E)
    end subroutine

    subroutine attributes(on)
        COMM_T, intent(in) :: on
        integer(MPI_ADDRESS_KIND) :: extra, value, most
        integer :: key(3), i
        logical :: has
        extra = 40
        call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key(1), extra NO_E)
        call MPI_Comm_create_keyval(adds_one, MPI_COMM_NULL_DELETE_FN, key(2), extra NO_E)
        call MPI_Comm_create_keyval(drops, MPI_COMM_NULL_DELETE_FN, key(3), extra NO_E)
        do i = 1, 3
            value = huge(value) - 100
            call copied(on, key(i), value, .false., 'no value')
            call MPI_Comm_set_attr(on, key(i), value NO_E)
        end do
        call copied(on, key(1), value, .true., 'MPI_COMM_DUP_FN')
        call copied(on, key(2), value + 41, .true., 'a copy callback')
        call copied(on, key(3), value, .false., 'a copy callback that gives nothing')
        do i = 1, 3
            call MPI_Comm_delete_attr(on, key(i) NO_E)
            call MPI_Comm_free_keyval(key(i) NO_E)
        end do
        if (on /= MPI_COMM_SELF) then
            call MPI_Comm_get_attr(on, MPI_TAG_UB, most, has NO_E)
            call check(has .and. most == 1048575, 'MPI_TAG_UB')
        end if
#ifndef USE_F08
        call old_attributes(on)
#endif
    end subroutine

#ifndef USE_F08
    !> By the names of MPI-1.
    subroutine old_attributes(on)
        COMM_T, intent(in) :: on
        COMM_T :: dup
        integer :: key, got
        logical :: has
        external :: MPI_DUP_FN, MPI_NULL_DELETE_FN
        call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, key, 0, ierr)
        call MPI_Attr_put(on, key, 12345, ierr)
        call MPI_Comm_dup(on, dup, ierr)
        got = 0
        call MPI_Attr_get(dup, key, got, has, ierr)
        call check(has .and. got == 12345, 'MPI_Keyval_create')
        call MPI_Comm_free(dup, ierr)
        call MPI_Attr_delete(on, key, ierr)
        call MPI_Keyval_free(key, ierr)
        if (on == MPI_COMM_SELF) return
        call MPI_Attr_get(on, MPI_TAG_UB, got, has, ierr)
        call check(has .and. got == 1048575, 'MPI_Attr_get of MPI_TAG_UB')
    end subroutine
#endif

    !> A file and a window of one process.
    subroutine on_self()
        FILE_T :: file
        WIN_T :: win
        COMM_T :: dup
        integer, asynchronous :: memory(4), five(1), got(1)
        character(len=64) :: path
        integer(MPI_ADDRESS_KIND), parameter :: bytes = 16, two = 2
        integer(MPI_OFFSET_KIND), parameter :: start = 0
        memory = 0
        five = 5
        got = 0
        write (path, '(a, i0)') 'refused.f.', me
        call MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, MPI_COMM_SELF, win, ierr)
        call check(ierr == MPI_SUCCESS, 'a window on MPI_COMM_SELF')
        call MPI_Win_fence(0, win NO_E)
        call MPI_Put(five, 1, MPI_INTEGER, 0, two, 1, MPI_INTEGER, win NO_E)
        call MPI_Win_fence(0, win NO_E)
        call check(memory(3) == 5, 'MPI_Put')
        call MPI_Win_free(win NO_E)
        call MPI_File_open(MPI_COMM_SELF, path, ior(MPI_MODE_CREATE, ior(MPI_MODE_RDWR, &
            MPI_MODE_DELETE_ON_CLOSE)), MPI_INFO_NULL, file, ierr)
        call check(ierr == MPI_SUCCESS, 'a file on MPI_COMM_SELF')
        call MPI_File_write_at(file, start, five, 1, MPI_INTEGER, MPI_STATUS_IGNORE NO_E)
        call MPI_File_read_at(file, start, got, 1, MPI_INTEGER, MPI_STATUS_IGNORE NO_E)
        call check(got(1) == 5, 'MPI_File_read_at')
        call MPI_File_close(file NO_E)
        call MPI_Comm_dup(MPI_COMM_SELF, dup NO_E)
        call MPI_Comm_disconnect(dup, ierr)
        call check(ierr == MPI_SUCCESS .and. dup == MPI_COMM_NULL, 'MPI_Comm_disconnect')
    end subroutine
end program

subroutine adds_one(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, flag, &
    ierror)
#include "use.h"
    COMM_T :: oldcomm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    attribute_val_out = attribute_val_in + extra_state + 1
    flag = oldcomm /= MPI_COMM_NULL .and. comm_keyval /= MPI_KEYVAL_INVALID
    ierror = MPI_SUCCESS
end subroutine

subroutine drops(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, flag, &
    ierror)
#include "use.h"
    COMM_T :: oldcomm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    attribute_val_out = attribute_val_in + extra_state
    flag = oldcomm == MPI_COMM_NULL .or. comm_keyval == MPI_KEYVAL_INVALID
    ierror = MPI_SUCCESS
end subroutine
