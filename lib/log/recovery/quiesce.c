/* Quiesce: after this step of a repair nothing is under way on the old communicators.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * After a failure every live rank is somewhere inside ftkit.  The step asks the parts of the log:
 * each one announces what it has sent, drains what is in flight between survivors, and withdraws
 * what it has under way (log/base/part.h). */
#include <stdlib.h>

#include "core/tags.h"
#include "detect/sure.h"
#include "log/log.h"
#include "steps.h"

/* The watch over the ranks of the next epoch: ends with an error when one of them fails. */
struct watch {
    MPI_Request request;
    int buf;
};

static int watch_begin(struct watch *w, MPI_Comm act)
{
    int rc = PMPI_Irecv(&w->buf, 1, MPI_INT, MPI_ANY_SOURCE, FTK_TAG_WATCH, act, &w->request);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "quiescing");
}

static int look(void *arg)
{
    struct watch *w = arg;
    int done = 0;
    int rc = PMPI_Test(&w->request, &done, MPI_STATUS_IGNORE);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "quiescing");
}

static void watch_end(struct watch *w)
{
    if (w->request == MPI_REQUEST_NULL)
        return;
    (void)PMPI_Cancel(&w->request); /* an error: the watch has ended already */
    (void)PMPI_Wait(&w->request, MPI_STATUS_IGNORE);
}

/* Whether a part of the rank has announced something. */
static bool is_any(const uint64_t *numbers)
{
    for (size_t i = 0; i < ftk_parts.announces; i++)
        if (numbers[i] > 0)
            return true;
    return false;
}

/* All ranks exchange the numbers of all parts. */
static int announce(const struct ftk_log_repair *r)
{
    const struct ftk_sure s = { r->act, NULL, "quiescing" };
    const size_t width = ftk_parts.announces, n = (size_t)r->n;
    uint64_t *out = calloc(2 * width * n, sizeof *out);
    if (!out)
        return ftk_fail(FTKIT_ERR_NOMEM, "quiescing");
    uint64_t *in = out + width * n;
    for (int i = 0, count = ftk_peers_count(); i < count; i++)
        ftk_parts_announce(ftk_peers_rank(i), out + width * (size_t)ftk_peers_rank(i));
    int rc = ftk_sure_alltoall(&s, out, width * sizeof *out, in);
    for (int k = 0; rc == FTKIT_OK && k < r->n; k++)
        if (ftk_peers.at[k].joined || is_any(in + width * (size_t)k))
            ftk_parts_announced(k, in + width * (size_t)k);
    free(out);
    return rc;
}

int ftk_quiesce(const struct ftk_log_repair *r)
{
    struct watch watch = { .request = MPI_REQUEST_NULL };
    const struct ftk_quiescing q = { r, look, &watch };
    int rc = FTKIT_OK;
    (void)FTK_FAULT("log.settle");
    ftk_parts_quiesce(r);
    for (enum ftk_quiesce_step step = FTK_QUIESCE_ANNOUNCE;
         rc == FTKIT_OK && step != FTK_QUIESCE_END;
         step = ftk_quiesce_next(step, r->is_new[r->me])) {
        if (step == FTK_QUIESCE_ANNOUNCE)
            rc = announce(r);
        else if (step == FTK_QUIESCE_WATCH)
            rc = watch_begin(&watch, r->act);
        else if (step == FTK_QUIESCE_DRAIN)
            rc = ftk_parts_drain(&q);
        else if (step == FTK_QUIESCE_LOOK)
            rc = look(&watch);
        else
            rc = ftk_parts_withdraw(&q);
    }
    ftk_parts_quiesced();
    watch_end(&watch);
    (void)FTK_FAULT("log.settled");
    return rc;
}
