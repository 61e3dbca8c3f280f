/* What the message log keeps: sent messages, messages that wait for the program, what was
 * delivered and what need not be sent again.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/log_ops.h"
#include "log.h"

/* ---- the arena -----------------------------------------------------------------------------
 * Sent messages lie one behind the other in chunks; all go at once when a line is committed.
 * Some chunks stay for the next interval: memory that has not been touched costs more than the
 * copy.  Beyond log.memory chunks are pieces of a file of the node, mapped: the kernel writes
 * them out and takes their memory when it needs it. */

#define CHUNK_BYTES (4u << 20)
#define KEPT_BYTES (64u << 20) /* of chunks that stay for the next interval: they are warm */
#define HUGE_BYTES (2u << 20)
#define CHUNK_ROOM (CHUNK_BYTES - sizeof(struct chunk))

struct chunk {
    struct chunk *next;
    size_t room, used; /* bytes behind the chunk's head */
    bool mapped;
};

static struct chunk *chunks, *spare; /* in use, the one that is filled first; empty */
static size_t chunk_bytes; /* of all of them */
static size_t used_bytes;  /* taken of them since the line, heads of messages and all */
static size_t in_bytes;    /* of the tables of what was delivered since the line */
static bool told;          /* that there is no file: once */

/* A file without a name, so that nothing is left of it whatever happens. */
static int open_spill(void)
{
    const char *dir = ftk_log.ctx->cfg.log_dir;
    const char *tmp = getenv("TMPDIR");
    char path[FTK_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/ftkit-log-XXXXXX", dir[0] ? dir : tmp ? tmp : "/tmp");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path); /* what cannot be removed is a file too many, nothing worse */
    return fd;
}

static struct chunk *map_chunk(size_t bytes)
{
    void *p = MAP_FAILED;
    int fd = open_spill();
    int err = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)bytes);
    if (err == 0) {
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        err = p == MAP_FAILED ? errno : 0;
    }
    if (fd >= 0)
        (void)close(fd); /* the map keeps it */
    if (err != 0 && !told) {
        told = true;
        ftk_report(FTKIT_WARNING,
            "context %s: the message log goes beyond log.memory and has no file (%s): it stays in "
            "memory",
            ftk_log.ctx->cfg.name, strerror(err));
    }
    return p == MAP_FAILED ? NULL : p;
}

static void *on_heap(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, HUGE_BYTES, bytes) != 0)
        return NULL;
    (void)madvise(p, bytes, MADV_HUGEPAGE); /* a hint */
    return p;
}

static void free_chunk(struct chunk *c)
{
    size_t bytes = sizeof *c + c->room;
    chunk_bytes -= bytes;
    if (c->mapped)
        (void)munmap(c, bytes);
    else
        free(c);
}

static struct chunk *pop_spare(void)
{
    struct chunk *c = spare;
    spare = c->next;
    return c;
}

static struct chunk *new_chunk(size_t room)
{
    const struct ftk_config *cfg = &ftk_log.ctx->cfg;
    size_t bytes = sizeof(struct chunk) + room;
    struct chunk *c = NULL;
    if (spare && spare->room == room)
        return pop_spare();
    /* empty ones that do not fit are no reason to go to a file */
    while (spare && (double)(chunk_bytes + bytes) > cfg->log_memory)
        free_chunk(pop_spare());
    if ((double)(chunk_bytes + bytes) > cfg->log_memory)
        c = map_chunk(bytes);
    bool mapped = c != NULL;
    if (mapped)
        ftk_log.spilled += room;
    else
        c = on_heap(bytes);
    if (!c)
        return NULL;
    *c = (struct chunk){ .room = room, .mapped = mapped };
    chunk_bytes += bytes;
    return c;
}

static void *take(size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    used_bytes += bytes;
    if (!chunks || chunks->room - chunks->used < bytes) {
        size_t room = bytes > CHUNK_BYTES / 4 ? bytes : CHUNK_ROOM;
        struct chunk *c = new_chunk(room);
        if (!c)
            return NULL;
        /* a big message does not end the chunk that is being filled */
        struct chunk **at = chunks && room == bytes ? &chunks->next : &chunks;
        c->next = *at;
        *at = c;
        c->used = bytes;
        return c + 1;
    }
    void *p = (char *)(chunks + 1) + chunks->used;
    chunks->used += bytes;
    return p;
}

static void forget_chunks(bool all)
{
    size_t kept = 0;
    while (spare) {
        struct chunk *c = spare;
        spare = c->next;
        c->next = chunks;
        chunks = c;
    }
    while (chunks) {
        struct chunk *c = chunks;
        chunks = c->next;
        if (all || c->mapped || c->room != CHUNK_ROOM || kept + c->room > KEPT_BYTES) {
            free_chunk(c);
            continue;
        }
        kept += c->room;
        c->used = 0;
        c->next = spare;
        spare = c;
    }
}

/* Of log.memory: a set that is due then is written before the log is beyond it. */
#define NEARLY 0.75

/* The tables count, too: a program of small messages under ever new tags fills them first. */
int64_t ftk_keep_calls_left(const struct ftkit_ctx *ctx, bool emptied)
{
    double most = NEARLY * ctx->cfg.log_memory;
    if (most == 0) /* all of it is to go to the file */
        return INT64_MAX;
    double kept = (double)(used_bytes + in_bytes), left = emptied ? most : most - kept;
    if (left <= 0)
        return 0;
    uint64_t calls = ctx->calls > ftk_log.line_calls ? ctx->calls - ftk_log.line_calls : 1;
    /* the rate is an estimate: look again when half of the way is behind us */
    left *= (double)calls / fmax(kept, 1) / 2;
    return (int64_t)fmin(fmax(left, 1), 1e15);
}

struct ftk_entry *ftk_keep_new(int dest, int context, int tag, size_t bytes)
{
    struct ftk_log *l = &ftk_log;
    struct ftk_entry *e = take(sizeof *e + bytes);
    if (!e)
        return NULL;
    *e = (struct ftk_entry){ .real = MPI_REQUEST_NULL, .bytes = bytes, .context = context,
        .tag = tag };
    if (l->log_last[dest])
        l->log_last[dest]->next = e;
    else
        l->log_first[dest] = e;
    l->log_last[dest] = e;
    l->log_bytes += bytes;
    return e;
}

uint64_t *ftk_keep_words(size_t n)
{
    uint64_t *w = take(n * sizeof *w);
    if (w)
        ftk_log.log_bytes += n * sizeof *w;
    return w;
}

void ftk_keep_drop_last(int dest)
{
    struct ftk_log *l = &ftk_log;
    struct ftk_entry *before = NULL, *last = l->log_first[dest];
    while (last && last->next) {
        before = last;
        last = last->next;
    }
    if (!last)
        return;
    if (before)
        before->next = NULL;
    else
        l->log_first[dest] = NULL;
    l->log_last[dest] = before;
    l->log_bytes -= last->bytes + last->letter_words * sizeof *last->letter;
}

void ftk_keep_clear(void)
{
    struct ftk_log *l = &ftk_log;
    for (int r = 0; r < l->n; r++)
        l->log_first[r] = l->log_last[r] = NULL;
    l->log_bytes = 0;
    used_bytes = 0;
    forget_chunks(!l->on);
}

/* ---- messages that wait for the program ------------------------------------------------------*/

struct ftk_held *ftk_held_new(int context, int source, int tag, size_t bytes)
{
    struct ftk_held *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->data = malloc(bytes ? bytes : 1);
    if (!h->data) {
        free(h);
        return NULL;
    }
    h->context = context;
    h->source = source;
    h->tag = tag;
    h->bytes = bytes;
    return h;
}

void ftk_held_free(struct ftk_held *h)
{
    if (h) {
        free(h->letter);
        free(h->data);
    }
    free(h);
}

static void append(struct ftk_held **first, struct ftk_held **last, struct ftk_held *h)
{
    h->next = NULL;
    if (*last)
        (*last)->next = h;
    else
        *first = h;
    *last = h;
}

static void free_list(struct ftk_held **first, struct ftk_held **last)
{
    while (*first) {
        struct ftk_held *h = *first;
        *first = h->next;
        ftk_held_free(h);
    }
    *last = NULL;
}

void ftk_held_add(struct ftk_held *h)
{
    append(&ftk_log.held_first, &ftk_log.held_last, h);
    ftk_log.nheld++;
}

static void take_out(struct ftk_held *h, struct ftk_held *before)
{
    struct ftk_log *l = &ftk_log;
    if (before)
        before->next = h->next;
    else
        l->held_first = h->next;
    if (l->held_last == h)
        l->held_last = before;
    l->nheld--;
    h->next = NULL;
}

void ftk_held_take(struct ftk_held *h)
{
    struct ftk_held *before = NULL, *at = ftk_log.held_first;
    while (at && at != h) {
        before = at;
        at = at->next;
    }
    if (at)
        take_out(h, before);
}

struct ftk_held *ftk_held_match(int context, int source, int tag, bool out)
{
    struct ftk_held *before = NULL;
    for (struct ftk_held *h = ftk_log.held_first; h; before = h, h = h->next) {
        if (h->context != context || (source != MPI_ANY_SOURCE && h->source != source)
            || (tag != MPI_ANY_TAG && h->tag != tag))
            continue;
        if (out)
            take_out(h, before);
        return h;
    }
    return NULL;
}

void ftk_held_clear(void)
{
    free_list(&ftk_log.held_first, &ftk_log.held_last);
    ftk_log.nheld = 0;
}

/* The first that matches is what a replacement gets, so of two receives that were complete in
 * another order than they were posted in the one that was posted first comes first. */
void ftk_journal_add(struct ftk_held *h)
{
    struct ftk_log *l = &ftk_log;
    struct ftk_held **at = &l->journal_first;
    if (!l->journal_last || l->journal_last->stamp <= h->stamp) {
        append(&l->journal_first, &l->journal_last, h);
        return;
    }
    while ((*at)->stamp <= h->stamp)
        at = &(*at)->next;
    h->next = *at;
    *at = h;
}

void ftk_journal_clear(void)
{
    free_list(&ftk_log.journal_first, &ftk_log.journal_last);
}

/* ---- messages that the program has matched and not received yet ------------------------------*/

static struct ftk_held *matched;
static int matches;

void ftk_matched_add(struct ftk_held *h)
{
    h->next = matched;
    h->number = matches++ % FTK_HANDLES_FROM;
    matched = h;
}

struct ftk_held *ftk_matched_take(MPI_Message message)
{
    for (struct ftk_held **p = &matched; *p; p = &(*p)->next) {
        struct ftk_held *h = *p;
        if ((MPI_Message)(void *)h != message)
            continue;
        *p = h->next;
        return h;
    }
    return NULL;
}

int ftk_matched_number(MPI_Message message)
{
    for (const struct ftk_held *h = matched; h; h = h->next)
        if ((MPI_Message)(const void *)h == message)
            return h->number;
    return -1;
}

struct ftk_held *ftk_matched_numbered(int number)
{
    struct ftk_held *h = matched;
    while (h && h->number != number)
        h = h->next;
    return h;
}

bool ftk_matched_any(void)
{
    return matched != NULL;
}

void ftk_matched_clear(void)
{
    while (matched) {
        struct ftk_held *h = matched;
        matched = h->next;
        ftk_held_free(h);
    }
}

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
