/* The record of set-up (see set_up.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/determinant/set_up.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "log/base/figures.h"
#include "log/base/part.h"
#include "log/base/plane.h"

/* A replay may poll in vain a little longer than the lost process did behind its last outcome: a
 * clock may have ended the polling.  It must not poll for ever. */
#define IN_VAIN (UINT32_C(1) << 24)

/* Messages of set-up to a rank, in the order of their channel. */
struct sent {
    int context, dest, tag;
    uint64_t n, next; /* next: of the replay */
    uint64_t *hash;   /* [n], room for the next power of two */
};

static struct {
    struct ftk_det *v; /* [n] outcomes, in the order of the program */
    size_t n, room;
    size_t at;         /* the next one of the replay */
    uint32_t nothings; /* probes and tests in a row that found nothing */
    uint32_t receives; /* begun by the program */
    uint32_t *cancelled;
    size_t ncancelled;
    struct sent *sent;
    size_t nsent, found;
    bool lacks; /* there was no memory for the record */
    /* of the lost process, in a replay */
    uint32_t lost_nothings, lost_receives;
    bool said; /* that the course is another one */
} s;

void ftk_set_up_close(void)
{
    for (size_t i = 0; i < s.nsent; i++)
        free(s.sent[i].hash);
    free(s.sent);
    free(s.cancelled);
    free(s.v);
    memset(&s, 0, sizeof s);
}

/* ---- the record grows ---------------------------------------------------------------- */

static void no_memory(void)
{
    if (!s.lacks)
        ftk_report(FTKIT_ERROR,
            "context %s: rank %d: no memory for the record of set-up: a replacement of this rank "
            "may not take the same course in its replay of set-up",
            ftk_log.ctx->cfg.name, ftk_log.me);
    s.lacks = true;
}

static void append(struct ftk_det det)
{
    if (ftk_grow_by_one(&s.v, s.n, sizeof *s.v))
        s.v[s.n++] = det;
    else
        no_memory();
}

uint32_t ftk_set_up_receive(void)
{
    return ftk_log.in_set_up ? ++s.receives : 0;
}

void ftk_set_up_cancelled(uint32_t number)
{
    if (ftk_grow_by_one(&s.cancelled, s.ncancelled, sizeof *s.cancelled))
        s.cancelled[s.ncancelled++] = number;
    else
        no_memory();
}

void ftk_set_up_nothing(void)
{
    s.nothings += ftk_set_up_runs();
}

void ftk_set_up_outcome(struct ftk_det det)
{
    if (!ftk_set_up_runs())
        return;
    if (det.kind != FTK_DET_MORE) {
        det.n = s.nothings;
        s.nothings = 0;
    }
    append(det);
}

void ftk_set_up_found(const struct ftk_det *det)
{
    for (size_t i = 0, more = ftk_det_nmore(det); i <= more; i++)
        ftk_set_up_outcome(det[i]);
}

void ftk_set_up_probed(int source, int tag, uint64_t bytes)
{
    ftk_set_up_outcome((struct ftk_det){ FTK_DET_PROBE, 0, source, tag });
    ftk_set_up_outcome(
        (struct ftk_det){ FTK_DET_MORE, 0, (int32_t)(bytes >> 31), (int32_t)(bytes & INT32_MAX) });
}

uint64_t ftk_set_up_bytes(const struct ftk_det *probe)
{
    return (uint64_t)probe[1].a << 31 | (uint64_t)probe[1].b;
}

/* ---- messages ------------------------------------------------------------------------ */

/* The search begins behind the channel that was found last: a program sends to its neighbours in
 * turn. */
static struct sent *channel(int context, int dest, int tag)
{
    for (size_t i = 0; i < s.nsent; i++) {
        struct sent *c = &s.sent[(s.found + i) % s.nsent];
        if (c->context != context || c->dest != dest || c->tag != tag)
            continue;
        s.found = (size_t)(c - s.sent) + 1;
        return c;
    }
    return NULL;
}

static struct sent *add_channel(int context, int dest, int tag)
{
    if (!ftk_grow_by_one(&s.sent, s.nsent, sizeof *s.sent))
        return NULL;
    s.sent[s.nsent] = (struct sent){ .context = context, .dest = dest, .tag = tag };
    return &s.sent[s.nsent++];
}

int ftk_set_up_sent(int context, int dest, int tag, uint64_t hash)
{
    struct sent *c = channel(context, dest, tag);
    if (!c)
        c = add_channel(context, dest, tag);
    if (!c || !ftk_grow_by_one(&c->hash, (size_t)c->n, sizeof *c->hash))
        return ftk_fail(FTKIT_ERR_NOMEM, "the record of set-up");
    c->hash[c->n++] = hash;
    return FTKIT_OK;
}

enum ftk_set_up_send ftk_set_up_sends(int context, int dest, int tag, uint64_t hash, uint64_t *n)
{
    struct sent *c = channel(context, dest, tag);
    if (!c || c->next == c->n)
        return FTK_SENT_NONE;
    *n = c->next + 1;
    return c->hash[c->next++] == hash ? FTK_SENT_THE_SAME : FTK_SENT_ANOTHER;
}

/* ---- the replay ---------------------------------------------------------------------- */

/* How many MORE follow an outcome here. */
static size_t more_of(const struct ftk_det *det)
{
    return ftk_det_nmore(det) + ftk_det_kind_of(det->kind)->more_in_set_up;
}

static void say_another_course(const char *what)
{
    if (!s.said)
        ftk_report(FTKIT_ERROR,
            "context %s: rank %d: in the replay of set-up (from ftkit_open to ftkit_recover) the "
            "replacement %s: set-up has to be the same",
            ftk_log.ctx->cfg.name, ftk_log.me, what);
    s.said = true;
    ftk_figures_differs();
}

/* Behind the last outcome the lost process has found nothing. */
static enum ftk_det_next behind_the_last(void)
{
    if (s.nothings++ < s.lost_nothings + IN_VAIN)
        return FTK_DET_NOTHING;
    say_another_course("probes or tests for ever for what the lost process did not find");
    return FTK_DET_FREE;
}

int ftk_set_up_next(uint32_t kind, const struct ftk_det **det)
{
    if (s.at == s.n)
        return behind_the_last();
    *det = &s.v[s.at];
    if (s.nothings < (*det)->n) {
        s.nothings++;
        return FTK_DET_NOTHING;
    }
    if ((*det)->kind != kind) {
        char what[128];
        snprintf(what, sizeof what, "makes %s where the lost process made %s", ftk_det_text(kind),
            ftk_det_text((*det)->kind));
        say_another_course(what);
        s.at = s.n;
        return FTK_DET_FREE;
    }
    s.at += 1 + more_of(*det);
    s.nothings = 0;
    return FTK_DET_THIS;
}

bool ftk_set_up_was_cancelled(uint32_t number)
{
    for (size_t i = 0; number != 0 && i < s.ncancelled; i++)
        if (s.cancelled[i] == number)
            return true;
    return false;
}

void ftk_set_up_end(void)
{
    bool unsent = false;
    for (size_t i = 0; i < s.nsent; i++) /* a collective under way may send behind set-up */
        unsent = unsent || (s.sent[i].context != FTK_LOG_COLLS && s.sent[i].next < s.sent[i].n);
    if (s.at < s.n)
        say_another_course("has probed or tested less often than the lost process");
    else if (s.receives != s.lost_receives)
        say_another_course("has begun another number of receives than the lost process");
    else if (unsent)
        say_another_course("has sent fewer messages than the lost process");
}

/* ---- in a set ------------------------------------------------------------------------ */

enum { RECEIVES, NOTHINGS, OUTCOMES, CANCELLED, CHANNELS, HEAD };
enum { DET = sizeof(struct ftk_det) / sizeof(uint64_t), CHANNEL = 4 };

static size_t set_up_words(void)
{
    size_t words = HEAD + s.n * DET + s.ncancelled + s.nsent * CHANNEL;
    for (size_t i = 0; i < s.nsent; i++)
        words += (size_t)s.sent[i].n;
    return words;
}

static uint64_t *write_outcomes(uint64_t *w)
{
    for (size_t i = 0; i < s.n; i++, w += DET) {
        const struct ftk_det det = ftk_det_to_plane(s.v[i]);
        memcpy(w, &det, sizeof det);
    }
    return w;
}

static uint64_t *set_up_write(uint64_t *w)
{
    w[RECEIVES] = s.receives;
    w[NOTHINGS] = s.nothings;
    w[OUTCOMES] = s.n;
    w[CANCELLED] = s.ncancelled;
    w[CHANNELS] = s.nsent;
    w = write_outcomes(w + HEAD);
    for (size_t i = 0; i < s.ncancelled; i++)
        *w++ = s.cancelled[i];
    for (const struct sent *c = s.sent; c < s.sent + s.nsent; c++) {
        *w++ = (uint64_t)c->context;
        *w++ = ftk_log_to_plane(c->dest);
        *w++ = (uint64_t)(uint32_t)c->tag;
        *w++ = c->n;
        if (c->n > 0)
            memcpy(w, c->hash, (size_t)c->n * sizeof *w);
        w += c->n;
    }
    return w;
}

/* Whether an outcome of a set is whole and sane; left: how many determinants there are from it on.
 * Its rank becomes one of this plane. */
static bool is_sane(struct ftk_det *det, uint64_t left)
{
    const struct ftk_det_kind *kind = ftk_det_kind_of(det->kind);
    if (kind->keeper == FTK_DET_KEPT_NOT || det->a < 0 || more_of(det) >= left
        || (kind->a_is_rank && det->a >= ftk_log_plane_size()))
        return false;
    *det = ftk_det_from_plane(*det);
    return ftk_det_is_sane(det, more_of(det), left);
}

static bool are_sane(struct ftk_det *v, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 1 + more_of(&v[i]))
        if (!is_sane(&v[i], n - i))
            return false;
    return true;
}

static int read_outcomes(const uint64_t **w, uint64_t n)
{
    s.v = calloc((size_t)n + 1, sizeof *s.v);
    if (!s.v)
        return ftk_fail(FTKIT_ERR_NOMEM, "the record of set-up");
    memcpy(s.v, *w, (size_t)n * sizeof *s.v);
    *w += n * DET;
    s.n = (size_t)n;
    return are_sane(s.v, n) ? FTKIT_OK : FTKIT_ERR_FORMAT;
}

static int read_cancelled(const uint64_t **w, uint64_t n)
{
    s.cancelled = calloc((size_t)n + 1, sizeof *s.cancelled);
    if (!s.cancelled)
        return ftk_fail(FTKIT_ERR_NOMEM, "the record of set-up");
    for (; n > 0; n--)
        s.cancelled[s.ncancelled++] = (uint32_t) * (*w)++;
    return FTKIT_OK;
}

static int read_channel(const uint64_t **w, const uint64_t *end)
{
    const uint64_t *c = *w;
    if (end - c < CHANNEL || !(ftk_context_is_one(c[0]) || c[0] == FTK_LOG_COLLS)
        || c[1] >= (uint64_t)ftk_log_plane_size() || c[2] > INT_MAX
        || c[3] > (uint64_t)(end - c - CHANNEL))
        return FTKIT_ERR_FORMAT;
    struct sent *to = &s.sent[s.nsent];
    *to = (struct sent){ .context = (int)c[0],
        .dest = ftk_log_from_plane((int)c[1]),
        .tag = (int)c[2],
        .n = c[3],
        .hash = malloc(((size_t)c[3] + 1) * sizeof *to->hash) };
    if (!to->hash)
        return ftk_fail(FTKIT_ERR_NOMEM, "the record of set-up");
    memcpy(to->hash, c + CHANNEL, (size_t)c[3] * sizeof *to->hash);
    s.nsent++;
    *w += CHANNEL + c[3];
    return FTKIT_OK;
}

static int read_channels(const uint64_t **w, const uint64_t *end, uint64_t n)
{
    s.sent = calloc((size_t)n + 1, sizeof *s.sent);
    int rc = s.sent ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "the record of set-up");
    for (; rc == FTKIT_OK && n > 0; n--)
        rc = read_channel(w, end);
    return rc;
}

int ftk_set_up_read(const uint64_t *w, size_t n)
{
    const uint64_t *const head = w, *const end = w + n;
    const uint32_t begun = s.receives;
    ftk_set_up_close();
    s.receives = begun;
    w += HEAD;
    int rc = n >= HEAD && head[OUTCOMES] <= (n - HEAD) / DET
                     && head[CANCELLED] <= n - HEAD - head[OUTCOMES] * DET
                     && head[CHANNELS] <= n / CHANNEL
                 ? FTKIT_OK
                 : FTKIT_ERR_FORMAT;
    if (rc == FTKIT_OK)
        rc = read_outcomes(&w, head[OUTCOMES]);
    if (rc == FTKIT_OK)
        rc = read_cancelled(&w, head[CANCELLED]);
    if (rc == FTKIT_OK)
        rc = read_channels(&w, end, head[CHANNELS]);
    if (rc == FTKIT_OK && w != end)
        rc = FTKIT_ERR_FORMAT;
    if (rc == FTKIT_OK) {
        s.lost_receives = (uint32_t)head[RECEIVES];
        s.lost_nothings = (uint32_t)head[NOTHINGS];
        return rc;
    }
    ftk_set_up_close();
    return rc == FTKIT_ERR_FORMAT
               ? ftk_fail(rc, "state of the message log: the record of set-up is damaged")
               : rc;
}

/* A replay of set-up has read the record already (recovery/image.c). */
static void set_up_over(void)
{
    if (ftk_log.ctx->cfg.log_check)
        ftk_set_up_end();
}

const struct ftk_part ftk_part_set_up = { .close = ftk_set_up_close,
    .set_up_over = set_up_over,
    .name = "setup",
    .words = set_up_words,
    .save = set_up_write,
    .late = true };
