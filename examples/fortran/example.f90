! Procedures that the Fortran examples share, without fault tolerance: options, process ids
! for scripts, a hash.
!
! SPDX-License-Identifier: BSD-3-Clause
module example
    use, intrinsic :: iso_c_binding, only: c_int
    use, intrinsic :: iso_fortran_env, only: dp => real64, error_unit, int64
    implicit none
    private
    public :: dp, int64
    public :: option, options_wrong
    public :: note_pid, pause_ms, complain, leave
    public :: hash_cell, hash_text

    integer, parameter, public :: WORD = 256 ! longest value of an option
    ! exit codes besides 0 and 1: a wrong option
    integer, parameter, public :: EXIT_USAGE = 2

    integer, parameter :: MOST = 64 ! arguments
    logical :: used(MOST) = .false.
    character(2*WORD) :: wrong = ' '

    ! call option(name, value): the value does not change when the option is not given
    interface option
        module procedure option_text, option_number, option_pair, option_flag
    end interface option

    interface
        function getpid() bind(c) result(pid)
            import :: c_int
            integer(c_int) :: pid
        end function getpid
        function usleep(microseconds) bind(c) result(rc)
            import :: c_int
            integer(c_int), value :: microseconds
            integer(c_int) :: rc
        end function usleep
        ! a STOP with a code would print it
        subroutine leave(code) bind(c, name='exit')
            import :: c_int
            integer(c_int), value :: code
        end subroutine leave
    end interface

contains

    ! ---- Options -----------------------------------------------------------------------

    subroutine option_flag(name, value)
        character(*), intent(in) :: name
        logical, intent(inout) :: value
        if (find(name) > 0) value = .true.
    end subroutine option_flag

    subroutine option_text(name, value)
        character(*), intent(in) :: name
        character(*), intent(inout) :: value
        integer :: at, status
        at = find(name)
        if (at == 0) return
        value = ' '
        if (at < min(command_argument_count(), MOST)) then
            used(at + 1) = .true.
            call get_command_argument(at + 1, value, status=status)
            if (status /= 0) value = ' '
        end if
        if (value == ' ') wrong = name // ' needs a value, and not one that is so long'
    end subroutine option_text

    subroutine option_number(name, value, low)
        character(*), intent(in) :: name
        integer, intent(inout) :: value
        integer, intent(in) :: low
        character(WORD) :: text
        text = ' '
        call option_text(name, text)
        if (text /= ' ') call read_number(name, text, value, low)
    end subroutine option_number

    ! 97x61, or one number for both
    subroutine option_pair(name, value, low)
        character(*), intent(in) :: name
        integer, intent(inout) :: value(2)
        integer, intent(in) :: low
        character(WORD) :: text
        integer :: x
        text = ' '
        call option_text(name, text)
        if (text == ' ') return
        x = index(text, 'x')
        call read_number(name, text(:merge(x - 1, WORD, x > 0)), value(1), low)
        call read_number(name, text(x + 1:), value(2), low)
    end subroutine option_pair

    subroutine read_number(name, text, value, low)
        character(*), intent(in) :: name, text
        integer, intent(inout) :: value
        integer, intent(in) :: low
        integer :: number, digits
        digits = len_trim(text)
        number = low - 1
        if (digits > 0 .and. digits < 10 .and. verify(text(:digits), '0123456789') == 0) &
            read (text(:digits), *) number
        if (number >= low) then
            value = number
        else
            write (wrong, '(5a,i0)') name, ' ', trim(text), ': ', &
                'must be whole, less than 10^9 and at least ', low
        end if
    end subroutine read_number

    ! The position of an option; 0 when it is not given.
    integer function find(name) result(at)
        character(*), intent(in) :: name
        character(WORD) :: argument
        do at = min(command_argument_count(), MOST), 1, -1
            if (used(at)) cycle
            call get_command_argument(at, argument)
            used(at) = argument == name
            if (used(at)) return
        end do
    end function find

    ! Call this function after all options: whether an option was wrong.  The rank with tells
    ! prints the mistake.  All ranks get the same result.
    logical function options_wrong(program, tells)
        character(*), intent(in) :: program
        logical, intent(in) :: tells
        character(WORD) :: argument
        integer :: i
        do i = 1, command_argument_count()
            if (i <= MOST) then
                if (used(i)) cycle
            end if
            call get_command_argument(i, argument)
            if (wrong == ' ') wrong = 'unknown option ' // argument
        end do
        options_wrong = wrong /= ' '
        if (options_wrong .and. tells) call complain(program, trim(wrong))
    end function options_wrong

    ! ---- For scripts -------------------------------------------------------------------

    subroutine complain(program, text)
        character(*), intent(in) :: program, text
        write (error_unit, '(3a)') program, ': ', text
    end subroutine complain

    ! Process id and step in the file prefix.rank.  One write of fixed length, so that a
    ! reader sees the old line or the new one.
    subroutine note_pid(prefix, rank, step)
        character(*), intent(in) :: prefix
        integer, intent(in) :: rank, step
        integer, save :: unit = 0, of = -1
        character(WORD + 12) :: path
        character(22) :: line
        if (prefix == ' ') return
        if (of /= rank) then ! the first time, or after a repair without replacements
            write (path, '(2a,i0)') trim(prefix), '.', rank
            if (of >= 0) close (unit)
            open (newunit=unit, file=path, access='stream', form='unformatted')
            of = rank
        end if
        write (line, '(i10,1x,i10,a)') getpid(), step, new_line('a')
        write (unit, pos=1) line
        flush (unit)
    end subroutine note_pid

    subroutine pause_ms(ms)
        integer, intent(in) :: ms
        integer(c_int) :: rc
        if (ms > 0) rc = usleep(1000*int(ms, c_int))
    end subroutine pause_ms

    ! ---- A hash of an array, for any distribution of its parts ---------------------------
    ! Each value adds its own hash to both numbers; the sums of all are the hash.  Arithmetic
    ! modulo the prime 2^31 - 1, because integers must not overflow.

    pure function hash_cell(where, value) result(hash)
        integer(int64), intent(in) :: where
        real(dp), intent(in) :: value
        integer(int64), parameter :: PRIME = 2_int64**31 - 1
        integer(int64), parameter :: FACTOR(2) = [48271_int64, 950706376_int64]
        integer(int64) :: hash(2), bits
        bits = transfer(value, bits)
        hash = mod(FACTOR*mod(ibits(bits, 0, 31) + 1, PRIME), PRIME)
        hash = mod(FACTOR*mod(hash + ibits(bits, 31, 31), PRIME), PRIME)
        hash = mod(FACTOR*mod(hash + ibits(bits, 62, 2), PRIME), PRIME)
        hash = mod(hash*(1 + mod(FACTOR*mod(where + 1, PRIME), PRIME - 1)), PRIME)
    end function hash_cell

    pure function hash_text(hash) result(text)
        integer(int64), intent(in) :: hash(2)
        character(16) :: text
        write (text, '(2z8.8)') mod(hash, 2_int64**31 - 1)
    end function hash_text

end module example
