/* What a context reports about itself when it opens (see describe.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/environment.h"
#include "core/event.h"
#include "core/format.h"
#include "core/log_ops.h"
#include "core/run_state.h"
#include "describe.h"

void ftk_say_mode(const struct ftkit_ctx *ctx, bool repair, const char *why)
{
    if (ctx->mode == FTKIT_MODE_RESTART)
        ftk_report(FTKIT_WARNING,
            "context %s: failures are not repaired in this job, only by a restart: %s%s",
            ctx->cfg.name, repair ? "another rank has an unsafe environment" : why,
            getenv("FTKIT_RUN_ID") ? ""
                                   : " (ftkit run starts a program with all it needs: "
                                     "ftkit run -n RANKS --spares 1 -- PROGRAM)");
}

/* Whether an environment has a variable with the value that this process has. */
static bool has_mine(const struct ftk_environment *e, const char *name)
{
    const char *own = getenv(name), *value = ftk_environment_get(e, name);
    return own && value && strcmp(own, value) == 0;
}

/* A daemon does not have the variables of the rank that it starts; a script between them has. */
void ftk_say_wrapper(const struct ftkit_ctx *ctx)
{
    struct ftk_environment parent = ftk_environment_of((long)getppid());
    if (has_mine(&parent, "PMIX_RANK") && has_mine(&parent, "PMIX_NAMESPACE"))
        ftk_report(FTKIT_WARNING,
            "context %s: a script starts the program and waits for it (process %ld), so MPI does "
            "not see how a rank ends; a loss is noticed a second later. Rule: a wrapper script "
            "starts the program with exec",
            ctx->cfg.name, (long)getppid());
    ftk_environment_free(&parent);
}

/* Whether the copies of each segment are on different nodes, and none on the node of its rank. */
static bool is_apart(const struct ftkit_ctx *ctx, const struct ftk_level *l)
{
    const int *holder = l->layout.holder, n = ctx->nranks;
    for (int i = 0; i < l->scheme->copies * n; i++) {
        if (holder[i] < 0 || ctx->domain[holder[i]] == ctx->domain[i % n])
            return false;
        for (int k = i % n; k < i; k += n)
            if (ctx->domain[holder[k]] == ctx->domain[holder[i]])
                return false;
    }
    return true;
}

/* Write the memory of a rank; set: a set, as a multiple of the registered bytes.  Slots keep their
 * size, so a place with slots always has the memory of two sets. */
static void say_memory(const struct ftk_level *l, double set, char *text, size_t bytes)
{
    if (ftk_place_is(l->mem.place.kind, FTK_OUTLIVES_PROCESS))
        ftk_format(text, bytes, "memory per rank: %.3g x the registered bytes", 2 * set);
    else
        ftk_format(text, bytes,
            "memory per rank: %.3g x the registered bytes, %.3g x while a set is committed", set,
            2 * set);
}

/* Of a node whose data survive.  A node that goes down takes its MPI daemon along.  Where mpirun
 * ends the job then, what the processes had in their memory ends with the job. */
static const char *what_of(const struct ftk_level *l)
{
    return ftk_place_is(l->mem.place.kind, FTK_OUTLIVES_PROCESS) || ftk_run_survives_nodes()
               ? ""
               : "the processes of ";
}

/* The same in brackets, where nodes are machines. */
static const char *what_ends(const struct ftkit_ctx *ctx, const struct ftk_level *l)
{
    return *what_of(l) && ctx->cfg.ranks_per_node == 0 ? " (a lost node ends the job)" : "";
}

static void say_copies(
    const struct ftkit_ctx *ctx, const struct ftk_level *l, char *text, size_t bytes)
{
    int copies = l->scheme->copies;
    char nodes[128] = "any one process (the buddies share a node)";
    if (is_apart(ctx, l) && copies == 1)
        snprintf(nodes, sizeof nodes,
            "%sany one node, and %sany nodes of which no two are buddies%s", what_of(l),
            *what_of(l) ? "of " : "", what_ends(ctx, l));
    else if (is_apart(ctx, l))
        snprintf(nodes, sizeof nodes, "%sany %d nodes%s", what_of(l), copies, what_ends(ctx, l));
    char memory[96];
    say_memory(l, 1 + copies, memory, sizeof memory);
    snprintf(text, bytes, "%s; %s", nodes, memory);
}

/* Write the losses that the parity groups survive, by the group of rank 0: the sizes of groups
 * differ by at most one. */
static void say_groups(
    const struct ftkit_ctx *ctx, const struct ftk_level *l, char *text, size_t bytes)
{
    const struct ftk_group *g = &l->layout.group;
    bool apart = true;
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < i; k++)
            apart = apart && ctx->domain[g->rank[i]] != ctx->domain[g->rank[k]];
    double own = 1 + (double)g->m / (g->n - g->m);
    char m[12] = "one", memory[96];
    if (g->m > 1)
        snprintf(m, sizeof m, "%u", g->m);
    say_memory(l, own, memory, sizeof memory);
    snprintf(text, bytes, "%sany %s %s of a group of %u%s; %s", apart ? what_of(l) : "", m,
        apart       ? g->m == 1 ? "node" : "nodes"
        : g->m == 1 ? "process"
                    : "processes",
        g->n, apart ? what_ends(ctx, l) : "", memory);
}

/* Write the losses that a scheme without redundancy survives: segments come from other replicas. */
static void say_replicas(
    const struct ftkit_ctx *ctx, const struct ftk_level *l, char *text, size_t bytes)
{
    char memory[96];
    say_memory(l, 1, memory, sizeof memory);
    snprintf(text, bytes, "the loss of %s of each rank; %s",
        ctx->cfg.replicas == 2 ? "one replica" : "all replicas but one", memory);
}

static int by_number(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* The most ranks of a node.  Without memory for a sorted list: 0, and nothing is said. */
static int most_ranks(const struct ftkit_ctx *ctx)
{
    const size_t n = (size_t)ctx->nranks;
    int most = 0, here = 0;
    int *sorted = malloc(n * sizeof *sorted);
    if (!sorted)
        return 0;
    memcpy(sorted, ctx->domain, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_number);
    for (size_t i = 0; i < n; i++) {
        here = i > 0 && sorted[i] == sorted[i - 1] ? here + 1 : 1;
        most = here > most ? here : most;
    }
    free(sorted);
    return most;
}

/* Write how many ranks the loss of a node takes, when there are fewer spares: recover.supply says
 * how the others are replaced. */
static void say_need(const struct ftkit_ctx *ctx, char *text, size_t bytes)
{
    const int most = ctx->mode != FTKIT_MODE_RESTART ? most_ranks(ctx) : 0;
    text[0] = '\0';
    if (most > ctx->nspares && most < ctx->nranks)
        snprintf(text, bytes, " (a node has %d rank%s)", most, FTK_S(most));
}

/* Report in one line the losses that the configuration survives. */
void ftk_say_plan(const struct ftkit_ctx *ctx)
{
    const struct ftk_level *l = &ctx->level[FTK_LEVEL_MEMORY];
    int alone = l->layout.alone;
    char survives[320] = "no loss of a process without files", need[48];
    if (ctx->rank != 0)
        return;
    if (l->scheme->copies > 0 && ctx->nranks > 1)
        say_copies(ctx, l, survives, sizeof survives);
    else if (l->layout.group.n > 1)
        say_groups(ctx, l, survives, sizeof survives);
    else if (ctx->cfg.replicas > 1 && ftk_scheme_keeps(ctx->cfg.scheme))
        say_replicas(ctx, l, survives, sizeof survives);
    say_need(ctx, need, sizeof need);
    ftk_report(FTKIT_INFO, "context %s: %d rank%s, %d spare%s%s, %s; %s; memory survives %s",
        ctx->cfg.name, ctx->nranks, FTK_S(ctx->nranks), ctx->nspares, FTK_S(ctx->nspares), need,
        ctx->mode == FTKIT_MODE_RESTART ? "restart only"
        : ctx->mode == FTKIT_MODE_TEAM  ? "repair in the job by teams"
                                        : "repair in the job",
        ctx->cfg.h5_enabled ? "files survive the loss of the job" : "no files", survives);
    if (alone > 0)
        ftk_report(FTKIT_WARNING,
            "context %s: %d rank%s without a partner for parity on another node: lost data of "
            "these ranks come from files (use more nodes, or scheme = buddy)",
            ctx->cfg.name, alone, FTK_S(alone));
}

/* ---- events -------------------------------------------------------------------------- */

#define PROGRESS_S 0.02      /* least time between two lines of progress ... */
#define PROGRESS_SHARE 0.005 /* ... also as a share of the time since the opening */

/* Progress is that of the first context. */
static struct {
    const struct ftkit_ctx *of;
    double opened_s, next_s;
} progress;

static void event_host(struct ftk_event *e)
{
    char host[256] = "";
    int world_rank = -1;
    (void)gethostname(host, sizeof host - 1); /* "" if there is none */
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    ftk_event_text(e, "host", host);
    ftk_event_int(e, "world_rank", world_rank);
}

static void event_number(struct ftk_event *e, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llx", (unsigned long long)value);
    ftk_event_text(e, key, text);
}

static int event_key(void *arg, const struct ftk_config_item *item)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", item->section, item->name);
    ftk_event_text(arg, key, item->value);
    return FTKIT_OK;
}

static void event_config(const struct ftkit_ctx *ctx)
{
    struct ftk_event e;
    ftk_event_of(&e, ctx, "config");
    (void)ftk_config_each(&ctx->cfg, NULL, event_key, &e); /* event_key() has no error */
    ftk_event_end(&e);
}

void ftk_describe_open(const struct ftkit_ctx *ctx)
{
    static const char *const modes[] = { "restart", "global", "team" };
    const int *teams = ftk_log_teams(ctx);
    const bool *silent = ftk_log_silent(ctx);
    const char *run = getenv("FTKIT_RUN_ID"), *attempt = getenv("FTKIT_RUN_ATTEMPT");
    struct ftk_event e;
    if (!ftk_event_on())
        return;
    if (!progress.of) {
        progress.of = ctx;
        progress.opened_s = ftk_now_s();
    }
    ftk_event_of(&e, ctx, "open");
    event_host(&e);
    ftk_event_int(&e, "node", ctx->node);
    ftk_event_int(&e, "incarnation", ctx->incarnation);
    ftk_event_int(&e, "nranks", ctx->nranks);
    ftk_event_int(&e, "spares", ctx->nspares);
    ftk_event_text(&e, "mode", modes[ctx->mode]);
    ftk_event_int(&e, "team", teams ? teams[ctx->rank] : -1);
    if (silent)
        ftk_event_int(&e, "silent", silent[ctx->rank]);
    ftk_event_text(&e, "version", ftkit_version());
    ftk_event_text(&e, "program", ctx->identity.program);
    if (run)
        ftk_event_text(&e, "run", run);
    else
        event_number(&e, "run", ctx->job);
    event_number(&e, "job", ctx->job);
    ftk_event_int(&e, "attempt", attempt ? strtol(attempt, NULL, 10) : 0);
    ftk_event_end(&e);
    if (ctx->rank == 0)
        event_config(ctx);
}

void ftk_describe_spare(const struct ftkit_ctx *ctx)
{
    struct ftk_event e;
    ftk_event_of(&e, ctx, "spare");
    if (e.on)
        event_host(&e);
    ftk_event_end(&e);
}

void ftk_describe_progress(const struct ftkit_ctx *ctx, double now_s)
{
    struct ftk_event e;
    if (progress.of != ctx || now_s < progress.next_s)
        return;
    double gap = PROGRESS_SHARE * (now_s - progress.opened_s);
    progress.next_s = now_s + (gap > PROGRESS_S ? gap : PROGRESS_S);
    ftk_event_of(&e, ctx, "progress");
    ftk_event_int(&e, "calls", (int64_t)ctx->policy.calls);
    if (ftk_log_of(ctx)) {
        ftkit_info info = { .size = sizeof info };
        ftk_log_stats(ctx, &info);
        ftk_event_int(&e, "log_held", (int64_t)info.log_held);
        ftk_event_int(&e, "log_bytes", (int64_t)info.log_bytes);
    }
    ftk_event_end(&e);
}

void ftk_describe_close(const struct ftkit_ctx *ctx, int code)
{
    struct ftk_event e;
    if (progress.of == ctx)
        progress.of = NULL;
    ftk_event_of(&e, ctx, "close");
    ftk_event_int(&e, "code", code);
    ftk_event_end(&e);
    int err = ftk_event_trouble();
    if (err)
        ftk_report(FTKIT_WARNING,
            "report.events = %s: %s: the event log of this process is not whole", ctx->cfg.events,
            strerror(err));
}
