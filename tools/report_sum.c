/* The figures of a run: places in the program, lost work, sources of restored data, the end.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report_event.h"

/* ---- places -------------------------------------------------------------------------- */

/* The place of a set; between two known sets if only these were kept; NAN: not known. */
static double place_of(const struct rp_log *log, uint64_t set)
{
    if (set == 0)
        return 0;
    size_t a = ftk_rp_lower(log, set);
    if (a < log->nsets && log->sets[a].set == set)
        return log->sets[a].place;
    if (log->stride < 2 || a == 0 || a == log->nsets)
        return NAN;
    const struct rp_set *x = &log->sets[a - 1], *y = &log->sets[a];
    return x->place + (y->place - x->place) * (double)(set - x->set) / (double)(y->set - x->set);
}

static double place(struct rp_log *log, uint64_t base, double calls)
{
    double from = place_of(log, base);
    if (isnan(from)) { /* the log begins with a restart from this set: count from there */
        log->unknown_base = base;
        from = 0;
    }
    return from + calls - 1;
}

static int by_time(const void *a, const void *b)
{
    const struct rp_point *x = a, *y = b;
    if (x->t != y->t)
        return x->t < y->t ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

/* A rank executes again what lies between the place to which it returns and the place it had. */
static void walk(struct rp_log *log, struct rp_rank *r)
{
    double last = 0;
    float held = -1;
    qsort(r->p, r->n, sizeof *r->p, by_time);
    for (size_t i = 0; i < r->n; i++) {
        struct rp_point *p = &r->p[i];
        if (p->held < 0 && p->kind > RP_REPLACES)
            p->held = held; /* not every event has it */
        held = p->held;
        if (p->kind <= RP_REPLACES)
            continue;
        p->place = place(log, p->base, p->calls);
        if (p->kind == RP_RESTORES && p->place < last)
            log->again += last - p->place;
        if (p->place > last)
            log->calls += p->place - last;
        last = p->place;
    }
}

/* The last point at or before t; NULL: none, or the rank has no later point. */
const struct rp_point *ftk_rp_point_at(const struct rp_rank *r, double t)
{
    size_t a = 0, b = r->n;
    while (a < b) { /* the first point behind t */
        size_t m = (a + b) / 2;
        if (r->p[m].t <= t)
            a = m + 1;
        else
            b = m;
    }
    return a > 0 && a < r->n ? &r->p[a - 1] : NULL;
}

double ftk_rp_place_at(const struct rp_rank *r, double t)
{
    const struct rp_point *x = ftk_rp_point_at(r, t);
    const struct rp_point *y = x ? x + 1 : NULL;
    if (!x || isnan(x->place) || y->kind <= RP_REPLACES)
        return NAN;
    if (y->kind == RP_RESTORES)
        return x->place;
    return x->place + (y->place - x->place) * (t - x->t) / (y->t - x->t);
}

/* ---- failures ------------------------------------------------------------------------ */

static int by_repair_time(const void *a, const void *b)
{
    const struct rp_repair *x = a, *y = b;
    return (x->t > y->t) - (x->t < y->t);
}

static void count_source(struct rp_repair *x, const struct rp_restore *s)
{
    int i = 0;
    while (i < RP_SOURCES - 1 && x->source[i].ranks > 0 && x->source[i].from != s->from)
        i++;
    if (x->source[i].ranks++ == 0) {
        x->source[i].from = s->from;
        x->source[i].number = s->number;
    } else if (x->source[i].number != s->number) {
        x->source[i].number = -1;
    }
}

void ftk_rp_replayed(struct rp_log *log, const struct rp_event *e, int session, int64_t attempt)
{
    const double seconds = ftk_rp_real(e->o, "seconds", RP_SECONDS_MAX, -1);
    for (size_t i = log->nrestores; i-- > 0;) {
        struct rp_restore *x = &log->restores[i];
        if (x->rank != e->rank || x->session != session || x->attempt != attempt)
            continue;
        if (strcmp(e->word, "caught_up") == 0) {
            x->catch_up = seconds;
            return;
        }
        x->replay = seconds;
        x->forward = ftk_rp_real(e->o, "forward", RP_SECONDS_MAX, -1);
        return;
    }
}

/* The replay of a repair is that of its slowest rank. */
static void count_replay(struct rp_repair *x, const struct rp_restore *s)
{
    if (s->replay <= x->replay)
        return;
    x->replay = s->replay;
    x->forward = s->forward;
    x->catch_up = s->catch_up;
}

double ftk_rp_replay_speed(const struct rp_repair *x)
{
    return x->replay > 0 && x->forward > 0 ? x->forward / x->replay : 0;
}

static bool same_attempt(const struct rp_repair *x, const struct rp_restore *s)
{
    return x->session == s->session && x->attempt == s->attempt;
}

/* The repair that a restored rank belongs to; NULL: to the start of an attempt. */
static struct rp_repair *repair_at(struct rp_log *log, const struct rp_restore *s)
{
    enum { LATE_S = 60 }; /* a replacement may restore after the survivors have gone on */
    size_t a = 0, b = log->nrepairs;
    while (a < b) {
        size_t m = (a + b) / 2;
        if (log->repairs[m].t < s->t)
            a = m + 1;
        else
            b = m;
    }
    struct rp_repair *next = a < log->nrepairs ? &log->repairs[a] : NULL;
    struct rp_repair *before = a > 0 ? &log->repairs[a - 1] : NULL;
    if (next && same_attempt(next, s) && s->t >= next->t - next->seconds - 0.01)
        return next;
    return before && same_attempt(before, s) && s->t <= before->t + LATE_S ? before : NULL;
}

static void attach(struct rp_log *log)
{
    if (log->nrepairs)
        qsort(log->repairs, log->nrepairs, sizeof log->repairs[0], by_repair_time);
    for (size_t i = 0; i < log->nrestores; i++) {
        const struct rp_restore *s = &log->restores[i];
        struct rp_repair *x = repair_at(log, s);
        if (x) {
            count_source(x, s);
            count_replay(x, s);
            continue;
        }
        for (size_t k = 0; k < log->nattempts; k++)
            if (log->attempts[k].session == s->session && log->attempts[k].attempt == s->attempt) {
                log->attempts[k].start_set = (int64_t)s->set;
                log->attempts[k].start_from = s->from;
            }
    }
    for (size_t i = 0; i < log->nrepairs; i++) {
        const struct rp_repair *x = &log->repairs[i];
        log->repair_seconds += x->seconds;
        log->lost += x->lost;
        for (int k = 0; k < x->replaced.named; k++)
            if (ftk_rp_rank(log, x->replaced.rank[k]))
                log->ranks[x->replaced.rank[k]].lost++;
        for (int k = 0; x->back.n < log->nranks && k < x->back.named; k++)
            if (ftk_rp_rank(log, x->back.rank[k]))
                log->ranks[x->back.rank[k]].back++;
    }
}

/* ---- all ----------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int by_attempt(const void *a, const void *b)
{
    const struct rp_attempt *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static int by_weight(const void *a, const void *b)
{
    const struct rp_text *x = a, *y = b;
    if (x->level != y->level)
        return x->level - y->level;
    return (x->t > y->t) - (x->t < y->t);
}

/* The number of different values, which are sorted */
static int different(uint64_t *v, size_t n)
{
    int d = 0;
    if (n)
        qsort(v, n, sizeof *v, by_number);
    for (size_t i = 0; i < n; i++)
        d += i == 0 || v[i] != v[i - 1];
    return d;
}

static void count_ranks(struct rp_log *log)
{
    uint64_t *nodes = ftk_tool_alloc(3 * (size_t)log->nranks * sizeof *nodes);
    uint64_t *teams = nodes + log->nranks, *metered = teams + log->nranks;
    size_t n = 0, k = 0, m = 0;
    for (int i = 0; i < log->nranks; i++) {
        const struct rp_rank *r = &log->ranks[i];
        if (!r->seen)
            continue;
        nodes[n++] = r->node;
        if (r->metered)
            metered[m++] = r->node;
        if (r->team >= 0)
            teams[k++] = (uint64_t)r->team;
        log->finished += r->finished;
        log->closed_well += r->closed && r->code >= 0;
        log->closed_badly += r->closed && r->code < 0;
        if (r->closed && r->code < log->worst_close)
            log->worst_close = r->code;
    }
    log->nodes = different(nodes, n);
    log->teams = different(teams, k);
    log->energy.nodes = different(metered, m);
    free(nodes);
}

void ftk_rp_sum(struct rp_log *log)
{
    for (size_t i = 0; i < log->nsets; i++) { /* the base of a set is a smaller set */
        struct rp_set *s = &log->sets[i];
        s->place = s->calls >= 1 ? place(log, s->base, s->calls) : NAN;
    }
    for (int r = 0; r < log->nranks; r++)
        if (log->ranks[r].n > 0)
            walk(log, &log->ranks[r]);
    attach(log);
    count_ranks(log);
    ftk_rp_energy_sum(log);
    if (log->nattempts)
        qsort(log->attempts, log->nattempts, sizeof log->attempts[0], by_attempt);
    if (log->ntexts)
        qsort(log->texts, log->ntexts, sizeof log->texts[0], by_weight);
}

void ftk_rp_ending(const struct rp_log *log, char *buf, size_t bytes, bool *good)
{
    *good = false;
    if (log->has_run_end && log->run_code != 0)
        snprintf(buf, bytes, "The run failed: exit code %" PRId64 ".", log->run_code);
    else if (log->halt[0]) {
        snprintf(buf, bytes, "The run was halted (%s); it can be continued.", log->halt);
        *good = true;
    } else if (log->closed_badly)
        snprintf(
            buf, bytes, "The run ended with an error: ftkit_close returned %d.", log->worst_close);
    else if (log->finished > 0 && log->closed_well > 0) {
        snprintf(buf, bytes, "The run came to its end.");
        *good = true;
    } else if (log->has_run_end)
        snprintf(buf, bytes, "The job ended with exit code 0, but no rank came to ftkit_finish.");
    else
        snprintf(
            buf, bytes, "The log has no end of the run: the job was killed, or is still running.");
}

/* ---- JSON ---------------------------------------------------------------------------- */

static void list_json(struct ftk_json *j, const char *name, const struct rp_ranks *l)
{
    char all[64];
    ftk_json_open(j, name, '[');
    for (int i = 0; i < l->named; i++)
        ftk_json_int(j, NULL, l->rank[i]);
    ftk_json_close(j, ']');
    snprintf(all, sizeof all, "%s_ranks", name);
    ftk_json_int(j, all, l->n);
}

static void repair_json(struct ftk_json *j, const struct rp_log *log, const struct rp_repair *x)
{
    ftk_json_open(j, NULL, '{');
    ftk_json_real(j, "at", x->t - x->seconds - log->begin);
    ftk_json_int(j, "attempt", x->attempt);
    ftk_json_real(j, "seconds", x->seconds);
    for (int i = 0; i < RP_PHASES; i++)
        ftk_json_real(j, ftk_rp_phase_names[i], x->phase[i]);
    if (x->replay >= 0) {
        ftk_json_real(j, "replay", x->replay);
        ftk_json_real(j, "replay_forward", x->forward);
        ftk_json_real(j, "replay_speed", ftk_rp_replay_speed(x));
    }
    if (x->catch_up >= 0)
        ftk_json_real(j, "catch_up", x->catch_up);
    ftk_json_int(j, "lost", x->lost);
    list_json(j, "replaced", &x->replaced);
    list_json(j, "back", &x->back);
    ftk_json_int(j, "line", x->line);
    ftk_json_int(j, "spares", x->spares);
    ftk_json_open(j, "sources", '[');
    for (int i = 0; i < RP_SOURCES && x->source[i].ranks > 0; i++) {
        char text[128];
        ftk_rp_source(log, x->source[i].from, x->source[i].number, text, sizeof text);
        ftk_json_open(j, NULL, '{');
        ftk_json_text(j, "from", text);
        ftk_json_uint(j, "ranks", x->source[i].ranks);
        ftk_json_close(j, '}');
    }
    ftk_json_close(j, ']');
    ftk_json_close(j, '}');
}

static void level_json(struct ftk_json *j, const struct rp_log *log, int level)
{
    const struct rp_figures *f = &log->level[level];
    if (f->ranks == 0)
        return;
    ftk_json_open(j, NULL, '{');
    ftk_json_text(j, "level", ftk_rp_level_names[level]);
    ftk_json_uint(j, "sets", f->sets);
    ftk_json_real(j, "bytes", f->bytes);
    ftk_json_real(j, "sent", f->sent);
    ftk_json_real(j, "seconds_mean", f->seconds_sum / (double)f->ranks);
    ftk_json_real(j, "seconds_max", f->seconds_max);
    ftk_json_int(j, "worst_code", f->code);
    ftk_json_close(j, '}');
}

static void run_json(struct ftk_json *j, const struct rp_log *log)
{
    const struct rp_group *g = &log->groups[log->main_group];
    char when[32], end[400];
    bool good;
    ftk_time_text((int64_t)log->begin, when);
    ftk_rp_ending(log, end, sizeof end, &good);
    ftk_json_text(j, "run", g->run);
    ftk_json_text(j, "context", g->context);
    ftk_json_text(j, "program", log->program);
    ftk_json_text(j, "version", log->version);
    ftk_json_text(j, "mode", log->mode);
    ftk_json_text(j, "began", when);
    ftk_json_real(j, "seconds", log->end - log->begin);
    ftk_json_int(j, "ranks", log->nranks);
    ftk_json_int(j, "spares", log->spares);
    ftk_json_int(j, "nodes", log->nodes);
    ftk_json_int(j, "teams", log->teams);
    ftk_json_uint(j, "attempts", log->nattempts);
    ftk_json_bool(j, "good", good);
    ftk_json_text(j, "end", end);
    ftk_json_int(j, "lost", log->lost);
    ftk_json_uint(j, "repairs", log->nrepairs + log->more_repairs);
    ftk_json_real(j, "repair_seconds", log->repair_seconds);
    ftk_json_real(j, "calls", log->calls);
    ftk_json_real(j, "calls_again", log->again);
    ftk_json_uint(j, "newest_set", log->newest);
    ftk_json_real(j, "log_held_max", log->held_max);
    ftk_json_real(j, "traffic_bytes", log->matrix.total);
    ftk_json_real(j, "traffic_bytes_between", log->matrix.between);
    ftk_json_uint(j, "errors", log->count_of_level[0]);
    ftk_json_uint(j, "warnings", log->count_of_level[1]);
}

void ftk_rp_json(const struct rp_log *log, FILE *out)
{
    struct ftk_json j = { .out = out };
    ftk_json_open(&j, NULL, '{');
    run_json(&j, log);
    ftk_json_open(&j, "levels", '[');
    for (int i = 0; i < RP_LEVELS; i++)
        level_json(&j, log, i);
    ftk_json_close(&j, ']');
    ftk_rp_energy_json(&j, log);
    ftk_json_open(&j, "failures", '[');
    for (size_t i = 0; i < log->nrepairs; i++)
        repair_json(&j, log, &log->repairs[i]);
    ftk_json_close(&j, ']');
    ftk_json_open(&j, "other_runs", '[');
    for (size_t i = 0; i < log->ngroups; i++) {
        char when[32];
        if (log->groups[i].chosen)
            continue;
        ftk_time_text((int64_t)log->groups[i].first, when);
        ftk_json_open(&j, NULL, '{');
        ftk_json_text(&j, "run", log->groups[i].run);
        ftk_json_text(&j, "context", log->groups[i].context);
        ftk_json_text(&j, "began", when);
        ftk_json_int(&j, "ranks", log->groups[i].nranks);
        ftk_json_close(&j, '}');
    }
    ftk_json_close(&j, ']');
    ftk_json_open(&j, "lines", '{');
    ftk_json_uint(&j, "read", log->lines);
    ftk_json_uint(&j, "used", log->used);
    ftk_json_uint(&j, "other_runs", log->of_others);
    ftk_json_uint(&j, "unknown_events", log->unknown);
    ftk_json_uint(&j, "skipped", log->bad);
    ftk_json_text(&j, "first_skipped", log->first_bad);
    ftk_json_close(&j, '}');
    ftk_json_close(&j, '}');
}
