/* Memory of a device in calls of an MPI that does not know the device (see stage.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "log/base/stage.h"
#include "log/log.h"
#include "set/device.h"

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

int ftk_stage_failed(int rc)
{
    if (rc == FTKIT_OK)
        return MPI_SUCCESS;
    (void)ftk_device_done(ftk_log.ctx, rc); /* it may end the process */
    return MPI_ERR_BUFFER;
}

int ftk_stage_begin(struct ftk_stage *s, const void *buf, int count, MPI_Datatype type)
{
    *s = (struct ftk_stage){ .at = (void *)(uintptr_t)buf };
    if (count <= 0 || ftk_mpi_takes(buf))
        return MPI_SUCCESS;
    MPI_Count lb, extent, true_lb, true_extent, size = 0;
    int rc = PMPI_Type_size_x(type, &size);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Type_get_extent_x(type, &lb, &extent);
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
    const enum ftk_memory_kind kind = ftk_memory_kind_of(buf);
    /* the gaps are copied back, too: a kernel under way may write them */
    int bad = s->bytes > (size_t)(size * count) ? ftk_memory_wait(kind, s->home) : FTKIT_OK;
    if (bad == FTKIT_OK)
        bad = ftk_memory_copy_out(kind, s->copy, s->home, s->bytes);
    if (bad == FTKIT_OK)
        return MPI_SUCCESS;
    free(s->copy);
    s->copy = NULL;
    return ftk_stage_failed(bad);
}

int ftk_stage_end(struct ftk_stage *s, bool written, int rc)
{
    if (s->copy && written && rc == MPI_SUCCESS)
        rc = ftk_stage_failed(
            ftk_memory_copy_in(ftk_memory_kind_of(s->home), s->home, s->copy, s->bytes));
    free(s->copy);
    s->copy = NULL;
    return rc;
}
