! Restart files of a program in Fortran: by callbacks, and by calls of the program.
!
!   files callbacks|calls|joint [any]
!
!   joint: rank 0 writes files that all ranks read
!   any: a set of another number of ranks is restored, too
!
! The state x is in the files alone.  Rank 0 prints the result.
!
! SPDX-License-Identifier: BSD-3-Clause
module state
    use, intrinsic :: iso_c_binding
    use ftkit
    implicit none
    integer, target :: step = 0
    real(8) :: x(500) = 1
contains
    integer function save_in(dir) result(status)
        character(len=*), intent(in) :: dir
        integer :: unit
        open (newunit=unit, file=trim(dir)//'/restart', form='unformatted', iostat=status)
        if (status == 0) write (unit, iostat=status) step, x
        if (status == 0) close (unit, iostat=status)
    end function

    integer function load_from(dir) result(status)
        character(len=*), intent(in) :: dir
        integer :: unit, its
        x = -1
        open (newunit=unit, file=trim(dir)//'/restart', form='unformatted', status='old', &
            iostat=status)
        if (status == 0) read (unit, iostat=status) its, x
        if (status == 0) close (unit, iostat=status)
    end function

    ! The files of all old ranks are the same; this rank reads those of the last one.
    integer function load_any(ft, name, ranks) result(status)
        type(ftkit_ctx), intent(in) :: ft
        character(len=*), intent(in) :: name
        integer, intent(in) :: ranks
        character(len=1100) :: dir
        character(len=4) :: short
        call ftkit_files_of(ft, name, ranks, dir, status)
        if (status /= FTKIT_ERR_ARG) error stop 'there is no such rank'
        call ftkit_files_of(ft, name, ranks - 1, short, status)
        if (status /= FTKIT_ERR_SIZE) error stop 'the path is longer'
        call ftkit_files_of(ft, name, ranks - 1, dir, status)
        if (status == FTKIT_OK) status = load_from(dir)
    end function

    integer(c_int) function read_ranks(arg, ctx, name, old_ranks) result(status) bind(c)
        type(c_ptr), value :: arg
        type(ftkit_ctx), value :: ctx
        character(kind=c_char), intent(in) :: name(*)
        integer(c_int), value :: old_ranks
        status = load_any(ctx, path_of(name), old_ranks)
        if (c_associated(arg)) status = 1 ! it was not given
    end function

    ! a path that ends with a NUL
    function path_of(dir) result(path)
        character(kind=c_char), intent(in) :: dir(*)
        character(len=:), allocatable :: path
        integer :: i
        path = ''
        do i = 1, 4096
            if (dir(i) == c_null_char) exit
            path = path//dir(i)
        end do
    end function

    integer(c_int) function write_files(arg, dir) result(status) bind(c)
        type(c_ptr), value :: arg
        character(kind=c_char), intent(in) :: dir(*)
        status = save_in(path_of(dir))
        if (c_associated(arg)) status = 1 ! it was not given
    end function

    integer(c_int) function read_files(arg, dir) result(status) bind(c)
        type(c_ptr), value :: arg
        character(kind=c_char), intent(in) :: dir(*)
        status = load_from(path_of(dir))
        if (c_associated(arg)) status = 1
    end function
end module

program files
    use mpi_f08
    use ftkit
    use state
    implicit none
    type(ftkit_ctx) :: ft
    type(MPI_Comm) :: comm
    character(len=1100) :: dir
    character(len=20) :: mode, more
    character(len=4) :: short
    integer :: rank, size, ierr, ranks
    real(8) :: sum

    call get_command_argument(1, mode)
    call get_command_argument(2, more)
    call MPI_Init()
    call ftkit_open(MPI_COMM_WORLD, '', ft)
    call ftkit_bind_comm(ft, comm)
    call MPI_Comm_rank(comm, rank)
    call MPI_Comm_size(comm, size)
    call ftkit_register_replicated(ft, 'step', step)
    if (mode == 'calls') then
        call ftkit_register_files(ft, 'restart')
    else if (mode == 'joint') then
        call ftkit_register_joint_files(ft, 'restart')
    else
        call ftkit_register_files(ft, 'restart', write_files, read_files)
    end if
    if (more == 'any' .and. mode == 'calls') call ftkit_files_any_ranks(ft, 'restart')
    if (more == 'any' .and. mode /= 'calls') call ftkit_files_any_ranks(ft, 'restart', read_ranks)
    do while (ftkit_step(ft, ierr))
        if (ierr == FTKIT_ROLLED_BACK .and. mode == 'calls') then
            call ftkit_files_begin(ft, 'restart', short, ierr)
            if (ierr /= FTKIT_ERR_SIZE) error stop 'the path is longer' ! and the files stay
            call ftkit_files_ranks(ft, 'restart', ranks, ierr)
            if (ierr == FTKIT_OK) then
                ierr = load_any(ft, 'restart', ranks)
            else
                call ftkit_files_read(ft, 'restart', dir, ierr)
                if (ierr == FTKIT_OK) ierr = load_from(dir)
            end if
            if (ierr /= 0) error stop 'not restored'
        end if
        if (ierr == FTKIT_ROLLED_BACK .and. mode == 'joint') then
            call ftkit_files_read(ft, 'restart', dir, ierr)
            if (ierr == FTKIT_OK) ierr = load_from(dir)
            if (ierr /= 0) error stop 'not restored'
        end if
        if (step == 20) then
            call ftkit_end(ft)
            cycle
        end if
        call MPI_Allreduce(x(step + 1) + rank, sum, 1, MPI_DOUBLE_PRECISION, MPI_SUM, comm)
        x = 0.5d0*x + sum/size
        step = step + 1
        if (mode == 'calls' .or. mode == 'joint') then
            if (ftkit_due(ft)) then
                call ftkit_files_begin(ft, 'restart', dir)
                ierr = 0
                if (mode == 'calls' .or. rank == 0) ierr = save_in(dir)
                call ftkit_files_end(ft, 'restart', ierr == 0)
            end if
        end if
    end do
    if (ierr == FTKIT_OK .and. rank == 0) print '(a, i0, a, f0.9)', 'files: step ', step, ', ', x(7)
    call ftkit_close(ft)
    call MPI_Finalize()
end program
