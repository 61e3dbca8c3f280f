/* Memory of a device in calls of an MPI that does not know the device (see stage.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "core/cuda.h"
#include "core/hip.h"
#include "core/symbol.h"
#include "log/base/dtype.h"
#include "log/base/saved.h"
#include "log/base/stage.h"
#include "log/log.h"
#include "set/device.h"

/* An extension of Open MPI. */
static bool mpi_says(const char *symbol)
{
    int (*query)(void) = NULL;
    return ftk_symbol_find(RTLD_DEFAULT, symbol, &query) && query() == 1;
}

/* The MPI has to know the devices of each driver that this process has. */
static bool mpi_knows_devices(void)
{
    return (!ftk_cuda_find() || mpi_says("MPIX_Query_cuda_support"))
           && (!ftk_hip_find() || mpi_says("MPIX_Query_rocm_support"));
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
    ptrdiff_t low, end;
    size_t packed;
    int rc = ftk_dtype_size(count, type, &packed);
    if (rc == MPI_SUCCESS)
        rc = ftk_saved_span((size_t)count, type, &low, &end);
    if (rc != MPI_SUCCESS)
        return rc;
    s->bytes = (size_t)(end - low);
    s->home = (char *)s->at + low;
    s->copy = malloc(s->bytes ? s->bytes : 1);
    if (!s->copy)
        return MPI_ERR_NO_MEM;
    s->at = (void *)((uintptr_t)s->copy - (uintptr_t)low);
    const enum ftk_memory_kind kind = ftk_memory_kind_of(buf);
    /* the gaps are copied back, too: a kernel under way may write them */
    int bad = s->bytes > packed ? ftk_memory_wait(kind, s->home, NULL) : FTKIT_OK;
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
