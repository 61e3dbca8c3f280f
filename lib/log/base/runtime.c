/* The state of the log in this process, and what every part of the log uses.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "core/hash.h"
#include "core/mpi_shim.h"
#include "detect/detect.h"
#include "energy/energy.h"
#include "log/mode.h"
#include "log/base/part.h"
#include "log/base/runtime.h"

struct ftk_log ftk_log;

/* ---- phases -------------------------------------------------------------------------- */

void ftk_log_enter(enum ftk_phase phase)
{
    ftk_log.phase = phase;
    if (phase == FTK_PHASE_REPLAY)
        ftk_energy_begin(ftk_log.ctx, FTK_ENERGY_REPLAY);
    else
        ftk_energy_end(ftk_log.ctx, FTK_ENERGY_REPLAY);
}

/* ---- failures ------------------------------------------------------------------------ */

int ftk_log_error(void)
{
    return ftk_mpi_failure_code();
}

void ftk_log_note_failure(void)
{
    ftk_detect_raise(ftk_log.ctx);
}

/* ---- statuses ------------------------------------------------------------------------ */

void ftk_status_make(MPI_Status *s, int source, int tag, size_t bytes)
{
    ftk_status_empty(s);
    s->MPI_SOURCE = source;
    s->MPI_TAG = tag;
    (void)PMPI_Status_set_elements_x(s, MPI_BYTE, (MPI_Count)bytes);
}

void ftk_status_put(MPI_Status *to, int source, int tag, size_t bytes)
{
    MPI_Status s;
    ftk_status_make(&s, source, tag, bytes);
    ftk_status_copy(to, &s);
}

void ftk_status_none(MPI_Status *s)
{
    ftk_status_put(s, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
}

/* ---- requests of the MPI ------------------------------------------------------------- */

/* The MPI gives every send that is complete at once the same handle, which a send to MPI_PROC_NULL
 * has, too.  This send is never completed, so every request under way has another handle. */
MPI_Request ftk_over_handle = MPI_REQUEST_NULL;

void ftk_over_make(void)
{
    if (PMPI_Isend(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &ftk_over_handle)
        != MPI_SUCCESS)
        ftk_over_handle = MPI_REQUEST_NULL; /* then a later look finds sends complete */
}

static void close_over(void)
{
    if (ftk_over_handle != MPI_REQUEST_NULL)
        (void)PMPI_Wait(&ftk_over_handle, MPI_STATUS_IGNORE); /* complete: no error is possible */
}

bool ftk_log_is_failure(int rc)
{
    int class = rc;
    if (PMPI_Error_class(rc, &class) == MPI_SUCCESS && class == MPI_ERR_TRUNCATE)
        return false;
    /* the codes of calls on communicators with dead members are not reliable */
    return ftk_mpi_is_failure(rc) || ftk_log.ctx->detect.failed || ftk_detect_poll(ftk_log.ctx);
}

/* ---- hashes -------------------------------------------------------------------------- */

uint64_t ftk_log_hash(const void *data, size_t bytes)
{
    uint64_t h = ftk_xxh3(data, bytes);
    return h ? h : 1; /* 0: not known */
}

/* ---- refusing ------------------------------------------------------------------------ */

bool ftk_log_refuses(const char *call)
{
    const struct ftkit_ctx *ctx = ftk_log.ctx;
    if (!ftk_log.mode->refuses)
        return false;
    ftk_report(FTKIT_ERROR,
        "context %s: rank %d: %s: its outcome depends on time, and log.determinants = refuse",
        ctx->cfg.name, ftk_log.me, call);
    return true;
}

const struct ftk_part ftk_part_over = { .close = close_over };
