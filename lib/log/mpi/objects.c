/* The program's datatypes, operations and Fortran handles in log mode, and MPI_Abort.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "detect/detect.h"
#include "log/base/dtype.h"
#include "log/coll/coll.h"
#include "mpi_calls.h"

/* ---- datatypes ----------------------------------------------------------------------- */

int ftk_mpi_Type_free(MPI_Datatype *datatype)
{
    if (ftk_coll_type_free(datatype))
        return MPI_SUCCESS;
    int rc = ftk_req_type_free(datatype);
    return rc == MPI_ERR_NO_MEM ? ftk_vcomm_end(ftk_log.vcomms.world, rc) : rc;
}

/* ---- MPI_Abort ----------------------------------------------------------------------- */

int ftk_mpi_Abort(MPI_Comm comm, int errorcode)
{
    (void)comm; /* the handle of a virtual communicator would end this process alone */
    ftk_detect_abort("MPI_Abort", errorcode);
    return PMPI_Abort(MPI_COMM_WORLD, errorcode);
}

int ftk_mpi_Op_free(MPI_Op *op)
{
    return ftk_coll_op_free(op);
}

/* ---- handles in Fortran -------------------------------------------------------------- */

MPI_Fint ftk_mpi_Request_c2f(MPI_Request request)
{
    const struct ftk_req *r = ftk_req_of(request);
    return r ? FTK_HANDLES_FROM + ftk_req_number(r) : PMPI_Request_c2f(request);
}

MPI_Request ftk_mpi_Request_f2c(MPI_Fint request)
{
    struct ftk_req *r =
        request >= FTK_HANDLES_FROM ? ftk_req_numbered(request - FTK_HANDLES_FROM) : NULL;
    return r ? ftk_req_handle(r) : PMPI_Request_f2c(request);
}

MPI_Fint ftk_mpi_Message_c2f(MPI_Message message)
{
    int number = ftk_matched_number(message);
    return number >= 0 ? FTK_HANDLES_FROM + number : PMPI_Message_c2f(message);
}

MPI_Message ftk_mpi_Message_f2c(MPI_Fint message)
{
    struct ftk_unexp *h =
        message >= FTK_HANDLES_FROM ? ftk_matched_numbered(message - FTK_HANDLES_FROM) : NULL;
    return h ? (MPI_Message)(void *)h : PMPI_Message_f2c(message);
}
