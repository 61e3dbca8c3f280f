/* ftkit config --ranks: a job that has not been started (see config.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "core/teams.h"
#include "set/period.h"
#include "set/writers.h"
#include "store/ring.h"

#define NOMINAL ((uint64_t)1 << 30) /* bytes of a rank, when they are not given */
#define LOOKS 20000000u             /* ranks to look at for each kind of loss: less than a second */
#define SEED 1                      /* any number: the same sample each time */

/* ---- processes and nodes ------------------------------------------------------------- */

/* The number of spares, as ftkit_open() will find it under `ftkit run`. */
static int spares_of(
    const struct ftk_ask *ask, struct ftk_config *cfg, struct ftk_config_origin *origin, int nodes)
{
    const char *set = getenv("FTKIT_SPARES_COUNT");
    if (!ftk_mpirun_ulfm())
        return 0;
    if (set)
        return cfg->spares;
    cfg->spares = ask->spares >= 0 ? ask->spares : ftk_mpirun_spares(ask->ranks, nodes);
    ftk_config_from_run(origin, "spares", "count");
    return cfg->spares;
}

/* Distribute the processes over the nodes in their order: per_node on each, or as evenly as
 * possible. */
static int *distribute(int total, int nodes, int per_node)
{
    int *of = ftk_tool_alloc((size_t)total * sizeof *of);
    for (int i = 0, node = 0; per_node == 0 && node < nodes; node++) {
        int here = (total - i + nodes - node - 1) / (nodes - node);
        while (here-- > 0)
            of[i++] = node;
    }
    for (int i = 0; per_node > 0 && i < total; i++)
        of[i] = i / per_node;
    return of;
}

/* What the jobs of the mpirun that ftkit was built with are repaired after. */
static enum ftk_repairs repairs(int nodes)
{
    if (!ftk_mpirun_ulfm())
        return FTK_REPAIRS_NOTHING;
    return nodes > 1 && ftk_runtime_repairs_nodes() ? FTK_REPAIRS_NODES : FTK_REPAIRS_PROCESSES;
}

/* Make the world of the job; an exit code. */
static int make_world(struct ftk_job *job, struct ftk_config *cfg, struct ftk_config_origin *origin)
{
    const struct ftk_ask *a = &job->ask;
    bool given = a->nodes > 0 || a->per_node > 0;
    int nodes = a->nodes > 0      ? a->nodes
                : a->per_node > 0 ? (a->ranks + a->per_node - 1) / a->per_node
                                  : 1; /* as ftkit run counts them */
    if (given && cfg->ranks_per_node > 0) {
        ftk_tool_say("topology.ranks_per_node = %d says what the nodes are: leave %s out",
            cfg->ranks_per_node, a->nodes > 0 ? "--nodes" : "--ranks-per-node");
        return TOOL_USAGE;
    }
    if (a->spares >= 0 && getenv("FTKIT_SPARES_COUNT") && a->spares != cfg->spares) {
        ftk_tool_say("--spares %d, but FTKIT_SPARES_COUNT is %d", a->spares, cfg->spares);
        return TOOL_USAGE; /* as ftkit run */
    }
    int total = a->ranks + spares_of(a, cfg, origin, nodes);
    if (nodes > total) {
        ftk_tool_say("%d processes cannot fill %d nodes", total, nodes);
        return TOOL_USAGE;
    }
    int per_node = given ? 0 : cfg->ranks_per_node;
    if (per_node > 0)
        nodes = (total + per_node - 1) / per_node;
    int *of = distribute(total, nodes, per_node);
    int rc = ftk_world_make(cfg, repairs(nodes), a->ranks, total - a->ranks, of, nodes, &job->w);
    free(of);
    if (rc < 0)
        ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
    for (int n = 0; rc == FTKIT_OK && n < nodes; n++) {
        int here = job->w.first[n + 1] - job->w.first[n];
        job->most_ranks = here > job->most_ranks ? here : job->most_ranks;
    }
    return rc < 0 ? TOOL_FAIL : TOOL_OK;
}

/* ---- bytes --------------------------------------------------------------------------- */

static bool is_in_memory(int place, const char *dir)
{
    return !ftk_place_is(place, FTK_OUTLIVES_PROCESS) || *dir == '\0'
           || strncmp(dir, "/dev/shm", strlen("/dev/shm")) == 0;
}

/* Bytes of a level; of [nranks]: bytes of one set at each rank.  A set is written beside the last
 * one.  Then the last one is free: the kernel may take its memory back, but a slot keeps its
 * bytes. */
static void measure_level(struct ftk_job *job, int level, int place, const char *dir, uint64_t *of)
{
    struct ftk_job_level *l = &job->level[level];
    job->segment = ftk_world_bytes(&job->w, level, job->data, of);
    if (level != FTK_LEVEL_MEMORY && !job->w.level[level].on)
        memset(of, 0, (size_t)job->w.nranks * sizeof *of);
    for (int r = 0; r < job->w.nranks; r++)
        l->set = of[r] > l->set ? of[r] : l->set;
    l->peak = 2 * l->set;
    l->steady = ftk_place_is(place, FTK_OUTLIVES_PROCESS) ? l->peak : l->set;
    l->in_memory = is_in_memory(place, dir);
}

/* A level's bytes of a rank that keeps `set` bytes of a set there. */
static uint64_t in_memory(const struct ftk_job_level *l, uint64_t set, bool peak)
{
    uint64_t times = l->set > 0 ? (peak ? l->peak : l->steady) / l->set : 0;
    return l->in_memory ? times * set : 0;
}

/* Bytes of the ranks of a node that write for others: the segment of another rank, and the ring. */
static uint64_t at_writers(const struct ftk_job *job, int ranks)
{
    const bool behind = job->held > 0;
    const int groups = ftk_writers_groups(
        job->cfg, behind ? FTK_WRITES_BEHIND : FTK_WRITES_NOW, ranks, job->segment);
    const int more = ranks - groups < groups ? ranks - groups : groups; /* groups of several */
    return (uint64_t)more * (job->segment + (behind ? FTK_RING_BLOCKS * FTK_RING_BLOCK : 0));
}

static void measure_node(struct ftk_job *job, int node, const uint64_t *mem, const uint64_t *local)
{
    const struct ftk_world *w = &job->w;
    const struct ftk_job_level *m = &job->level[FTK_LEVEL_MEMORY];
    const struct ftk_job_level *l = &job->level[FTK_LEVEL_LOCAL];
    uint64_t steady = 0, peak = 0, slots = 0;
    for (int i = w->first[node]; i < w->first[node + 1]; i++) {
        int r = w->rank[i];
        uint64_t first = in_memory(m, mem[r], true) + in_memory(l, local[r], false);
        uint64_t second = in_memory(m, mem[r], false) + in_memory(l, local[r], true);
        steady += job->data + in_memory(m, mem[r], false) + in_memory(l, local[r], false);
        peak += job->data + (first > second ? first : second) + job->held;
        peak += job->cfg->log_enabled ? (uint64_t)job->cfg->log_memory : 0;
        if (ftk_place_is(job->cfg->place, FTK_OUTLIVES_PROCESS))
            slots += in_memory(m, mem[r], true);
        slots += w->level[FTK_LEVEL_LOCAL].outlives ? in_memory(l, local[r], true) : 0;
    }
    if (job->cfg->h5_enabled)
        peak += at_writers(job, w->first[node + 1] - w->first[node]);
    job->node_steady = steady > job->node_steady ? steady : job->node_steady;
    job->node_peak = peak > job->node_peak ? peak : job->node_peak;
    job->node_slots = slots > job->node_slots ? slots : job->node_slots;
}

static void measure(struct ftk_job *job)
{
    const struct ftk_config *c = job->cfg;
    size_t n = (size_t)job->w.nranks;
    uint64_t *mem = ftk_tool_alloc(2 * n * sizeof *mem), *local = mem + n;
    job->data = job->ask.bytes > 0 ? (uint64_t)job->ask.bytes : NOMINAL;
    measure_level(job, FTK_LEVEL_LOCAL, c->local_place, c->local_dir, local);
    measure_level(job, FTK_LEVEL_MEMORY, c->place, c->place_dir, mem);
    /* a helper thread holds the segment of its rank; without a memory level all wait instead */
    if (c->h5_enabled && c->h5_async && job->w.level[FTK_LEVEL_MEMORY].on)
        job->held = job->segment;
    for (int node = 0; node < job->w.nnodes; node++)
        measure_node(job, node, mem, local);
    if (c->h5_enabled) { /* a set is complete before the oldest one is removed */
        job->files_set = n * job->segment;
        job->files_all = ((uint64_t)c->h5_keep + 1) * job->files_set;
    }
    free(mem);
}

/* ---- losses, age, teams -------------------------------------------------------------- */

static void count_losses(struct ftk_job *job)
{
    struct ftk_world *w = &job->w;
    for (int loss = FTK_LOSS_PROCESSES; loss <= FTK_LOSS_NODES; loss++) {
        if (loss == FTK_LOSS_NODE_PROCESSES && (w->nnodes == 1 || !w->repairs))
            continue; /* the loss of the job, or the same as the next */
        for (int k = 1; k <= FTK_LOSS_MOST && k <= ftk_world_units(w, loss); k++)
            ftk_world_count(w, loss, k, LOOKS, SEED, &job->loss[job->nlosses++]);
    }
}

static struct ftk_job_age add_sets(struct ftk_job_age of_set, const struct ftk_period *p, int sets)
{
    if (p->kind == FTK_PERIOD_SECONDS) /* the first set after this time */
        return (struct ftk_job_age){ p->value + of_set.s, of_set.calls };
    double n = p->kind == FTK_PERIOD_COUNT ? p->value : sets;
    return (struct ftk_job_age){ n * of_set.s, n * of_set.calls };
}

static void estimate_age(struct ftk_job *job)
{
    const struct ftk_config *c = job->cfg;
    struct ftk_job_age *age = job->age, set = { 0, 0 };
    if (c->period.kind == FTK_PERIOD_COUNT)
        set.calls = c->period.value;
    else
        set.s = ftk_period_sets_s(c, FTK_FIRST_COST_S);
    const struct ftk_period files = { .kind = FTK_PERIOD_SECONDS,
        .value = ftk_period_files_s(c, FTK_FIRST_COST_S) };
    age[FTK_SOURCE_MEMORY] = set;
    age[FTK_SOURCE_LOCAL] = add_sets(set, &c->local_every, FTK_LOCAL_SETS);
    age[FTK_SOURCE_FILES] =
        add_sets(set, c->h5_every.kind == FTK_PERIOD_AUTO ? &files : &c->h5_every, 0);
}

/* Count the teams of the log, and those that lose a rank with a node. */
static void count_teams(struct ftk_job *job, const int *team, const bool *silent)
{
    const struct ftk_world *w = &job->w;
    size_t n = (size_t)w->nranks;
    int *size = ftk_tool_alloc(2 * n * sizeof *size), *seen = size + n;
    job->team_least = w->nranks;
    for (int r = 0; r < w->nranks; r++) {
        job->silent += silent[r] && size[team[r]] == 0;
        size[team[r]]++;
    }
    for (int t = 0; t < w->nranks; t++) {
        double share = (double)size[t] / w->nranks;
        if (size[t] == 0)
            continue;
        job->teams++;
        job->team_share += share * share; /* probability of the team * its share of the ranks */
        job->team_least = size[t] < job->team_least ? size[t] : job->team_least;
        job->team_most = size[t] > job->team_most ? size[t] : job->team_most;
    }
    for (int node = 0; node < w->nnodes; node++) {
        int teams = 0, ranks = 0;
        for (int i = w->first[node]; i < w->first[node + 1]; i++) {
            int t = team[w->rank[i]];
            if (seen[t] == node + 1)
                continue;
            seen[t] = node + 1;
            teams++;
            ranks += size[t];
        }
        double share = (double)ranks / w->nranks;
        job->node_teams = teams > job->node_teams ? teams : job->node_teams;
        job->node_share = share > job->node_share ? share : job->node_share;
    }
    free(size);
}

/* Find the teams of the message log; an exit code. */
static int find_teams(struct ftk_job *job)
{
    const struct ftk_config *c = job->cfg;
    int n = job->w.nranks, rc = FTKIT_OK;
    if (!c->log_enabled || !job->w.repairs)
        return TOOL_OK;
    int *team = ftk_tool_alloc((size_t)n * sizeof *team);
    if (*c->log_team_list)
        rc = ftk_teams_of_list(c->log_team_list, n, team);
    else if (*c->log_team_file)
        rc = ftk_teams_of_file(c->log_team_file, n, team);
    else
        ftk_teams_of_keys(c, job->w.node, n, team);
    bool *silent = ftk_tool_alloc((size_t)n * sizeof *silent);
    if (rc == FTKIT_OK)
        rc = ftk_teams_silent(c->log_silent, team, n, silent);
    if (rc == FTKIT_OK)
        count_teams(job, team, silent);
    else
        ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
    free(team);
    free(silent);
    return rc == FTKIT_OK ? TOOL_OK : TOOL_USAGE;
}

/* ---- all of it ----------------------------------------------------------------------- */

struct ftk_job *ftk_job_make(
    const struct ftk_ask *ask, struct ftk_config *cfg, struct ftk_config_origin *origin, int *code)
{
    struct ftk_job *job = ftk_tool_alloc(sizeof *job);
    job->ask = *ask;
    job->cfg = cfg;
    if (!getenv("FTKIT_REPORT_STDERR")) {
        cfg->stderr_level = FTKIT_INFO;
        ftk_config_from_run(origin, "report", "stderr");
    }
    *code = make_world(job, cfg, origin);
    if (*code == TOOL_OK)
        *code = find_teams(job);
    if (*code != TOOL_OK) {
        ftk_job_free(job);
        return NULL;
    }
    measure(job);
    count_losses(job);
    estimate_age(job);
    ftk_job_warn(job);
    return job;
}

void ftk_job_free(struct ftk_job *job)
{
    if (!job)
        return;
    ftk_world_free(&job->w);
    ftk_list_free(&job->warnings);
    free(job);
}
