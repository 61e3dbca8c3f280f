/* Channels between teams: what has been delivered, and what need not be sent again.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/log.h"

static size_t in_bytes; /* of the tables of what was delivered since the line */

/* ---- tables over (context, rank, tag) ----------------------------------------------------------*/

static size_t where(int context, int rank, int tag, size_t cap)
{
    uint64_t k = (uint64_t)(uint32_t)tag << 32 | ((uint32_t)context << 20 ^ (uint32_t)rank);
    k = (k ^ k >> 29) * 0x9e3779b97f4a7c15u;
    return (size_t)(k >> 24) & (cap - 1);
}

/* The keys of entry i of the array a table is over. */
typedef void key_fn(int i, int *context, int *rank, int *tag);

static int look_up(const struct ftk_table *t, key_fn *key, int context, int rank, int tag)
{
    if (t->n == 0)
        return -1;
    for (size_t s = where(context, rank, tag, t->cap); t->slot[s]; s = (s + 1) & (t->cap - 1)) {
        int c, r, g;
        key(t->slot[s] - 1, &c, &r, &g);
        if (c == context && r == rank && g == tag)
            return t->slot[s] - 1;
    }
    return -1;
}

static void insert(struct ftk_table *t, key_fn *key, int i)
{
    int c, r, g;
    key(i, &c, &r, &g);
    size_t s = where(c, r, g, t->cap);
    while (t->slot[s])
        s = (s + 1) & (t->cap - 1);
    t->slot[s] = i + 1;
}

/* Room for one more. */
static bool grow(struct ftk_table *t, key_fn *key)
{
    if (2 * (t->n + 1) <= t->cap)
        return true;
    size_t cap = t->cap ? 2 * t->cap : 64;
    int *slot = calloc(cap, sizeof *slot);
    if (!slot)
        return false;
    free(t->slot);
    t->slot = slot;
    t->cap = cap;
    for (size_t i = 0; i < t->n; i++)
        insert(t, key, (int)i);
    return true;
}

static void clear_table(struct ftk_table *t)
{
    free(t->slot);
    *t = (struct ftk_table){ 0 };
}

/* ---- what was delivered --------------------------------------------------------------------------*/

static void key_in(int i, int *context, int *rank, int *tag)
{
    const struct ftk_stream_in *s = &ftk_log.in[i];
    *context = s->context;
    *rank = s->source;
    *tag = s->tag;
}

/* Room for item n of an array that has had room for a power of two at least. */
static void *more(void *array, size_t n, size_t bytes)
{
    if (n != 0 && (n & (n - 1)) != 0)
        return array;
    return realloc(array, (n ? 2 * n : 1) * bytes);
}

struct ftk_stream_in *ftk_stream_in(int context, int source, int tag)
{
    struct ftk_log *l = &ftk_log;
    int i = look_up(&l->in_table, key_in, context, source, tag);
    if (i >= 0)
        return &l->in[i];
    if (!grow(&l->in_table, key_in))
        return NULL;
    struct ftk_stream_in *in = more(l->in, l->in_table.n, sizeof *in);
    if (!in)
        return NULL;
    l->in = in;
    in_bytes += sizeof *in;
    in += l->in_table.n;
    *in = (struct ftk_stream_in){ .context = context, .source = source, .tag = tag };
    insert(&l->in_table, key_in, (int)l->in_table.n++);
    return in;
}

int ftk_stream_in_count(struct ftk_stream_in *s, uint64_t stamp, uint64_t hash)
{
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 8;
        struct ftk_got *all = realloc(s->got, room * sizeof *all);
        if (!all)
            return ftk_fail(FTKIT_ERR_NOMEM, "hashes of a stream");
        in_bytes += (room - s->room) * sizeof *all;
        s->got = all;
        s->room = room;
    }
    uint64_t i = s->count++;
    for (; i > s->at_line && s->got[i - 1].stamp > stamp; i--)
        s->got[i] = s->got[i - 1];
    s->got[i] = (struct ftk_got){ stamp, hash };
    return FTKIT_OK;
}

size_t ftk_stream_in_bytes(void)
{
    return in_bytes;
}

void ftk_stream_in_clear(void)
{
    struct ftk_log *l = &ftk_log;
    for (size_t i = 0; i < l->in_table.n; i++)
        free(l->in[i].got);
    free(l->in);
    l->in = NULL;
    clear_table(&l->in_table);
    in_bytes = 0;
    l->nearly = 0;
}

void ftk_stream_in_line(void)
{
    for (size_t i = 0; i < ftk_log.in_table.n; i++)
        ftk_log.in[i].at_line = ftk_log.in[i].count;
}

void ftk_stream_in_shift(void)
{
    for (size_t i = 0; i < ftk_log.in_table.n; i++) {
        struct ftk_stream_in *s = &ftk_log.in[i];
        s->count -= s->at_line;
        if (s->got && s->count > 0)
            memmove(s->got, s->got + s->at_line, (size_t)s->count * sizeof *s->got);
        s->at_line = 0;
    }
}

/* ---- what need not be sent again --------------------------------------------------------------------*/

static void key_mark(int i, int *context, int *rank, int *tag)
{
    const struct ftk_mark *m = &ftk_log.marks[i];
    *context = m->context;
    *rank = m->dest;
    *tag = m->tag;
}

struct ftk_mark *ftk_mark_find(int context, int dest, int tag)
{
    int i = look_up(&ftk_log.mark_table, key_mark, context, dest, tag);
    return i < 0 ? NULL : &ftk_log.marks[i];
}

int ftk_mark_add(const struct ftk_mark *m)
{
    struct ftk_log *l = &ftk_log;
    if (!grow(&l->mark_table, key_mark))
        return ftk_fail(FTKIT_ERR_NOMEM, "marks");
    struct ftk_mark *all = more(l->marks, l->mark_table.n, sizeof *all);
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "marks");
    l->marks = all;
    all[l->mark_table.n] = *m;
    insert(&l->mark_table, key_mark, (int)l->mark_table.n++);
    return FTKIT_OK;
}

static void free_mark(struct ftk_mark *m)
{
    free(m->hole);
    free(m->hash);
}

void ftk_mark_clear(void)
{
    struct ftk_log *l = &ftk_log;
    for (size_t i = 0; i < l->mark_table.n; i++)
        free_mark(&l->marks[i]);
    free(l->marks);
    l->marks = NULL;
    clear_table(&l->mark_table);
}

void ftk_mark_drop(const bool *back)
{
    struct ftk_log *l = &ftk_log;
    size_t n = 0;
    for (size_t i = 0; i < l->mark_table.n; i++) {
        if (back[l->marks[i].dest])
            free_mark(&l->marks[i]);
        else
            l->marks[n++] = l->marks[i];
    }
    l->mark_table.n = n;
    if (l->mark_table.slot)
        memset(l->mark_table.slot, 0, l->mark_table.cap * sizeof *l->mark_table.slot);
    for (size_t i = 0; i < n; i++)
        insert(&l->mark_table, key_mark, (int)i);
}
