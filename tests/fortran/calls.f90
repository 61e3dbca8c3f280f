! Calls from Fortran on one rank: what is wrong is refused with a code and a text that says
! it, and nothing is copied on the way.  Writes TAP.
!
!   calls PART    parts: refused, accepted, misfit-save, misfit
!
! SPDX-License-Identifier: BSD-3-Clause
module checks
    use, intrinsic :: iso_c_binding
    use mpi_f08
    use ftkit
    implicit none
    integer :: ntests = 0, nlines = 0
    type(ftkit_ctx) :: ft
    type :: thing
        integer :: n
        real(8) :: v
    end type

    interface
        integer(c_int64_t) function test_address(data) bind(c)
            import
            type(*), dimension(..), intent(inout), target :: data
        end function

        pure integer(c_int64_t) function test_info_offset(i) bind(c)
            import
            integer(c_int), value :: i
        end function
    end interface

contains

    subroutine ok(good, what)
        logical, intent(in) :: good
        character(len=*), intent(in) :: what
        ntests = ntests + 1
        print '(2a, i0, 2a)', merge('    ', 'not ', good), 'ok ', ntests, ' - ', what
    end subroutine

    ! A call has returned this code, and the text has this in it.
    subroutine gives(ierr, want, what, text)
        integer, intent(in) :: ierr, want
        character(len=*), intent(in) :: what
        character(len=*), intent(in), optional :: text
        character(len=:), allocatable :: detail
        logical :: good
        good = ierr == want
        detail = ftkit_detail(ft)
        if (present(text)) good = good .and. index(detail, text) > 0
        call ok(good, what)
        if (.not. good) print '(a, i0, 4a)', '# ', ierr, ': ', ftkit_strerror(ierr), ': ', detail
    end subroutine

    ! The same of a call without a context.
    subroutine told(ierr, want, what, text)
        integer, intent(in) :: ierr, want
        character(len=*), intent(in) :: what, text
        character(len=:), allocatable :: detail
        detail = ftkit_detail()
        call ok(ierr == want .and. index(detail, text) > 0, what)
    end subroutine

    subroutine assumed_size(a)
        real(8), intent(inout), target :: a(*)
        integer :: ierr
        call ftkit_register(ft, 'assumed size', a, ierr)
        call gives(ierr, FTKIT_ERR_SIZE, 'an array of assumed size', 'assumed size')
        call ftkit_register(ft, 'assumed size', a(1:4), ierr)
        call gives(ierr, FTKIT_OK, '... with bounds')
    end subroutine

    ! A dummy of a program's own procedure: the array itself, wherever it comes from.
    subroutine assumed_shape(name, a, want)
        character(len=*), intent(in) :: name
        real(8), intent(inout), target :: a(:, :)
        integer, intent(in) :: want
        integer :: ierr
        call ftkit_register(ft, name, a, ierr)
        call gives(ierr, want, name//': a dummy of assumed shape')
    end subroutine

    subroutine any_type(name, a)
        character(len=*), intent(in) :: name
        type(*), dimension(..), intent(inout), target :: a
        integer :: ierr
        call ftkit_register(ft, name, a, ierr)
        call gives(ierr, FTKIT_OK, name//': handed on by a procedure of the program')
    end subroutine

    subroutine line(level, text)
        integer, intent(in) :: level
        character(len=*), intent(in) :: text
        if (level >= FTKIT_LEVEL_ERROR .and. level <= FTKIT_LEVEL_DEBUG .and. len(text) > 5) &
            nlines = nlines + 1
    end subroutine

    integer function refuses(ctx, comm, arg) result(status)
        type(ftkit_ctx), intent(in) :: ctx
        type(MPI_Comm), intent(in) :: comm
        type(c_ptr), intent(in) :: arg
        logical :: failed
        failed = ftkit_failed(ctx)
        status = merge(3, 0, comm /= MPI_COMM_NULL .and. .not. c_associated(arg) .and. .not. failed)
    end function
end module

program calls
    use checks
    implicit none
    character(len=20) :: part
    call get_command_argument(1, part)
    call MPI_Init()
    select case (part)
    case ('refused')
        call refused_names()
        call refused_data()
        call refused_arrays()
        call refused_others()
    case ('accepted')
        call accepted()
        call layout()
    case ('misfit-save')
        call misfit_save()
    case ('misfit')
        call misfit('x', FTKIT_OK, 'as it was')
        call misfit('kind', FTKIT_ERR_TYPE, 'another kind')
        call misfit('type', FTKIT_ERR_TYPE, 'another type')
        call misfit('size', FTKIT_ERR_SIZE, 'another size')
        call misfit('rank', FTKIT_OK, 'another rank of the same size')
        call misfit('length', FTKIT_ERR_SIZE, 'characters of another length')
        call misfit('array', FTKIT_ERR_SIZE, 'another shape of a global array')
    case ('stop')
        call ftkit_open(MPI_COMM_SELF, '', ft)
        call ftkit_unregister(ft, 'nobody')
        print *, 'still here'
    end select
    if (ntests > 0) print '(a, i0)', '1..', ntests
    call MPI_Finalize()
contains

    subroutine begin()
        integer :: ierr
        call ftkit_open(MPI_COMM_SELF, '', ft, ierr)
        if (ierr /= FTKIT_OK) error stop 'open: '//ftkit_detail()
    end subroutine

    subroutine refused_names()
        integer, target :: x(3)
        character(len=80) :: name
        integer :: ierr
        x = 0
        call ftkit_register(ft, 'x', x, ierr)
        call told(ierr, FTKIT_ERR_ARG, 'a context that is not open', 'context')
        call begin()
        name = repeat('a', FTKIT_NAME_MAX)
        call ftkit_register(ft, name, x, ierr)
        call gives(ierr, FTKIT_OK, 'the longest name, and blanks behind it')
        call ftkit_unregister(ft, name//'     ', ierr)
        call gives(ierr, FTKIT_OK, '... however many')
        call ftkit_register(ft, name//'b', x, ierr)
        call gives(ierr, FTKIT_ERR_NAME, 'blanks inside of a name that is too long', '1 to 63')
        name(FTKIT_NAME_MAX + 1:FTKIT_NAME_MAX + 1) = 'b'
        call ftkit_register(ft, name, x, ierr)
        call gives(ierr, FTKIT_ERR_NAME, 'a name of one byte too many', '1 to 63')
        call ftkit_register(ft, '', x, ierr)
        call gives(ierr, FTKIT_ERR_NAME, 'no name')
        call ftkit_register(ft, '     ', x, ierr)
        call gives(ierr, FTKIT_ERR_NAME, 'blanks')
        call ftkit_register(ft, 'a'//achar(0)//'b', x, ierr)
        call gives(ierr, FTKIT_ERR_NAME, 'a NUL in a name', 'NUL')
        call ftkit_unregister(ft, 'a'//achar(0), ierr)
        call gives(ierr, FTKIT_ERR_NAME, '... at its end', 'NUL')
        call ftkit_register(ft, 'a/b', x, ierr)
        call gives(ierr, FTKIT_ERR_NAME, 'a slash', '0x2f')
        call ftkit_register(ft, 'x', x, ierr)
        call gives(ierr, FTKIT_OK, 'a good name')
        call ftkit_register(ft, 'x', x, ierr)
        call gives(ierr, FTKIT_ERR_EXISTS, '... twice')
        call ftkit_register(ft, 'x   ', x, ierr)
        call gives(ierr, FTKIT_ERR_EXISTS, '... with blanks it is the same')
        call ftkit_close(ft)
    end subroutine

    subroutine refused_data()
        real(8), target :: x(4, 5)
        real(8), allocatable, target, save :: none(:, :) ! save: gcc would warn of it
        real(8), pointer, save :: nowhere(:)
        character(len=:), allocatable, target, save :: text
        character(len=6), target :: words(3)
        type(thing), target :: t(4)
        type(c_ptr) :: p
        integer :: ierr, n
        x = 0
        words = ''
        t = thing(1, 2.0_8)
        nullify (nowhere)
        call begin()
        call ftkit_register(ft, 'none', none, ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'an array that is not allocated', 'not allocated')
        call ftkit_register(ft, 'none', nowhere, ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'a pointer to nothing', 'not associated')
        call ftkit_register(ft, 'none', text, ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'a text that is not allocated', 'not allocated')
        call ftkit_register(ft, 'row', x(2, :), ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'a row', 'section with gaps')
        call ftkit_register(ft, 'part', x(2:3, :), ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'a part of each column', 'section with gaps')
        call ftkit_register(ft, 'back', x(4:1:-1, 1), ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'a column backwards', 'section with gaps')
        call ftkit_register(ft, 'letters', words(:)(2:3), ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'some letters of each word', 'section with gaps')
        call ftkit_register(ft, 'members', t%v, ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'one member of structures', 'section with gaps')
        call assumed_shape('dummy', x(1:3, :), FTKIT_ERR_ARG)
        call ftkit_register(ft, 't', t, ierr)
        call gives(ierr, FTKIT_ERR_TYPE, 'structures', 'c_loc()')
        call ftkit_register(ft, 'one', t(2), ierr)
        call gives(ierr, FTKIT_ERR_TYPE, 'a structure', 'c_loc()')
        p = c_loc(x)
        call ftkit_register(ft, 'p', p, ierr)
        call gives(ierr, FTKIT_ERR_TYPE, 'an address without a count', 'c_loc()')
        call assumed_size(x)
        n = -1
        call ftkit_register(ft, 'n', c_loc(x), n, MPI_DOUBLE_PRECISION, ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'a negative count', '-1 items')
        call ftkit_register_bytes(ft, 'n', c_loc(x), n, ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'a negative number of bytes')
        call ftkit_register_bytes(ft, 'n', c_null_ptr, 8, ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'bytes at no address', 'NULL')
        call ftkit_register(ft, 'n', c_loc(x), 1, MPI_DATATYPE_NULL, ierr)
        call gives(ierr, FTKIT_ERR_TYPE, 'no datatype')
        call ftkit_close(ft)
    end subroutine

    subroutine refused_arrays()
        real(8), target :: a(6, 9), row(9), none
        real(16), target :: wide(2)
        character(len=2), target :: words(2)
        integer :: ierr
        a = 0
        row = 0
        none = 0
        wide = 0
        words = ''
        call begin()
        call ftkit_register_array(ft, 'a', a, [8, 14], [4, 7], [0, 7], [1, 1], ierr)
        call gives(ierr, FTKIT_OK, 'a block that fits')
        call ftkit_register_array(ft, 'a', a, [8, 14], [4, 7], [4, 0], [1, 1], ierr)
        call gives(ierr, FTKIT_OK, '... and at another place')
        call ftkit_register_array(ft, 'b', a, [8, 14], [4, 7], [0, 7], ierr=ierr)
        call gives(ierr, FTKIT_ERR_SIZE, 'the halo is not told of', 'dimension 1 has 6 elements')
        call ftkit_register_array(ft, 'b', a, [8, 14], [6, 7], [0, 7], ierr=ierr)
        call gives(ierr, FTKIT_ERR_SIZE, '... in one dimension', 'dimension 2 has 9 elements')
        call ftkit_register_array(ft, 'b', a, [8, 14], [4, 9], [0, 0], [1, 1], ierr)
        call gives(ierr, FTKIT_ERR_SIZE, 'the array is too small', 'dimension 2 has 9')
        call ftkit_register_array(ft, 'b', a, [14, 8], [7, 4], [0, 0], [1, 1], ierr)
        call gives(ierr, FTKIT_ERR_SIZE, 'dimensions in the order of C', 'dimension 1 has 6')
        call ftkit_register_array(ft, 'b', a, [8, 14], [4, 7], [5, 7], [1, 1], ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'a block beyond the end', 'dimension 1')
        call ftkit_register_array(ft, 'b', a, [8, 14], [4, 7], [4, 8], [1, 1], ierr)
        call gives(ierr, FTKIT_ERR_ARG, '... an offset that counts from 1', 'dimension 2')
        call ftkit_register_array(ft, 'b', a, [8, 14], [4, 7], [-1, 7], [1, 1], ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'a negative offset', 'dimension 1: offset is -1')
        call ftkit_register_array(ft, 'b', a, [8], [4], [0], [1], ierr)
        call gives(ierr, FTKIT_ERR_SIZE, 'too few dimensions', 'global has 1 numbers')
        call ftkit_register_array(ft, 'b', a, [8, 14], [4, 7], [0, 7], [1, 1, 1], ierr)
        call gives(ierr, FTKIT_ERR_SIZE, 'too many', 'halo has 3 numbers')
        call ftkit_register_array(ft, 'b', none, [1], [1], [0], ierr=ierr)
        call gives(ierr, FTKIT_ERR_SIZE, 'a scalar', 'scalar')
        call ftkit_register_array(ft, 'b', a(:, 1:9:2), [6, 5], [6, 5], [0, 0], ierr=ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'a section', 'section with gaps')
        call ftkit_register_array(ft, 'b', words, [2], [2], [0], ierr=ierr)
        call gives(ierr, FTKIT_ERR_TYPE, 'words', 'length other than 1')
        call ftkit_register_array(ft, 'w', wide, [2], [2], [0], ierr=ierr)
        call ok(ierr == FTKIT_OK .or. ierr == FTKIT_ERR_TYPE, 'real(16), where MPI has it')
        call ftkit_register_array(ft, 'row', row, [8_8], [7_8], [0_8], [1_8], ierr)
        call gives(ierr, FTKIT_OK, 'shapes of integer(8)')
        call ftkit_register_array(ft, 'row', row, [9_8], [7_8], [0_8], [1_8], ierr)
        call gives(ierr, FTKIT_ERR_SIZE, '... and another global shape')
        call ftkit_close(ft)
    end subroutine

    subroutine refused_others()
        integer, target :: x(3)
        real, target :: other(3)
        character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: mpi
        integer :: ierr, n
        type(ftkit_failure) :: lost(2)
        integer(c_int64_t) :: set
        logical :: done
        type(ftkit_ctx) :: closed
        x = 0
        other = 0
        call ftkit_open(MPI_COMM_SELF, 'no such file', closed, ierr)
        call told(ierr, FTKIT_ERR_CONFIG, 'no configuration file', 'no such file')
        call ftkit_open(MPI_COMM_SELF, 'a'//achar(0), closed, ierr)
        call told(ierr, FTKIT_ERR_ARG, 'a NUL in its path', 'NUL')
        call ftkit_open(MPI_COMM_NULL, '', closed, ierr)
        call ok(ierr < 0, 'no communicator to open on')
        call begin()
        call ftkit_register(ft, 'x', x)
        call ftkit_attribute(ft, 'nobody', 'units', 'm', ierr)
        call gives(ierr, FTKIT_ERR_NOT_FOUND, 'an attribute of no region')
        call ftkit_attribute(ft, 'x', 'units', repeat('m', 256), ierr)
        call gives(ierr, FTKIT_ERR_SIZE, 'a long attribute')
        call ftkit_attribute(ft, 'x', 'units', repeat('m', 255)//'  ', ierr)
        call gives(ierr, FTKIT_OK, 'blanks behind it do not count')
        call ftkit_resize(ft, 'y', x, ierr)
        call gives(ierr, FTKIT_ERR_NOT_FOUND, 'a new size of no region')
        call ftkit_resize(ft, 'x', other, ierr)
        call gives(ierr, FTKIT_ERR_TYPE, 'a new size of another type')
        call ftkit_resize_items(ft, 'x', c_loc(x), -2, ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'a negative size')
        call ftkit_share(ft, x(1:3:2), ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'a section with gaps is not shared', 'ftkit_share')
        call ftkit_share(ft, x(1:0), ierr)
        call gives(ierr, FTKIT_ERR_ARG, '... nor one without elements', 'ftkit_share')
        call ftkit_share(ft, x, ierr)
        call gives(ierr, FTKIT_OK, '... but an array')
        call ftkit_unshare(ft, x, ierr)
        call gives(ierr, FTKIT_OK, '... for a time')
        call ftkit_checkpoint(ft, ierr)
        call gives(ierr, FTKIT_ERR_STATE, 'a checkpoint before ftkit_recover()')
        call ftkit_track_comm(ft, MPI_COMM_NULL, ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'no communicator')
        call MPI_Get_library_version(mpi, n)
        if (index(mpi, 'Open MPI') > 0) call refused_integers()
        done = .false.
        call ftkit_test(ft, 0_c_int64_t, done, ierr)
        call gives(ierr, FTKIT_ERR_ARG, 'set 0')
        call ftkit_on_repair(ft, refuses)
        set = 77
        call ftkit_recover(ft, set, ierr)
        call gives(ierr, FTKIT_ERR_CALLBACK, 'a callback that fails')
        call ok(set == 77, '... and no set')
        call ftkit_close(ft, ierr)
        call ftkit_close(ft, ierr)
        call ok(ierr == FTKIT_ERR_ARG, 'closed twice')
        call ftkit_checkpoint(ft, ierr)
        call ok(ierr == FTKIT_ERR_ARG, 'a closed context')
        call ok(.not. ftkit_failed(ft), '... knows of no failure')
        call ftkit_failures(ft, lost, n, ierr)
        call ok(ierr == FTKIT_ERR_ARG, '... and of no list of losses')
    end subroutine

    ! An MPI that checks its handles tells what is none.
    subroutine refused_integers()
        integer, parameter :: none = 123456789
        integer, target :: x = 0
        type(ftkit_ctx) :: closed
        integer :: ierr
        call ftkit_open(none, '', closed, ierr)
        call told(ierr, FTKIT_ERR_ARG, 'an integer that is no communicator', '123456789')
        call ftkit_track_comm(ft, none, ierr)
        call gives(ierr, FTKIT_ERR_ARG, '... is not tracked', 'no communicator')
        call ftkit_untrack_comm(ft, none, ierr)
        call gives(ierr, FTKIT_ERR_NOT_FOUND, '... nor forgotten')
        call ftkit_register(ft, 'n', c_loc(x), 1, none, ierr)
        call gives(ierr, FTKIT_ERR_TYPE, 'an integer that is no datatype', 'no datatype')
    end subroutine

    subroutine accepted()
        real(8), target :: x(2:4, 0:1), y(3, 2), zero(0, 3)
        real(8), allocatable, target :: a(:)
        type(thing), target :: t(4)
        type(MPI_Comm), target :: comm
        integer, target :: handle
        type(MPI_Comm) :: other
        type(MPI_Datatype) :: pair
        type(ftkit_info) :: info
        integer :: ierr, again, corrupt, n
        type(ftkit_failure) :: lost(2)
        integer(c_int64_t) :: set
        logical :: done
        x = 1
        y = 2
        t = thing(1, 2.0_8)
        call ftkit_set_report(line)
        call ok(ftkit_version() == '0.1.0', 'the version')
        call ok(ftkit_strerror(FTKIT_OK) == 'success', 'a text')
        call ok(ftkit_strerror(12345) == 'unknown status', 'a text of no code')
        call ftkit_open(MPI_COMM_SELF%MPI_VAL, ctx=ft, ierr=ierr)
        call ok(ierr == FTKIT_OK, 'opened on an integer communicator, without a configuration')
        call ftkit_bind_comm(ft, comm)
        call ftkit_bind_comm(ft, handle)
        call ftkit_comm(ft, other)
        call ok(comm == other .and. handle == comm%MPI_VAL, 'both kinds of variables')
        call ftkit_comm(ft, again)
        call ok(again == handle, '... also when they are asked for')
        allocate (a(10), source=3.0_8)
        call ftkit_register(ft, 'x', x)
        call any_type('y', y)
        call ftkit_register(ft, 'zero', zero, ierr)
        call gives(ierr, FTKIT_OK, 'an array of size 0')
        call ftkit_register(ft, 'a', a)
        call ftkit_register(ft, 'column', y(:, 2), ierr)
        call gives(ierr, FTKIT_OK, 'a column')
        call ftkit_register(ft, 'one of a row', y(2, 2:2), ierr)
        call gives(ierr, FTKIT_OK, 'a section of one element')
        call assumed_shape('dummy', x, FTKIT_OK)
        call ok(test_address(y(:, 2)) == transfer(c_loc(y(1, 2)), set), 'no copy of a section')
        call ok(test_address(y(2, :)) == transfer(c_loc(y(2, 1)), set), '... with gaps')
        call MPI_Type_contiguous(storage_size(t) / 8, MPI_BYTE, pair)
        call ftkit_register(ft, 't', c_loc(t), size(t), pair, ierr)
        call gives(ierr, FTKIT_OK, 'structures with a datatype')
        call ftkit_register(ft, 't8', c_loc(t), size(t, kind=8), pair%MPI_VAL, ierr)
        call gives(ierr, FTKIT_OK, '... an integer one, and a count of integer(8)')
        call ftkit_register_replicated(ft, 'tr', c_loc(t), size(t), pair, ierr)
        call gives(ierr, FTKIT_OK, '... replicated')
        call ftkit_register_replicated_bytes(ft, 'tb', c_loc(t), 64_8, ierr)
        call gives(ierr, FTKIT_OK, '... as bytes')
        call MPI_Type_free(pair)
        call ftkit_attribute(ft, 'x', 'units', 'm/s')
        call ftkit_resize(ft, 'a', a(1:5))
        call ftkit_resize_items(ft, 'a', c_loc(a), 10)
        call MPI_Comm_dup(comm, other)
        call ftkit_track_comm(ft, other)
        call ftkit_untrack_comm(ft, other)
        call ftkit_track_comm(ft, other%MPI_VAL)
        call ftkit_untrack_comm(ft, other%MPI_VAL)
        call MPI_Comm_free(other)
        call ftkit_recover(ft, set, ierr)
        call gives(ierr, FTKIT_NO_SET, 'a fresh start')
        call ftkit_request(ft, .true.)
        call ftkit_checkpoint(ft)
        call ftkit_wait(ft, ierr)
        call gives(ierr, FTKIT_OK, 'waited for')
        call ftkit_query(ft, info)
        call ok(info%committed == 1 .and. info%durable == 1 .and. info%nranks == 1, 'queried')
        n = 5
        call ftkit_failures(ft, lost, n)
        call ok(n == 0 .and. c_sizeof(lost(1)) == 20, 'nothing is lost')
        done = .false.
        call ftkit_test(ft, 1_c_int64_t, done)
        call ok(done, 'the set is there')
        call ftkit_test(ft, 5_c_int64_t, done)
        call ok(.not. done, '... and another is not')
        corrupt = -1
        call ftkit_scrub(ft, corrupt, ierr)
        call ok(ierr == FTKIT_OK .and. corrupt == 0, 'scrubbed')
        call ftkit_finish(ft, ierr)
        call ftkit_close(ft)
        call ok(nlines > 0, 'lines were reported')
        nlines = 0
        call ftkit_set_report()
        call begin()
        call ftkit_close(ft)
        call ok(nlines == 0, '... until the callback was taken back')
    end subroutine

    ! The members of ftkit_info are where those of C are.
    subroutine layout()
        type(ftkit_info), target :: info
        type(c_ptr) :: at(57)
        integer(c_int64_t) :: base
        integer :: i, n
        logical :: same
        at = [c_loc(info%size), c_loc(info%mode), c_loc(info%rank), c_loc(info%nranks), &
            c_loc(info%nspares), c_loc(info%incarnation), c_loc(info%repairs), &
            c_loc(info%rollbacks), c_loc(info%flush_error), c_loc(info%committed), &
            c_loc(info%durable), c_loc(info%restored), c_loc(info%region_bytes), &
            c_loc(info%memory_bytes), c_loc(info%checkpoint_s), c_loc(info%repair_s), &
            c_loc(info%repair_detect_s), c_loc(info%repair_supply_s), &
            c_loc(info%repair_rebuild_s), c_loc(info%repair_restore_s), c_loc(info%flushing), &
            c_loc(info%flush_s), c_loc(info%sent_bytes), c_loc(info%sent_total), &
            c_loc(info%log_messages), c_loc(info%log_bytes), c_loc(info%log_held), &
            c_loc(info%log_determinants), c_loc(info%log_determinant_bytes), &
            c_loc(info%log_resent), c_loc(info%log_suppressed), c_loc(info%log_drained), &
            c_loc(info%log_spilled), c_loc(info%log_differs), &
            c_loc(info%log_requests), c_loc(info%line_late), c_loc(info%line_early), &
            c_loc(info%line_determinants), c_loc(info%line_open), c_loc(info%line_waits_here), &
            c_loc(info%plane), c_loc(info%nplanes), c_loc(info%sdc_found), c_loc(info%sdc_corrected), &
            c_loc(info%takeovers), c_loc(info%clones), c_loc(info%degraded), &
            c_loc(info%joules), c_loc(info%program), c_loc(info%nprograms), &
            c_loc(info%replay_s), c_loc(info%replay_forward_s), c_loc(info%replay_calls), &
            c_loc(info%catch_up_s), c_loc(info%idle_cores), &
            c_loc(info%units_elsewhere), c_loc(info%units_helped)]
        base = transfer(c_loc(info), base)
        same = .true.
        n = size(at)
        do i = 1, n
            same = same .and. transfer(at(i), base) - base == test_info_offset(i - 1)
        end do
        call ok(same, 'ftkit_info: each member is where it is in C')
        call ok(c_sizeof(info) == test_info_offset(n), '... and the size is the same')
        call ok(test_info_offset(n + 1) == -1, '... and no member is missing')
    end subroutine

    subroutine misfit_save()
        real(8), target :: x(2, 3), a(4, 6)
        character(len=4), target :: words(3)
        x = reshape([1, 2, 3, 4, 5, 6], [2, 3])
        a = 7
        words = 'abcd'
        call begin()
        call ftkit_register(ft, 'x', x)
        call ftkit_register(ft, 'words', words)
        call ftkit_register_array(ft, 'a', a, [4, 6], [4, 6], [0, 0])
        call ftkit_recover(ft)
        call ftkit_request(ft, .true.)
        call ftkit_checkpoint(ft)
        call ftkit_close(ft)
    end subroutine

    ! What was saved is restored into something else.
    subroutine misfit(what, want, text)
        character(len=*), intent(in) :: what, text
        integer, intent(in) :: want
        real(8), target :: x(2, 3), flat(6), more(7), a(4, 6), b(6, 4)
        real(4), target :: narrow(2, 3)
        integer(8), target :: whole(2, 3)
        character(len=4), target :: words(3)
        character(len=5), target :: longer(3)
        integer :: ierr
        x = 0
        flat = 0
        call begin()
        select case (what)
        case ('kind')
            call ftkit_register(ft, 'x', narrow)
        case ('type')
            call ftkit_register(ft, 'x', whole)
        case ('size')
            call ftkit_register(ft, 'x', more)
        case ('rank')
            call ftkit_register(ft, 'x', flat)
        case default
            call ftkit_register(ft, 'x', x)
        end select
        if (what == 'length') then
            call ftkit_register(ft, 'words', longer)
        else
            call ftkit_register(ft, 'words', words)
        end if
        if (what == 'array') then
            call ftkit_register_array(ft, 'a', b, [6, 4], [6, 4], [0, 0])
        else
            call ftkit_register_array(ft, 'a', a, [4, 6], [4, 6], [0, 0])
        end if
        call ftkit_recover(ft, ierr=ierr)
        call gives(ierr, want, text)
        if (want == FTKIT_OK) call ok(nint(sum(x) + sum(flat)) == 21 .and. words(2) == 'abcd', &
            '... and the contents')
        call ftkit_close(ft, ierr) ! says the same once more
    end subroutine
end program
