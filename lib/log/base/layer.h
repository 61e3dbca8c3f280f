/* libftkit_mpi, as libftkit sees it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each call of the program must come to the log exactly once.  A profiling tool in front of
 * libftkit_mpi forwards a call to PMPI_..., which the shared libftkit_mpi defines, too.  The calls
 * of libftkit itself go past all of them, through ftk_mpi_real. */
#ifndef FTK_LOG_LAYER_H
#define FTK_LOG_LAYER_H

#include "log/log.h"
#include "mpi_calls.h"

/* Find libftkit_mpi, and check that every function of MPI that the log needs comes to it.  From
 * then on ftk_mpi_real is the MPI.  FTKIT_ERR_UNSUPPORTED: there is no libftkit_mpi, or the detail
 * names a function that goes past it, and the object that defines it. */
int ftk_layer_check(void);
/* NULL: the layer has not been found. */
const struct ftk_mpi_layer *ftk_layer(void);
/* Whether each call of the program looks whether it may be made now (alone.h), also without
 * MPI_THREAD_MULTIPLE. */
void ftk_layer_guard(bool on);
/* From now on MPI_Free_mem asks this function first, also behind ftkit_close(). */
void ftk_layer_set_frees(bool (*frees)(void *base));

#endif
