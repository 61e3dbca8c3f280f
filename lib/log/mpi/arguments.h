/* Arguments of the program's calls of point-to-point communication.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_ARGUMENTS_H
#define FTK_LOG_ARGUMENTS_H

#include "log/base/control.h"
#include "log/mode.h"

/* Check the arguments of a call on vc; receives: of a receive or a probe, which may have wildcards.
 * Return the MPI code of the first invalid argument. */
static inline int ftk_call_check(
    const struct ftk_vcomm *vc, int count, MPI_Datatype type, int peer, int tag, bool receives)
{
    if (count < 0)
        return MPI_ERR_COUNT;
    if (type == MPI_DATATYPE_NULL)
        return MPI_ERR_TYPE;
    if (peer != MPI_PROC_NULL && (peer < 0 || peer >= ftk_vcomm_peers(vc))
        && !(receives && peer == MPI_ANY_SOURCE))
        return MPI_ERR_RANK;
    if (tag < 0 && !(receives && tag == MPI_ANY_TAG))
        return MPI_ERR_TAG;
    if (tag == FTK_CONTROL_TAG && ftk_parts.in_band)
        return MPI_ERR_TAG;
    if (tag > FTK_TAG_MAX && ftk_context_shares(vc->context))
        return MPI_ERR_TAG;
    return MPI_SUCCESS;
}

#endif
