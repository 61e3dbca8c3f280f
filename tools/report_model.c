/* What ftkit report keeps of a run: lists that are thinned when they grow long.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

/* ---- progress ------------------------------------------------------------------------ */

static bool plain(const struct rp_point *p)
{
    return p->kind == RP_GOES_ON;
}

/* Drop every second point of a rank; keep the points around a rollback as long as these are not
 * the many. */
static void thin(struct rp_rank *r, size_t max)
{
    for (int hard = 0; hard < 2; hard++) {
        size_t n = 0;
        for (size_t i = 0; i < r->n; i++) {
            bool around = i == 0 || i + 1 == r->n || !plain(&r->p[i]) || !plain(&r->p[i + 1]);
            if (i % 2 == 0 || (around && !hard))
                r->p[n++] = r->p[i];
        }
        r->n = n;
        if (n < max * 3 / 4)
            break;
    }
    double span = r->p[r->n - 1].t - r->p[0].t;
    r->dt = fmax(2 * r->dt, span / (double)max);
}

void ftk_rp_add_point(struct rp_log *log, struct rp_rank *r, const struct rp_point *p)
{
    size_t n = r->n;
    if (n >= 2 && plain(p) && plain(&r->p[n - 1]) && p->base == r->p[n - 1].base
        && p->t >= r->p[n - 2].t && p->t - r->p[n - 2].t < r->dt) {
        r->p[n - 1] = *p; /* the last point is always kept */
        return;
    }
    if (n >= log->points_max) {
        thin(r, log->points_max);
        n = r->n;
    }
    if (n >= r->room) {
        size_t room = r->room ? 2 * r->room : 4;
        struct rp_point *all = ftk_tool_alloc(room * sizeof *all);
        if (n)
            memcpy(all, r->p, n * sizeof *all);
        free(r->p);
        r->p = all;
        r->room = room;
    }
    r->p[r->n++] = *p;
}

/* ---- sets ---------------------------------------------------------------------------- */

size_t ftk_rp_lower(const struct rp_log *log, uint64_t set)
{
    size_t a = 0, b = log->nsets;
    while (a < b) {
        size_t m = (a + b) / 2;
        if (log->sets[m].set < set)
            a = m + 1;
        else
            b = m;
    }
    return a;
}

static void thin_sets(struct rp_log *log)
{
    size_t n = 0;
    log->stride *= 2;
    for (size_t i = 0; i < log->nsets; i++)
        if (log->sets[i].set % log->stride == 0)
            log->sets[n++] = log->sets[i];
    log->nsets = n;
}

struct rp_set *ftk_rp_set(struct rp_log *log, uint64_t set)
{
    if (!log->sets) {
        log->sets = ftk_tool_alloc(RP_SETS_MAX * sizeof log->sets[0]);
        log->stride = 1;
    }
    log->newest = set > log->newest ? set : log->newest;
    if (set % log->stride != 0)
        return NULL;
    size_t i = ftk_rp_lower(log, set);
    if (i < log->nsets && log->sets[i].set == set)
        return &log->sets[i];
    while (log->nsets == RP_SETS_MAX) {
        thin_sets(log);
        if (set % log->stride != 0)
            return NULL;
        i = ftk_rp_lower(log, set);
    }
    memmove(&log->sets[i + 1], &log->sets[i], (log->nsets - i) * sizeof log->sets[0]);
    log->nsets++;
    log->sets[i] = (struct rp_set){ .set = set, .place = NAN };
    return &log->sets[i];
}

void ftk_rp_add_figures(struct rp_figures *f, double t, double bytes, double seconds, double sent)
{
    f->first_t = f->ranks ? fmin(f->first_t, t) : t;
    f->last_t = fmax(f->last_t, t);
    f->ranks++;
    f->bytes += bytes;
    f->sent += sent;
    f->seconds_sum += seconds;
    f->seconds_max = fmax(f->seconds_max, seconds);
}

/* ---- texts --------------------------------------------------------------------------- */

void ftk_rp_add_text(struct rp_log *log, int level, double t, int64_t rank, const char *text)
{
    size_t few = level >= 2 ? RP_TEXTS_MAX / 4 : RP_TEXTS_MAX; /* keep room for errors */
    log->count_of_level[level]++;
    for (size_t i = 0; i < log->ntexts; i++) {
        struct rp_text *x = &log->texts[i];
        if (x->level != level || strncmp(x->text, text, 2000) != 0)
            continue;
        if (t < x->t) {
            x->t = t;
            x->rank = (int)rank;
        }
        x->count++;
        return;
    }
    if (level > 2)
        return;
    size_t same = 0;
    for (size_t i = 0; i < log->ntexts; i++)
        same += (log->texts[i].level >= 2) == (level >= 2);
    if (same >= few) {
        log->more_texts++;
        return;
    }
    log->texts = ftk_tool_grow(log->texts, log->ntexts, &log->texts_room, sizeof log->texts[0]);
    struct rp_text x = { .t = t, .count = 1, .rank = (int)rank, .level = level };
    x.text = strndup(text, 2000);
    if (x.text)
        log->texts[log->ntexts++] = x;
}

/* Keep texts such as "memory of rank 4" once, as "memory of rank N"; *number: the 4, or -1. */
int ftk_rp_from(struct rp_log *log, const char *text, int *number)
{
    char buf[sizeof log->from[0]];
    size_t n = 0, digits = strcspn(text, "0123456789");
    const char *rest = text + digits + strspn(text + digits, "0123456789");
    long v = text[digits] ? strtol(text + digits, NULL, 10) : -1;
    *number = v >= 0 && v < RP_RANKS_MAX ? (int)v : -1;
    snprintf(buf, sizeof buf, "%.*s%s%s", (int)(digits < 60 ? digits : 60), text,
        text[digits] ? "N" : "", rest);
    size_t max = sizeof log->from / sizeof log->from[0];
    for (; n < log->nfrom; n++)
        if (strcmp(log->from[n], buf) == 0)
            return (int)n;
    if (n == max)
        return (int)max - 1;
    memcpy(log->from[log->nfrom++], buf, sizeof buf);
    return (int)n;
}

void ftk_rp_source(const struct rp_log *log, int from, int number, char *buf, size_t bytes)
{
    const char *text = log->from[from], *n = strchr(text, 'N');
    if (n && number >= 0)
        snprintf(buf, bytes, "%.*s%d%s", (int)(n - text), text, number, n + 1);
    else if (n && n > text + 5 && strncmp(n - 5, "rank N", 6) == 0)
        snprintf(buf, bytes, "%.*sother ranks%s", (int)(n - 5 - text), text, n + 1);
    else
        snprintf(buf, bytes, "%s", text);
}

struct rp_rank *ftk_rp_rank(struct rp_log *log, int64_t rank)
{
    return rank >= 0 && rank < log->nranks ? &log->ranks[rank] : NULL;
}

/* ---- the matrix ---------------------------------------------------------------------- */

static const struct rp_log *sorted;

static int by_team(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    int p = sorted->ranks[x].team, q = sorted->ranks[y].team;
    return p != q ? (p > q) - (p < q) : (x > y) - (x < y);
}

void ftk_rp_matrix_begin(struct rp_log *log)
{
    struct rp_matrix *m = &log->matrix;
    if (m->bytes)
        return;
    m->n = log->nranks < RP_CELLS ? log->nranks : RP_CELLS;
    size_t cells = (size_t)m->n * (size_t)m->n;
    m->bytes = ftk_tool_alloc(cells * sizeof *m->bytes);
    m->messages = ftk_tool_alloc(cells * sizeof *m->messages);
    m->order = ftk_tool_alloc((size_t)log->nranks * sizeof *m->order);
    m->place_of = ftk_tool_alloc((size_t)log->nranks * sizeof *m->place_of);
    for (int r = 0; r < log->nranks; r++)
        m->order[r] = r;
    sorted = log;
    qsort(m->order, (size_t)log->nranks, sizeof *m->order, by_team);
    for (int i = 0; i < log->nranks; i++)
        m->place_of[m->order[i]] = i;
}

void ftk_rp_matrix_add(struct rp_log *log, int from, int to, double messages, double bytes)
{
    struct rp_matrix *m = &log->matrix;
    size_t row = (size_t)((int64_t)m->place_of[from] * m->n / log->nranks);
    size_t column = (size_t)((int64_t)m->place_of[to] * m->n / log->nranks);
    double *cell = &m->bytes[row * (size_t)m->n + column];
    *cell += bytes;
    m->messages[row * (size_t)m->n + column] += messages;
    m->max = fmax(m->max, *cell);
    m->total += bytes;
    m->total_messages += messages;
    if (log->ranks[from].team != log->ranks[to].team)
        m->between += bytes;
    if (log->ranks[from].team != log->ranks[to].team && log->ranks[from].silent)
        m->unkept += bytes;
}

void ftk_rp_free(struct rp_log *log)
{
    for (size_t i = 0; i < log->nfiles; i++)
        free(log->files[i].path);
    for (int r = 0; log->ranks && r < log->nranks; r++)
        free(log->ranks[r].p);
    for (size_t i = 0; i < log->ntexts; i++)
        free(log->texts[i].text);
    for (size_t i = 0; i < log->nkeys; i++) {
        free(log->keys[i].key);
        free(log->keys[i].value);
    }
    void *all[] = { log->files, log->groups, log->sessions, log->ranks, log->sets, log->repairs,
        log->restores, log->texts, log->attempts, log->matrix.bytes, log->matrix.messages,
        log->matrix.order, log->matrix.place_of, log->procs };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}
