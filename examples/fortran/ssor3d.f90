! ssor3d: the shape of a real solver: pipelined SSOR sweeps with many small messages.
!
! SPDX-License-Identifier: BSD-3-Clause
!
! Steady flow of a viscous, slightly compressible gas about a uniform stream, with a
! nonlinear damping: five coupled unknowns u = (density, three velocities, temperature) in
! the unit cube, in the symmetric variables of the linearised Euler equations,
!
!     A_x u_x + A_y u_y + A_z u_z - NU laplace(u) + K u + EPS |u|^2 u = f,
!
! with f and the values on the boundary such that a known function solves it.  Central
! differences of second order on a grid of n x n x n intervals; the error of the converged
! solution falls with h^2 = 1/n^2.
!
! An iteration is  r = f - L(u);  (D + w L) D^-1 (D + w U) delta = w (2 - w) r;  u += delta
! where D has a block of 5 x 5 per point, which depends on u.  The grid is cut in x and y
! over the ranks, as in many codes of this kind: the lower sweep goes plane by plane in z
! and sends the rim of its block east and north after each plane, the upper sweep comes
! back the same way.  A point adds the same numbers in the same order wherever it lives, so
! that u is the same to the last bit on any number of ranks, with and without failures; only
! in the norms the order of adding depends on the ranks.
!
! A restart needs u, the number of iterations done and the early residuals: these are
! registered in run().  f and r are computed again, and so are not registered.

! ---- The equations ---------------------------------------------------------------------

module ssor_problem
    use, intrinsic :: iso_fortran_env, only: dp => real64
    implicit none
    private
    public :: dp, NU, couple, exact, forcing, reaction, reaction_jacobian, solve

    real(dp), parameter :: NU = 0.1_dp, EPS = 0.1_dp
    real(dp), parameter :: STREAM(3) = [0.3_dp, 0.2_dp, -0.1_dp]
    real(dp), parameter :: GAMMA = 1.4_dp
    real(dp), parameter :: ALPHA = 1/sqrt(GAMMA), BETA = sqrt((GAMMA - 1)/GAMMA)
    real(dp), parameter :: FRICTION = 1, SPIN = 0.5_dp
    ! the solution is MEAN + SIZE sin(AX x + PX) cos(AY y + PY) sin(AZ z + PZ)
    real(dp), parameter :: MEAN(5) = [1.0_dp, 0.3_dp, -0.2_dp, 0.1_dp, 0.8_dp]
    real(dp), parameter :: SIZE(5) = [0.20_dp, 0.50_dp, 0.40_dp, -0.30_dp, 0.25_dp]
    real(dp), parameter :: A(5, 3) = reshape([ &
        2.0_dp, 3.0_dp, 2.5_dp, 1.5_dp, 3.5_dp, &
        3.0_dp, 1.0_dp, 2.0_dp, 3.5_dp, 2.5_dp, &
        1.5_dp, 2.5_dp, 3.0_dp, 2.0_dp, 1.0_dp], [5, 3])
    real(dp), parameter :: P(5, 3) = reshape([ &
        0.1_dp, 0.4_dp, 0.7_dp, 1.0_dp, 0.2_dp, &
        0.3_dp, 0.9_dp, 0.5_dp, 0.0_dp, 0.8_dp, &
        0.6_dp, 0.2_dp, 0.1_dp, 0.7_dp, 0.4_dp], [5, 3])

contains

    ! w += c v + b A_d v, with A_d the matrix of direction d
    pure subroutine couple(d, c, b, v, w)
        integer, intent(in) :: d
        real(dp), intent(in) :: c, b, v(5)
        real(dp), intent(inout) :: w(5)
        real(dp) :: s
        s = c + b*STREAM(d)
        w = w + s*v
        w(1) = w(1) + b*ALPHA*v(1 + d)
        w(1 + d) = w(1 + d) + b*(ALPHA*v(1) + BETA*v(5))
        w(5) = w(5) + b*BETA*v(1 + d)
    end subroutine couple

    ! K u + EPS |u|^2 u
    pure function reaction(u) result(w)
        real(dp), intent(in) :: u(5)
        real(dp) :: w(5)
        w = (FRICTION + EPS*sum(u*u))*u
        w(2) = w(2) - SPIN*u(3)
        w(3) = w(3) + SPIN*u(2)
    end function reaction

    ! its derivative, plus c times the identity
    pure function reaction_jacobian(u, c) result(d)
        real(dp), intent(in) :: u(5), c
        real(dp) :: d(5, 5)
        integer :: m
        do m = 1, 5
            d(:, m) = 2*EPS*u(m)*u
            d(m, m) = d(m, m) + c + FRICTION + EPS*sum(u*u)
        end do
        d(2, 3) = d(2, 3) - SPIN
        d(3, 2) = d(3, 2) + SPIN
    end function reaction_jacobian

    ! w := d^-1 w; the diagonal of d is large, so no pivoting
    pure subroutine solve(d, w)
        real(dp), intent(inout) :: d(5, 5), w(5)
        real(dp) :: c
        integer :: m, n
        do m = 1, 4
            do n = m + 1, 5
                c = d(n, m)/d(m, m)
                d(n, m + 1:) = d(n, m + 1:) - c*d(m, m + 1:)
                w(n) = w(n) - c*w(m)
            end do
        end do
        do m = 5, 1, -1
            w(m) = (w(m) - sum(d(m, m + 1:)*w(m + 1:)))/d(m, m)
        end do
    end subroutine solve

    pure function exact(x) result(u)
        real(dp), intent(in) :: x(3)
        real(dp) :: u(5)
        u = MEAN + SIZE*sin(A(:, 1)*x(1) + P(:, 1))*cos(A(:, 2)*x(2) + P(:, 2)) &
            *sin(A(:, 3)*x(3) + P(:, 3))
    end function exact

    ! The right-hand side for which exact() solves the equations
    pure function forcing(x) result(f)
        real(dp), intent(in) :: x(3)
        real(dp) :: f(5), s(5, 3), c(5, 3), wave(5)
        integer :: d
        do d = 1, 3
            s(:, d) = sin(A(:, d)*x(d) + P(:, d))
            c(:, d) = cos(A(:, d)*x(d) + P(:, d))
        end do
        wave = SIZE*s(:, 1)*c(:, 2)*s(:, 3)
        f = reaction(MEAN + wave) + NU*sum(A*A, dim=2)*wave
        call couple(1, 0.0_dp, 1.0_dp, SIZE*A(:, 1)*c(:, 1)*c(:, 2)*s(:, 3), f)
        call couple(2, 0.0_dp, 1.0_dp, -SIZE*A(:, 2)*s(:, 1)*s(:, 2)*s(:, 3), f)
        call couple(3, 0.0_dp, 1.0_dp, SIZE*A(:, 3)*s(:, 1)*c(:, 2)*c(:, 3), f)
    end function forcing

end module ssor_problem

! ---- The grid and its arrays -----------------------------------------------------------

module ssor_grid
    use ssor_problem
    implicit none
    private
    public :: divide, fill, place

    integer, public :: n = 0             ! intervals in each direction
    integer, public :: parts(2)          ! blocks in x and y
    integer, public :: count(3), first(3) ! points of this rank's block, the one before it
    integer, public :: west, east, south, north ! ranks, or -1
    real(dp), public :: h
    ! with a layer of other ranks' points, or of the boundary, around them
    real(dp), allocatable, target, public :: u(:, :, :, :)
    real(dp), allocatable, public :: r(:, :, :, :), f(:, :, :, :)

contains

    ! The blocks, known without a message; false when there are too many ranks.
    function divide(intervals, rank, ranks) result(possible)
        integer, intent(in) :: intervals, rank, ranks
        logical :: possible
        integer :: at(2)
        n = intervals
        h = 1.0_dp/n
        parts(1) = int(sqrt(real(ranks)))
        do while (mod(ranks, parts(1)) /= 0)
            parts(1) = parts(1) - 1
        end do
        parts(2) = ranks/parts(1)
        at = [mod(rank, parts(1)), rank/parts(1)]
        first(1:2) = (n - 1)*at/parts
        count(1:2) = (n - 1)*(at + 1)/parts - first(1:2)
        first(3) = 0
        count(3) = n - 1
        west = merge(rank - 1, -1, at(1) > 0)
        east = merge(rank + 1, -1, at(1) < parts(1) - 1)
        south = merge(rank - parts(1), -1, at(2) > 0)
        north = merge(rank + parts(1), -1, at(2) < parts(2) - 1)
        possible = all(parts <= n - 1)
    end function divide

    pure function place(i, j, k) result(x)
        integer, intent(in) :: i, j, k
        real(dp) :: x(3)
        x = (first + [i, j, k])*h
    end function place

    ! Initial values: exact on the boundary; inside the mean, which is a poor guess.
    subroutine fill()
        integer :: i, j, k
        allocate (u(5, 0:count(1) + 1, 0:count(2) + 1, 0:count(3) + 1), &
            r(5, 0:count(1) + 1, 0:count(2) + 1, 0:count(3) + 1), &
            f(5, count(1), count(2), count(3)))
        r = 0 ! delta is 0 on the boundary, where it stays so
        do k = 0, count(3) + 1
            do j = 0, count(2) + 1
                do i = 0, count(1) + 1
                    u(:, i, j, k) = exact(place(i, j, k))
                    if (all(first + [i, j, k] > 0) .and. all(first + [i, j, k] < n)) &
                        u(:, i, j, k) = 0.5_dp
                end do
            end do
        end do
        do k = 1, count(3)
            do j = 1, count(2)
                do i = 1, count(1)
                    f(:, i, j, k) = forcing(place(i, j, k))
                end do
            end do
        end do
    end subroutine fill

end module ssor_grid

! ---- Messages --------------------------------------------------------------------------
! With the older module mpi, as most codes of this kind.  After a failure these calls return
! errors, which the program does not check: it computes worthless values until
! ftkit_step() has restored the last set.

module ssor_messages
    use mpi
    use ssor_problem, only: dp
    use ssor_grid
    implicit none
    private
    public :: exchange_faces, receive_rim, send_rim

    integer, parameter :: REAL8 = MPI_DOUBLE_PRECISION
    integer, parameter :: TAG_FACE = 10, TAG_RIM = 20

contains

    ! The outermost layers of u go to the neighbours in x and y.
    subroutine exchange_faces(comm)
        integer, intent(in) :: comm
        integer :: c(3)
        c = count
        call swap(comm, west, east, &
            u(:, 1, 1:c(2), 1:c(3)), u(:, c(1), 1:c(2), 1:c(3)), &
            u(:, 0, 1:c(2), 1:c(3)), u(:, c(1) + 1, 1:c(2), 1:c(3)))
        call swap(comm, south, north, &
            u(:, 1:c(1), 1, 1:c(3)), u(:, 1:c(1), c(2), 1:c(3)), &
            u(:, 1:c(1), 0, 1:c(3)), u(:, 1:c(1), c(2) + 1, 1:c(3)))
    end subroutine exchange_faces

    ! Send the faces of both sides, low and high, and receive those of the neighbours.
    subroutine swap(comm, low, high, low_face, high_face, low_ghost, high_ghost)
        integer, intent(in) :: comm, low, high
        real(dp), intent(in) :: low_face(:, :, :), high_face(:, :, :)
        real(dp), intent(inout) :: low_ghost(:, :, :), high_ghost(:, :, :)
        real(dp) :: out(5, size(low_face, 2), size(low_face, 3))
        real(dp), dimension(5, size(low_face, 2), size(low_face, 3)), asynchronous :: &
            from_low, from_high
        ! after a failure MPI_Irecv sets no request
        integer :: request(2), status(MPI_STATUS_SIZE), ierr
        request = MPI_REQUEST_NULL
        if (low >= 0) call MPI_Irecv(from_low, size(out), REAL8, low, &
            TAG_FACE, comm, request(1), ierr)
        if (high >= 0) call MPI_Irecv(from_high, size(out), REAL8, high, &
            TAG_FACE + 1, comm, request(2), ierr)
        if (high >= 0) then
            out = high_face
            call MPI_Send(out, size(out), REAL8, high, TAG_FACE, comm, ierr)
        end if
        if (low >= 0) then
            out = low_face
            call MPI_Send(out, size(out), REAL8, low, TAG_FACE + 1, comm, ierr)
            call MPI_Wait(request(1), status, ierr)
            call MPI_F_sync_reg(from_low) ! because from_low is no argument of MPI_Wait
            low_ghost = from_low
        end if
        if (high >= 0) then
            call MPI_Wait(request(2), status, ierr)
            call MPI_F_sync_reg(from_high)
            high_ghost = from_high
        end if
    end subroutine swap

    ! What a sweep needs of plane k from the two ranks before it.  row: where it goes to
    subroutine receive_rim(comm, before_x, before_y, column, row, k)
        integer, intent(in) :: comm, before_x, before_y, column, row, k
        real(dp) :: rim(5, count(2))
        integer :: status(MPI_STATUS_SIZE), ierr
        if (before_x >= 0) then
            call MPI_Recv(rim, 5*count(2), REAL8, before_x, TAG_RIM, comm, status, ierr)
            r(:, column, 1:count(2), k) = rim
        end if
        ! a row of a plane is contiguous in memory
        if (before_y >= 0) call MPI_Recv(r(1, 1, row, k), 5*count(1), REAL8, before_y, &
            TAG_RIM + 1, comm, status, ierr)
    end subroutine receive_rim

    subroutine send_rim(comm, behind_x, behind_y, column, row, k)
        integer, intent(in) :: comm, behind_x, behind_y, column, row, k
        real(dp) :: rim(5, count(2))
        integer :: ierr
        if (behind_x >= 0) then
            rim = r(:, column, 1:count(2), k)
            call MPI_Send(rim, 5*count(2), REAL8, behind_x, TAG_RIM, comm, ierr)
        end if
        if (behind_y >= 0) call MPI_Send(r(1, 1, row, k), 5*count(1), REAL8, behind_y, &
            TAG_RIM + 1, comm, ierr)
    end subroutine send_rim

end module ssor_messages

! ---- The solver ------------------------------------------------------------------------

module ssor_solver
    use ssor_problem
    use ssor_grid
    use ssor_messages
    implicit none
    private
    public :: iterate, residual

contains

    ! One iteration; comm is a handle of the module mpi.
    subroutine iterate(comm)
        integer, intent(in) :: comm
        real(dp) :: omega
        integer :: k
        omega = 2/(1 + 3*h) ! of the kind that is best for a Poisson equation
        call residual(comm)
        do k = 1, count(3)
            call receive_rim(comm, west, south, 0, 0, k)
            call lower(omega, k)
            call send_rim(comm, east, north, count(1), count(2), k)
        end do
        do k = count(3), 1, -1
            call receive_rim(comm, east, north, count(1) + 1, count(2) + 1, k)
            call upper(omega, k)
            call send_rim(comm, west, south, 1, 1, k)
        end do
        do k = 1, count(3)
            u(:, 1:count(1), 1:count(2), k) = u(:, 1:count(1), 1:count(2), k) &
                + omega*(2 - omega)*r(:, 1:count(1), 1:count(2), k)
        end do
    end subroutine iterate

    ! r = f - L(u)
    subroutine residual(comm)
        integer, intent(in) :: comm
        real(dp) :: w(5)
        integer :: i, j, k, d, step(3)
        call exchange_faces(comm)
        do k = 1, count(3)
            do j = 1, count(2)
                do i = 1, count(1)
                    w = reaction(u(:, i, j, k)) + 6*NU/h**2*u(:, i, j, k)
                    do d = 1, 3
                        step = unit(d)
                        call couple(d, -NU/h**2, -0.5_dp/h, &
                            u(:, i - step(1), j - step(2), k - step(3)), w)
                        call couple(d, -NU/h**2, 0.5_dp/h, &
                            u(:, i + step(1), j + step(2), k + step(3)), w)
                    end do
                    r(:, i, j, k) = f(:, i, j, k) - w
                end do
            end do
        end do
    end subroutine residual

    pure function unit(d) result(step)
        integer, intent(in) :: d
        integer :: step(3)
        step = 0
        step(d) = 1
    end function unit

    ! (D + omega L) r := r in plane k, from the corner in the south-west
    subroutine lower(omega, k)
        real(dp), intent(in) :: omega
        integer, intent(in) :: k
        real(dp) :: c, b, d(5, 5)
        integer :: i, j
        c = omega*NU/h**2
        b = omega*0.5_dp/h
        do j = 1, count(2)
            do i = 1, count(1)
                call couple(3, c, b, r(:, i, j, k - 1), r(:, i, j, k))
                call couple(2, c, b, r(:, i, j - 1, k), r(:, i, j, k))
                call couple(1, c, b, r(:, i - 1, j, k), r(:, i, j, k))
                d = reaction_jacobian(u(:, i, j, k), 6*NU/h**2)
                call solve(d, r(:, i, j, k))
            end do
        end do
    end subroutine lower

    ! r := r - omega D^-1 U r in plane k, from the corner in the north-east
    subroutine upper(omega, k)
        real(dp), intent(in) :: omega
        integer, intent(in) :: k
        real(dp) :: c, b, d(5, 5), w(5)
        integer :: i, j
        c = omega*NU/h**2
        b = -omega*0.5_dp/h
        do j = count(2), 1, -1
            do i = count(1), 1, -1
                w = 0
                call couple(3, c, b, r(:, i, j, k + 1), w)
                call couple(2, c, b, r(:, i, j + 1, k), w)
                call couple(1, c, b, r(:, i + 1, j, k), w)
                d = reaction_jacobian(u(:, i, j, k), 6*NU/h**2)
                call solve(d, w)
                r(:, i, j, k) = r(:, i, j, k) + w
            end do
        end do
    end subroutine upper

end module ssor_solver

! ---- Norms of residual and error -------------------------------------------------------

module ssor_norms
    use mpi_f08
    use example, only: hash_cell, int64
    use ssor_problem
    use ssor_grid
    implicit none
    private
    public :: residual_norm, error_norm, solution_hash

contains

    function residual_norm(comm) result(norm)
        type(MPI_Comm), intent(in) :: comm
        real(dp) :: norm(5), mine(5)
        integer :: i, j, k
        mine = 0
        do k = 1, count(3)
            do j = 1, count(2)
                do i = 1, count(1)
                    mine = mine + r(:, i, j, k)**2
                end do
            end do
        end do
        norm = root_mean(comm, mine)
    end function residual_norm

    function error_norm(comm) result(norm)
        type(MPI_Comm), intent(in) :: comm
        real(dp) :: norm(5), mine(5)
        integer :: i, j, k
        mine = 0
        do k = 1, count(3)
            do j = 1, count(2)
                do i = 1, count(1)
                    mine = mine + (u(:, i, j, k) - exact(place(i, j, k)))**2
                end do
            end do
        end do
        norm = root_mean(comm, mine)
    end function error_norm

    function root_mean(comm, mine) result(norm)
        type(MPI_Comm), intent(in) :: comm
        real(dp), intent(in) :: mine(5)
        real(dp) :: norm(5)
        call MPI_Allreduce(mine, norm, 5, MPI_DOUBLE_PRECISION, MPI_SUM, comm)
        norm = sqrt(norm*h**3) ! the L2 norm; errors are 0 on the boundary
    end function root_mean

    function solution_hash(comm) result(hash)
        type(MPI_Comm), intent(in) :: comm
        integer(int64) :: hash(2), mine(2), where
        integer :: i, j, k, m
        mine = 0
        do k = 1, count(3)
            do j = 1, count(2)
                do i = 1, count(1)
                    where = (int(k, int64)*n + first(2) + j)*n + first(1) + i
                    do m = 1, 5
                        mine = mine + hash_cell(5*where + m, u(m, i, j, k))
                    end do
                end do
            end do
        end do
        call MPI_Allreduce(mine, hash, 2, MPI_INTEGER8, MPI_SUM, comm)
    end function solution_hash

end module ssor_norms

! ---- The program -----------------------------------------------------------------------

module ssor_app
    use mpi_f08
    use ftkit
    use, intrinsic :: iso_fortran_env, only: output_unit
    use example
    use example_report
    use ssor_grid
    use ssor_norms
    use ssor_solver
    implicit none
    private
    public :: options, run

    character(*), parameter, public :: NAME = 'ssor3d'
    integer, parameter :: EARLY = 10 ! iterations, after which residuals are compared

    ! Results of a run on one rank: residuals after EARLY iterations, errors at the end.  These
    ! are discretization errors; the iteration has converged to 1e-10 or better.  With h they
    ! fall by (12/32)^2 and (32/64)^2, to 1 percent.
    type class
        character(8) :: name
        integer :: n, iterations
        real(dp) :: residual(5), error(5)
    end type class
    type(class), parameter :: CLASSES(3) = [ &
        class('small', 12, 40, &
            [1.415743347880422e-03_dp, 1.124977414494568e-03_dp, 1.472339440723341e-03_dp, &
            1.451915674849019e-03_dp, 1.081031426983695e-03_dp], &
            [4.194875793845623e-04_dp, 1.750452341607363e-04_dp, 6.248650032741440e-04_dp, &
            3.761761389562354e-04_dp, 3.107398512119847e-04_dp]), &
        class('medium', 32, 100, &
            [2.222256779288385e-01_dp, 1.258793006644496e-01_dp, 2.487702061418436e-01_dp, &
            1.487003735128039e-01_dp, 1.386469768704329e-01_dp], &
            [5.861567123787472e-05_dp, 2.523563819373862e-05_dp, 8.748498194042875e-05_dp, &
            5.289368515568660e-05_dp, 4.371338125102231e-05_dp]), &
        class('large', 64, 200, &
            [3.566202103527030e+00_dp, 1.779766452465337e+00_dp, 4.807495828577952e+00_dp, &
            2.481174068013158e+00_dp, 2.229004787189984e+00_dp], &
            [1.464085119614786e-05_dp, 6.326795894557340e-06_dp, 2.185840093210983e-05_dp, &
            1.322247635048653e-05_dp, 1.092766158217024e-05_dp])]
    real(dp), parameter :: TOLERANCE = 1e-10_dp

    type outcome
        real(dp) :: residual(5), error(5)
        integer(int64) :: hash(2)
    end type outcome

    character(WORD), public :: config = ' '
    character(WORD) :: out = ' ', pidfile = ' ', class_name = 'small'
    integer :: chosen = 0, iterations = -1, delay_ms = 0
    logical :: timed = .false.
    ! target: the addresses of these are kept by ftkit until ftkit_close()
    type(MPI_Comm), target :: comm          ! the working ranks, now and after every repair
    integer, target :: step = 0             ! iterations done: the state, beside u
    real(dp), target :: early_residual(5) = 0 ! state, too: cannot be computed again later
    integer :: rank

contains

    ! false: an option is wrong, or only help was wanted; code is then the exit code
    logical function options(rank, code)
        integer, intent(in) :: rank
        integer, intent(out) :: code
        logical :: help
        help = .false.
        call option('-h', help)
        call option('-C', class_name)
        call option('-n', n, 2)
        call option('-s', iterations, 0)
        call option('-t', timed)
        call option('-o', out)
        call option('-c', config)
        call option('-d', delay_ms, 0)
        call option('--pidfile', pidfile)
        code = 0
        if (options_wrong(NAME, rank == 0)) code = EXIT_USAGE
        if (code == 0) call choose(rank, code)
        options = code == 0 .and. .not. help
        if (help .and. rank == 0) write (*, '(a)') &
            'usage: ssor3d [options]', &
            '  -C CLASS            small, medium or large (small)', &
            '  -n N                so many intervals instead, without known results', &
            '  -s ITERATIONS       other than those of the class', &
            '  -t                  tell the time of an iteration', &
            '  -o FILE             write the norms and a hash of the solution', &
            '  -c CONFIG           configuration file of ftkit', &
            '  -d MS               sleep so long in every iteration', &
            '  --pidfile PREFIX    write pid and iteration of rank R to PREFIX.R'
    end function options

    ! Grid and number of iterations; chosen becomes the class to which they belong.
    subroutine choose(rank, code)
        integer, intent(in) :: rank
        integer, intent(inout) :: code
        integer :: c
        c = findloc(CLASSES%name, class_name(:8), dim=1)
        if (c == 0) then
            if (rank == 0) call complain(NAME, 'no such class: '//trim(class_name))
            code = EXIT_USAGE
            return
        end if
        if (n == 0 .and. iterations < 0) chosen = c
        if (n == 0) n = CLASSES(c)%n
        if (iterations < 0) iterations = CLASSES(c)%iterations
    end subroutine choose

    integer function run(ctx) result(code)
        type(ftkit_ctx), intent(in) :: ctx
        type(outcome) :: found
        real(dp) :: began
        integer :: ierr, done
        code = EXIT_USAGE
        ! No communication from here to ftkit_step(): a replacement runs this part alone.
        ! In a call without ierr an error ends the program.
        call ftkit_bind_comm(ctx, comm)
        if (.not. set_up()) return
        call ftkit_register_array(ctx, 'u', u, global=[5, n - 1, n - 1, n - 1], &
            local=[5, count], offset=[0, first], halo=[0, 1, 1, 1])
        call ftkit_register_replicated(ctx, 'step', step)
        call ftkit_register_replicated(ctx, 'early residual', early_residual)
        code = 1

        began = MPI_Wtime()
        done = 0
        do while (ftkit_step(ctx, ierr)) ! restore, write a set, repair: whatever is due
            call say(NAME, ctx, ierr, step)
            call note_pid(pidfile, rank, step)
            if (step >= iterations) then
                found = look() ! sends the last messages, so it comes before ftkit_end()
                call ftkit_end(ctx)
                cycle ! if another rank is lost now, this one returns to an earlier step
            end if
            call iterate(comm%MPI_VAL)
            call pause_ms(delay_ms)
            step = step + 1
            done = done + 1
            if (step == EARLY) then
                call residual(comm%MPI_VAL)
                early_residual = residual_norm(comm)
            end if
        end do
        call say(NAME, ctx, ierr, step)
        if (ierr < 0) return
        code = 0
        if (ierr == FTKIT_HALT) return ! the job should stop: the next start continues here
        code = merge(0, 1, good(found))
        if (rank == 0) call report(found, code)
        if (rank == 0 .and. timed) write (*, '(2a,es10.3,a)') NAME, ': ', &
            (MPI_Wtime() - began)/max(done, 1), ' s per iteration'
    end function run

    logical function set_up() result(possible)
        integer :: ranks
        call MPI_Comm_rank(comm, rank)
        call MPI_Comm_size(comm, ranks)
        possible = divide(n, rank, ranks)
        if (possible) call fill()
        if (.not. possible .and. rank == 0) call complain(NAME, 'too many ranks')
    end function set_up

    ! Print the result
    type(outcome) function look()
        call residual(comm%MPI_VAL)
        look%residual = residual_norm(comm)
        look%error = error_norm(comm)
        look%hash = solution_hash(comm)
    end function look

    ! Whether the result is that of a run on one rank, if that is known
    logical function good(found)
        type(outcome), intent(in) :: found
        good = .true.
        if (chosen > 0) good = difference(found) <= TOLERANCE
    end function good

    real(dp) function difference(found)
        type(outcome), intent(in) :: found
        type(class) :: c
        c = CLASSES(chosen)
        difference = max(maxval(abs(early_residual/c%residual - 1)), &
            maxval(abs(found%error/c%error - 1)))
    end function difference

    subroutine report(found, code)
        type(outcome), intent(in) :: found
        integer, intent(inout) :: code
        character(WORD) :: why
        integer :: unit, wrong
        write (*, '(2a,3(i0,a),2(i0,a))') NAME, ': ', n, ' intervals in each direction, ', &
            step, ' iterations on ', product(parts), ' ranks in ', parts(1), ' x ', &
            parts(2), ' blocks'
        call write_norms(output_unit, NAME//': ', found)
        if (chosen > 0) write (*, '(6a,es8.1)') NAME, ': verification of class ', &
            trim(CLASSES(chosen)%name), ': ', &
            trim(merge('successful', 'FAILED    ', code == 0)), &
            ', largest relative difference', difference(found)
        if (out == ' ') return
        open (newunit=unit, file=out, status='replace', iostat=wrong, iomsg=why)
        if (wrong == 0) call write_norms(unit, '', found)
        if (wrong == 0) close (unit, iostat=wrong, iomsg=why)
        if (wrong == 0) return
        call complain(NAME, trim(out)//': '//why)
        code = 1
    end subroutine report

    subroutine write_norms(unit, before, found)
        integer, intent(in) :: unit
        character(*), intent(in) :: before
        type(outcome), intent(in) :: found
        character(*), parameter :: NUMBERS = '(2a,5es23.15)'
        write (unit, NUMBERS) before, 'early residual', early_residual
        write (unit, NUMBERS) before, 'residual      ', found%residual
        write (unit, NUMBERS) before, 'error         ', found%error
        write (unit, '(3a)') before, 'hash ', hash_text(found%hash)
    end subroutine write_norms

end module ssor_app

program ssor3d
    use mpi_f08
    use ftkit
    use example
    use example_report
    use ssor_app
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
end program ssor3d
