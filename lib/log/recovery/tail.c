/* Line apart: the tail of a rank's part of a set (see tail.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tail.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "log/determinant/det.h"
#include "log/base/part.h"
#include "state.h"

enum { CHANNEL = 4, DET = sizeof(struct ftk_det) / sizeof(uint64_t) };
_Static_assert(sizeof(struct ftk_det) == DET * sizeof(uint64_t), "a determinant is whole words");

static struct {
    uint64_t early, determinants;
} in_sets; /* so far, for ftkit_query() */

/* ---- writing ------------------------------------------------------------------------- */

static int put_channel(struct ftk_words *w, int context, int rank, int tag, uint64_t early)
{
    uint64_t *at = ftk_words_extend(w, CHANNEL);
    if (!at)
        return ftk_fail(FTKIT_ERR_NOMEM, "the tail of a set");
    at[0] = (uint64_t)context;
    at[1] = (uint64_t)rank;
    at[2] = (uint64_t)(uint32_t)tag;
    at[3] = early;
    return FTKIT_OK;
}

static int put_in(struct ftk_words *w)
{
    const size_t at = w->n;
    int rc = ftk_words_add(w, 0);
    for (size_t i = 0; rc == FTKIT_OK && i < ftk_channels_count(); i++) {
        const struct ftk_channel *s = ftk_channel_at(i);
        const uint64_t early = ftk_channel_early(s);
        if (early == 0)
            continue;
        rc = put_channel(w, s->context, s->source, s->tag, early);
        in_sets.early += early;
        w->v[at]++;
    }
    return rc;
}

static int put_out(struct ftk_words *w)
{
    const size_t at = w->n;
    int rc = ftk_words_add(w, 0);
    for (size_t i = 0; rc == FTKIT_OK && i < ftk_sent_count(); i++) {
        const struct ftk_sent *s = ftk_sent_at(i);
        if (s->next_early == 0)
            continue;
        rc = put_channel(w, s->context, s->dest, s->tag, s->next_early);
        w->v[at]++;
    }
    return rc;
}

static int put_determinants(struct ftk_words *w)
{
    size_t n = 0;
    struct ftk_det *v = ftk_det_window(&n);
    int rc = v ? ftk_words_add(w, n) : ftk_fail(FTKIT_ERR_NOMEM, "the tail of a set");
    uint64_t *at = rc == FTKIT_OK ? ftk_words_extend(w, n * DET) : NULL;
    if (rc == FTKIT_OK && !at)
        rc = ftk_fail(FTKIT_ERR_NOMEM, "the tail of a set");
    if (at && n > 0)
        memcpy(at, v, n * sizeof *v);
    in_sets.determinants += rc == FTKIT_OK ? n : 0;
    free(v);
    return rc;
}

int ftk_tail_write(struct ftk_words *w)
{
    int rc = put_in(w);
    if (rc == FTKIT_OK)
        rc = put_out(w);
    return rc == FTKIT_OK ? put_determinants(w) : rc;
}

/* ---- reading ------------------------------------------------------------------------- */

static struct {
    uint64_t *words;
    const uint64_t *in, *out, *det; /* in words */
    uint64_t nin, nout, ndet;
} tail;

void ftk_tail_forget(void)
{
    free(tail.words);
    memset(&tail, 0, sizeof tail);
}

static int damaged(void)
{
    ftk_tail_forget();
    return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: the tail is damaged");
}

/* A list with items of `each` words: how many, and where.  False: it is cut short. */
static bool list(
    const uint64_t **w, const uint64_t *end, size_t each, uint64_t *n, const uint64_t **at)
{
    if (*w == end || **w > (uint64_t)(end - *w - 1) / each)
        return false;
    *n = **w;
    *at = *w + 1;
    *w += 1 + *n * each;
    return true;
}

#define EARLY_MAX (UINT64_C(1) << 32) /* early messages of a channel */

static bool channels_are_sane(const uint64_t *c, uint64_t n)
{
    for (; n > 0; n--, c += CHANNEL)
        if (!(ftk_context_is_one(c[0]) || c[0] == FTK_LOG_COLLS) || c[1] >= (uint64_t)ftk_log.n
            || c[2] > INT_MAX || c[3] > EARLY_MAX)
            return false;
    return true;
}

int ftk_tail_read(const uint64_t *w, size_t n)
{
    ftk_tail_forget();
    if (n == 0)
        return FTKIT_OK;
    tail.words = malloc(n * sizeof *tail.words);
    if (!tail.words)
        return ftk_fail(FTKIT_ERR_NOMEM, "the tail of a set");
    memcpy(tail.words, w, n * sizeof *w);
    const uint64_t *at = tail.words, *end = at + n;
    if (!list(&at, end, CHANNEL, &tail.nin, &tail.in)
        || !list(&at, end, CHANNEL, &tail.nout, &tail.out)
        || !list(&at, end, DET, &tail.ndet, &tail.det) || at != end
        || !channels_are_sane(tail.in, tail.nin) || !channels_are_sane(tail.out, tail.nout)
        || !ftk_det_are_sane((const struct ftk_det *)(const void *)tail.det, tail.ndet))
        return damaged();
    return FTKIT_OK;
}

/* ---- applying ------------------------------------------------------------------------ */

/* A receiver that stays has announced a number to this rank in the repair, which is not smaller. */
static int suppress(int context, int dest, int tag, uint64_t early)
{
    const struct ftk_suppress m = {
        .context = context, .dest = dest, .tag = tag, .next = 1, .upto = early
    };
    return ftk_suppress_find(context, dest, tag) ? FTKIT_OK : ftk_suppress_add(&m);
}

int ftk_tail_apply(void)
{
    int rc = FTKIT_OK;
    for (uint64_t i = 0; rc == FTKIT_OK && i < tail.nin; i++) {
        const uint64_t *c = tail.in + i * CHANNEL;
        rc = ftk_channel_has((int)c[0], (int)c[1], (int)c[2], c[3]);
    }
    for (uint64_t i = 0; rc == FTKIT_OK && i < tail.nout; i++) {
        const uint64_t *c = tail.out + i * CHANNEL;
        struct ftk_sent *s = ftk_sent_find((int)c[0], (int)c[1], (int)c[2]);
        if (!s)
            rc = ftk_fail(FTKIT_ERR_NOMEM, "the tail of a set");
        else
            s->early = c[3];
        if (rc == FTKIT_OK)
            rc = suppress((int)c[0], (int)c[1], (int)c[2], c[3]);
    }
    if (rc == FTKIT_OK)
        rc = ftk_det_restore((const struct ftk_det *)(const void *)tail.det, (size_t)tail.ndet);
    ftk_tail_forget();
    return rc;
}

/* ---- the part ------------------------------------------------------------------------ */

static struct ftk_words words; /* of the set of this rank's cut; none: it is not settled */

static void drop(void)
{
    ftk_words_free(&words);
}

static void close_tail(void)
{
    drop();
    ftk_tail_forget();
    memset(&in_sets, 0, sizeof in_sets);
}

static void figures(ftkit_info *info)
{
    info->line_early = in_sets.early;
    info->line_determinants = in_sets.determinants;
}

static size_t count(void)
{
    return words.n;
}

static uint64_t *save(uint64_t *w)
{
    return ftk_words_save(&words, w);
}

static int finish(void)
{
    drop();
    return ftk_tail_write(&words);
}

/* A rank that is restored to a line apart counts its calls from its own cut. */
static int load(const struct ftk_section *in)
{
    int rc = ftk_tail_read(in->w, (size_t)(in->end - in->w));
    if (rc == FTKIT_OK && in->w < in->end)
        ftk_line_count_from(in->calls);
    return rc;
}

const struct ftk_part ftk_part_tail = { .close = close_tail,
    .figures = figures,
    .cut_over = drop,
    .restored = ftk_tail_apply,
    .name = "tail",
    .words = count,
    .save = save,
    .late = true,
    .finish = finish,
    .load = load };
