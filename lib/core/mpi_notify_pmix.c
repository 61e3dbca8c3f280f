/* Notice to MPI that a process has ended (see mpi_notify.h), by PMIx.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Open MPI 5 takes a process for failed when PMIx reports one of three events.  The daemons of
 * PRRTE report these events for a death by a signal, and for an end with 0 without MPI_Finalize; an
 * end with another code, and MPI_Abort, they do not report.  Any process may report an event, and
 * the daemons hand the event to all processes.  The function is looked up at run time: a program
 * that is linked with the static library need not name libpmix. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmix.h>

#include "mpi_notify.h"
#include "symbol.h"

typedef pmix_status_t notify_fn(pmix_status_t status, const pmix_proc_t *source,
    pmix_data_range_t range, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t done,
    void *data);

/* What the event refers to until it is sent. */
struct notice {
    pmix_proc_t source, dead;
    pmix_info_t info;
};

/* The part of "prterun-host-4711@1" behind '@'; NULL: the name has another form. */
static const char *number_in(const char *space)
{
    const char *at = space ? strrchr(space, '@') : NULL;
    return at && at[1] ? at + 1 : NULL;
}

int ftk_mpi_job(void)
{
    char *end = NULL;
    const char *number = number_in(getenv("PMIX_NAMESPACE"));
    long job = number ? strtol(number, &end, 10) : -1;
    return job >= 0 && job <= INT32_MAX && end && *end == '\0' ? (int)job : -1;
}

static void sent(pmix_status_t status, void *data)
{
    (void)status; /* without the event the watchdog ends the job */
    free(data);
}

bool ftk_mpi_notify_lost(int job, int rank)
{
    const char *space = getenv("PMIX_NAMESPACE"), *own = getenv("PMIX_RANK");
    const char *number = number_in(space);
    notify_fn *notify;
    if (!number || !own || job < 0 || rank < 0
        || !ftk_symbol_find(RTLD_DEFAULT, "PMIx_Notify_event", &notify))
        return false;
    struct notice *l = calloc(1, sizeof *l);
    if (!l)
        return false;
    snprintf(l->source.nspace, sizeof l->source.nspace, "%s", space);
    l->source.rank = (pmix_rank_t)strtoul(own, NULL, 10);
    snprintf(l->dead.nspace, sizeof l->dead.nspace, "%.*s%d", (int)(number - space), space, job);
    l->dead.rank = (pmix_rank_t)rank;
    snprintf(l->info.key, sizeof l->info.key, "%s", PMIX_EVENT_AFFECTED_PROC);
    l->info.value.type = PMIX_PROC;
    l->info.value.data.proc = &l->dead;
    pmix_status_t rc =
        notify(PMIX_ERR_PROC_ABORTED_BY_SIG, &l->source, PMIX_RANGE_SESSION, &l->info, 1, sent, l);
    if (rc != PMIX_SUCCESS)
        free(l); /* sent() is not called */
    return rc == PMIX_SUCCESS || rc == PMIX_OPERATION_SUCCEEDED;
}
