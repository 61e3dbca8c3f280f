/* The message log in a repair (docs/design/log-line.md; the steps have the names of
 * docs/model/log.pml).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The first half, ftk_recovery_quiesce(), ends all that is under way on the old communicators, so
 * that both sides of each pair of ranks have counted the same messages.  A further failure repeats
 * that half.  The second half, ftk_recovery_install(), comes when the ranks have agreed:
 * rolling-back ranks drop their state, and staying ranks send the log entries that those ranks had
 * received since the line. */
#include <stdlib.h>
#include <string.h>

#include "detect/nap.h"
#include "log/mode.h"
#include "log/determinant/det.h"
#include "log/base/plane.h"
#include "log/base/runtime.h"
#include "log/recovery/recovery.h"
#include "apart.h"
#include "log/request/match.h"
#include "log/request/progress.h"
#include "log/request/send.h"
#include "state.h"
#include "steps.h"

int ftk_recovery_search(
    struct ftkit_ctx *ctx, MPI_Comm s, int root, const int *lost, int n, bool *all, bool *led)
{
    int rc = ftk_recovery_share_teams(ctx, s, root, n);
    return rc == FTKIT_OK ? ftk_det_search(s, lost, n, all, led) : rc;
}

static unsigned planes_back(const struct ftk_log_repair *r)
{
    unsigned mask = 0;
    for (int p = 0; p < ftk_log.ctx->cfg.replicas; p++)
        mask |= (unsigned)ftk_log_plane_is_back(r, p) << p;
    return mask;
}

/* The outcomes of these planes are void: if one of them leads, the lowest other plane leads from
 * now on.  If there is no other plane, the leader stays. */
static void lead_without(unsigned planes)
{
    if (planes + 1 == 1u << ftk_log.ctx->cfg.replicas || !(planes >> ftk_log.epoch.leader & 1))
        return;
    int leader = 0;
    while (planes >> leader & 1)
        leader++;
    ftk_epoch_lead(leader);
}

/* Whether all ranks of this plane have rolled back at the start of this epoch. */
static bool others_are_back(void)
{
    return ftk_log.epoch.all_rolled_back >> ftk_log_plane_of(ftk_log.me) & 1;
}

int ftk_recovery_quiesce(
    struct ftkit_ctx *ctx, const struct ftk_log_repair *r, bool *missed, uint64_t *next)
{
    int rc = ftk_job_enter(r);
    if (rc == FTKIT_OK)
        rc = ftk_parts_prepare(r);
    if (rc == FTKIT_OK && !r->fresh)
        rc = ftk_quiesce(r);
    if (rc == FTKIT_OK)
        rc = ftk_parts_exchange(r, ftk_job_state.lines);
    *missed = rc == FTKIT_OK && ftk_line_is_missed(ctx, r);
    *next = ftk_job_state.next_event;
    (void)FTK_FAULT("log.marks");
    return rc;
}

enum ftk_phase ftk_recovery_phase(void)
{
    return others_are_back() ? FTK_PHASE_NORMAL : FTK_PHASE_REPLAY;
}

/* This rank drops all that it has done since the line. */
static int roll_back(const struct ftk_log_repair *r)
{
    struct ftk_log *l = &ftk_log;
    bool in_set_up = ftk_log_replays_setup(); /* continues with the rest of its set-up log */
    if (r->line == 0)
        ftk_log_enter(ftk_recovery_phase());
    else if (!r->is_new[r->me] && !in_set_up)
        ftk_log_begin_rollback();
    const struct ftk_rollback b = { !others_are_back(), in_set_up };
    int rc = ftk_parts_roll_back(&b);
    if (rc == FTKIT_OK && r->is_new[r->me] && r->line > 0) {
        ftk_log_enter(FTK_PHASE_SETUP_REPLAY);
        rc = ftk_log_read_setup(l->ctx, r->line);
    }
    return rc;
}

static uint64_t nresent; /* messages, for ftkit_query() */

/* Send to each rolling-back rank what that rank has lost, in order, before any new message. */
static int resend(const struct ftk_log_repair *r)
{
    struct ftk_log *l = &ftk_log;
    bool *back = calloc((size_t)r->n, sizeof *back);
    if (!back)
        return ftk_fail(FTKIT_ERR_NOMEM, "resending");
    for (int d = 0; d < r->n; d++)
        back[d] = r->back[d] != 0;
    ftk_suppress_drop(back);
    free(back);
    ftk_sent_resend();
    for (int d = 0; d < r->n; d++) {
        for (struct ftk_entry *e = r->back[d] ? ftk_peers.at[d].first : NULL; e; e = e->next) {
            if (e->unsent)
                continue; /* and so are all entries after it */
            if (l->apart.on && ftk_sent_was_early(d, e))
                continue;
            if (FTK_FAULT("log.flip") && e->bytes > 0)
                ftk_entry_data(e)[e->bytes / 2] ^= 4; /* injected: a bit flips in the log */
            if (!ftk_slog_is_intact(e))
                return ftk_fail(FTKIT_ERR_CORRUPT,
                    "a message to rank %d has changed in the log: it is not sent again", d);
            int rc = ftk_send_entry(e, d);
            if (rc != MPI_SUCCESS)
                return ftk_fail_mpi(rc, "resending");
            nresent++;
        }
    }
    return FTKIT_OK;
}

/* ---- sleeping while others replay (detect/nap.h) ----------------------------------------- */

static int *replaying; /* [nreplaying] ranks of this plane that have rolled back in this epoch */
static int nreplaying;

/* A rank that replays suppresses the messages that this rank has.  So a message of such a rank
 * shows that the rank has caught up. */
static enum ftk_nap look_at_replay(void)
{
    for (int i = 0; i < nreplaying; i++)
        if (ftk_peers.at[replaying[i]].count[FTK_COUNT_PROGRAM].received > 0)
            return FTK_NAP_OVER;
    return ftk_parts_may_sleep() ? FTK_NAP_SLEEP : FTK_NAP_AWAKE;
}

static void forget_replay(void)
{
    ftk_nap_end();
    free(replaying);
    replaying = NULL;
    nreplaying = 0;
}

/* This rank does not roll back, and others of its plane may. */
static void nap_while_others_replay(const struct ftk_log_repair *r)
{
    const int n = ftk_log_plane_size(), first = ftk_log_plane_of(r->me) * n;
    forget_replay();
    replaying = malloc((size_t)n * sizeof *replaying); /* NULL: this rank does not sleep */
    for (int k = first; replaying && k < first + n; k++)
        if (r->back[k])
            replaying[nreplaying++] = k;
    if (nreplaying > 0)
        ftk_nap_begin(ftk_log.ctx->dog, look_at_replay);
}

/* ---- the second half of a repair ------------------------------------------------------- */

static int install(struct ftkit_ctx *ctx, const struct ftk_log_repair *r)
{
    int rc = ftk_parts_new_epoch(r);
    if (rc != FTKIT_OK)
        return rc;
    const bool missed = !ftk_log.apart.open && ftk_line_is_missed(ctx, r);
    if (!r->fresh)
        ftk_parts_settle_set(r);
    if (missed)
        ftk_line_pass(ctx, FTK_PASS_MISSED, ctx->policy.calls);
    ftk_line_end(ctx, false);
    rc = ftk_parts_install(r);
    lead_without(ftk_log.epoch.all_rolled_back); /* the new leader has taken over from the old */
    if (rc != FTKIT_OK || r->fresh)
        return rc;
    return r->back[r->me] ? roll_back(r) : ftk_parts_stay(r);
}

int ftk_recovery_install(struct ftkit_ctx *ctx, const struct ftk_log_repair *r)
{
    int rc = install(ctx, r);
    if (r->stale != 0) {
        lead_without(r->stale);
        ftk_calls_reschedule(r->clone_at);
    }
    return rc;
}

/* ---- the part ------------------------------------------------------------------------ */

static int new_epoch(const struct ftk_log_repair *r)
{
    ftk_nap_end();
    ftk_log.epoch.all_rolled_back = r->fresh ? 0 : planes_back(r);
    return FTKIT_OK;
}

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    (void)first;
    ftk_nap_end();
}

static int stay(const struct ftk_log_repair *r)
{
    const uint64_t before = nresent;
    const int rc = resend(r);
    if (rc == FTKIT_OK)
        ftk_report(FTKIT_DEBUG, "context %s: rank %d has sent %llu messages again",
            ftk_log.ctx->cfg.name, ftk_log.me, (unsigned long long)(nresent - before));
    nap_while_others_replay(r);
    return rc;
}

static void figures(ftkit_info *info)
{
    info->log_resent = nresent;
}

static void close_replay(void)
{
    forget_replay();
    nresent = 0;
}

const struct ftk_part ftk_part_replay = { .close = close_replay,
    .figures = figures,
    .line = pass_line,
    .new_epoch = new_epoch,
    .stay = stay };
