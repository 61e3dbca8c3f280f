/* A set written by steps that do not wait, beside the sets of ftkit_checkpoint().
 *
 *   steps -o RESULT
 *
 * In each round another rank is late: it takes its first step only when it has heard that all
 * others have taken a step and come back from it.  What the steps have brought to this rank is
 * compared with the committed set, which has the same data.  In every third round a rank reports an
 * error between the two steps, and all ranks give the set up, as they do without memory; in the
 * next round the set is written by the functions that wait.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "core/context.h"
#include "ftkit.h"
#include "set/write.h"

enum { ROUNDS = 12, TAG_STEPPED = 5, APART = 1000 }; /* APART: to the number of the set */

struct app {
    MPI_Comm comm;
    int round;
    char *data;
    size_t bytes; /* differ between the ranks */
};

/* A round: the set, the late rank and what its writing needs. */
struct apart {
    ftkit_ctx *ft;
    struct app *a;
    struct ftk_chan ch;
    struct ftk_write w;
    struct ftk_mem *mem;
    const struct ftk_mem_seg *like; /* this rank's segment of the committed set */
    uint64_t committed;
    int late;
};

/* ---- the steps ----------------------------------------------------------------------- */

/* All but the late rank have taken a step, and the late rank has not: it begins now. */
static int meet(const struct apart *p)
{
    int word = 1;
    if (me != p->late)
        return MPI_Send(&word, 1, MPI_INT, p->late, TAG_STEPPED, p->a->comm);
    int rc = MPI_SUCCESS;
    for (int i = 0; rc == MPI_SUCCESS && i < n - 1; i++)
        rc =
            MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, TAG_STEPPED, p->a->comm, MPI_STATUS_IGNORE);
    return rc;
}

static bool has_partners(const struct apart *p)
{
    const struct ftk_level *l = p->w.level;
    return ftk_write_ops_of(l->scheme)->reach(l, me, n, p->ft->domain) != FTK_REACH_NONE;
}

/* Take a step until it is done; at once, without partners. */
static int take(struct apart *p, int (*step)(struct ftk_write *, bool *), const char *point)
{
    bool done = false;
    int rc = FTKIT_OK;
    if (me != p->late) {
        rc = step(&p->w, &done);
        TRUE(done || rc != FTKIT_OK || has_partners(p));
    }
    if (rc == FTKIT_OK && meet(p) != MPI_SUCCESS)
        rc = FTKIT_ERR_PEER;
    (void)FTK_FAULT(point);
    while (rc == FTKIT_OK && !done) {
        rc = step(&p->w, &done);
        if (rc == FTKIT_OK && ftk_detect_poll(p->ft))
            rc = FTKIT_ERR_PEER;
    }
    if (rc == FTKIT_OK) { /* nothing is left to do */
        TRUE(step(&p->w, &done) == FTKIT_OK && done);
    }
    return rc;
}

/* Make this rank's segment from that of the committed set, which has the same data.  It grows
 * meanwhile. */
static int make_own(struct apart *p)
{
    struct ftk_mem_seg *own;
    size_t half = p->like->bytes / 2;
    int rc = ftk_mem_take(p->mem, p->w.like.set, me, n, half, &own);
    if (rc != FTKIT_OK)
        return rc;
    memcpy(own->buf, p->like->buf, half);
    EQUAL(FTKIT_OK, ftk_mem_grow(p->mem, own, p->like->bytes));
    memcpy(own->buf + half, p->like->buf + half, p->like->bytes - half);
    memcpy(own->buf, &p->w.like, sizeof p->w.like);
    ftk_seg_seal_head(own->buf);
    p->w.own = own;
    return FTKIT_OK;
}

static int by_steps(struct apart *p, bool give_up)
{
    struct ftk_write *w = &p->w;
    EQUAL(FTKIT_OK, make_own(p));
    ftk_write_start(w);
    int rc = take(p, ftk_write_sizes_step, "steps.sizes");
    if (rc == FTKIT_OK && give_up && me == p->late)
        ftk_write_note(w, ftk_fail(FTKIT_ERR_IO, "no, after all"));
    if (rc == FTKIT_OK)
        rc = ftk_agree(&p->ch, w->local, "steps");
    (void)FTK_FAULT("steps.sized");
    if (rc != FTKIT_OK)
        return rc;
    EQUAL(FTKIT_OK, ftk_mem_seal(w->own));
    rc = take(p, ftk_write_send_step, "steps.send");
    return rc == FTKIT_OK ? ftk_agree(&p->ch, w->local, "steps") : rc;
}

/* ---- the functions that wait --------------------------------------------------------- */

static int piece(struct ftk_write *w, size_t upto, size_t *done)
{
    const struct apart *p = (const struct apart *)((char *)w - offsetof(struct apart, w));
    size_t to = upto < w->data_bytes ? upto : w->data_bytes;
    memcpy(w->own->buf + w->head_bytes + *done, p->like->buf + w->head_bytes + *done, to - *done);
    *done = to;
    return FTKIT_OK;
}

static void seal(struct ftk_write *w)
{
    ftk_seg_seal_head(w->own->buf);
    ftk_write_note(w, ftk_mem_seal(w->own));
}

static int by_waiting(struct apart *p)
{
    static const struct ftk_fill fill = { piece, seal };
    struct ftk_write *w = &p->w;
    int rc = ftk_write_begin(w);
    if (rc == FTKIT_OK)
        rc = ftk_agree(&p->ch, w->local, "steps");
    if (rc != FTKIT_OK)
        return rc;
    memcpy(w->own->buf, p->like->buf, w->head_bytes);
    memcpy(w->own->buf, &w->like, sizeof w->like);
    rc = ftk_write_data(w, &fill);
    return rc == FTKIT_OK ? ftk_agree(&p->ch, w->local, "steps") : rc;
}

/* ---- what they have brought ---------------------------------------------------------- */

static int count(const struct apart *p, uint64_t set, bool unsealed)
{
    int found = 0;
    for (int i = 0; i < p->mem->nsegs; i++)
        found += p->mem->segs[i]->set == set && !(unsealed && p->mem->segs[i]->sealed);
    return found;
}

/* Compare a segment of the set with the same one of the committed set.  Their heads differ by the
 * number of the set. */
static void compare(struct ftk_mem_seg *s, struct ftk_mem_seg *as)
{
    TRUE(s && as && s->bytes == as->bytes);
    EQUAL(FTKIT_OK, ftk_mem_verify(s, "steps"));
    EQUAL(FTKIT_OK, ftk_mem_verify(as, "steps"));
    if (!s->parity) {
        const struct ftk_seg_header *h = (const void *)s->buf;
        EQUAL(0, memcmp(s->buf + sizeof *h, as->buf + sizeof *h, s->bytes - sizeof *h));
        return;
    }
    struct ftk_code code = ftk_group_code(ftk_parity_group(s->buf), FTK_CODED_DATA);
    EQUAL(0, memcmp(ftk_parity_object(s->buf, FTK_CODED_DATA),
                 ftk_parity_object(as->buf, FTK_CODED_DATA), (size_t)ftk_code_parity_bytes(&code)));
}

static void compare_all(const struct apart *p)
{
    uint64_t set = p->w.like.set;
    EQUAL(count(p, p->committed, false), count(p, set, false));
    EQUAL(0, count(p, set, true));
    for (int r = 0; r < n; r++) {
        struct ftk_mem_seg *s = ftk_mem_find(p->mem, p->committed, r);
        if (s)
            compare(ftk_mem_find(p->mem, set, r), s);
        s = ftk_mem_find_parity(p->mem, p->committed, r);
        if (s)
            compare(ftk_mem_find_parity(p->mem, set, r), s);
    }
}

static void release(const struct apart *p)
{
    for (int i = 0; i < p->mem->nsegs; i++)
        if (p->mem->segs[i]->set == p->w.like.set)
            ftk_mem_release(p->mem->segs[i]);
}

/* ---- rounds -------------------------------------------------------------------------- */

/* Write the committed set once more, under another number. */
static void write_apart(ftkit_ctx *ft, struct app *a)
{
    struct apart p = { .ft = ft, .a = a, .ch = ftk_chan_of(ft), .late = a->round % n };
    const bool give_up = a->round % 3 == 1;
    p.mem = &ft->level[FTK_LEVEL_MEMORY].mem;
    p.committed = ft->committed;
    p.like = ftk_mem_find(p.mem, p.committed, me);
    TRUE(p.like);
    p.w.level = &ft->level[FTK_LEVEL_MEMORY];
    p.w.ch = &p.ch;
    memcpy(&p.w.like, p.like->buf, sizeof p.w.like);
    p.w.like.set += APART;
    p.w.head_bytes = (size_t)p.w.like.head_bytes;
    p.w.data_bytes = (size_t)p.w.like.data_bytes;
    int rc = a->round % 3 == 2 ? by_waiting(&p) : by_steps(&p, give_up);
    ftk_write_end(&p.w, rc);
    if (rc == FTKIT_ERR_PEER) { /* the next ftkit_checkpoint() repairs */
        EQUAL(0, count(&p, p.w.like.set, true));
        release(&p);
        return;
    }
    TRUE(rc == (give_up ? FTKIT_ERR_IO : FTKIT_OK) || rc == FTKIT_ERR_NOMEM);
    if (rc != FTKIT_OK)
        EQUAL(0, count(&p, p.w.like.set, false));
    else
        compare_all(&p);
    release(&p);
}

static char content(int round, size_t i)
{
    return (char)((i * 2654435761u + (size_t)me * 40503u + (size_t)round * 97u) >> 7);
}

/* The data hold what the last set of this rank had. */
static void check(const struct app *a)
{
    for (size_t i = 0; i < a->bytes; i++)
        if (a->data[i] != content(a->round, i))
            EQUAL(content(a->round, i), a->data[i]);
}

static void run(ftkit_ctx *ft, struct app *a)
{
    for (;;) {
        int rc = ftkit_checkpoint(ft);
        TRUE(rc >= 0);
        check(a);
        if (a->round == ROUNDS) {
            rc = ftkit_finish(ft);
            TRUE(rc >= 0);
            if (rc == FTKIT_ROLLED_BACK)
                continue;
            return;
        }
        write_apart(ft, a);
        a->round++;
        for (size_t i = 0; i < a->bytes; i++)
            a->data[i] = content(a->round, i);
    }
}

int main(int argc, char **argv)
{
    struct app a = { .comm = MPI_COMM_NULL };
    ftkit_ctx *ft = NULL;
    MPI_Init(&argc, &argv);
    EQUAL(FTKIT_OK, ftkit_open(MPI_COMM_WORLD, NULL, &ft));
    EQUAL(FTKIT_OK, ftkit_bind_comm(ft, &a.comm));
    OK(MPI_Comm_rank(a.comm, &me));
    OK(MPI_Comm_size(a.comm, &n));
    a.bytes = me == 2 ? 100 : ((size_t)me << 20) * 3 + 70001;
    a.data = malloc(a.bytes);
    TRUE(a.data);
    for (size_t i = 0; i < a.bytes; i++)
        a.data[i] = content(0, i);
    EQUAL(FTKIT_OK, ftkit_register(ft, "round", &a.round, 1, MPI_INT));
    EQUAL(FTKIT_OK, ftkit_register(ft, "data", a.data, a.bytes, MPI_CHAR));
    TRUE(ftkit_recover(ft, NULL) >= 0);
    run(ft, &a);
    if (me == 0 && argc == 3) {
        FILE *f = fopen(argv[2], "w");
        TRUE(f && fprintf(f, "%d rounds\n", a.round) > 0 && fclose(f) == 0);
    }
    EQUAL(FTKIT_OK, ftkit_close(&ft));
    free(a.data);
    MPI_Finalize();
    return 0;
}
