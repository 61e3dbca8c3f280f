/* What all ranks know of the job: nodes, lines, outcomes of calls of ftkit.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "detect/sure.h"
#include "log/mode.h"
#include "log/base/part.h"
#include "log/base/plane.h"
#include "log/recovery/recovery.h"
#include "set/checkpoint.h"
#include "reteam.h"
#include "state.h"
#include "steps.h"

struct ftk_job_state ftk_job_state;
static struct ftk_logged_call *known_calls; /* [ftk_job_state.nouts] */

static void close_job(void)
{
    struct ftk_log *l = &ftk_log;
    free(known_calls);
    known_calls = NULL;
    ftk_job_state = (struct ftk_job_state){ 0 };
    ftk_teams_close();
    free(l->node);
    free(l->home);
    l->node = l->home = NULL;
}

int ftk_recovery_share_teams(struct ftkit_ctx *ctx, MPI_Comm s, int root, int n)
{
    const struct ftk_sure all = { s, NULL, "sharing the teams" };
    struct ftk_log *l = &ftk_log;
    /* all_rolled_back, epoch id, leader, the set that has begun the teams, then the tables */
    enum { LEADER = 3, BEGUN = 4, FIRST = 6 };
    uint64_t begun;
    int *word = calloc(3 * (size_t)n + FIRST, sizeof *word);
    if (!word)
        return ftk_fail(FTKIT_ERR_NOMEM, "teams");
    word[0] = (int)l->epoch.all_rolled_back;
    memcpy(word + 1, &ctx->epoch_id, sizeof ctx->epoch_id);
    word[LEADER] = l->epoch.leader;
    size_t bytes = (size_t)n * sizeof *word;
    if (ftk_teams() && l->node && l->home) {
        const uint64_t newest =
            ctx->repair.announced > ctx->committed ? ctx->repair.announced : ctx->committed;
        begun = ftk_teams_words(word + FIRST, n, newest);
        memcpy(word + BEGUN, &begun, sizeof begun);
        memcpy(word + FIRST + n, l->node, bytes);
        memcpy(word + FIRST + n + n, l->home, bytes);
    }
    int rc = ftk_sure_bcast(&all, root, word, (3 * (size_t)n + FIRST) * sizeof *word);
    if (rc == FTKIT_OK) {
        uint64_t id;
        memcpy(&id, word + 1, sizeof id);
        memcpy(&begun, word + BEGUN, sizeof begun);
        ftk_epoch_replaced((unsigned)word[0], id);
        ftk_epoch_lead(word[LEADER]);
    }
    if (rc == FTKIT_OK)
        rc = ftk_teams_take(word + FIRST, n, begun);
    if (!l->node)
        l->node = malloc(bytes);
    if (!l->home)
        l->home = malloc(bytes);
    bool room = l->node && l->home;
    if (rc == FTKIT_OK && room) {
        memcpy(l->node, word + FIRST + n, bytes);
        memcpy(l->home, word + FIRST + n + n, bytes);
    }
    free(word);
    if (rc != FTKIT_OK)
        return rc;
    return room ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "teams");
}

static int make_home(const struct ftk_log_repair *r)
{
    struct ftk_log *l = &ftk_log;
    free(l->home);
    l->home = malloc((size_t)r->n * sizeof *l->home);
    if (!l->home)
        return ftk_fail(FTKIT_ERR_NOMEM, "nodes");
    for (int k = 0; k < r->n; k++) /* a program sees the nodes of plane 0 in each plane */
        l->home[k] = r->domain[ftk_log_to_plane(k)];
    return FTKIT_OK;
}

int ftk_job_enter(const struct ftk_log_repair *r)
{
    struct ftk_log *l = &ftk_log;
    if (!ftk_peers.at) {
        l->n = r->n;
        l->me = r->me;
        if (!l->node)
            l->node = calloc((size_t)r->n, sizeof *l->node);
        if (!l->node)
            return ftk_fail(FTKIT_ERR_NOMEM, "tables of the message log");
    }
    if (r->is_new[r->me])
        l->me = r->me; /* in an earlier attempt this process may have had another rank */
    if (l->me != r->me || l->n != r->n)
        return ftk_fail(FTKIT_ERR_INTERNAL, "the message log does not know other ranks");
    return ftk_parts_open(r->n);
}

/* A survivor whose view is the most advanced. */
static int most_advanced(const struct ftk_log_repair *r, const struct ftk_job_state *all)
{
    int best = -1;
    for (int i = 0; i < r->n; i++)
        if (!r->is_new[i] && (best < 0 || ftk_quiesce_is_ahead(&all[i], &all[best])))
            best = i;
    return best < 0 ? 0 : best;
}

/* What this rank knows, and the outcomes.  After an attempt that has failed, the ranks that knew
 * more may be lost: this rank does not forget what they have shared, because it may have messages
 * from beyond the line, or from behind a set that was given up.  If no rank is left that knows the
 * first line, the repair begins the job anew, and what was shared of that line is void. */
static struct ftk_job_state known(
    const struct ftk_log_repair *r, const struct ftk_logged_call **outs)
{
    const struct ftk_log *l = &ftk_log;
    const struct ftk_job_state mine = { l->line.count, l->line.calls, l->line.next_event,
        l->calls.n };
    const bool of_plan = (ftk_job_state.lines > 0) == (r->line > 0);
    const bool more = known_calls && of_plan && ftk_quiesce_is_ahead(&ftk_job_state, &mine);
    *outs = more ? known_calls : l->calls.outs;
    return more ? ftk_job_state : mine;
}

static int share(const struct ftk_log_repair *r)
{
    const struct ftk_sure s = { r->act, NULL, "sharing the state of the message log" };
    const struct ftk_logged_call *own;
    const struct ftk_job_state mine = known(r, &own);
    struct ftk_job_state *all = calloc((size_t)r->n, sizeof *all);
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "sharing the state of the message log");
    int rc = ftk_sure_allgather(&s, &mine, sizeof mine, all);
    if (rc != FTKIT_OK) {
        free(all);
        return rc;
    }
    const int root = most_advanced(r, all);
    struct ftk_job_state job = all[root];
    if (r->line > 0 && job.lines == 0) /* a start: all ranks were about to load the line */
        job = (struct ftk_job_state){ 1, 1, FTK_POLICY_FIRST_EVENT, 0 };
    free(all);
    struct ftk_logged_call *outs = calloc((size_t)job.nouts + 1, sizeof *outs);
    if (!outs)
        return ftk_fail(FTKIT_ERR_NOMEM, "sharing the state of the message log");
    if (mine.nouts == job.nouts && mine.nouts > 0)
        memcpy(outs, own, (size_t)mine.nouts * sizeof *outs);
    rc = ftk_sure_bcast(&s, root, outs, (size_t)job.nouts * sizeof *outs);
    if (rc != FTKIT_OK) {
        free(outs);
        return rc;
    }
    free(known_calls);
    known_calls = outs;
    ftk_job_state = job;
    /* the census of the next attempt and known() must say the same; a rank that has not left its
     * set-up has no part of the first line of the job */
    if (ftk_log.ctx->committed > 0 || ftk_log.ctx->where >= FTK_IN_LOOP)
        ftk_log.ctx->repair.announced = r->line;
    return FTKIT_OK;
}

/* The ranks have agreed: ftk_job_state becomes the state of this rank. */
static int install(const struct ftk_log_repair *r)
{
    bool shunned = false;
    if (r->fresh)
        return FTKIT_OK;
    ftk_calls_adopt(known_calls, (size_t)ftk_job_state.nouts);
    known_calls = NULL;
    if (r->back[r->me]) {
        ftk_line_adopt(ftk_job_state.lines, ftk_job_state.calls, ftk_job_state.next_event);
        ftk_calls_go_back();
    }
    for (int i = 0; i < r->n; i++)
        shunned = shunned || (r->line > 0 && r->back[i]);
    ftk_line_repaired(shunned, r->line == 0);
    return FTKIT_OK;
}

static int new_epoch(const struct ftk_log_repair *r)
{
    memcpy(ftk_log.node, r->domain, (size_t)ftk_log.n * sizeof *ftk_log.node);
    return FTKIT_OK;
}

static int start(void)
{
    ftk_teams_say(ftk_log.ctx);
    return FTKIT_OK;
}

static int prepare(const struct ftk_log_repair *r)
{
    if (r->fresh) {
        int rc = make_home(r);
        if (rc == FTKIT_OK)
            rc = ftk_reteam_check(ftk_log.ctx, ftk_log.home, r->n);
        return rc == FTKIT_OK ? ftk_teams_make(r) : rc;
    }
    return ftk_teams() ? share(r) : ftk_fail(FTKIT_ERR_INTERNAL, "no teams");
}

const struct ftk_part ftk_part_job = { .start = start,
    .close = close_job,
    .prepare = prepare,
    .new_epoch = new_epoch,
    .install = install };
