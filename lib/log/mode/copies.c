/* Copies of determinants on other nodes (see copies.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "copies.h"

#include <stdlib.h>
#include <string.h>

#include "core/grow.h"

/* ---- messages of determinants -------------------------------------------------------- */

bool ftk_copies_begin(struct ftk_words *message, uint64_t lines, uint64_t round)
{
    struct ftk_copies_head h = { lines, round, 0 };
    message->n = 0;
    uint64_t *w = ftk_words_extend(message, FTK_COPIES_HEAD_WORDS);
    if (w)
        memcpy(w, &h, sizeof h);
    return w != NULL;
}

bool ftk_copies_add(
    struct ftk_words *message, int owner, const struct ftk_det *v, size_t from, size_t n)
{
    struct ftk_copies_part part = { (uint64_t)owner, from, n - from };
    uint64_t *w =
        ftk_words_extend(message, FTK_COPIES_PART_WORDS + (n - from) * FTK_COPIES_DET_WORDS);
    if (!w)
        return false;
    memcpy(w, &part, sizeof part);
    memcpy(w + FTK_COPIES_PART_WORDS, v + from, (n - from) * sizeof *v);
    struct ftk_copies_head h;
    memcpy(&h, message->v, sizeof h);
    h.parts++;
    memcpy(message->v, &h, sizeof h);
    return true;
}

/* ---- copies ---------------------------------------------------------------------------- */

/* copy: both copies of the owner. */
static int store_part(
    struct ftk_copy copy[2], uint64_t lines, const struct ftk_copies_part *part, const uint64_t *w)
{
    struct ftk_copy *c = &copy[lines & 1];
    if (c->lines > lines)
        return MPI_SUCCESS; /* the interval is over */
    if (c->lines < lines) {
        c->lines = lines;
        c->n = 0;
    }
    size_t n = (size_t)(part->from + part->n);
    if (part->from > c->n)
        return MPI_ERR_INTERN; /* determinants are sent in order: some are missing */
    if (!ftk_grow(&c->v, &c->room, n, sizeof *c->v))
        return MPI_ERR_NO_MEM;
    if (n <= c->n)
        return MPI_SUCCESS;
    memcpy(c->v + part->from, w, (size_t)part->n * sizeof *c->v);
    c->n = n;
    return MPI_SUCCESS;
}

int ftk_copies_store(
    struct ftk_copy (*copy)[2], int n, const uint64_t *w, size_t words, struct ftk_copies_head *h)
{
    size_t at = FTK_COPIES_HEAD_WORDS;
    if (words < FTK_COPIES_HEAD_WORDS)
        return MPI_ERR_INTERN;
    memcpy(h, w, sizeof *h);
    for (uint64_t i = 0; i < h->parts; i++) {
        struct ftk_copies_part part;
        if (words - at < FTK_COPIES_PART_WORDS)
            return MPI_ERR_INTERN;
        memcpy(&part, w + at, sizeof part);
        at += FTK_COPIES_PART_WORDS;
        if (part.owner >= (uint64_t)n || part.n > (words - at) / FTK_COPIES_DET_WORDS)
            return MPI_ERR_INTERN;
        int rc = store_part(copy[part.owner], h->lines, &part, w + at);
        if (rc != MPI_SUCCESS)
            return rc;
        at += (size_t)part.n * FTK_COPIES_DET_WORDS;
    }
    return MPI_SUCCESS;
}

const struct ftk_copy *ftk_copies_of(const struct ftk_copy copy[2], uint64_t lines)
{
    const struct ftk_copy *c = &copy[lines & 1];
    return c->lines == lines ? c : NULL;
}

/* ---- what has been sent ------------------------------------------------------------------ */

void ftk_reach_enter(struct ftk_reach *r, int npeers, uint64_t lines)
{
    if (r->lines == lines)
        return;
    memset(r->upto, 0, (size_t)npeers * sizeof r->upto[0]);
    r->total = 0;
    r->lines = lines;
}

void ftk_reach_sent(struct ftk_reach *r, int npeers, const size_t *upto)
{
    r->total = 0;
    for (int i = 0; i < npeers; i++) {
        r->upto[i] = upto[i];
        r->total += upto[i];
    }
}
