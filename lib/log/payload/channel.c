/* Channels between teams: reception records, and suppression points.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "log/base/part.h"

/* ---- tables over (context, rank, tag) ------------------------------------------------ */

struct ftk_table { /* open addressing */
    int *slot;     /* [cap] index + 1, 0: empty */
    size_t cap, n;
};

static size_t in_bytes; /* memory of the reception records since the line */

static struct {
    struct ftk_channel *v; /* [table.n] */
    struct ftk_table table;
} channels;

static struct ftk_sent_list {
    struct ftk_sent *v; /* [table.n] */
    struct ftk_table table;
} sent;

static struct ftk_suppress_list {
    struct ftk_suppress *v; /* [table.n] */
    struct ftk_table table;
} points;

static size_t where(int context, int rank, int tag, size_t cap)
{
    uint64_t k = (uint64_t)(uint32_t)tag << 32 | ((uint32_t)context << 20 ^ (uint32_t)rank);
    k = (k ^ k >> 29) * 0x9e3779b97f4a7c15u;
    return (size_t)(k >> 24) & (cap - 1);
}

/* The keys of entry i of the array that a table is over. */
typedef void key_fn(int i, int *context, int *rank, int *tag);

/* Inline, so that the comparison needs no call: each message is looked up. */
static inline __attribute__((always_inline)) int look_up_slot(
    const struct ftk_table *t, key_fn *key, int context, int rank, int tag)
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

/* Make room for one more entry. */
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

/* The array has n entries now, at other places. */
static void again(struct ftk_table *t, key_fn *key, size_t n)
{
    t->n = n;
    if (!t->slot)
        return;
    memset(t->slot, 0, t->cap * sizeof *t->slot);
    for (size_t i = 0; i < n; i++)
        insert(t, key, (int)i);
}

static void clear_table(struct ftk_table *t)
{
    free(t->slot);
    *t = (struct ftk_table){ 0 };
}

/* ---- reception records --------------------------------------------------------------- */

static void key_in(int i, int *context, int *rank, int *tag)
{
    const struct ftk_channel *s = &channels.v[i];
    *context = s->context;
    *rank = s->source;
    *tag = s->tag;
}

struct ftk_channel *ftk_channel_find(int context, int source, int tag)
{
    int i = look_up_slot(&channels.table, key_in, context, source, tag);
    if (i >= 0)
        return &channels.v[i];
    if (!grow(&channels.table, key_in)
        || !ftk_grow_by_one(&channels.v, channels.table.n, sizeof *channels.v))
        return NULL;
    struct ftk_channel *in = &channels.v[channels.table.n];
    in_bytes += sizeof *in;
    *in = (struct ftk_channel){ .context = context, .source = source, .tag = tag };
    insert(&channels.table, key_in, (int)channels.table.n++);
    return in;
}

/* Make room for n receptions; false: no memory. */
static bool make_room(struct ftk_channel *s, uint64_t n)
{
    const size_t before = s->room;
    if (!ftk_grow(&s->receptions, &s->room, n, sizeof *s->receptions))
        return false;
    in_bytes += (s->room - before) * sizeof *s->receptions;
    return true;
}

int ftk_channel_count(struct ftk_channel *s, uint64_t seq, uint64_t hash)
{
    if (s->count == s->room && !make_room(s, s->count + 1))
        return ftk_fail(FTKIT_ERR_NOMEM, "hashes of a stream");
    const uint64_t least = ftk_log.apart.on ? 0 : s->at_line;
    uint64_t i = s->count++;
    for (; i > least && s->receptions[i - 1].seq > seq; i--)
        s->receptions[i] = s->receptions[i - 1];
    s->receptions[i] = (struct ftk_reception){ seq, hash };
    return FTKIT_OK;
}

size_t ftk_channels_count(void)
{
    return channels.table.n;
}

const struct ftk_channel *ftk_channel_at(size_t i)
{
    return &channels.v[i];
}

size_t ftk_channel_bytes(void)
{
    return in_bytes;
}

static void clear_channels(void)
{
    for (size_t i = 0; i < channels.table.n; i++)
        free(channels.v[i].receptions);
    free(channels.v);
    channels.v = NULL;
    clear_table(&channels.table);
    in_bytes = 0;
}

/* Each channel notes its place now: the line, or the cut, if the set is committed. */
static void mark_channels(void)
{
    for (size_t i = 0; i < channels.table.n; i++) {
        channels.v[i].at_line = channels.v[i].count;
        channels.v[i].at_cut = 0; /* the sender has not announced its number yet */
    }
}

/* Receptions before the first n count no more. */
static void drop_first(struct ftk_channel *s, uint64_t n)
{
    s->count -= n;
    if (s->receptions && s->count > 0 && n > 0)
        memmove(s->receptions, s->receptions + n, (size_t)s->count * sizeof *s->receptions);
    s->at_line = s->at_cut = 0;
}

/* The line is committed: receptions before it count no more. */
static void shift_channels(void)
{
    for (size_t i = 0; i < channels.table.n; i++)
        drop_first(&channels.v[i], channels.v[i].at_line);
}

/* Line apart: the set is committed, so receptions are counted from the cuts of their senders.
 * Channels without messages since the cut go: a program may always use new tags. */
static void rebase_channels(void)
{
    size_t n = 0;
    in_bytes = 0;
    for (size_t i = 0; i < channels.table.n; i++) {
        struct ftk_channel *s = &channels.v[i];
        drop_first(s, s->at_cut);
        if (s->count == 0) {
            free(s->receptions);
            continue;
        }
        in_bytes += sizeof *s + s->room * sizeof *s->receptions;
        channels.v[n++] = *s;
    }
    again(&channels.table, key_in, n);
}

int ftk_channel_has(int context, int source, int tag, uint64_t n)
{
    struct ftk_channel *s = ftk_channel_find(context, source, tag);
    if (!s || !make_room(s, s->count + n))
        return ftk_fail(FTKIT_ERR_NOMEM, "channels of a set");
    if (n == 0)
        return FTKIT_OK;
    memmove(s->receptions + n, s->receptions, (size_t)s->count * sizeof *s->receptions);
    memset(s->receptions, 0, (size_t)n * sizeof *s->receptions);
    s->count += n;
    return FTKIT_OK;
}

uint64_t ftk_channel_place(const struct ftk_channel *s, uint64_t seq)
{
    uint64_t i = s->count;
    while (i > 0 && s->receptions[i - 1].seq > seq)
        i--;
    return i > 0 && s->receptions[i - 1].seq == seq ? i - 1 : i;
}

/* ---- messages sent ---------------------------------------------------------------------- */

static void key_sent(int i, int *context, int *rank, int *tag)
{
    const struct ftk_sent *s = &sent.v[i];
    *context = s->context;
    *rank = s->dest;
    *tag = s->tag;
}

struct ftk_sent *ftk_sent_find(int context, int dest, int tag)
{
    struct ftk_sent_list *l = &sent;
    int i = look_up_slot(&l->table, key_sent, context, dest, tag);
    if (i >= 0)
        return &l->v[i];
    if (!grow(&l->table, key_sent))
        return NULL;
    if (!ftk_grow_by_one(&l->v, l->table.n, sizeof *l->v))
        return NULL;
    struct ftk_sent *all = l->v + l->table.n;
    *all = (struct ftk_sent){ .context = context, .dest = dest, .tag = tag };
    insert(&l->table, key_sent, (int)l->table.n++);
    return all;
}

static void cut_sent(void)
{
    for (size_t i = 0; i < sent.table.n; i++) {
        sent.v[i].at_cut = sent.v[i].count;
        sent.v[i].next_early = 0;
    }
}

static void rebase_sent(void)
{
    struct ftk_sent_list *l = &sent;
    size_t n = 0;
    for (size_t i = 0; i < l->table.n; i++) {
        struct ftk_sent s = l->v[i];
        s.count -= s.at_cut;
        s.early = s.next_early;
        s.at_cut = s.next_early = 0;
        if (s.count > 0)
            l->v[n++] = s;
    }
    again(&l->table, key_sent, n);
}

static void clear_sent(void)
{
    free(sent.v);
    sent.v = NULL;
    clear_table(&sent.table);
}

size_t ftk_sent_count(void)
{
    return sent.table.n;
}

const struct ftk_sent *ftk_sent_at(size_t i)
{
    return &sent.v[i];
}

void ftk_sent_resend(void)
{
    for (size_t i = 0; i < sent.table.n; i++)
        sent.v[i].passed = 0;
}

bool ftk_sent_was_early(int dest, const struct ftk_entry *e)
{
    int i = look_up_slot(&sent.table, key_sent, e->context, dest, e->tag);
    return i >= 0 && sent.v[i].passed++ < sent.v[i].early;
}

/* ---- suppression points -------------------------------------------------------------- */

static void key_suppress(int i, int *context, int *rank, int *tag)
{
    const struct ftk_suppress *m = &points.v[i];
    *context = m->context;
    *rank = m->dest;
    *tag = m->tag;
}

struct ftk_suppress *ftk_suppress_find(int context, int dest, int tag)
{
    int i = look_up_slot(&points.table, key_suppress, context, dest, tag);
    return i < 0 ? NULL : &points.v[i];
}

int ftk_suppress_add(const struct ftk_suppress *m)
{
    if (!grow(&points.table, key_suppress))
        return ftk_fail(FTKIT_ERR_NOMEM, "marks");
    if (!ftk_grow_by_one(&points.v, points.table.n, sizeof *points.v))
        return ftk_fail(FTKIT_ERR_NOMEM, "marks");
    points.v[points.table.n] = *m;
    insert(&points.table, key_suppress, (int)points.table.n++);
    ftk_log.npoints = points.table.n;
    return FTKIT_OK;
}

bool ftk_suppress_left(int context)
{
    const struct ftk_suppress_list *l = &points;
    for (size_t i = 0; i < l->table.n; i++)
        if (l->v[i].context == context && l->v[i].next <= l->v[i].upto)
            return true;
    return false;
}

bool ftk_suppress_any_left(void)
{
    const struct ftk_suppress_list *l = &points;
    for (size_t i = 0; i < l->table.n; i++)
        if (l->v[i].next <= l->v[i].upto)
            return true;
    return false;
}

static void free_suppress(struct ftk_suppress *m)
{
    free(m->gap);
    free(m->hash);
}

static void clear_suppress(void)
{
    for (size_t i = 0; i < points.table.n; i++)
        free_suppress(&points.v[i]);
    free(points.v);
    points.v = NULL;
    clear_table(&points.table);
    ftk_log.npoints = 0;
}

/* The receiver rolls back to the line, where it has the early messages.  True: nothing is left to
 * be suppressed. */
static bool keep_early(struct ftk_suppress *m)
{
    int i = look_up_slot(&sent.table, key_sent, m->context, m->dest, m->tag);
    const uint64_t early = i < 0 ? 0 : sent.v[i].early;
    free_suppress(m);
    m->gap = m->hash = NULL;
    m->ngaps = 0;
    m->upto = early;
    return m->next > early;
}

void ftk_suppress_drop(const bool *back)
{
    size_t n = 0;
    for (size_t i = 0; i < points.table.n; i++) {
        struct ftk_suppress m = points.v[i];
        if (back[m.dest] && keep_early(&m))
            free_suppress(&m);
        else
            points.v[n++] = m;
    }
    again(&points.table, key_suppress, n);
    ftk_log.npoints = n;
}

/* ---- the part ------------------------------------------------------------------------ */

static void close_channels(void)
{
    clear_channels();
    clear_sent();
    clear_suppress();
}

static int cut(bool apart)
{
    mark_channels();
    if (apart)
        cut_sent();
    return FTKIT_OK;
}

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)first;
    clear_suppress();
    if (kind == FTK_PASS_CUT) {
        rebase_channels();
        rebase_sent();
        return;
    }
    clear_sent();
    if (kind == FTK_PASS_MISSED)
        shift_channels(); /* messages drained since the line count */
    else
        clear_channels();
}

static int roll_back(const struct ftk_rollback *b)
{
    (void)b;
    close_channels();
    return FTKIT_OK;
}

const struct ftk_part ftk_part_channels = {
    .close = close_channels, .cut = cut, .line = pass_line, .roll_back = roll_back
};
