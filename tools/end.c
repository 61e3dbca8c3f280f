/* The end of one process of a job (see state.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <string.h>

#include "state.h"

bool ftk_end_same(const struct ftk_end *a, const struct ftk_end *b)
{
    return a->job == b->job && a->rank == b->rank;
}

struct ftk_end *ftk_end_find(struct ftk_end *v, size_t n, const struct ftk_end *e)
{
    for (size_t i = 0; i < n; i++)
        if (ftk_end_same(&v[i], e))
            return &v[i];
    return NULL;
}

void ftk_end_add(struct ftk_end **v, size_t *n, size_t *room, const struct ftk_end *e)
{
    *v = ftk_tool_grow(*v, *n, room, sizeof **v);
    (*v)[(*n)++] = *e;
}

void ftk_end_take(const char *text, struct ftk_end **v, size_t *n, size_t *room)
{
    struct ftk_end e = { .how = FTK_END_NONE };
    if (sscanf(text, "%ld %ld", &e.job, &e.rank) == 2)
        ftk_end_add(v, n, room, &e);
}

int ftk_end_code(const struct ftk_end *e)
{
    if (e->how == FTK_END_SIGNAL && e->sig > 0)
        return 128 + e->sig;
    return e->code ? e->code : TOOL_FAIL;
}

void ftk_end_text(const struct ftk_end *e, char *text, size_t bytes)
{
    char who[64];
    snprintf(who, sizeof who,
        e->job == FTK_END_MAIN_JOB ? "rank %ld of the job" : "spawned process %ld", e->rank);
    if (e->how == FTK_END_SIGNAL && e->sig > 0)
        snprintf(text, bytes, "%s was killed by signal %d (%s)", who, e->sig, strsignal(e->sig));
    else if (e->how == FTK_END_SIGNAL)
        snprintf(text, bytes, "%s was killed by a signal on another node", who);
    else if (e->how == FTK_END_ABORT)
        snprintf(text, bytes, "%s called MPI_Abort with code %d", who, e->code);
    else if (e->code != 0)
        snprintf(text, bytes, "%s ended with exit code %d", who, e->code);
    else
        snprintf(text, bytes, "%s ended without MPI_Finalize", who);
}
