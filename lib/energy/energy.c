/* The account of a context, and the event "energy" (see energy.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/event.h"
#include "energy.h"

#define LOOK_S 1.0       /* time between two readings: a counter needs longer to wrap */
#define TELL_S 1.0       /* least time between two lines of the event log ... */
#define TELL_SHARE 0.005 /* ... also as a share of the time since the beginning */

struct ftk_energy {
    struct ftk_account *account;
    struct ftk_energy_sum logged[FTK_ENERGY_PHASES]; /* what the event log has */
    double began_s, reported_s;
};

/* Whether this rank is the lowest of its node.  With topology.ranks_per_node it is not known which
 * ranks share a machine. */
static bool is_reader(const struct ftkit_ctx *ctx)
{
    if (ctx->cfg.energy == FTK_ENERGY_OFF || ctx->cfg.ranks_per_node > 0 || ctx->rank < 0)
        return false;
    for (int r = 0; r < ctx->rank; r++)
        if (ctx->domain[r] == ctx->domain[ctx->rank])
            return false;
    return true;
}

/* The event "energy": what has been used since the last one. */
static void report(const struct ftkit_ctx *ctx, struct ftk_energy *m)
{
    static const char *const names[FTK_ENERGY_PHASES][2] = { { "run_s", "run_j" },
        { "flush_s", "flush_j" }, { "replay_s", "replay_j" }, { "wait_s", "wait_j" },
        { "set_s", "set_j" }, { "repair_s", "repair_j" } };
    const struct ftk_energy_sum *now = ftk_account_sums(m->account);
    struct ftk_event e;
    double seconds = 0;
    for (int p = 0; p < FTK_ENERGY_PHASES; p++)
        seconds += now[p].seconds - m->logged[p].seconds;
    if (seconds <= 0)
        return;
    ftk_event_of(&e, ctx, "energy");
    ftk_event_text(&e, "source", ftk_account_source(m->account));
    for (int p = 0; p < FTK_ENERGY_PHASES; p++) {
        if (now[p].seconds <= m->logged[p].seconds)
            continue;
        ftk_event_seconds(&e, names[p][0], now[p].seconds - m->logged[p].seconds);
        ftk_event_joules(&e, names[p][1], now[p].joules - m->logged[p].joules);
    }
    ftk_event_end(&e);
    memcpy(m->logged, now, sizeof m->logged);
}

static void begin(struct ftkit_ctx *ctx)
{
    double now_s = ftk_now_s();
    struct ftk_account *account = ftk_account_open(ctx->cfg.sysfs, now_s);
    if (account)
        ctx->energy = calloc(1, sizeof *ctx->energy);
    if (!ctx->energy) { /* without memory the energy is not measured */
        ftk_account_close(account);
        return;
    }
    ctx->energy->account = account;
    ctx->energy->began_s = ctx->energy->reported_s = now_s;
}

void ftk_energy_choose_reader(struct ftkit_ctx *ctx)
{
    bool reads = is_reader(ctx);
    if (reads && !ctx->energy)
        begin(ctx);
    else if (!reads)
        ftk_energy_close(ctx);
}

void ftk_energy_close(struct ftkit_ctx *ctx)
{
    struct ftk_energy *m = ctx->energy;
    if (!m)
        return;
    ftk_account_read(m->account, ftk_now_s(), 0);
    report(ctx, m);
    ftk_account_close(m->account);
    free(m);
    ctx->energy = NULL;
}

void ftk_energy_look(struct ftkit_ctx *ctx, double now_s)
{
    struct ftk_energy *m = ctx->energy;
    const double gap_s = TELL_SHARE * (now_s - m->began_s);
    ftk_account_read(m->account, now_s, LOOK_S);
    if (now_s - m->reported_s < (gap_s > TELL_S ? gap_s : TELL_S))
        return;
    m->reported_s = now_s;
    report(ctx, m);
}

void ftk_energy_change(struct ftkit_ctx *ctx, enum ftk_energy_phase phase, bool begins)
{
    ftk_account_change(ctx->energy->account, phase, begins, ftk_now_s());
}

double ftk_energy_joules(const struct ftkit_ctx *ctx)
{
    const struct ftk_energy_sum *sum;
    double joules = 0;
    if (!ctx->energy || !*ftk_account_source(ctx->energy->account))
        return NAN;
    ftk_account_read(ctx->energy->account, ftk_now_s(), FTK_ENERGY_READ_S);
    sum = ftk_account_sums(ctx->energy->account);
    for (int p = 0; p < FTK_ENERGY_PHASES; p++)
        joules += sum[p].joules;
    return joules;
}
