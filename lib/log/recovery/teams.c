/* Which rank is in which team, and which teams are silent: the owner of the two tables
 * (ftk_log.team, ftk_log.silent).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The tables are made at an opening.  With log.teams = dynamic a set may begin another table
 * (reteam.c), and no team is silent.  In a repair each process takes the tables of a survivor that
 * knows the newest set.  Other files read them by ftk_teams(), ftk_log_crosses() and
 * ftk_log_keeps().
 *
 * Between processes both tables are one: the word of a rank is the number of its team, and a bit if
 * the team is silent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/teams.h"
#include "detect/sure.h"
#include "log/recovery/recovery.h"
#include "steps.h"

#define SILENT (1 << 30)
_Static_assert(FTK_TEAM_RANK_MAX < SILENT, "the number of a team and the bit fit a word");

static int *table;   /* [n] */
static bool *silent; /* [n]; NULL: no team is silent */
static struct ftk_teams_counts counts;
/* The table before: the ranks that know the set begun_by may be lost in a repair, and then the line
 * is an earlier one. */
static int *before; /* [n], NULL: none */
static uint64_t begun_by;

static void set_tables(int *team, bool *none_kept)
{
    free(table);
    free(silent);
    ftk_log.team = table = team;
    ftk_log.silent = silent = none_kept;
    if (!team)
        memset(&counts, 0, sizeof counts);
}

const int *ftk_teams(void)
{
    return ftk_log.team;
}

struct ftk_teams_counts ftk_teams_counts(void)
{
    return counts;
}

/* size [n]: work space. */
static void count(const int *word, int n, int *size)
{
    counts = (struct ftk_teams_counts){ .least = n };
    memset(size, 0, (size_t)n * sizeof *size);
    for (int r = 0; r < n; r++) {
        int *of = &size[word[r] & ~SILENT];
        counts.silent += *of == 0 && (word[r] & SILENT);
        ++*of;
    }
    for (int t = 0; t < n; t++) {
        counts.teams += size[t] > 0;
        counts.most = size[t] > counts.most ? size[t] : counts.most;
        counts.least = size[t] > 0 && size[t] < counts.least ? size[t] : counts.least;
    }
}

uint64_t ftk_teams_words(int *word, int n, uint64_t newest)
{
    if (newest < begun_by && before) {
        memcpy(word, before, (size_t)n * sizeof *word);
        return 0;
    }
    for (int r = 0; r < n; r++)
        word[r] = table[r] | (silent && silent[r] ? SILENT : 0);
    return begun_by;
}

static void keep_before(int *team)
{
    free(before);
    before = team;
}

/* The tables are of this set. */
static void begin(int *team, bool *none_kept, uint64_t set)
{
    if (set > begun_by) {
        keep_before(table);
        table = NULL;
    } else if (set < begun_by) {
        keep_before(NULL);
    }
    begun_by = set;
    set_tables(team, none_kept);
}

int ftk_teams_take(const int *word, int n, uint64_t set)
{
    int any = 0;
    for (int r = 0; r < n; r++)
        any |= word[r] & SILENT;
    int *team = malloc((size_t)n * sizeof *team);
    bool *none_kept = any ? malloc((size_t)n * sizeof *none_kept) : NULL;
    if (!team || (any && !none_kept)) {
        free(team);
        free(none_kept);
        return ftk_fail(FTKIT_ERR_NOMEM, "teams");
    }
    count(word, n, team);
    for (int r = 0; r < n; r++)
        team[r] = word[r] & ~SILENT;
    for (int r = 0; any && r < n; r++)
        none_kept[r] = (word[r] & SILENT) != 0;
    begin(team, none_kept, set);
    return FTKIT_OK;
}

void ftk_teams_change(int *team, int n, uint64_t set)
{
    int *size = malloc((size_t)n * sizeof *size);
    if (size) /* otherwise the counts, which are for people, are those of the teams before */
        count(team, n, size);
    free(size);
    begin(team, NULL, set);
}

void ftk_teams_close(void)
{
    set_tables(NULL, NULL);
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

/* Mark the words of the ranks whose teams are silent.  A process that does not know the teams
 * learns both. */
static int mark_silent(int *word, int n)
{
    const char *list = ftk_log.ctx->cfg.log_silent;
    if (!*list || word[0] < 0)
        return FTKIT_OK;
    bool *none_kept = malloc((size_t)n * sizeof *none_kept);
    int rc = none_kept ? ftk_teams_silent(list, word, n, none_kept)
                       : ftk_fail(FTKIT_ERR_NOMEM, "log.silent");
    for (int r = 0; rc == FTKIT_OK && r < n; r++)
        word[r] |= none_kept[r] ? SILENT : 0;
    free(none_kept);
    return rc;
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
    int *word = calloc((size_t)r->n, sizeof *word);
    if (!word)
        return ftk_fail(FTKIT_ERR_NOMEM, "teams");
    by_configuration(r->domain, r->n, word);
    int rc = mark_silent(word, r->n);
    if (rc == FTKIT_OK)
        rc = share_largest(r, word);
    if (rc == FTKIT_OK && word[0] < 0)
        rc = ftk_fail(FTKIT_ERR_LOST, "all ranks that knew the teams are lost");
    if (rc == FTKIT_OK)
        rc = ftk_teams_take(word, r->n, 0);
    free(word);
    return rc;
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
    const struct ftk_teams_counts *c = &counts;
    char from[16] = "", none[64] = "";
    int with;
    if (ctx->rank != 0 || ctx->incarnation > 0 || !team)
        return;
    if (c->least < c->most)
        snprintf(from, sizeof from, "%d to ", c->least);
    if (c->silent > 0)
        snprintf(none, sizeof none, ", %d of them keep%s no messages (log.silent)", c->silent,
            c->silent == 1 ? "s" : "");
    ftk_report(FTKIT_INFO, "context %s: %d team%s of %s%d rank%s%s", ctx->cfg.name, c->teams,
        FTK_S(c->teams), from, c->most, FTK_S(c->most), none);
    if (c->teams == 1 && ctx->nranks > 1 && ctx->cfg.log_teams != FTK_TEAMS_ALL)
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
