/* Which rank is in which team: the owner of the one table (ftk_log.team).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The table is made at an opening.  With log.teams = dynamic a set may begin another one
 * (reteam.c).  In a repair each process takes the table of a survivor that knows the newest set.
 * Other files read the table by ftk_teams() and ftk_log_crosses(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/teams.h"
#include "detect/sure.h"
#include "log/recovery/recovery.h"
#include "steps.h"

static int *table; /* [n] */
/* The table before: the ranks that know the set begun_by may be lost in a repair, and then the line
 * is an earlier one. */
static int *before; /* [n], NULL: none */
static uint64_t begun_by;

static void set_table(int *team)
{
    free(table);
    ftk_log.team = table = team;
}

const int *ftk_teams(void)
{
    return ftk_log.team;
}

static void keep_before(int *team)
{
    free(before);
    before = team;
}

int ftk_teams_take(const int *team, int n, uint64_t set)
{
    int *own = malloc((size_t)n * sizeof *own);
    if (!own)
        return ftk_fail(FTKIT_ERR_NOMEM, "teams");
    memcpy(own, team, (size_t)n * sizeof *own);
    if (set > begun_by) {
        ftk_teams_change(own, set);
        return FTKIT_OK;
    }
    if (set < begun_by)
        keep_before(NULL);
    begun_by = set;
    set_table(own);
    return FTKIT_OK;
}

void ftk_teams_change(int *team, uint64_t set)
{
    keep_before(table);
    ftk_log.team = table = team;
    begun_by = set;
}

const int *ftk_teams_at(uint64_t set, uint64_t *begun)
{
    const bool known = set >= begun_by || !before;
    *begun = known ? begun_by : 0;
    return known ? table : before;
}

void ftk_teams_close(void)
{
    set_table(NULL);
    keep_before(NULL);
    begun_by = 0;
}

/* Teams that are written down are known to whoever opened the context with the first processes;
 * others have -1. */
static void by_configuration(const int *domain, int n, int *team)
{
    const struct ftk_config *cfg = &ftk_log.ctx->cfg;
    bool written = *cfg->log_team_list || *cfg->log_team_file;
    for (int r = 0; written && r < n; r++)
        team[r] = ftk_log.ctx->teams ? ftk_log.ctx->teams[r] : -1;
    if (written)
        return;
    /* the replicas of a rank are in the same team: the team of a rank of plane 0 */
    const int size = n / cfg->replicas;
    ftk_teams_of_keys(cfg, domain, size, team);
    for (int r = size; r < n; r++)
        team[r] = team[r % size];
}

/* v [n]: the largest of each over all. */
static int share_largest(const struct ftk_log_repair *r, int *v)
{
    const struct ftk_sure s = { r->act, NULL, "making the teams" };
    int64_t *w = malloc((size_t)r->n * sizeof *w);
    if (!w)
        return ftk_fail(FTKIT_ERR_NOMEM, "teams");
    for (int i = 0; i < r->n; i++)
        w[i] = -(int64_t)v[i];
    int rc = ftk_sure_min(&s, w, r->n);
    for (int i = 0; rc == FTKIT_OK && i < r->n; i++)
        v[i] = (int)-w[i];
    free(w);
    return rc;
}

/* At an opening all ranks make the teams, by the same rules, and anew in each attempt: a rank may
 * be on another node then.  Teams of a file come from the ranks that have read the file. */
int ftk_teams_make(const struct ftk_log_repair *r)
{
    int *team = calloc((size_t)r->n, sizeof *team);
    if (!team)
        return ftk_fail(FTKIT_ERR_NOMEM, "teams");
    by_configuration(r->domain, r->n, team);
    int rc = share_largest(r, team);
    if (rc == FTKIT_OK && team[0] < 0)
        rc = ftk_fail(FTKIT_ERR_LOST, "all ranks that knew the teams are lost");
    if (rc == FTKIT_OK) {
        set_table(team);
        keep_before(NULL);
        begun_by = 0;
    } else {
        free(team);
    }
    return rc;
}

/* How many teams there are, of what sizes; false: no memory. */
static bool count_teams(const int *team, int n, int *teams, int *least, int *most)
{
    int *size = calloc((size_t)n, sizeof *size);
    if (!size)
        return false;
    *teams = *most = 0;
    *least = n;
    for (int r = 0; r < n; r++)
        size[team[r]]++;
    for (int t = 0; t < n; t++) {
        *teams += size[t] > 0;
        *most = size[t] > *most ? size[t] : *most;
        *least = size[t] > 0 && size[t] < *least ? size[t] : *least;
    }
    free(size);
    return true;
}

/* A rank that is in another team than the one before it on the same node, 0: there is none.
 * With all on one node its loss is that of the job anyway. */
static int splits_domain(const struct ftkit_ctx *ctx, const int *team, int *with)
{
    bool several = false;
    for (int r = 1; r < ctx->nranks; r++)
        several = several || ctx->domain[r] != ctx->domain[0];
    for (int r = 1; several && r < ctx->nranks; r++) {
        int q = r - 1;
        while (q >= 0 && ctx->domain[q] != ctx->domain[r])
            q--;
        *with = q;
        if (q >= 0 && team[q] != team[r])
            return r;
    }
    return 0;
}

void ftk_teams_say(const struct ftkit_ctx *ctx)
{
    const int *team = ftk_teams();
    int teams = 0, least, most, with;
    if (ctx->rank != 0 || ctx->incarnation > 0 || !team)
        return;
    if (count_teams(team, ctx->nranks, &teams, &least, &most)) {
        char from[16] = "";
        if (least < most)
            snprintf(from, sizeof from, "%d to ", least);
        ftk_report(FTKIT_INFO, "context %s: %d team%s of %s%d rank%s", ctx->cfg.name, teams,
            FTK_S(teams), from, most, FTK_S(most));
    }
    if (teams == 1 && ctx->nranks > 1 && ctx->cfg.log_teams != FTK_TEAMS_ALL)
        ftk_report(FTKIT_WARNING,
            "context %s: log.enabled with one team of all %d ranks: a failure rolls all ranks "
            "back, as without the log; choose log.team_size or log.teams = rank, or "
            "log.teams = all if this is wanted",
            ctx->cfg.name, ctx->nranks);
    int rank = ctx->teams ? splits_domain(ctx, team, &with) : 0;
    if (rank > 0)
        ftk_report(FTKIT_WARNING,
            "context %s: ranks %d and %d are on the same node and in different teams: the "
            "loss of that node sends all these teams back",
            ctx->cfg.name, with, rank);
}
