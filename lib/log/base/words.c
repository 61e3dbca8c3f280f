/* Lists of words (see words.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/words.h"

#include <stdlib.h>

#include "detect/sure.h"

uint64_t *ftk_words_extend(struct ftk_words *w, size_t n)
{
    if (w->n + n > w->room) {
        size_t room = 2 * (w->n + n);
        uint64_t *v = realloc(w->v, room * sizeof *v);
        if (!v)
            return NULL;
        w->v = v;
        w->room = room;
    }
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

void ftk_words_free(struct ftk_words *w)
{
    free(w->v);
    *w = (struct ftk_words){ 0 };
}

/* Words become bytes, or bytes words. */
static void scale(size_t *v, int n, bool to_bytes)
{
    for (int i = 0; i < n; i++)
        v[i] = to_bytes ? v[i] * sizeof(uint64_t) : v[i] / sizeof(uint64_t);
}

int ftk_words_exchange(const struct ftk_log_repair *r, const struct ftk_words *out,
    const size_t *to, struct ftk_words *in, size_t *from, const char *what)
{
    const struct ftk_sure s = { r->act, NULL, what };
    size_t sum = 0;
    size_t *bytes = malloc(((size_t)r->n + 1) * sizeof *bytes);
    ftk_words_free(in);
    if (!bytes)
        return ftk_fail(FTKIT_ERR_NOMEM, "%s", what);
    for (int i = 0; i < r->n; i++)
        bytes[i] = to[i] * sizeof(uint64_t);
    int rc = ftk_sure_alltoall(&s, to, sizeof *to, from);
    for (int i = 0; rc == FTKIT_OK && i < r->n; i++)
        sum += from[i];
    if (rc == FTKIT_OK && !ftk_words_extend(in, sum + 1))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "%s", what);
    if (rc == FTKIT_OK) {
        in->n = sum;
        scale(from, r->n, true);
        rc = ftk_sure_alltoallv(&s, out->v, bytes, in->v, from);
        scale(from, r->n, false);
    }
    free(bytes);
    return rc;
}
