! Messages of other types, with nobody and with oneself, and communicators of all makes: see
! calls.F90.
!
! SPDX-License-Identifier: BSD-3-Clause
#include "binding.h"
module edges
    use foreign
    implicit none
    private
    public :: edges_begin, edges_step, edges_end

    integer, parameter :: n = 300
    integer(int64), target, asynchronous :: grid_out(2*n), grid_in(2*n)
    complex(real64), asynchronous :: z_out(5), z_in(5)
    logical, asynchronous :: flags_out(7), flags_in(7)
    character(len=11), asynchronous :: text_out, text_in
    COMM_T, target :: lasting            ! made in one step, freed in a later one
    WIN_T, target :: window              ! likewise, of the following memory
    integer, target, asynchronous :: cells(4)

contains

    ! ---- Messages -----------------------------------------------------------------------

    subroutine nobody()
        STATUS_T(st)
        STATUSES_T(sts, 2)
        REQUEST_T :: q(2)
        integer :: x(1), count, i
        x = 7
        call MPI_Send(x, 1, MPI_INTEGER, MPI_PROC_NULL, 1, comm NO_E)
        call MPI_Recv(x, 1, MPI_INTEGER, MPI_PROC_NULL, 1, comm, st NO_E)
        call MPI_Get_count(st, MPI_INTEGER, count NO_E)
        call check(SOURCE_OF(st) == MPI_PROC_NULL .and. TAG_OF(st) == MPI_ANY_TAG .and. &
            count == 0, 'a receive from nobody')
        call MPI_Isend(x, 1, MPI_INTEGER, MPI_PROC_NULL, 1, comm, q(1) NO_E)
        call MPI_Irecv(x, 1, MPI_INTEGER, MPI_PROC_NULL, 1, comm, q(2) NO_E)
        call MPI_Waitall(2, q, sts NO_E)
        call check(SOURCE_AT(sts, 2) == MPI_PROC_NULL, 'a request of nobody')
        call MPI_Probe(MPI_PROC_NULL, 1, comm, st NO_E)
        call check(SOURCE_OF(st) == MPI_PROC_NULL .and. x(1) == 7, 'a probe of nobody')
        q = MPI_REQUEST_NULL
        call MPI_Waitany(2, q, i, st NO_E)
        call check(i == MPI_UNDEFINED .and. TAG_OF(st) == MPI_ANY_TAG, 'no requests')
    end subroutine

    subroutine no_message()
        MESSAGE_T :: message
        STATUS_T(st)
        integer :: x(1)
        call MPI_Mprobe(MPI_PROC_NULL, 1, comm, message, st NO_E)
        call check(message == MPI_MESSAGE_NO_PROC, 'MPI_MESSAGE_NO_PROC')
        call MPI_Mrecv(x, 1, MPI_INTEGER, message, st NO_E)
        call check(message == MPI_MESSAGE_NULL .and. SOURCE_OF(st) == MPI_PROC_NULL, &
            'MPI_Mrecv of nobody')
    end subroutine

    subroutine oneself()
        REQUEST_T :: q(2)
        integer(int64), asynchronous :: in(1), again(1)
        in = 0
        again = 0
        call MPI_Irecv(in, 1, MPI_INTEGER8, me, 11, comm, q(1) NO_E)
        call MPI_Isend(state, 1, MPI_INTEGER8, me, 11, comm, q(2) NO_E)
        call MPI_Waitall(2, q, MPI_STATUSES_IGNORE NO_E)
        call check(in(1) == state, 'to oneself')
        call MPI_Sendrecv(in, 1, MPI_INTEGER8, me, 12, again, 1, MPI_INTEGER8, me, 12, comm, &
            MPI_STATUS_IGNORE NO_E)
        call check(again(1) == state, 'to oneself and back')
    end subroutine

    !> A message of two words for one: whose error it is stands in the statuses.  Open MPI 5.0
    !> itself does not see it in a message to oneself, and has no statuses for Fortran then.
    subroutine too_long()
        STATUSES_T(sts, 2)
        REQUEST_T :: q(2)
        integer(int64), asynchronous :: in(1), out(2)
        ERRHANDLER_T :: usual
        integer :: code, classes(2)
        character(len=8) :: log
        call get_environment_variable('FTKIT_LOG_ENABLED', log)
        if (log /= 'true') return
        out = state
        call MPI_Comm_get_errhandler(comm, usual NO_E)
        call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN NO_E)
        call MPI_Irecv(in, 1, MPI_INTEGER8, mod(me + np - 1, np), 13, comm, q(1) NO_E)
        call MPI_Isend(out, 2, MPI_INTEGER8, mod(me + 1, np), 13, comm, q(2) NO_E)
        call MPI_Waitall(2, q, sts, code)
        call MPI_Comm_set_errhandler(comm, usual NO_E)
        call MPI_Errhandler_free(usual NO_E)
        call check(code == MPI_ERR_IN_STATUS, 'MPI_ERR_IN_STATUS')
        call MPI_Error_class(ERROR_AT(sts, 1), classes(1) NO_E)
        call MPI_Error_class(ERROR_AT(sts, 2), classes(2) NO_E)
        call check(all(classes == [MPI_ERR_TRUNCATE, MPI_SUCCESS]), 'MPI_ERROR of two requests')
    end subroutine

    !> Calls that complete one operation, or find a message, leave MPI_ERROR as it was.
    subroutine errors_stay()
        integer, parameter :: mark = 4711
        STATUS_T(st)
        REQUEST_T :: q(4)
        MESSAGE_T :: m
        integer :: from, to, k
        integer(int64), asynchronous :: in(1), out(1)
        character(len=8) :: log
        logical :: flag
        from = mod(me + np - 1, np)
        to = mod(me + 1, np)
        out = state
        do k = 1, 4
            call MPI_Isend(out, 1, MPI_INTEGER8, to, 20 + k, comm, q(k) NO_E)
        end do
        ERROR_OF(st) = mark
        call MPI_Probe(from, 21, comm, st NO_E)
        call check(ERROR_OF(st) == mark, 'MPI_Probe and MPI_ERROR')
        call MPI_Iprobe(from, 21, comm, flag, st NO_E)
        call check(flag .and. ERROR_OF(st) == mark, 'MPI_Iprobe and MPI_ERROR')
        call MPI_Recv(in, 1, MPI_INTEGER8, from, 21, comm, st NO_E)
        call check(ERROR_OF(st) == mark, 'MPI_Recv and MPI_ERROR')
        call MPI_Mprobe(from, 22, comm, m, st NO_E)
        call check(ERROR_OF(st) == mark, 'MPI_Mprobe and MPI_ERROR')
        call MPI_Mrecv(in, 1, MPI_INTEGER8, m, st NO_E)
        call check(ERROR_OF(st) == mark, 'MPI_Mrecv and MPI_ERROR')
        call MPI_Sendrecv(out, 1, MPI_INTEGER8, to, 25, in, 1, MPI_INTEGER8, from, 25, comm, st NO_E)
        call get_environment_variable('FTKIT_LOG_ENABLED', log)
        call check(log /= 'true' .or. ERROR_OF(st) == mark, 'MPI_Sendrecv and MPI_ERROR')
        ERROR_OF(st) = mark ! Open MPI 5.0 itself sets it
        flag = .false.
        do while (.not. flag)
            call MPI_Improbe(from, 23, comm, flag, m, st NO_E)
        end do
        call check(ERROR_OF(st) == mark, 'MPI_Improbe and MPI_ERROR')
        call MPI_Mrecv(in, 1, MPI_INTEGER8, m, MPI_STATUS_IGNORE NO_E)
        call MPI_Recv(in, 1, MPI_INTEGER8, from, 24, comm, st NO_E)
        call check(SOURCE_OF(st) == from .and. TAG_OF(st) == 24, 'MPI_Recv and its status')
        call MPI_Waitall(4, q, MPI_STATUSES_IGNORE NO_E)
    end subroutine

    !> Nothing, and values of Fortran's own types, to and from all.
    subroutine small_ones()
        STATUS_T(st)
        integer :: k, to, from, count, i, none(1)
        none = 0
        do k = 1, np - 1
            to = partner(k)
            from = partner(-k)
            call MPI_Sendrecv(none, 0, MPI_INTEGER, to, 13, none, 0, MPI_INTEGER, from, 13, &
                comm, st NO_E)
            call MPI_Get_count(st, MPI_INTEGER, count NO_E)
            call check(count == 0 .and. SOURCE_OF(st) == from .and. TAG_OF(st) == 13, 'nothing')
            z_out = cmplx(me + step, k, real64)
            call MPI_Sendrecv(z_out, 5, MPI_DOUBLE_COMPLEX, to, 14, z_in, 5, &
                MPI_DOUBLE_COMPLEX, from, 14, comm, st NO_E)
            call MPI_Get_count(st, MPI_DOUBLE_COMPLEX, count NO_E)
            call check(count == 5 .and. all(z_in == cmplx(from + step, k, real64)), 'complex')
            flags_out = [(mod(me + step + i, 2) == 0, i=1, 7)]
            call MPI_Sendrecv(flags_out, 7, MPI_LOGICAL, to, 15, flags_in, 7, MPI_LOGICAL, &
                from, 15, comm, st NO_E)
            call check(all(flags_in .eqv. [(mod(from + step + i, 2) == 0, i=1, 7)]), 'logical')
            write (text_out, '(i3, a, i5)') me, 'abc', step
            call MPI_Sendrecv(text_out, 11, MPI_CHARACTER, to, 16, text_in, 11, MPI_CHARACTER, &
                from, 16, comm, st NO_E)
            write (text_out, '(i3, a, i5)') from, 'abc', step
            call check(text_in == text_out, 'characters')
        end do
    end subroutine

    !> A type for what is at an address, of three kinds; start: what a call is to be given.
    subroutine type_of(buffer, how, t)
        integer(int64), intent(inout), target :: buffer(*)
        integer, intent(in) :: how
        DATATYPE_T, intent(out) :: t
        integer(MPI_ADDRESS_KIND) :: where(2)
        integer :: lengths_of(2)
        DATATYPE_T :: types(2)
        select case (how)
        case (0)        ! every other word
            call MPI_Type_vector(n, 1, 2, MPI_INTEGER8, t NO_E)
        case (1)        ! the address itself
            call MPI_Get_address(buffer, where(1) NO_E)
            lengths_of(1) = n
            call MPI_Type_create_hindexed(1, lengths_of, where, MPI_INTEGER8, t NO_E)
        case default    ! two blocks
            where = [0_MPI_ADDRESS_KIND, int(8*n, MPI_ADDRESS_KIND)]
            lengths_of = [10, n - 10]
            types = MPI_INTEGER8
            call MPI_Type_create_struct(2, lengths_of, where, types, t NO_E)
        end select
        call MPI_Type_commit(t NO_E)
    end subroutine

    subroutine with_types()
        DATATYPE_T :: t_out, t_in
        REQUEST_T :: q(2)
        STATUSES_T(st, 2)
        integer :: k, to, from, how, count
        integer(int64) :: token_in
        how = mod(step, 3)
        do k = 1, np - 1
            to = partner(k)
            from = partner(-k)
            call type_of(grid_out, how, t_out)
            call type_of(grid_in, how, t_in)
            grid_in = -1
            grid_out = token(me, to, step, 60)
            if (how == 1) then
                call MPI_Irecv(MPI_BOTTOM, 1, t_in, from, 17, comm, q(1) NO_E)
                call MPI_Isend(MPI_BOTTOM, 1, t_out, to, 17, comm, q(2) NO_E)
            else
                call MPI_Irecv(grid_in, 1, t_in, from, 17, comm, q(1) NO_E)
                call MPI_Isend(grid_out, 1, t_out, to, 17, comm, q(2) NO_E)
            end if
            call MPI_Type_free(t_out NO_E)
            call check(t_out == MPI_DATATYPE_NULL, 'MPI_Type_free')
            if (k == 1) call mid()
            call MPI_Waitall(2, q, st NO_E)
            call MPI_Get_count(STATUS_AT(st, 1), t_in, count NO_E)
            call MPI_Type_free(t_in NO_E)
            token_in = token(from, me, step, 60)
            call check(count == 1 .and. SOURCE_AT(st, 1) == from .and. TAG_AT(st, 1) == 17, &
                'the status of a message with a type')
            select case (how)
            case (0)
                call check(all(grid_in(1::2) == token_in) .and. all(grid_in(2::2) == -1), 'vector')
            case (1)
                call check(all(grid_in(:n) == token_in) .and. all(grid_in(n + 1:) == -1), &
                    'MPI_BOTTOM')
            case default
                call check(all(grid_in(:10) == token_in) .and. all(grid_in(11:n) == -1) .and. &
                    all(grid_in(n + 1:2*n - 10) == token_in) .and. &
                    all(grid_in(2*n - 9:) == -1), 'struct')
            end select
            state = mix(token_in, state)
        end do
    end subroutine

    ! ---- Communicators ------------------------------------------------------------------

    !> Use a communicator; sum: of what its ranks must add up to.
    subroutine use_it(on, expect, what)
        COMM_T, intent(in) :: on
        integer, intent(in) :: expect
        character(len=*), intent(in) :: what
        integer :: total, rank, size, got
        integer(int64) :: from
        call check(on /= MPI_COMM_NULL, what)
        if (on == MPI_COMM_NULL) return
        call MPI_Comm_rank(on, rank NO_E)
        call MPI_Comm_size(on, size NO_E)
        call MPI_Allreduce(me, total, 1, MPI_INTEGER, MPI_SUM, on NO_E)
        call check(total == expect, what)
        call MPI_Sendrecv(rank, 1, MPI_INTEGER, mod(rank + 1, size), 3, got, 1, MPI_INTEGER, &
            modulo(rank - 1, size), 3, on, MPI_STATUS_IGNORE NO_E)
        call check(got == modulo(rank - 1, size), what)
        call MPI_Sendrecv(state, 1, MPI_INTEGER8, modulo(rank - 1, size), 4, from, 1, &
            MPI_INTEGER8, mod(rank + 1, size), 4, on, MPI_STATUS_IGNORE NO_E)
        state = mix(from, state + total)
    end subroutine

    subroutine free_it(on)
        COMM_T, intent(inout) :: on
        call MPI_Comm_free(on NO_E)
        call check(on == MPI_COMM_NULL, 'MPI_Comm_free')
    end subroutine

    integer function sum_of(color, modulus)
        integer, intent(in) :: color, modulus
        integer :: r
        sum_of = 0
        do r = 0, np - 1
            if (mod(r, modulus) == color) sum_of = sum_of + r
        end do
    end function

    subroutine duplicates()
        COMM_T :: a, b, c
        REQUEST_T :: q(2)
        integer :: answer
        logical :: flag
        call MPI_Comm_dup(comm, a NO_E)
        call MPI_Comm_idup(comm, b, q(1) NO_E)
        call MPI_Comm_idup_with_info(a, MPI_INFO_NULL, c, q(2) NO_E)
        call mid()
        if (mod(step, 2) == 0) then
            call MPI_Waitall(2, q, MPI_STATUSES_IGNORE NO_E)
        else
            flag = .false.
            do while (.not. flag)
                call MPI_Test(q(1), flag, MPI_STATUS_IGNORE NO_E)
            end do
            call MPI_Wait(q(2), MPI_STATUS_IGNORE NO_E)
        end if
        call use_it(b, sum_of(0, 1), 'MPI_Comm_idup')
        call use_it(c, sum_of(0, 1), 'MPI_Comm_idup_with_info')
        call free_it(c)
        call MPI_Comm_dup_with_info(b, MPI_INFO_NULL, c NO_E)
        call use_it(c, sum_of(0, 1), 'MPI_Comm_dup_with_info')
        call MPI_Comm_compare(a, b, answer NO_E)
        call check(answer == MPI_CONGRUENT, 'MPI_Comm_compare')
        call MPI_Comm_test_inter(a, flag NO_E)
        call check(flag .eqv. .false., 'MPI_Comm_test_inter')
        call free_it(a)
        call free_it(b)
        call free_it(c)
    end subroutine

    subroutine parts()
        COMM_T :: a
        GROUP_T :: all_of, some
        integer :: i, size, members(ranks), answer
        call MPI_Comm_split(comm, mod(me, 2), -me, a NO_E)
        call use_it(a, sum_of(mod(me, 2), 2), 'MPI_Comm_split')
        call free_it(a)
        call mid()
        call MPI_Comm_split(comm, merge(MPI_UNDEFINED, 1, me == 0), me, a NO_E)
        if (me == 0) then
            call check(a == MPI_COMM_NULL, 'MPI_UNDEFINED')
        else
            call use_it(a, sum_of(0, 1), 'MPI_Comm_split of some')
            call free_it(a)
        end if
        call MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL, a NO_E)
        call use_it(a, sum_of(0, 1), 'MPI_Comm_split_type')
        call free_it(a)
        call MPI_Comm_group(comm, all_of NO_E)
        call MPI_Group_size(all_of, size NO_E)
        call check(size == np, 'MPI_Comm_group')
        members(:np - 1) = [(i, i=1, np - 1)]
        call MPI_Group_incl(all_of, np - 1, members, some NO_E)
        call MPI_Comm_create(comm, some, a NO_E)
        call check((a == MPI_COMM_NULL) .eqv. (me == 0), 'MPI_Comm_create')
        if (me > 0) then
            call use_it(a, sum_of(0, 1), 'MPI_Comm_create')
            call free_it(a)
            call MPI_Comm_create_group(comm, some, 5, a NO_E)
            call use_it(a, sum_of(0, 1), 'MPI_Comm_create_group')
            call MPI_Group_free(all_of NO_E)
            call MPI_Comm_group(a, all_of NO_E)
            call MPI_Group_compare(all_of, some, answer NO_E)
            call check(answer == MPI_IDENT, 'the group of a part')
            call free_it(a)
        end if
        call MPI_Group_free(all_of NO_E)
        call MPI_Group_free(some NO_E)
    end subroutine

    ! Rank 0 and all others, by an intercommunicator.
    subroutine between_groups()
        COMM_T :: group, inter, whole
        STATUS_T(s)
        DATATYPE_T :: types(ranks)
        integer :: size, rank, got, i, root, out(ranks), in(ranks), ones(ranks), at(ranks)
        logical :: flag
        call MPI_Comm_split(comm, merge(0, 1, me == 0), me, group NO_E)
        call MPI_Intercomm_create(group, 0, comm, merge(1, 0, me == 0), 6, inter NO_E)
        call MPI_Comm_test_inter(inter, flag NO_E)
        call check(flag .eqv. .true., 'MPI_Comm_test_inter: it is one')
        call MPI_Comm_remote_size(inter, size NO_E)
        call check(size == merge(np - 1, 1, me == 0), 'MPI_Comm_remote_size')
        call MPI_Comm_rank(inter, rank NO_E)
        call MPI_Allreduce(me + 1, got, 1, MPI_INTEGER, MPI_SUM, inter NO_E)
        call check(got == merge(np*(np + 1)/2 - 1, 1, me == 0), 'MPI_Allreduce between groups')
        root = merge(0, merge(MPI_ROOT, MPI_PROC_NULL, me == 1), me == 0)
        got = me
        call MPI_Bcast(got, 1, MPI_INTEGER, root, inter NO_E)
        call check(got == max(me, 1), 'MPI_Bcast between groups')
        call mid()
        got = -1
        if (me > 0) call MPI_Send(me, 1, MPI_INTEGER, 0, 4, inter NO_E)
        do i = 1, merge(size, 0, me == 0)
            call MPI_Recv(got, 1, MPI_INTEGER, i - 1, 4, inter, s NO_E)
            call check(got == i .and. SOURCE_OF(s) == i - 1, 'MPI_Recv between groups')
        end do
        types = MPI_INTEGER
        ones = 1
        at = [(4*(i - 1), i=1, ranks)]
        out = [(100*me + i - 1, i=1, ranks)]
        in = -1
        call MPI_Alltoallw(out, ones, at, types, in, ones, at, types, inter NO_E)
        do i = 1, size
            call check(in(i) == merge(100*i, me - 1, me == 0), 'MPI_Alltoallw between groups')
        end do
        call check(in(size + 1) == -1, 'MPI_Alltoallw between groups: no more')
        call MPI_Intercomm_merge(inter, me == 0, whole NO_E)
        call use_it(whole, sum_of(0, 1), 'MPI_Intercomm_merge')
        call MPI_Comm_rank(whole, rank NO_E)
        call check(rank == merge(np, me, me == 0) - 1, 'MPI_Intercomm_merge: high')
        call free_it(whole)
        call free_it(inter)
        call free_it(group)
    end subroutine

    subroutine cartesian()
        COMM_T :: a, b
        integer :: dims(2), coords(2), got(2), rank, nd, kind, below, above
        logical :: periods(2), has(2)
        dims = [2, np/2]
        periods = [.true., mod(step, 2) == 0]
        call MPI_Cart_create(comm, 2, dims, periods, .false., a NO_E)
        call check((a == MPI_COMM_NULL) .eqv. (me >= 2*(np/2)), 'MPI_Cart_create')
        if (a /= MPI_COMM_NULL) then
            call use_it(a, (np/2)*(2*(np/2) - 1), 'MPI_Cart_create')
            call MPI_Topo_test(a, kind NO_E)
            call MPI_Cartdim_get(a, nd NO_E)
            call check(kind == MPI_CART .and. nd == 2, 'MPI_Topo_test')
            call MPI_Cart_get(a, 2, got, has, coords NO_E)
            call check(all(got == dims) .and. all(has .eqv. periods), 'MPI_Cart_get')
            call check(has(1) .eqv. .true., 'MPI_Cart_get: a logical')
            call MPI_Cart_rank(a, coords, rank NO_E)
            call check(rank == me, 'MPI_Cart_rank')
            call MPI_Cart_coords(a, me, 2, got NO_E)
            call check(all(got == coords) .and. coords(1) == me/(np/2), 'MPI_Cart_coords')
            call MPI_Cart_shift(a, 0, 1, below, above NO_E)
            call check(below == mod(me + np/2, 2*(np/2)) .and. above == below, 'MPI_Cart_shift')
            call MPI_Cart_map(a, 2, dims, periods, rank NO_E)
            call check(rank == me, 'MPI_Cart_map')
            call mid()
            call MPI_Cart_sub(a, [.false., .true.], b NO_E)
            call MPI_Cart_get(b, 1, got, has, coords(2:) NO_E)
            call check(got(1) == np/2 .and. (has(1) .eqv. periods(2)), 'MPI_Cart_sub')
            call free_it(b)
            call free_it(a)
        end if
    end subroutine

    subroutine graphs()
        COMM_T :: a
        integer :: index(ranks), edges_of(2*ranks), i, n_nodes, n_edges, kind, many, got(2)
        integer :: got_index(ranks), got_edges(2*ranks), rank
        do i = 1, np
            index(i) = 2*i
            edges_of(2*i - 1:2*i) = [modulo(i - 2, np), mod(i, np)]
        end do
        call MPI_Graph_create(comm, np, index, edges_of, .false., a NO_E)
        call use_it(a, sum_of(0, 1), 'MPI_Graph_create')
        call mid()
        call MPI_Topo_test(a, kind NO_E)
        call MPI_Graphdims_get(a, n_nodes, n_edges NO_E)
        call check(kind == MPI_GRAPH .and. n_nodes == np .and. n_edges == 2*np, 'MPI_Graphdims_get')
        call MPI_Graph_get(a, np, 2*np, got_index, got_edges NO_E)
        call check(all(got_index(:np) == index(:np)) .and. &
            all(got_edges(:2*np) == edges_of(:2*np)), 'MPI_Graph_get')
        call MPI_Graph_neighbors_count(a, me, many NO_E)
        call MPI_Graph_neighbors(a, me, 2, got NO_E)
        call check(many == 2 .and. all(got == [partner(-1), partner(1)]), 'MPI_Graph_neighbors')
        call MPI_Graph_map(a, np, index, edges_of, rank NO_E)
        call check(rank == me, 'MPI_Graph_map')
        call free_it(a)
    end subroutine

    subroutine distributed_graphs()
        COMM_T :: a
        integer :: ins, outs, in(2), out(1), in_weights(2), out_weights(1), i
        logical :: weighted
        ! each gets from both sides and gives to the right, in a graph without sense
        do i = 1, 3
            select case (i)
            case (1)
                call MPI_Dist_graph_create_adjacent(comm, 1, [partner(-1)], [5], 1, &
                    [partner(1)], [5], MPI_INFO_NULL, .false., a NO_E)
            case (2)
                call MPI_Dist_graph_create_adjacent(comm, 1, [partner(-1)], MPI_UNWEIGHTED, 1, &
                    [partner(1)], MPI_UNWEIGHTED, MPI_INFO_NULL, .false., a NO_E)
            case default
                call MPI_Dist_graph_create(comm, 1, [partner(2)], [1], [partner(3)], [5], &
                    MPI_INFO_NULL, .false., a NO_E)
                call mid()
            end select
            call use_it(a, sum_of(0, 1), 'MPI_Dist_graph_create')
            weighted = .true.
            call MPI_Dist_graph_neighbors_count(a, ins, outs, weighted NO_E)
            call check(ins == 1 .and. outs == 1 .and. (weighted .eqv. (i /= 2)), &
                'MPI_Dist_graph_neighbors_count')
            in_weights = 0
            if (i == 2) then
                call MPI_Dist_graph_neighbors(a, 1, in, MPI_UNWEIGHTED, 1, out, out_weights NO_E)
            else
                call MPI_Dist_graph_neighbors(a, 1, in, in_weights, 1, out, out_weights NO_E)
                call check(in_weights(1) == 5 .and. out_weights(1) == 5, 'weights')
            end if
            call check(in(1) == partner(-1) .and. out(1) == partner(1), &
                'MPI_Dist_graph_neighbors')
            call free_it(a)
        end do
        if (me == 0) then
            call MPI_Dist_graph_create_adjacent(comm, 0, in, MPI_WEIGHTS_EMPTY, 1, [np - 1], [2], &
                MPI_INFO_NULL, .false., a NO_E)
        else if (me == np - 1) then
            call MPI_Dist_graph_create_adjacent(comm, 1, [0], [2], 0, out, MPI_WEIGHTS_EMPTY, &
                MPI_INFO_NULL, .false., a NO_E)
        else
            call MPI_Dist_graph_create_adjacent(comm, 0, in, MPI_WEIGHTS_EMPTY, 0, out, &
                MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, .false., a NO_E)
        end if
        call MPI_Dist_graph_neighbors_count(a, ins, outs, weighted NO_E)
        call check((weighted .eqv. .true.) .and. ins + outs == merge(1, 0, me == 0 .or. &
            me == np - 1), 'MPI_WEIGHTS_EMPTY')
        call free_it(a)
    end subroutine

    !> Made every seven steps, registered, and given to a replacement.
    subroutine lasting_one()
        integer :: since
        since = step - mod(step, 7)
        if (lasting /= MPI_COMM_NULL .and. mod(step, 7) == 0) call free_it(lasting)
        if (lasting == MPI_COMM_NULL) &
            call MPI_Comm_split(comm, mod(me + since, 2), -me, lasting NO_E)
        call use_it(lasting, sum_of(mod(me, 2), 2), 'one that is registered')
    end subroutine

    !> Lives in five of seven steps, registered, and given to a replacement.
    subroutine lasting_window()
        integer(MPI_ADDRESS_KIND), parameter :: bytes = 16, first = 0
        integer, asynchronous :: mine(1)
        if (mod(step, 7) == 0) &
            call MPI_Win_create(cells, bytes, 4, MPI_INFO_NULL, comm, window NO_E)
        if (mod(step, 7) == 5 .and. window /= MPI_WIN_NULL) call MPI_Win_free(window NO_E)
        call check((window /= MPI_WIN_NULL) .eqv. (mod(step, 7) < 5), 'whether there is a window')
        if (window == MPI_WIN_NULL) return
        mine = 100 * step + me
        call MPI_Win_fence(MPI_MODE_NOPRECEDE, window NO_E)
        call MPI_Put(mine, 1, MPI_INTEGER, partner(1), first, 1, MPI_INTEGER, window NO_E)
        call MPI_Win_fence(MPI_MODE_NOSUCCEED, window NO_E)
        call check(cells(1) == 100 * step + partner(-1), 'a window that is registered')
    end subroutine

    ! ---- The program --------------------------------------------------------------------

    subroutine edges_begin()
        lasting = MPI_COMM_NULL
        window = MPI_WIN_NULL
        cells = 0
        if (.not. logged()) return
        call ftkit_register_comm(ft, 'lasting', lasting)
        call ftkit_register_window(ft, 'window', window)
        call ftkit_register(ft, 'cells', cells)
    end subroutine

    subroutine edges_end()
        if (lasting /= MPI_COMM_NULL) call free_it(lasting)
        if (window /= MPI_WIN_NULL) call MPI_Win_free(window NO_E)
    end subroutine

    logical function edges_step()
        edges_step = .true.
        select case (family)
        case ('edges')
            call nobody()
            call no_message()
            call oneself()
            call too_long()
            call errors_stay()
            call small_ones()
            call with_types()
        case ('comms')
            call lasting_one()
            if (logged()) call lasting_window()
            select case (mod(step, 6))
            case (0)
                call duplicates()
            case (1)
                call parts()
            case (2)
                call cartesian()
            case (3)
                call graphs()
            case (4)
                call between_groups()
            case default
                call distributed_graphs()
            end select
            call mid()
        case default
            edges_step = .false.
        end select
    end function
end module
