/* Attributes of virtual communicators.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The handle of a virtual communicator has its attributes, and the MPI calls their callbacks
 * when the handle is duplicated or freed.  Two cases are left.  The handle of the world is
 * MPI_COMM_WORLD itself, and nothing that is local can duplicate that one.  And a freed
 * communicator that a rank may fall back to stays for a while.  For these libftkit_mpi
 * remembers which keys the program has made, from its first call on.  A key that was made in
 * Fortran has a copy callback of Fortran. */
#ifndef FTK_LOG_ATTR_H
#define FTK_LOG_ATTR_H

#include "log/log.h"

/* Copy the attributes of one handle to another as MPI_Comm_dup() does.  The MPI code, or that
 * of a callback. */
int ftk_attr_copy(MPI_Comm from, MPI_Comm to);
/* Delete those of a handle as MPI_Comm_free() does.  The same. */
int ftk_attr_delete(MPI_Comm comm);

#endif
