/* Topologies: what the calls of all kinds have in common.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_TOPO_H
#define FTK_LOG_TOPO_H

#include <string.h>

#include "log/mpi/construct.h"
#include "log/vcomm/topology.h"

/* Whether vc has a topology of that kind, and the arguments for the result are there (places).  MPI
 * code; an error has gone to the error handler. */
static inline int ftk_topo_check_kind(
    const struct ftk_vcomm *vc, enum ftk_topology kind, bool places)
{
    int code = MPI_SUCCESS;
    if (vc->topo.kind != (int)kind)
        code = MPI_ERR_TOPOLOGY;
    else if (!places)
        code = MPI_ERR_ARG;
    if (code != MPI_SUCCESS)
        (void)ftk_vcomm_error(vc, code); /* returns it */
    return code;
}

/* Copy n integers, at most room. */
static inline void ftk_topo_copy_upto(int *to, const int *from, int n, int room)
{
    int count = n < room ? n : room;
    if (count > 0)
        memcpy(to, from, (size_t)count * sizeof *to);
}

#endif
