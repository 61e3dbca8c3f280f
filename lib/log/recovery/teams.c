/* Which rank is in which team.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "core/teams.h"
#include "log/p2p.h"
#include "log/recovery.h"

/* Teams that are written down are known to whoever opened the context with the first processes;
 * others have -1. */
void ftk_log_make_teams(const int *domain, int n, int *team)
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
    const int *team = ftk_log.team;
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
