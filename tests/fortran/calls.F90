! The calls of MPI from Fortran, family by family, through mpif.h, the module mpi or mpi_f08:
! binding.h.  In every step a rank has messages for and from every other one; see foreign.F90
! for the options and for what is compared.
!
!   -m blocking     MPI_Send and its kinds, MPI_Sendrecv, MPI_Sendrecv_replace
!      nonblocking  MPI_Isend and its kinds, MPI_Isendrecv, waits and tests for all
!      any          MPI_Waitany, Waitsome, Testany, Testsome
!      persistent   MPI_Send_init and its kinds, from before the loop and in it
!      probe        MPI_Probe, Iprobe, Mprobe, Improbe, by name and not
!      wildcard     MPI_Recv and MPI_Irecv from any source, of any tag
!      cancel       MPI_Cancel, MPI_Request_free of sends, MPI_Request_get_status, MPI_Test
!      edges        nobody, nothing, oneself, types of Fortran, derived ones, MPI_BOTTOM
!      comms        communicators and topologies; one that lives for some steps
!      collective   every collective in its three forms; values are whole numbers
!      rounded      sums that depend on the order of adding
!      ahead        requests and a matched message under way at ftkit_checkpoint
!
! A step passes app.mid once, in the middle of its communication.
!
! SPDX-License-Identifier: BSD-3-Clause
#include "binding.h"
program calls
    use foreign
    use p2p
    use edges
    use coll
    use ahead
    implicit none
    logical :: good, known
    integer :: ierr

    call MPI_Init(ierr)
    call options()
    call begin()
    call p2p_begin()
    call edges_begin()
    call coll_begin()
    call ahead_begin()
    call ftkit_recover(ft)
    good = .false.
    do
        call ftkit_checkpoint(ft)
        if (step >= steps) then
            call ahead_end()
            good = verdict(.not. any(family == ['any     ', 'probe   ', 'wildcard']))
            call ftkit_finish(ft, ierr)
            if (ierr == FTKIT_ROLLED_BACK) cycle
            exit
        end if
        call begin_step()
        known = p2p_step()
        if (.not. known) known = edges_step()
        if (.not. known) known = coll_step()
        if (.not. known) known = ahead_step()
        if (.not. known) error stop 'no such family'
        step = step + 1
    end do
    call p2p_end()
    call edges_end()
    call coll_end()
    good = good .and. bad == 0
    call ftkit_close(ft)
    call MPI_Finalize(ierr)
    if (.not. good) stop 1
end program
