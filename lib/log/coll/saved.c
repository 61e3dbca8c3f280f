/* Collectives in a set.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A set has the steps of a schedule, not the call: so a library with other algorithms can continue
 * it.  Of a collective under way the steps from the last fence on are there; of a persistent one
 * all, so that it can be made again.  At a line all messages have been drained: sends of steps that
 * have begun are complete, and receives are complete or get their messages after the line.
 *
 * The steps refer to regions, to the temporaries of the schedule, and to memory that is only read.
 * The set has a copy of the last kind, and the restored collective owns the copy. */
#include <stdlib.h>
#include <string.h>

#include "log/base/saved.h"
#include "log/coll/saved.h"
#include "log/coll/schedule.h"
#include "set/region.h"

/* The first words of a collective.  Then follow blocks of memory, each with its number of bytes:
 * the arena, the temporaries, the copies; then the steps; then a word for each of the steps FIRST
 * to AT, 1: a receive that is not complete.  AT is NOT_ACTIVE when it is not under way. */
enum { KIND, OP, NUMBER, ERROR, TOO_LONG, BLOCKS, STEPS, FIRST, AT, HEAD };
#define NOT_ACTIVE UINT64_MAX
enum { STEP_WORDS = 11 };
#define NO_TYPE UINT64_MAX
#define IN_BLOCK (UINT64_C(1) << 40) /* first word of a place that is no region: + number */

static size_t words_of(size_t bytes)
{
    return (bytes + 7) / 8;
}

/* ---- writing ------------------------------------------------------------------------- */

/* A copy of memory that is only read. */
struct copy {
    const char *from;
    size_t bytes;
};

struct writer {
    struct ftk_saving *s;
    const struct ftk_coll *c;
    struct copy *copies; /* [ncopies] */
    size_t ncopies, ntemps;
    struct ftk_words steps;
};

static int add_bytes(struct ftk_words *w, const void *from, size_t bytes)
{
    uint64_t *at = ftk_words_extend(w, 1 + words_of(bytes));
    if (!at)
        return ftk_fail(FTKIT_ERR_NOMEM, "a collective of a set");
    *at = bytes;
    if (bytes > 0)
        at[words_of(bytes)] = 0;
    memcpy(at + 1, from, bytes);
    return FTKIT_OK;
}

/* A place in the memory of the schedule; false: it is elsewhere. */
static bool in_schedule(const struct writer *w, uintptr_t first, uintptr_t end, uint64_t *place)
{
    const struct ftk_coll *c = w->c;
    const uintptr_t arena = (uintptr_t)c->arena;
    uint64_t number = 1;
    place[0] = IN_BLOCK;
    place[1] = first - arena;
    if (first >= arena && end <= arena + c->used)
        return true;
    for (const struct ftk_temp *t = c->temps; t; t = t->next, number++) {
        const uintptr_t at = (uintptr_t)t->bytes;
        if (first < at || end > at + t->room)
            continue;
        place[0] = IN_BLOCK + number;
        place[1] = first - at;
        return true;
    }
    return false;
}

static int add_copy(struct writer *w, const char *from, size_t bytes, uint64_t *place)
{
    size_t i = 0;
    while (i < w->ncopies && (w->copies[i].from != from || w->copies[i].bytes != bytes))
        i++;
    if (i == w->ncopies) {
        struct copy *all = realloc(w->copies, (i + 1) * sizeof *all);
        if (!all)
            return ftk_fail(FTKIT_ERR_NOMEM, "a collective of a set");
        w->copies = all;
        all[w->ncopies++] = (struct copy){ from, bytes };
    }
    place[0] = IN_BLOCK + 1 + w->ntemps + i;
    place[1] = 0;
    return FTKIT_OK;
}

/* Memory of a collective that is in no region. */
static int nowhere(const struct writer *w, uintptr_t first, uintptr_t end)
{
    char near[160];
    ftk_region_describe_near(w->s->ctx, first, end, near, sizeof near);
    return ftk_fail(FTKIT_ERR_STATE, "its memory, %zu bytes at %p, is in no region: %s",
        (size_t)(end - first), (const void *)first, near); // NOLINT(performance-no-int-to-ptr)
}

/* Where the bytes [low, end) of p are.  The place is that of the first byte.  dense: all of these
 * bytes are data. */
static int put_place(struct writer *w, const void *p, ptrdiff_t low, ptrdiff_t end, bool dense,
    bool read_only, uint64_t *place)
{
    bool found;
    const uintptr_t first = (uintptr_t)p + (uintptr_t)low, last = (uintptr_t)p + (uintptr_t)end;
    if (low != end && in_schedule(w, first, last, place))
        return FTKIT_OK;
    const char *data = (const char *)first; // NOLINT(performance-no-int-to-ptr)
    int rc = ftk_saving_place(w->s, data, 0, end - low, place, &found);
    if (rc != FTKIT_OK || found)
        return rc;
    if (read_only && dense && !w->c->persistent)
        return add_copy(w, data, (size_t)(end - low), place);
    return nowhere(w, first, last);
}

/* The same for count items of a type. */
static int put_items(
    struct writer *w, const void *p, int count, MPI_Datatype type, bool read_only, uint64_t *place)
{
    ptrdiff_t low, end;
    MPI_Count size = 0;
    int rc = ftk_saved_span((size_t)count, type, &low, &end);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Type_size_x(type, &size);
    if (rc != MPI_SUCCESS)
        return ftk_fail_mpi(rc, "a datatype of a collective");
    return put_place(w, p, low, end, (MPI_Count)count * size == end - low, read_only, place);
}

static int put_type(struct writer *w, MPI_Datatype type, uint64_t *ref)
{
    return ftk_typemap_add(&w->s->types, type, ref);
}

/* Both ends of a step; words: its last six words, of from, into, type and into_type. */
static int put_ends(struct writer *w, const struct ftk_step *s, uint64_t *word)
{
    uint64_t *from = word, *into = word + 2, *type = word + 4;
    if (s->kind == FTK_STEP_MOVE) {
        const ptrdiff_t n = (ptrdiff_t)s->bytes;
        int rc = put_place(w, s->from, 0, n, true, true, from);
        return rc == FTKIT_OK ? put_place(w, s->into, 0, n, true, false, into) : rc;
    }
    const bool copies = s->kind == FTK_STEP_COPY;
    int rc = put_type(w, s->type, type);
    if (rc == FTKIT_OK && s->kind != FTK_STEP_RECV)
        rc = put_items(w, s->from, s->count, s->type, true, from);
    if (rc == FTKIT_OK && copies)
        rc = put_type(w, s->into_type, type + 1);
    if (rc == FTKIT_OK && copies)
        rc = put_items(w, s->into, s->into_count, s->into_type, false, into);
    else if (rc == FTKIT_OK && s->kind != FTK_STEP_SEND)
        rc = put_items(w, s->into, s->count, s->type, false, into);
    return rc;
}

/* live: the step is still needed. */
static int put_step(struct writer *w, const struct ftk_step *s, bool live)
{
    uint64_t word[STEP_WORDS] = { (uint64_t)s->kind, (uint64_t)s->peer,
        live ? (uint64_t)s->count : 0, live ? (uint64_t)s->into_count : 0, live ? s->bytes : 0,
        FTK_NO_PLACE, 0, FTK_NO_PLACE, 0, NO_TYPE, NO_TYPE };
    int rc = live && s->kind != FTK_STEP_FENCE ? put_ends(w, s, word + 5) : FTKIT_OK;
    uint64_t *at = rc == FTKIT_OK ? ftk_words_extend(&w->steps, STEP_WORDS) : NULL;
    if (rc == FTKIT_OK && !at)
        rc = ftk_fail(FTKIT_ERR_NOMEM, "a collective of a set");
    if (rc == FTKIT_OK)
        memcpy(at, word, sizeof word);
    return rc;
}

/* The first step after the last fence before the next step. */
static size_t first_step(const struct ftk_coll *c)
{
    size_t first = c->at;
    while (first > 0 && c->steps[first - 1].kind != FTK_STEP_FENCE)
        first--;
    return first;
}

/* Receive number n since the last fence, as a request: all receives have one. */
static const struct ftk_req *receive(const struct ftk_coll *c, size_t n)
{
    for (size_t i = 0; i < c->open; i++)
        if (ftk_req_is_receive(&c->reqs[i]) && n-- == 0)
            return &c->reqs[i];
    return NULL;
}

/* Which of the steps first .. at - 1 are receives that are not complete: open [at - first]. */
static void find_open(const struct ftk_coll *c, size_t first, bool *open)
{
    size_t n = 0;
    for (size_t i = first; i < c->at; i++) {
        const struct ftk_req *q = c->steps[i].kind == FTK_STEP_RECV ? receive(c, n++) : NULL;
        open[i - first] = q && !ftk_req_is_done(q);
    }
}

static int error_of(const struct ftk_coll *c)
{
    int error = c->error;
    for (size_t i = 0; i < c->open && error == MPI_SUCCESS; i++)
        error = ftk_req_is_done(&c->reqs[i]) ? c->reqs[i].error : MPI_SUCCESS;
    return error;
}

/* The steps, and after them one word for each of the steps first .. at - 1. */
static int put_steps(struct writer *w, size_t from, size_t first, bool active)
{
    const struct ftk_coll *c = w->c;
    const size_t begun = active ? c->at - first : 0;
    bool *open = calloc(begun + 1, sizeof *open);
    int rc = open ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "a collective of a set");
    if (rc == FTKIT_OK && active)
        find_open(c, first, open);
    for (size_t i = from; rc == FTKIT_OK && i < c->nsteps; i++)
        rc = put_step(w, &c->steps[i],
            c->persistent || i >= first + begun || (i >= first && open[i - first]));
    for (size_t i = 0; rc == FTKIT_OK && i < begun; i++)
        rc = ftk_words_add(&w->steps, open[i]);
    free(open);
    return rc;
}

static int put_memory(struct writer *w)
{
    const struct ftk_coll *c = w->c;
    int rc = add_bytes(&w->s->w, c->arena, c->used);
    for (const struct ftk_temp *t = c->temps; rc == FTKIT_OK && t; t = t->next)
        rc = add_bytes(&w->s->w, t->bytes, t->room);
    for (size_t i = 0; rc == FTKIT_OK && i < w->ncopies; i++)
        rc = add_bytes(&w->s->w, w->copies[i].from, w->copies[i].bytes);
    return rc;
}

/* The memory of a collective under way that messages have been written to, or will be: a set has
 * its data. */
static int check_written(struct writer *w)
{
    const struct ftk_coll *c = w->c;
    int rc = FTKIT_OK;
    for (size_t i = 0; rc == FTKIT_OK && i < c->nsteps; i++) {
        const struct ftk_step *s = &c->steps[i];
        uint64_t place[FTK_PLACE_WORDS] = { FTK_NO_PLACE, 0 };
        if (s->kind == FTK_STEP_MOVE)
            rc = put_place(w, s->into, 0, (ptrdiff_t)s->bytes, true, false, place);
        else if (s->kind == FTK_STEP_COPY)
            rc = put_items(w, s->into, s->into_count, s->into_type, false, place);
        else if (s->kind != FTK_STEP_FENCE && s->kind != FTK_STEP_SEND)
            rc = put_items(w, s->into, s->count, s->type, false, place);
        const struct ftk_region *in = place[0] < IN_BLOCK ? w->s->region[place[0]] : NULL;
        if (rc != FTKIT_OK || !in)
            continue;
        if (in->kind == FTK_KIND_REPLICATED || !in->type.contiguous)
            rc = ftk_fail(FTKIT_ERR_STATE, "its memory is in region '%s', %s", in->name,
                in->kind == FTK_KIND_REPLICATED ? FTK_REGION_IS_REPLICATED : FTK_REGION_HAS_HOLES);
    }
    return rc;
}

static int put_all(struct writer *w, bool active, bool *bare)
{
    const struct ftk_coll *c = w->c;
    uint64_t head[HEAD] = { [KIND] = c->call.kind,
        [NUMBER] = c->number,
        [ERROR] = active ? (uint64_t)error_of(c) : 0,
        [TOO_LONG] = c->too_long };
    const size_t first = first_step(c), from = c->persistent ? 0 : first;
    for (const struct ftk_temp *t = c->temps; t; t = t->next)
        w->ntemps++;
    if (ftk_coll_reduces(c) && !ftk_coll_op_number(c->call.op, &head[OP]))
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "its operation was not made before ftkit_recover(), or has been freed");
    int rc = active ? check_written(w) : FTKIT_OK;
    if (rc == FTKIT_OK)
        rc = put_steps(w, from, first, active);
    if (rc == FTKIT_ERR_STATE && bare) { /* the process has this one, or makes it in its set-up */
        *bare = true;
        w->steps.n = w->ncopies = 0;
        rc = put_steps(w, c->nsteps, first, active);
    }
    if (rc != FTKIT_OK)
        return rc;
    head[STEPS] = bare && *bare ? 0 : c->nsteps - from;
    head[FIRST] = first - from;
    head[AT] = active ? c->at - from : NOT_ACTIVE;
    head[BLOCKS] = 1 + w->ntemps + w->ncopies;
    uint64_t *at = ftk_words_extend(&w->s->w, HEAD);
    if (!at)
        return ftk_fail(FTKIT_ERR_NOMEM, "a collective of a set");
    memcpy(at, head, sizeof head);
    rc = put_memory(w);
    at = rc == FTKIT_OK && w->steps.n > 0 ? ftk_words_extend(&w->s->w, w->steps.n) : NULL;
    if (rc == FTKIT_OK && w->steps.n > 0 && !at)
        rc = ftk_fail(FTKIT_ERR_NOMEM, "a collective of a set");
    if (at)
        memcpy(at, w->steps.v, w->steps.n * sizeof *at);
    return rc;
}

int ftk_coll_save(struct ftk_saving *s, const struct ftk_coll *c, bool active, bool *bare)
{
    struct writer w = { .s = s, .c = c };
    if (bare)
        *bare = false;
    int rc = put_all(&w, active, bare);
    free(w.copies);
    ftk_words_free(&w.steps);
    return rc;
}

/* ---- reading ------------------------------------------------------------------------- */

struct block {
    char *at;
    size_t bytes;
};

struct reading {
    struct ftk_loading *l;
    struct ftk_coll *c;
    struct block *block; /* [nblocks] the arena, temporaries and copies */
    size_t nblocks;
};

static const char *name_of(enum ftk_coll_kind kind)
{
    static const char *const names[] = { "MPI_Barrier", "MPI_Bcast", "MPI_Gather", "MPI_Gatherv",
        "MPI_Scatter", "MPI_Scatterv", "MPI_Allgather", "an exchange", "MPI_Alltoall",
        "MPI_Neighbor_allgather", "MPI_Neighbor_alltoall", "MPI_Reduce", "MPI_Allreduce",
        "MPI_Reduce_scatter", "MPI_Scan", "MPI_Exscan" };
    return names[kind];
}

/* The next block of the set. */
static int take_block(struct ftk_loading *l, const void **from, size_t *bytes)
{
    const uint64_t *n = ftk_loading_take(l, 1);
    *from = n && *n <= (uint64_t)(l->end - l->w) * 8 ? ftk_loading_take(l, words_of(*n)) : NULL;
    if (!*from)
        return ftk_loading_damaged();
    *bytes = (size_t)*n;
    return FTKIT_OK;
}

/* A new collective gets its blocks. */
static int make_block(struct reading *r, size_t i, const void *from, size_t bytes)
{
    struct ftk_coll *c = r->c;
    if (i == 0 && bytes > sizeof c->arena)
        return ftk_loading_damaged();
    if (i == 0)
        c->used = bytes;
    struct ftk_temp *t = i == 0 ? NULL : malloc(sizeof *t + bytes);
    if (i > 0 && !t)
        return ftk_fail(FTKIT_ERR_NOMEM, "a collective of a set");
    r->block[i] = (struct block){ t ? t->bytes : c->arena, bytes };
    memcpy(r->block[i].at, from, bytes);
    if (!t)
        return FTKIT_OK;
    struct ftk_temp **end = &c->temps; /* the order of the set */
    while (*end)
        end = &(*end)->next;
    t->room = bytes;
    t->next = NULL;
    *end = t;
    return FTKIT_OK;
}

/* The blocks of a collective of this process get their contents.  A temporary may have more room
 * than the schedule needs, and not the same as in the process that wrote the set. */
static int fill_block(struct ftk_coll *c, size_t i, const void *from, size_t bytes)
{
    struct ftk_temp *t = c->temps;
    for (size_t n = 1; t && n < i; n++)
        t = t->next;
    if ((i == 0 && bytes != c->used) || (i > 0 && !t))
        return ftk_loading_damaged();
    const size_t room = i == 0 ? bytes : t->room;
    memcpy(i == 0 ? c->arena : t->bytes, from, bytes < room ? bytes : room);
    return FTKIT_OK;
}

static int read_blocks(struct reading *r, uint64_t n, bool known)
{
    if (n == 0 || n > (uint64_t)(r->l->end - r->l->w))
        return ftk_loading_damaged();
    r->nblocks = (size_t)n;
    r->block = calloc(r->nblocks, sizeof *r->block);
    int rc = r->block ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "a collective of a set");
    for (size_t i = 0; rc == FTKIT_OK && i < r->nblocks; i++) {
        const void *from = NULL;
        size_t bytes = 0;
        rc = take_block(r->l, &from, &bytes);
        if (rc == FTKIT_OK && from)
            rc = known ? fill_block(r->c, i, from, bytes) : make_block(r, i, from, bytes);
    }
    return rc;
}

/* The address of which the bytes [low, end) will be used; the place is that of the first byte. */
static int get_address(
    struct reading *r, const uint64_t *place, ptrdiff_t low, ptrdiff_t end, void **p)
{
    const uint64_t number = place[0] - IN_BLOCK;
    *p = r->c; /* for a message without contents */
    if (low == end)
        return FTKIT_OK;
    int rc = FTKIT_OK;
    if (place[0] != FTK_NO_PLACE && place[0] >= IN_BLOCK) {
        if (number >= r->nblocks || place[1] > r->block[number].bytes
            || (size_t)(end - low) > r->block[number].bytes - place[1])
            return ftk_loading_damaged();
        *p = r->block[number].at + place[1];
    } else {
        rc = ftk_loading_address(r->l, place, 0, end - low, p);
    }
    if (rc == FTKIT_OK)
        *p = ftk_coll_at(*p, -low);
    return rc;
}

static int get_items(
    struct reading *r, const uint64_t *place, int count, uint64_t ref, MPI_Datatype *type, void **p)
{
    ptrdiff_t low, end;
    *type = ftk_types_of(&r->l->types, ref);
    if (*type == MPI_DATATYPE_NULL)
        return ftk_loading_damaged();
    int rc = ftk_saved_span((size_t)count, *type, &low, &end);
    return rc == MPI_SUCCESS ? get_address(r, place, low, end, p)
                             : ftk_fail_mpi(rc, "a datatype of a set");
}

static int get_ends(struct reading *r, const uint64_t *word, struct ftk_step *s)
{
    const uint64_t *from = word + 5, *into = word + 7, *type = word + 9;
    void *p = NULL, *q = NULL;
    int rc = FTKIT_OK;
    if (s->kind == FTK_STEP_MOVE) {
        if (s->bytes > INT64_MAX / 4)
            return ftk_loading_damaged();
        rc = get_address(r, from, 0, (ptrdiff_t)s->bytes, &p);
        rc = rc == FTKIT_OK ? get_address(r, into, 0, (ptrdiff_t)s->bytes, &q) : rc;
    } else if (s->kind != FTK_STEP_FENCE) {
        const bool copies = s->kind == FTK_STEP_COPY;
        if (s->kind != FTK_STEP_RECV)
            rc = get_items(r, from, s->count, type[0], &s->type, &p);
        if (rc == FTKIT_OK && s->kind != FTK_STEP_SEND)
            rc = get_items(r, into, copies ? s->into_count : s->count, type[copies],
                copies ? &s->into_type : &s->type, &q);
    }
    s->from = p;
    s->into = q;
    return rc;
}

/* A step.  One that is complete has no types, and is not looked at again. */
static int read_step(struct reading *r, bool begun)
{
    const uint64_t *word = ftk_loading_take(r->l, STEP_WORDS);
    const struct ftk_vcomm *vc = r->c->vc;
    const uint64_t peers = (uint64_t)vc->size + (uint64_t)(vc->remote ? vc->remote->size : 0);
    if (!word || word[0] > FTK_STEP_COPY || word[1] >= peers || word[2] > INT32_MAX
        || word[3] > INT32_MAX)
        return ftk_loading_damaged();
    struct ftk_step s = { .kind = (int)word[0],
        .peer = (int)word[1],
        .count = (int)word[2],
        .into_count = (int)word[3],
        .bytes = (size_t)word[4],
        .type = MPI_BYTE,
        .into_type = MPI_BYTE };
    const bool over = begun && word[9] == NO_TYPE && !r->c->persistent;
    int rc = over ? FTKIT_OK : get_ends(r, word, &s);
    if (rc == FTKIT_OK)
        ftk_step_add(r->c, &s);
    return rc != FTKIT_OK || !r->c->error ? rc : ftk_fail(FTKIT_ERR_NOMEM, "a collective of a set");
}

static int read_steps(struct reading *r, const uint64_t *head)
{
    int rc = FTKIT_OK;
    if (head[STEPS] > (uint64_t)(r->l->end - r->l->w) / STEP_WORDS)
        return ftk_loading_damaged();
    for (uint64_t i = 0; rc == FTKIT_OK && i < head[STEPS]; i++)
        rc = read_step(r, head[AT] != NOT_ACTIVE && i < head[AT]);
    r->c->open = 0;
    return rc;
}

/* The state of the steps that had begun; *out is the caller's, also after an error. */
static int read_progress(struct reading *r, const uint64_t *head, struct ftk_coll_progress **out)
{
    const bool active = head[AT] != NOT_ACTIVE;
    if (active && (head[FIRST] > head[AT] || head[AT] > r->c->nsteps))
        return ftk_loading_damaged();
    const size_t n = active ? (size_t)(head[AT] - head[FIRST]) : 0;
    const uint64_t *w = ftk_loading_take(r->l, n);
    struct ftk_coll_progress *p = *out = calloc(1, sizeof *p + n * sizeof p->open[0]);
    if (!w || !p)
        return w ? ftk_fail(FTKIT_ERR_NOMEM, "a collective of a set") : ftk_loading_damaged();
    p->error = (int)head[ERROR];
    p->first = active ? (size_t)head[FIRST] : 0;
    p->at = p->first + n;
    for (size_t i = 0; i < n; i++) {
        const int kind = r->c->steps[p->first + i].kind;
        p->open[i] = w[i] != 0;
        if (kind == FTK_STEP_FENCE || (p->open[i] && kind != FTK_STEP_RECV))
            return ftk_loading_damaged();
    }
    return FTKIT_OK;
}

/* The collective that the words after the head describe. */
static int read_new(struct reading *r, const uint64_t *head, struct ftk_vcomm *vc, bool persistent)
{
    struct ftk_call call = { .kind = (enum ftk_coll_kind)head[KIND],
        .name = name_of((enum ftk_coll_kind)head[KIND]),
        .op = MPI_OP_NULL };
    if (call.kind >= FTK_REDUCE)
        call.op = ftk_coll_op_numbered(head[OP]);
    if (call.kind >= FTK_REDUCE && call.op == MPI_OP_NULL)
        return ftk_fail(
            FTKIT_ERR_STATE, "a collective of the set has an operation that is not there any more");
    r->c = ftk_coll_blank(vc, &call);
    if (!r->c)
        return ftk_fail(FTKIT_ERR_NOMEM, "a collective of a set");
    r->c->number = head[NUMBER];
    r->c->too_long = head[TOO_LONG] != 0;
    r->c->persistent = persistent;
    if (persistent)
        r->c->index = (int)(head[NUMBER] - 1);
    int rc = read_blocks(r, head[BLOCKS], false);
    return rc == FTKIT_OK ? read_steps(r, head) : rc;
}

/* The persistent collective is there: its steps are passed over. */
static int read_known(struct reading *r, const uint64_t *head)
{
    int rc = read_blocks(r, head[BLOCKS], true);
    if (rc == FTKIT_OK && head[STEPS] > 0
        && (head[STEPS] != r->c->nsteps || !ftk_loading_take(r->l, head[STEPS] * STEP_WORDS)))
        rc = ftk_loading_damaged();
    return rc;
}

int ftk_coll_load(struct ftk_loading *l, struct ftk_vcomm *vc, bool persistent, struct ftk_coll **c,
    struct ftk_coll_progress **p)
{
    struct reading r = { .l = l, .c = *c };
    const uint64_t *head = ftk_loading_take(l, HEAD);
    *p = NULL;
    if (!head || head[KIND] > FTK_EXSCAN || head[NUMBER] == 0 || head[NUMBER] > FTK_COLL_INIT)
        return ftk_loading_damaged();
    int rc = *c ? read_known(&r, head) : read_new(&r, head, vc, persistent);
    if (rc == FTKIT_OK)
        rc = read_progress(&r, head, p);
    int mrc = rc == FTKIT_OK && !*c ? ftk_coll_seal(r.c) : MPI_SUCCESS;
    if (mrc != MPI_SUCCESS)
        rc = ftk_fail_mpi(mrc, "a collective of a set");
    free(r.block);
    if (rc != FTKIT_OK && !*c && r.c)
        ftk_coll_delete(r.c);
    if (rc != FTKIT_OK) {
        free(*p);
        *p = NULL;
    } else {
        *c = r.c;
    }
    return rc;
}
