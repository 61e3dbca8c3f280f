/* Memory of a device in calls of an MPI that does not know the device (base/stage.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Such an MPI reads an address of the device as host memory, and crashes.  So it gets a copy in
 * host memory in its place: the stage. */
#ifndef FTK_LOG_STAGE_H
#define FTK_LOG_STAGE_H

#include <mpi.h>

#include "core/memory_kind.h"

/* Whether the MPI may be given the address buf: of host memory, or of any memory if the MPI knows
 * devices. */
bool ftk_stage_is_direct(const void *buf);
static inline bool ftk_mpi_takes(const void *buf)
{
    return !ftk_memory_has_others() || ftk_stage_is_direct(buf);
}

/* Items of the program that the MPI is to read or to write. */
struct ftk_stage {
    void *at;     /* for the MPI, in place of the address of the program */
    char *copy;   /* NULL: there is no stage */
    char *home;   /* the first byte of the items */
    size_t bytes; /* from the first byte of the items to the last one, gaps included */
};

/* The MPI code for a code of an access to memory.  If memory of a device has been lost, this is the
 * end of the process, as device.fault says. */
int ftk_stage_failed(int rc);

/* MPI codes.  A stage has the bytes of the items, gaps included, unless count is 0. */
int ftk_stage_begin(struct ftk_stage *s, const void *buf, int count, MPI_Datatype type);
/* Free the stage.  If rc is MPI_SUCCESS, and the MPI has written, copy the items back first.  The
 * result: rc, or an error of that copy. */
int ftk_stage_end(struct ftk_stage *s, bool written, int rc);

#endif
