/* What every part of the log uses: statuses, failures, hashes (base/runtime.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_RUNTIME_H
#define FTK_LOG_RUNTIME_H

#include <string.h>

#include "core/mpi_shim.h"
#include "log/log.h"

/* ---- statuses ------------------------------------------------------------------------ */

static inline void ftk_status_empty(MPI_Status *s)
{
    memset(s, 0, sizeof *s);
    s->MPI_SOURCE = MPI_ANY_SOURCE;
    s->MPI_TAG = MPI_ANY_TAG;
    s->MPI_ERROR = MPI_SUCCESS;
}

/* Copy a status to the program's.  Only calls that complete several requests set MPI_ERROR
 * (MPI 4.0, 3.2.5). */
static inline void ftk_status_copy(MPI_Status *to, const MPI_Status *from)
{
    if (to == MPI_STATUS_IGNORE)
        return;
    int error = to->MPI_ERROR;
    *to = *from;
    to->MPI_ERROR = error;
}
/* Make a status; the second function makes the program's. */
void ftk_status_make(MPI_Status *s, int source, int tag, size_t bytes);
void ftk_status_put(MPI_Status *to, int source, int tag, size_t bytes);
void ftk_status_none(MPI_Status *s); /* the program's, of no message */

/* ---- sends that are complete at once --------------------------------------------------- */

/* The handle that the MPI gives every send that is complete at once (runtime.c); MPI_REQUEST_NULL:
 * not known yet. */
extern MPI_Request ftk_over_handle;
void ftk_over_make(void);

/* Whether a send that the MPI has begun is complete already: then *real becomes MPI_REQUEST_NULL.
 * The function makes no progress, so it never waits; false: a test may find the send complete. */
static inline bool ftk_over_at_once(MPI_Request *real)
{
    if (__builtin_expect(ftk_over_handle == MPI_REQUEST_NULL, 0))
        ftk_over_make();
    if (ftk_over_handle == MPI_REQUEST_NULL || *real != ftk_over_handle)
        return false;
    *real = MPI_REQUEST_NULL;
    return true;
}

/* ---- phases --------------------------------------------------------------------------- */

/* Enter a phase other than ROLLING_BACK, for which there is ftk_log_begin_rollback(). */
void ftk_log_enter(enum ftk_phase phase);

/* The error with which calls fail while this rank rolls back. */
int ftk_log_error(void);

/* ---- failures ------------------------------------------------------------------------ */

/* Whether an MPI error says that a process has failed. */
bool ftk_log_is_failure(int rc);
/* The MPI has reported a failure. */
void ftk_log_note_failure(void);
/* log.determinants = refuse: whether the call is an error; the function reports it then. */
bool ftk_log_refuses(const char *call);

/* ---- hashes -------------------------------------------------------------------------- */

uint64_t ftk_log_hash(const void *data, size_t bytes); /* never 0 */

#endif
