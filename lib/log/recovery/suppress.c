/* Suppression points: which messages a rank that rolls back does not have to send again.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A staying rank announces to each rank that rolls back, for each channel from that rank, up to
 * which number it has the messages, and the gaps below that number.  In words of 64 bits: context,
 * tag, suppression point, number of gaps, whether hashes follow; the gaps; the hashes. */
#include <stdlib.h>
#include <string.h>

#include "log/base/words.h"
#include "log/request/overtake.h"
#include "log/request/recv.h"
#include "steps.h"

#define SUPPRESS_WORDS 5

static uint64_t job_lines; /* committed, as the most advanced survivor knows */

/* How many of the receptions of a channel are from before the line of the repair: a rank that has
 * not seen the commit of a set still counts from the line before. */
static uint64_t since(const struct ftk_channel *s)
{
    if (job_lines <= ftk_log.line.count)
        return 0;
    return ftk_log.apart.open ? s->at_cut : s->at_line;
}

static int put_gaps(const struct ftk_log_repair *r, struct ftk_words *w,
    const struct ftk_channel *s, uint64_t *ngaps)
{
    int dead;
    *ngaps = 0;
    for (struct ftk_req *q = ftk_log.queue.first; q; q = q->next) {
        const size_t after = ftk_overtake_count(s, q);
        if (after == 0)
            continue;
        if (!ftk_quiesce_is_sure(q->recv.want.source, r->is_new, r->n, &dead)
            || q->recv.want.tag == MPI_ANY_TAG) /* the channel is not known */
            return ftk_withdraw_ambiguous(s->source);
        ftk_recv_bind(q, s->source);
        int rc = ftk_words_add(w, s->count - since(s) - after + ++*ngaps);
        if (rc != FTKIT_OK)
            return rc;
    }
    return FTKIT_OK;
}

static int put_suppress(
    const struct ftk_log_repair *r, struct ftk_words *w, const struct ftk_channel *s)
{
    uint64_t ngaps = 0;
    size_t at = w->n;
    bool hashes = ftk_log.ctx->cfg.log_check;
    int rc = ftk_words_add(w, (uint64_t)s->context);
    rc = rc == FTKIT_OK ? ftk_words_add(w, (uint64_t)(uint32_t)s->tag) : rc;
    rc = rc == FTKIT_OK ? ftk_words_add(w, s->count - since(s)) : rc;
    rc = rc == FTKIT_OK ? ftk_words_add(w, 0) : rc;
    rc = rc == FTKIT_OK ? ftk_words_add(w, 0) : rc;
    if (rc == FTKIT_OK && r->is_new[s->source]) /* messages of a live rank are drained */
        rc = put_gaps(r, w, s, &ngaps);
    if (rc != FTKIT_OK)
        return rc;
    w->v[at + 2] = s->count - since(s) + ngaps;
    w->v[at + 3] = ngaps;
    w->v[at + 4] = hashes && ngaps == 0; /* gaps would move them */
    for (uint64_t i = since(s); rc == FTKIT_OK && w->v[at + 4] && i < s->count; i++)
        rc = ftk_words_add(w, s->receptions[i].hash);
    return rc;
}

static int write_suppress(const struct ftk_log_repair *r, struct ftk_words *w, size_t *words)
{
    for (int dest = 0; dest < r->n; dest++) {
        size_t before = w->n;
        for (size_t i = 0; !r->back[r->me] && r->back[dest] && i < ftk_channels_count(); i++) {
            const struct ftk_channel *s = ftk_channel_at(i);
            int rc = s->source == dest ? put_suppress(r, w, s) : FTKIT_OK;
            if (rc != FTKIT_OK)
                return rc;
        }
        words[dest] = w->n - before;
    }
    return FTKIT_OK;
}

/* The points that have come, until the ranks have agreed. */
static struct ftk_words arrived;
static size_t *arrived_from; /* [n] words of each rank */

static void forget_points(void)
{
    ftk_words_free(&arrived);
    free(arrived_from);
    arrived_from = NULL;
    job_lines = 0;
}

static int exchange(const struct ftk_log_repair *r, uint64_t lines)
{
    if (r->fresh)
        return FTKIT_OK;
    struct ftk_words out = { 0 };
    size_t *to = calloc((size_t)r->n, sizeof *to);
    forget_points(); /* those of an earlier attempt */
    job_lines = lines;
    arrived_from = calloc((size_t)r->n, sizeof *arrived_from);
    int rc = to && arrived_from ? write_suppress(r, &out, to)
                                : ftk_fail(FTKIT_ERR_NOMEM, "suppression points");
    if (rc == FTKIT_OK)
        rc = ftk_words_exchange(r, &out, to, &arrived, arrived_from, "suppression points");
    if (rc != FTKIT_OK)
        forget_points();
    ftk_words_free(&out);
    free(to);
    return rc;
}

static uint64_t *copy_of(const uint64_t *v, size_t n)
{
    uint64_t *c = malloc((n + 1) * sizeof *c);
    if (c)
        memcpy(c, v, n * sizeof *c);
    return c;
}

static int add_suppress(int dest, const uint64_t *v, size_t *used)
{
    struct ftk_suppress m = { .context = (int)v[0],
        .dest = dest,
        .tag = (int)(uint32_t)v[1],
        .next = 1,
        .upto = v[2],
        .ngaps = (int)v[3] };
    m.gap = copy_of(v + SUPPRESS_WORDS, (size_t)v[3]);
    m.hash = v[4] ? copy_of(v + SUPPRESS_WORDS + v[3], (size_t)v[2]) : NULL;
    *used = SUPPRESS_WORDS + (size_t)v[3] + (v[4] ? (size_t)v[2] : 0);
    if (!m.gap || (v[4] && !m.hash)) {
        free(m.gap);
        free(m.hash);
        return ftk_fail(FTKIT_ERR_NOMEM, "suppression points");
    }
    return ftk_suppress_add(&m);
}

/* This rank rolls back, and suppresses messages by the points of all ranks. */
static int take_points(void)
{
    size_t at = 0;
    for (int s = 0; s < ftk_log.n; s++)
        for (size_t end = at + arrived_from[s]; at < end;) {
            size_t used = 0;
            int rc = add_suppress(s, arrived.v + at, &used);
            if (rc != FTKIT_OK)
                return rc;
            at += used;
        }
    return FTKIT_OK;
}

static int stay(const struct ftk_log_repair *r)
{
    (void)r;
    forget_points();
    return FTKIT_OK;
}

static int roll_back(const struct ftk_rollback *b)
{
    (void)b;
    const int rc = take_points();
    forget_points();
    return rc;
}

const struct ftk_part ftk_part_points = {
    .close = forget_points, .exchange = exchange, .stay = stay, .roll_back = roll_back
};
