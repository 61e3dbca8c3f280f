/* How far the program has come (see progress.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <string.h>
#include <time.h>

#include "context.h"
#include "hash.h"
#include "progress.h"
#include "run_state.h"

#define HOLD_S 10       /* after that `ftkit run` is gone, and rank 0 goes on */
#define LOOK_NS 200000L /* length of a nap before the next look */

static struct {
    struct ftk_progress *page; /* NULL: not mapped */
    bool tried;
    const struct ftkit_ctx *of; /* the context that counts here, NULL: none */
    int64_t base;               /* position of a call = base + ctx->policy.calls */
} p;

static void map_page(void)
{
    if (!p.tried)
        p.page = ftk_run_map(FTK_PROGRESS_FILE, sizeof *p.page);
    p.tried = true;
}

/* Only the first context of the run counts. */
static bool counts(const struct ftkit_ctx *ctx)
{
    uint64_t name = ftk_xxh3(ctx->cfg.name, strlen(ctx->cfg.name)) | 1, none = 0;
    return atomic_compare_exchange_strong(&p.page->context, &none, name) || none == name;
}

static uint64_t position_of(uint64_t set)
{
    size_t i = set % FTK_PROGRESS_SETS;
    bool known = set > 0 && atomic_load(&p.page->sets[i].set) == set;
    return known ? atomic_load(&p.page->sets[i].at) : 0; /* 0: a set of an earlier run */
}

/* Whether the context counts; from now on its calls do then. */
static bool begin(const struct ftkit_ctx *ctx)
{
    map_page();
    p.of = p.page && counts(ctx) ? ctx : NULL;
    return p.of != NULL;
}

void ftk_progress_restored(const struct ftkit_ctx *ctx, uint64_t set)
{
    if (ctx->rank != 0)
        return;
    if (begin(ctx)) /* the next call has the position of the call that committed the set */
        p.base = (int64_t)position_of(set) - (int64_t)ctx->policy.calls - (set > 0);
}

void ftk_progress_cloned(const struct ftkit_ctx *ctx, uint64_t set)
{
    if (ctx->rank != 0 || p.of == ctx)
        return;
    if (!begin(ctx))
        return;
    p.base = (int64_t)atomic_load(&p.page->furthest) - (int64_t)ctx->policy.calls;
    ftk_progress_set(ctx, set);
}

/* Wait until `ftkit run` changes the value of page->hold. */
static void stand_still(uint64_t hold)
{
    const struct timespec nap = { 0, LOOK_NS };
    const double end_s = ftk_now_s() + HOLD_S;
    while (atomic_load(&p.page->hold) == hold && ftk_now_s() < end_s)
        (void)nanosleep(&nap, NULL); /* a shorter nap does no harm */
}

void ftk_progress_call(const struct ftkit_ctx *ctx)
{
    if (p.of != ctx || ctx->rank != 0)
        return;
    uint64_t now = (uint64_t)(p.base + (int64_t)ctx->policy.calls);
    atomic_store_explicit(&p.page->now, now, memory_order_relaxed);
    if (now > atomic_load_explicit(&p.page->furthest, memory_order_relaxed))
        atomic_store_explicit(&p.page->furthest, now, memory_order_relaxed);
    const uint64_t hold = atomic_load_explicit(&p.page->hold, memory_order_relaxed);
    if (hold != 0 && now >= hold)
        stand_still(hold);
}

void ftk_progress_set(const struct ftkit_ctx *ctx, uint64_t set)
{
    if (p.of != ctx || ctx->rank != 0)
        return;
    size_t i = set % FTK_PROGRESS_SETS;
    atomic_store(&p.page->sets[i].at, (uint64_t)(p.base + (int64_t)ctx->policy.calls));
    atomic_store(&p.page->sets[i].set, set);
}
