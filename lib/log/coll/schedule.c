/* Collectives: how schedules are put together.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "log/coll/schedule.h"

/* The predefined types used last; those never change. */
#define NAMED 8
static struct ftk_shape named[NAMED];
static size_t nnamed, oldest;

void ftk_coll_fail(struct ftk_coll *c, int error)
{
    if (c->error == MPI_SUCCESS)
        c->error = error;
}

/* ---- types --------------------------------------------------------------------------- */

static int look_at(MPI_Datatype type, struct ftk_shape *s)
{
    int size, ints, addresses, others, combiner;
    MPI_Aint lb, extent, true_lb, true_extent;
    int rc = PMPI_Type_size(type, &size);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Type_get_extent(type, &lb, &extent);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Type_get_true_extent(type, &true_lb, &true_extent);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Type_get_envelope(type, &ints, &addresses, &others, &combiner);
    if (rc == MPI_SUCCESS && size < 0)
        rc = MPI_ERR_TYPE; /* MPI_UNDEFINED: an item of 2 GiB */
    if (rc != MPI_SUCCESS)
        return rc;
    *s = (struct ftk_shape){ .type = type,
        .size = (size_t)size,
        .extent = extent,
        .true_lb = true_lb,
        .true_extent = true_extent,
        .named = combiner == MPI_COMBINER_NAMED };
    s->plain = s->named && size == extent && size == true_extent && lb == 0 && true_lb == 0;
    return MPI_SUCCESS;
}

struct ftk_shape ftk_coll_shape(struct ftk_coll *c, MPI_Datatype type)
{
    struct ftk_shape s = { .type = type };
    for (size_t i = 0; i < nnamed; i++)
        if (named[i].type == type)
            return named[i];
    if (c->last.type == type && type != MPI_DATATYPE_NULL)
        return c->last;
    int rc = type == MPI_DATATYPE_NULL ? MPI_ERR_TYPE : look_at(type, &s);
    if (rc != MPI_SUCCESS) {
        ftk_coll_fail(c, rc);
    } else if (s.named) {
        named[oldest] = s;
        nnamed = nnamed < NAMED ? nnamed + 1 : NAMED;
        oldest = (oldest + 1) % NAMED;
    } else {
        c->last = s;
    }
    return s;
}

/* The extent of count items: the lowest address relative to the first item, and the length.
 */
static ptrdiff_t lowest(const struct ftk_shape *s, size_t count)
{
    ptrdiff_t rest = count > 1 ? (ptrdiff_t)(count - 1) * s->extent : 0;
    return s->true_lb + (rest < 0 ? rest : 0);
}

static size_t span(const struct ftk_shape *s, size_t count)
{
    ptrdiff_t rest = count > 1 ? (ptrdiff_t)(count - 1) * s->extent : 0;
    return count == 0 ? 0 : (size_t)(s->true_extent + (rest < 0 ? -rest : rest));
}

void *ftk_coll_room(struct ftk_coll *c, MPI_Datatype type, size_t count)
{
    struct ftk_shape s = ftk_coll_shape(c, type);
    void *p = ftk_coll_temp(c, span(&s, count));
    return p ? ftk_coll_at(p, -lowest(&s, count)) : NULL;
}

size_t ftk_coll_block_bytes(struct ftk_coll *c, const struct ftk_side *s)
{
    if (s->count < 0)
        ftk_coll_fail(c, MPI_ERR_COUNT);
    return c->error ? 0 : (size_t)s->count * ftk_coll_shape(c, s->type).size;
}

struct ftk_block ftk_coll_block(struct ftk_coll *c, const struct ftk_side *s, int i)
{
    struct ftk_block b = { .at = ftk_coll_at(s->buf, 0),
        .count = s->counts ? s->counts[i] : s->count,
        .type = s->types ? s->types[i] : s->type };
    if (b.count < 0)
        ftk_coll_fail(c, MPI_ERR_COUNT);
    if (b.count <= 0 || c->error) {
        b.count = 0;
        return b;
    }
    struct ftk_shape shape = ftk_coll_shape(c, b.type);
    ptrdiff_t offset = s->adispls  ? s->adispls[i]
                       : s->types  ? s->displs[i]
                       : s->displs ? (ptrdiff_t)s->displs[i] * shape.extent
                                   : (ptrdiff_t)i * b.count * shape.extent;
    b.at = ftk_coll_at(s->buf, offset);
    b.bytes = (size_t)b.count * shape.size;
    return b;
}

/* ---- steps --------------------------------------------------------------------------- */

static void more_steps(struct ftk_coll *c)
{
    size_t room = 2 * c->room;
    struct ftk_step *all = realloc(c->steps == c->steps0 ? NULL : c->steps, room * sizeof *all);
    if (!all) {
        ftk_coll_fail(c, MPI_ERR_NO_MEM);
        return;
    }
    if (c->steps == c->steps0)
        memcpy(all, c->steps0, sizeof c->steps0);
    c->steps = all;
    c->room = room;
}

void ftk_step_add(struct ftk_coll *c, const struct ftk_step *s)
{
    if (!c->error && c->nsteps == c->room)
        more_steps(c);
    if (c->error)
        return;
    c->steps[c->nsteps++] = *s;
    if (s->kind == FTK_STEP_SEND || s->kind == FTK_STEP_RECV) {
        c->open++;
        c->nreqs = c->open > c->nreqs ? c->open : c->nreqs;
    } else if (s->kind == FTK_STEP_FENCE) {
        c->open = 0;
    }
}

/* Whether a block has data.  Both ends of a message get the same answer. */
static bool something(struct ftk_coll *c, int count, MPI_Datatype type)
{
    if (count < 0)
        ftk_coll_fail(c, MPI_ERR_COUNT);
    return count > 0 && !c->error && ftk_coll_shape(c, type).size > 0;
}

void ftk_step_send(struct ftk_coll *c, const void *buf, int count, MPI_Datatype type, int to)
{
    struct ftk_step s = {
        .kind = FTK_STEP_SEND, .peer = to, .count = count, .from = buf, .type = type
    };
    if (something(c, count, type))
        ftk_step_add(c, &s);
}

void ftk_step_recv(struct ftk_coll *c, void *buf, int count, MPI_Datatype type, int from)
{
    struct ftk_step s = {
        .kind = FTK_STEP_RECV, .peer = from, .count = count, .into = buf, .type = type
    };
    if (something(c, count, type))
        ftk_step_add(c, &s);
}

void ftk_step_signal(struct ftk_coll *c, int to)
{
    struct ftk_step s = { .kind = FTK_STEP_SEND, .peer = to, .from = c, .type = MPI_BYTE };
    ftk_step_add(c, &s);
}

void ftk_step_await(struct ftk_coll *c, int from)
{
    struct ftk_step s = { .kind = FTK_STEP_RECV, .peer = from, .into = c, .type = MPI_BYTE };
    ftk_step_add(c, &s);
}

void ftk_step_fence(struct ftk_coll *c)
{
    struct ftk_step s = { .kind = FTK_STEP_FENCE };
    if (c->open > 0) /* nothing to wait for otherwise */
        ftk_step_add(c, &s);
}

void ftk_step_reduce(struct ftk_coll *c, const void *in, void *inout, size_t count)
{
    struct ftk_step s = { .kind = FTK_STEP_REDUCE,
        .count = (int)count,
        .from = in,
        .into = inout,
        .type = c->call.r.type };
    if (count > INT_MAX)
        ftk_coll_fail(c, MPI_ERR_COUNT);
    else if (count > 0)
        ftk_step_add(c, &s);
}

void ftk_step_copy(struct ftk_coll *c, const void *from, int count, MPI_Datatype type, void *into,
    int into_count, MPI_Datatype into_type)
{
    struct ftk_step s = { .kind = FTK_STEP_COPY,
        .count = count,
        .into_count = into_count,
        .from = from,
        .into = into,
        .type = type,
        .into_type = into_type };
    if (!something(c, count, type) || c->error)
        return;
    struct ftk_shape a = ftk_coll_shape(c, type);
    struct ftk_shape b = into_count > 0 ? ftk_coll_shape(c, into_type) : (struct ftk_shape){ 0 };
    s.bytes = (size_t)count * a.size;
    if (into_count < 0) {
        ftk_coll_fail(c, MPI_ERR_COUNT);
        return;
    }
    if (s.bytes > (size_t)into_count * b.size) {
        c->too_long = true; /* other ranks do not know: this rank takes part, without a result */
        return;
    }
    if (a.named && type == into_type && !a.plain) { /* MPI_DOUBLE_INT and the like */
        s.bytes = span(&a, (size_t)count);
        s.from = ftk_coll_at(from, lowest(&a, (size_t)count));
        s.into = ftk_coll_at(into, lowest(&a, (size_t)count));
        s.kind = FTK_STEP_MOVE;
    } else if (a.plain && b.plain) {
        s.kind = FTK_STEP_MOVE;
    }
    if (s.kind != FTK_STEP_MOVE || from != into)
        ftk_step_add(c, &s);
}

/* ---- trees --------------------------------------------------------------------------- */

void ftk_coll_tree(const struct ftk_vcomm *vc, int root, struct ftk_tree *t)
{
    int n = vc->size, v = vc->rank - root;
    v = v < 0 ? v + n : v;
    t->at = v;
    t->nkids = 0;
    int64_t mask = 1;
    for (; mask < n && !(v & mask); mask <<= 1) {
        if (v + mask >= n)
            continue;
        int64_t left = n - v - mask;
        t->size[t->nkids] = (int)(left < mask ? left : mask);
        t->kid[t->nkids++] = (int)((v + mask + root) % n);
    }
    t->below = (int)(n - v < mask ? n - v : mask);
    t->parent = v == 0 ? -1 : (int)((v - mask + root) % n);
}

/* ---- memory -----------------------------------------------------------------------------
 * Temporaries of ended schedules are kept for the next ones, the newest first: the first touch of
 * memory may cost more than the collective. */

#define KEPT_TEMPS 8
#define KEPT_BYTES (16u << 20)

static struct ftk_temp *kept;

/* A kept temporary with at least so many bytes, and not many more; NULL: there is none. */
static struct ftk_temp *take_kept(size_t bytes)
{
    for (struct ftk_temp **at = &kept; *at; at = &(*at)->next) {
        struct ftk_temp *t = *at;
        if (t->room < bytes || t->room / 2 > bytes)
            continue;
        *at = t->next;
        return t;
    }
    return NULL;
}

/* Free kept temporaries, the oldest first, until there are at most so many. */
static void free_kept(int most, size_t most_bytes)
{
    struct ftk_temp **at = &kept;
    while (*at) {
        struct ftk_temp *t = *at;
        if (most > 0 && t->room <= most_bytes) {
            most--;
            most_bytes -= t->room;
            at = &t->next;
            continue;
        }
        *at = t->next;
        free(t);
    }
}

void ftk_coll_drop_temps(struct ftk_coll *c)
{
    if (!c->temps)
        return;
    struct ftk_temp *last = c->temps;
    while (last->next)
        last = last->next;
    last->next = kept;
    kept = c->temps;
    c->temps = NULL;
    free_kept(KEPT_TEMPS, KEPT_BYTES);
}

void *ftk_coll_temp(struct ftk_coll *c, size_t bytes)
{
    size_t aligned = (bytes + 15) & ~(size_t)15;
    if (aligned >= bytes && aligned <= FTK_COLL_ARENA - c->used) {
        c->used += aligned;
        return c->arena + c->used - aligned;
    }
    if (bytes > SIZE_MAX - sizeof(struct ftk_temp)) {
        ftk_coll_fail(c, MPI_ERR_COUNT);
        return NULL;
    }
    struct ftk_temp *t = take_kept(bytes);
    if (!t && (t = malloc(sizeof *t + bytes)) != NULL)
        t->room = bytes;
    if (!t) {
        ftk_coll_fail(c, MPI_ERR_NO_MEM);
        return NULL;
    }
    t->next = c->temps;
    c->temps = t;
    return t->bytes;
}

void ftk_schedule_close(void)
{
    memset(named, 0, sizeof named);
    nnamed = oldest = 0;
    free_kept(0, 0);
}
