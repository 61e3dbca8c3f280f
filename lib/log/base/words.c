/* Lists of words (see words.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/base/words.h"

#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "detect/sure.h"

uint64_t *ftk_words_extend(struct ftk_words *w, size_t n)
{
    if (!ftk_grow(&w->v, &w->room, w->n + n, sizeof *w->v))
        return NULL;
    w->n += n;
    return w->v + w->n - n;
}

int ftk_words_add(struct ftk_words *w, uint64_t value)
{
    uint64_t *at = ftk_words_extend(w, 1);
    if (!at)
        return ftk_fail(FTKIT_ERR_NOMEM, "a list of words");
    *at = value;
    return FTKIT_OK;
}

uint64_t *ftk_words_save(const struct ftk_words *from, uint64_t *w)
{
    if (from->n > 0)
        memcpy(w, from->v, from->n * sizeof *w);
    return w + from->n;
}

void ftk_words_free(struct ftk_words *w)
{
    free(w->v);
    *w = (struct ftk_words){ 0 };
}

int ftk_words_exchange(const struct ftk_log_repair *r, const struct ftk_words *out,
    const size_t *to, struct ftk_words *in, size_t *from, const char *what)
{
    const struct ftk_sure s = { r->act, NULL, what };
    size_t sum = 0;
    size_t *out_bytes = malloc(((size_t)r->n + 1) * 2 * sizeof *out_bytes);
    ftk_words_free(in);
    if (!out_bytes)
        return ftk_fail(FTKIT_ERR_NOMEM, "%s", what);
    size_t *in_bytes = out_bytes + r->n;
    int rc = ftk_sure_alltoall(&s, to, sizeof *to, from);
    for (int i = 0; rc == FTKIT_OK && i < r->n; i++) {
        out_bytes[i] = to[i] * sizeof *out->v;
        in_bytes[i] = from[i] * sizeof *in->v;
        sum += from[i];
    }
    if (rc == FTKIT_OK && !ftk_words_extend(in, sum + 1))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "%s", what);
    if (rc == FTKIT_OK) {
        in->n = sum;
        rc = ftk_sure_alltoallv(&s, out->v, out_bytes, in->v, in_bytes);
    }
    free(out_bytes);
    return rc;
}
