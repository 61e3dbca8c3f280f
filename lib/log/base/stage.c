/* Memory of a device in calls of an MPI that does not know the device (see stage.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "log/base/stage.h"
#include "core/ftk.h"

/* An extension of Open MPI. */
static bool mpi_knows_devices(void)
{
    int (*query)(void) = NULL;
    void *at = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
    memcpy(&query, &at, sizeof at); /* ISO C does not convert pointers to functions */
    return query && query() == 1;
}

bool ftk_stage_is_direct(const void *buf)
{
    return ftk_memory_is_host(ftk_memory_kind_of(buf)) || mpi_knows_devices();
}

int ftk_stage_begin(struct ftk_stage *s, const void *buf, int count, MPI_Datatype type)
{
    *s = (struct ftk_stage){ .at = (void *)(uintptr_t)buf };
    if (count <= 0 || ftk_mpi_takes(buf))
        return MPI_SUCCESS;
    MPI_Count lb, extent, true_lb, true_extent;
    int rc = PMPI_Type_get_extent_x(type, &lb, &extent);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Type_get_true_extent_x(type, &true_lb, &true_extent);
    if (rc != MPI_SUCCESS)
        return rc;
    if (extent < 0)
        return MPI_ERR_TYPE;
    s->bytes = (size_t)(true_extent + (count - 1) * extent);
    s->home = (char *)s->at + true_lb;
    s->copy = malloc(s->bytes ? s->bytes : 1);
    if (!s->copy)
        return MPI_ERR_NO_MEM;
    s->at = (void *)((uintptr_t)s->copy - (uintptr_t)true_lb);
    if (ftk_memory_copy_out(ftk_memory_kind_of(buf), s->copy, s->home, s->bytes) == FTKIT_OK)
        return MPI_SUCCESS;
    free(s->copy);
    s->copy = NULL;
    return MPI_ERR_BUFFER;
}

int ftk_stage_end(struct ftk_stage *s, bool written, int rc)
{
    if (s->copy && written && rc == MPI_SUCCESS
        && ftk_memory_copy_in(ftk_memory_kind_of(s->home), s->home, s->copy, s->bytes) != FTKIT_OK)
        rc = MPI_ERR_BUFFER;
    free(s->copy);
    s->copy = NULL;
    return rc;
}
