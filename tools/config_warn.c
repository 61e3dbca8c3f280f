/* ftkit config --ranks: what does not fit together in a job.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#define WARN(job, ...) ftk_list_add(&(job)->warnings, __VA_ARGS__)

/* Whether recover.supply has a step for lost ranks without a spare. */
static bool supplies_more(const struct ftk_config *c)
{
    for (int i = 0; i < c->nsupply; i++)
        if (c->supply[i] == FTK_SUPPLY_SPAWN || c->supply[i] == FTK_SUPPLY_SHRINK)
            return true;
    return false;
}

/* Spares with which the loss of any node leaves enough, if all nodes have the same numbers of
 * processes.  For two nodes ftkit run chooses fewer. */
static int enough(const struct ftk_world *w)
{
    return w->nnodes == 2 ? w->nranks : ftk_mpirun_spares(w->nranks, w->nnodes);
}

static void look_at_launch(struct ftk_job *job)
{
    const struct ftk_world *w = &job->w;
    const struct ftk_config *c = job->cfg;
    int worst = 0;
    if (!w->repairs) {
        WARN(job, "this ftkit is built for an MPI without ULFM: no failure is repaired in the job, "
                  "each one is a relaunch by ftkit run");
        return;
    }
    if (w->nspares == 0 && !supplies_more(c))
        WARN(job, "spares.count: no spare, and recover.supply has neither spawn nor shrink: each "
                  "failure ends the job, and ftkit run relaunches it; give spares");
    else if (w->nnodes > 1 && ftk_job_missing(w, &worst) > 0 && !supplies_more(c))
        WARN(job,
            "spares.count: %d spare%s on other nodes for a node with %d rank%s, and recover.supply "
            "has neither spawn nor shrink: the loss of all processes of a node ends the job; "
            "give %d",
            w->nspares - w->spares[worst], FTK_S(w->nspares - w->spares[worst]),
            w->first[worst + 1] - w->first[worst], FTK_S(w->first[worst + 1] - w->first[worst]),
            enough(w));
}

/* Number of ranks whose copies, or whose parity group, do not leave their node. */
static int count_at_home(const struct ftk_world *w, const struct ftk_kept *k)
{
    int home = 0;
    for (int r = 0; r < w->nranks; r++) {
        bool away = false;
        for (int i = r; k->holder && i < k->copies * w->nranks; i += w->nranks)
            away = away || (k->holder[i] >= 0 && w->node[k->holder[i]] != w->node[r]);
        for (int i = k->group ? k->first[k->group[r]] : 0;
             k->group && i < k->first[k->group[r] + 1]; i++)
            away = away || w->node[k->member[i]] != w->node[r];
        home += !away;
    }
    return home;
}

static void look_at_level(struct ftk_job *job, int level, int scheme, const char *key)
{
    const struct ftk_world *w = &job->w;
    const struct ftk_kept *k = &w->level[level];
    int home = ftk_scheme_shares(scheme) ? count_at_home(w, k) : 0;
    if (home == 0)
        return;
    if (w->nnodes == 1)
        WARN(job,
            "%s: all ranks are on one node, and so is the %s of their data: it survives the loss "
            "of processes, not that of the node",
            key, k->group ? "parity" : "copy");
    else
        WARN(job,
            "%s: %d rank%s without a %s on another node: data of these ranks are lost with "
            "their node; use nodes with equal numbers of ranks, or scheme = buddy",
            key, home, FTK_S(home), k->group ? "partner for parity" : "buddy");
}

/* What a node that goes down takes along. */
static void look_at_nodes(struct ftk_job *job)
{
    const struct ftk_world *w = &job->w;
    for (int i = 0; i < job->nlosses; i++) {
        const struct ftk_survival *s = &job->loss[i];
        if (s->loss != FTK_LOSS_NODES || s->k != 1)
            continue;
        if (s->source[FTK_SOURCE_NONE] > 0)
            WARN(job, "the loss of a node is the loss of all data: there are no files, and %s; %s",
                w->nnodes == 1 ? "the memory levels end with the node"
                               : "the memory levels end with the job or do not reach other nodes",
                w->nnodes == 1 || w->level[FTK_LEVEL_MEMORY].outlives
                    ? "set level.hdf5.enabled = true"
                    : "choose level.memory.place = shared, or level.hdf5.enabled = true");
        else if (w->nnodes == 1)
            WARN(job, "one node: the loss of the node needs the files");
    }
}

static void look_at_memory(struct ftk_job *job)
{
    char need[32], has[32];
    uint64_t memory = (uint64_t)job->ask.memory;
    if (memory == 0)
        return;
    ftk_bytes_text(memory, has);
    ftk_bytes_text(job->node_peak, need);
    if (job->node_peak > memory)
        WARN(job,
            "memory: a node needs %s while a set is committed, and has %s: choose scheme = xor or "
            "rs, or fewer ranks on a node",
            need, has);
    ftk_bytes_text(job->node_slots, need);
    ftk_bytes_text(memory / 2, has);
    if (job->node_slots > memory / 2)
        WARN(job,
            "memory: the sets of a node need %s in /dev/shm, which has %s (half of the memory) "
            "unless it is mounted with another size",
            need, has);
}

static void look_at_teams(struct ftk_job *job)
{
    if (!job->cfg->log_enabled)
        return;
    if (!job->w.repairs)
        WARN(job, "log.enabled: without effect, because no failure is repaired in the job");
    else if (job->teams == 1 && job->w.nranks > 1 && job->cfg->log_teams != FTK_TEAMS_ALL)
        WARN(job, "log.enabled with one team of all ranks: a failure rolls all ranks back, as "
                  "without the log; choose log.team_size or log.teams = rank");
    else if (job->w.nnodes > 1 && job->node_teams > 1)
        WARN(job, "log: a node has ranks of %d teams: the loss of the node rolls all of them back",
            job->node_teams);
}

void ftk_job_warn(struct ftk_job *job)
{
    look_at_launch(job);
    look_at_level(job, FTK_LEVEL_MEMORY, job->cfg->scheme, "level.memory");
    look_at_level(job, FTK_LEVEL_LOCAL, job->cfg->local_scheme, "level.local");
    look_at_nodes(job);
    look_at_memory(job);
    look_at_teams(job);
}
