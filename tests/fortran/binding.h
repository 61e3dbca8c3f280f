! What differs between mpif.h (USE_MPIFH), the module mpi (USE_MPI) and mpi_f08 (USE_F08), for
! sources that are compiled for each of them.
!
! NO_E: the last argument of a call whose error code nobody wants: there is none with mpi_f08.
!
! SPDX-License-Identifier: BSD-3-Clause
#ifdef USE_F08
#define NO_E
#define COMM_T type(MPI_Comm)
#define GROUP_T type(MPI_Group)
#define REQUEST_T type(MPI_Request)
#define MESSAGE_T type(MPI_Message)
#define DATATYPE_T type(MPI_Datatype)
#define OP_T type(MPI_Op)
#define INFO_T type(MPI_Info)
#define WIN_T type(MPI_Win)
#define FILE_T type(MPI_File)
#define SESSION_T type(MPI_Session)
#define ERRHANDLER_T type(MPI_Errhandler)
#define STATUS_T(s) type(MPI_Status)::s
#define STATUSES_T(s, n) type(MPI_Status)::s(n)
#define STATUS_AT(s, i) s(i)
#define SOURCE_OF(s) s % MPI_SOURCE
#define TAG_OF(s) s % MPI_TAG
#define ERROR_OF(s) s % MPI_ERROR
#define SOURCE_AT(s, i) s(i) % MPI_SOURCE
#define TAG_AT(s, i) s(i) % MPI_TAG
#define ERROR_AT(s, i) s(i) % MPI_ERROR
#else
#define NO_E , unused
#define COMM_T integer
#define GROUP_T integer
#define REQUEST_T integer
#define MESSAGE_T integer
#define DATATYPE_T integer
#define OP_T integer
#define INFO_T integer
#define WIN_T integer
#define FILE_T integer
#define SESSION_T integer
#define ERRHANDLER_T integer
#define STATUS_T(s) integer ::s(MPI_STATUS_SIZE)
#define STATUSES_T(s, n) integer ::s(MPI_STATUS_SIZE, n)
#define STATUS_AT(s, i) s( :, i)
#define SOURCE_OF(s) s(MPI_SOURCE)
#define TAG_OF(s) s(MPI_TAG)
#define ERROR_OF(s) s(MPI_ERROR)
#define SOURCE_AT(s, i) s(MPI_SOURCE, i)
#define TAG_AT(s, i) s(MPI_TAG, i)
#define ERROR_AT(s, i) s(MPI_ERROR, i)
#endif
