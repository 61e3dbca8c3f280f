/* Processes that a job has lost, and those that have called MPI_Abort (see losses.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * With fault tolerance MPI_Abort ends only its caller, and the other ranks see only that a process
 * has ended.  So they may repair the job, in some milliseconds, before `ftkit run` has read that
 * the process has called MPI_Abort.  If all processes that one repair has found to be lost have
 * called MPI_Abort, then no failure explains the calls: the program wanted to end the job, and the
 * job ends with the code of the call.  If another process is among them, then its failure may be
 * the reason for the calls, and the repair stands.
 *
 * The rule holds for each repair by itself.  Where the library itself says that it knows no failure
 * (mark `abort`), no repair changes that: the library then ends all processes of the node, and the
 * repair of another node finds them lost, too.
 *
 * The lines come in any order: those of one repair from several processes, and a daemon may report
 * the call before, between or after them.  So the rule asks only which lines have come.  A repair
 * whose losses are not all named yet decides nothing. */
#include <stdlib.h>
#include <string.h>

#include "losses.h"

struct ftk_loss {
    struct ftk_end end; /* job and rank */
    int repair, losses; /* of the context; 0: named by no repair */
    char context[FTKIT_NAME_MAX + 1];
};

static bool same_repair(const struct ftk_loss *a, const struct ftk_loss *b)
{
    return a->repair == b->repair && strcmp(a->context, b->context) == 0;
}

static struct ftk_end *abort_of(const struct ftk_losses *l, const struct ftk_end *e)
{
    return ftk_end_find(l->aborts, l->naborts, e);
}

bool ftk_losses_add(struct ftk_losses *l, const char *text, struct ftk_end *e)
{
    struct ftk_loss loss = { .end = { .how = FTK_END_NONE } };
    int name = 0;
    if (sscanf(text, "%ld %ld", &loss.end.job, &loss.end.rank) != 2)
        return false;
    *e = loss.end;
    if (sscanf(text, "%*d %*d %d %d %n", &loss.repair, &loss.losses, &name) == 2 && name > 0)
        snprintf(loss.context, sizeof loss.context, "%s", text + name);
    else
        loss.repair = loss.losses = 0;
    l->v = ftk_tool_grow(l->v, l->n, &l->room, sizeof *l->v);
    l->v[l->n++] = loss;
    return true;
}

bool ftk_losses_excuse(const struct ftk_losses *l, const struct ftk_end *e)
{
    for (size_t i = 0; i < l->n; i++)
        if (ftk_end_same(&l->v[i].end, e))
            return true;
    return false;
}

void ftk_losses_abort(struct ftk_losses *l, const struct ftk_end *e)
{
    if (!abort_of(l, e))
        ftk_end_add(&l->aborts, &l->naborts, &l->aborts_room, e);
}

void ftk_losses_abort_sure(struct ftk_losses *l, const struct ftk_end *e)
{
    ftk_losses_abort(l, e);
    if (l->sure.how == FTK_END_NONE)
        l->sure = *e;
}

bool ftk_losses_code(struct ftk_losses *l, const struct ftk_end *e, int code)
{
    struct ftk_end *at = abort_of(l, e);
    if (at && code >= 0)
        at->code = code;
    return at != NULL;
}

/* Whether all losses of the repair of this loss are named, and all have called MPI_Abort. */
static bool all_aborted(const struct ftk_losses *l, const struct ftk_loss *of)
{
    int named = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (!same_repair(&l->v[i], of))
            continue;
        if (!abort_of(l, &l->v[i].end))
            return false;
        named++;
    }
    return of->losses > 0 && named >= of->losses;
}

const struct ftk_end *ftk_losses_aborted(const struct ftk_losses *l)
{
    if (l->sure.how != FTK_END_NONE)
        return &l->sure;
    for (size_t k = 0; k < l->naborts; k++)
        for (size_t i = 0; i < l->n; i++)
            if (ftk_end_same(&l->v[i].end, &l->aborts[k]) && all_aborted(l, &l->v[i]))
                return &l->aborts[k];
    return NULL;
}

void ftk_losses_free(struct ftk_losses *l)
{
    free(l->v);
    free(l->aborts);
}
