/* The image of the communicators in a set: a replacement makes them from it, also those that the
 * lost process had made inside the loop.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each communicator has, in words of 64 bits: its context, the number of collectives begun on it,
 * the number of words that follow (0: the communicator exists in every process), its size, its
 * members, and the numbers and lists of its topology.  Since version 3 of the state there are also
 * the list of the remote group (absent for an intracommunicator) and, if several contexts share
 * the real communicator, the context of each member, those of the local group first.  A list is
 * its length plus one and its elements; 0 is an absent list, 1 an empty one. */
#include <stdlib.h>
#include <string.h>

#include "core/log_ops.h"
#include "log/vcomm/comm.h"
#include "log/vcomm/inter.h"
#include "log/vcomm/vcomm_image.h"
#include "log/base/plane.h"

enum { HEAD = 3, NUMBERS = 6, LISTS = 8 };

/* The lists of a topology and how long they are, if they are there. */
struct lists {
    int **list[LISTS];
    int n[LISTS];
};

static struct lists lists_of(struct ftk_topo *t)
{
    return (struct lists){ { &t->dims, &t->periods, &t->index, &t->edges, &t->in, &t->out, &t->inw,
                               &t->outw },
        { t->ndims, t->ndims, t->nnodes, t->nedges, t->nin, t->nout, t->nin, t->nout } };
}

static size_t image_words(struct ftk_vcomm *vc)
{
    struct lists l = lists_of(&vc->topo);
    size_t words = 1 + (size_t)vc->size + NUMBERS;
    for (int i = 0; i < LISTS; i++)
        words += 1 + (*l.list[i] ? (size_t)l.n[i] : 0);
    words += 1 + (vc->remote ? (size_t)vc->remote->size : 0);
    words += vc->there ? (size_t)ftk_vcomm_members(vc) : 0;
    return ftk_vcomm_is_permanent(vc) ? 0 : words;
}

size_t ftk_vcomm_images_words(void)
{
    size_t words = 0;
    for (struct ftk_vcomm *v = ftk_log.vcomms.list; v; v = v->next)
        words += v->state == FTK_VCOMM_LIVE ? HEAD + image_words(v) : 0;
    return words;
}

static uint64_t *put_ints(uint64_t *w, const int *v, int n)
{
    for (int i = 0; i < n; i++)
        *w++ = (uint64_t)(int64_t)v[i];
    return w;
}

static uint64_t *write_one(uint64_t *w, struct ftk_vcomm *vc)
{
    struct ftk_topo *t = &vc->topo;
    const int numbers[NUMBERS] = { t->kind, t->ndims, t->nnodes, t->nedges, t->nin, t->nout };
    struct lists l = lists_of(t);
    *w++ = (uint64_t)vc->size;
    for (int i = 0; i < vc->size; i++)
        *w++ = ftk_log_to_plane(ftk_vcomm_world(vc, i));
    w = put_ints(w, numbers, NUMBERS);
    for (int i = 0; i < LISTS; i++) {
        int n = *l.list[i] ? l.n[i] : 0;
        *w++ = *l.list[i] ? (uint64_t)n + 1 : 0;
        w = put_ints(w, *l.list[i], n);
    }
    *w++ = vc->remote ? (uint64_t)vc->remote->size + 1 : 0;
    for (int i = 0; vc->remote && i < vc->remote->size; i++)
        *w++ = ftk_log_to_plane(vc->remote->member[i]);
    for (int i = 0; vc->there && i < vc->size; i++)
        *w++ = (uint64_t)vc->there[ftk_vcomm_world(vc, i)];
    for (int i = 0; vc->there && vc->remote && i < vc->remote->size; i++)
        *w++ = (uint64_t)vc->there[vc->remote->member[i]];
    return w;
}

uint64_t *ftk_vcomm_images_write(uint64_t *w)
{
    for (struct ftk_vcomm *v = ftk_log.vcomms.list; v; v = v->next) {
        if (v->state != FTK_VCOMM_LIVE)
            continue;
        *w++ = (uint64_t)v->context;
        *w++ = v->colls;
        *w++ = image_words(v);
        w = ftk_vcomm_is_permanent(v) ? w : write_one(w, v);
    }
    return w;
}

/* ---- reading: nothing is trusted, a set may come from a file ------------------------- */

struct reader {
    const uint64_t *w, *end;
    bool bad;
};

static int get(struct reader *r, int64_t least, int64_t most)
{
    int64_t value = r->w < r->end ? (int64_t)*r->w++ : least - 1;
    r->bad = r->bad || value < least || value > most;
    return r->bad ? 0 : (int)value;
}

static int *get_list(struct reader *r, int n)
{
    int64_t there = get(r, 0, (int64_t)n + 1);
    int *v = NULL;
    if (there == 0)
        return NULL;
    if (there != (int64_t)n + 1 || r->end - r->w < n
        || (v = malloc(((size_t)n + 1) * sizeof *v)) == NULL)
        r->bad = true;
    for (int i = 0; !r->bad && i < n; i++)
        v[i] = get(r, INT32_MIN, INT32_MAX);
    return v;
}

static void get_topology(struct reader *r, struct ftk_topo *t)
{
    t->kind = get(r, FTK_TOPO_NONE, FTK_TOPO_DIST);
    t->ndims = get(r, 0, INT32_MAX);
    t->nnodes = get(r, 0, INT32_MAX);
    t->nedges = get(r, 0, INT32_MAX);
    t->nin = get(r, 0, INT32_MAX);
    t->nout = get(r, 0, INT32_MAX);
    struct lists l = lists_of(t);
    for (int i = 0; i < LISTS && !r->bad; i++)
        *l.list[i] = get_list(r, l.n[i]);
}

/* A rank of this plane. */
static int get_rank(struct reader *r)
{
    return ftk_log_from_plane(get(r, 0, ftk_log_plane_size() - 1));
}

/* Read the members: each rank once, and this process among them. */
static void get_members(struct reader *r, struct ftk_vcomm *vc)
{
    vc->rank = -1;
    for (int i = 0; i < ftk_log.n; i++)
        vc->index[i] = -1;
    for (int i = 0; i < vc->size && !r->bad; i++) {
        int m = get_rank(r);
        r->bad = r->bad || vc->index[m] >= 0;
        vc->member[i] = m;
        vc->index[m] = i;
        vc->rank = m == ftk_log.me ? i : vc->rank;
    }
    r->bad = r->bad || vc->rank < 0;
}

/* Read the remote group: none of its members is in the local group. */
static void get_remote(struct reader *r, struct ftk_vcomm *vc)
{
    int there = get(r, 0, (int64_t)ftk_log.n + 1);
    if (r->bad || there == 0)
        return;
    if (there == 1 || !(vc->remote = ftk_remote_new(there - 1))) {
        r->bad = true;
        return;
    }
    for (int i = 0; i < there - 1 && !r->bad; i++)
        vc->remote->member[vc->remote->size++] = get_rank(r);
    r->bad = r->bad || !ftk_remote_seal(vc);
}

/* The contexts of the members, if the one of this process is not the same for all. */
static void get_contexts(struct reader *r, struct ftk_vcomm *vc)
{
    if (!ftk_context_shares(vc->context)) {
        free(vc->there);
        vc->there = NULL;
        return;
    }
    for (int i = 0; i < vc->size && !r->bad; i++)
        vc->there[ftk_vcomm_world(vc, i)] = get(r, FTK_LOG_EXTRA, FTK_LOG_ALL - 1);
    for (int i = 0; vc->remote && i < vc->remote->size && !r->bad; i++)
        vc->there[vc->remote->member[i]] = get(r, FTK_LOG_EXTRA, FTK_LOG_ALL - 1);
    r->bad = r->bad || vc->there[ftk_log.me] != vc->context;
}

static int read_one(struct reader *r, int context, struct ftk_vcomm **out)
{
    int size = get(r, 1, ftk_log.n);
    struct ftk_vcomm *vc = r->bad ? NULL : ftk_vcomm_empty(size);
    if (!vc)
        return ftk_fail(r->bad ? FTKIT_ERR_FORMAT : FTKIT_ERR_NOMEM, "communicators of a set");
    vc->size = size;
    vc->context = context;
    get_members(r, vc);
    get_topology(r, &vc->topo);
    if (!r->bad && r->w < r->end) /* version 2 has no more */
        get_remote(r, vc);
    if (!r->bad)
        get_contexts(r, vc);
    if (!r->bad && r->w == r->end) {
        *out = vc;
        return FTKIT_OK;
    }
    ftk_vcomm_discard(vc);
    return ftk_fail(FTKIT_ERR_FORMAT, "communicators of a set: damaged");
}

struct ftk_vcomm *ftk_vcomm_in_context(int context)
{
    for (struct ftk_vcomm *v = ftk_log.vcomms.list; v; v = v->next)
        if (v->state == FTK_VCOMM_LIVE && v->context == context)
            return v;
    return NULL;
}

static bool same(struct ftk_vcomm *a, struct ftk_vcomm *b)
{
    struct lists x = lists_of(&a->topo), y = lists_of(&b->topo);
    bool equal = a->size == b->size && a->topo.kind == b->topo.kind
                 && a->topo.nedges == b->topo.nedges && !a->remote == !b->remote
                 && ftk_vcomm_peers(a) == ftk_vcomm_peers(b);
    for (int i = 0; equal && i < a->size; i++)
        equal = ftk_vcomm_world(a, i) == ftk_vcomm_world(b, i)
                && ftk_vcomm_there(a, ftk_vcomm_world(a, i))
                       == ftk_vcomm_there(b, ftk_vcomm_world(b, i));
    for (int i = 0; equal && a->remote && i < a->remote->size; i++)
        equal =
            a->remote->member[i] == b->remote->member[i]
            && ftk_vcomm_there(a, a->remote->member[i]) == ftk_vcomm_there(b, b->remote->member[i]);
    for (int i = 0; equal && i < LISTS; i++) {
        const int *v = *x.list[i], *w = *y.list[i];
        equal =
            x.n[i] == y.n[i] && !v == !w && (!v || memcmp(v, w, (size_t)x.n[i] * sizeof *v) == 0);
    }
    return equal;
}

/* A communicator of set-up is used again if it equals the one that the line has in its context. */
static int apply(struct reader r, int context)
{
    struct ftk_vcomm *vc = NULL, *there = ftk_vcomm_in_context(context);
    int rc = read_one(&r, context, &vc);
    if (rc != FTKIT_OK)
        return rc;
    if (there && (ftk_vcomm_is_permanent(there) || same(there, vc))) {
        ftk_vcomm_discard(vc);
        return ftk_vcomm_is_permanent(there)
                   ? ftk_fail(FTKIT_ERR_FORMAT, "communicators of a set: damaged")
                   : FTKIT_OK;
    }
    if (there)
        ftk_vcomm_detach(there);
    int mrc = ftk_vcomm_attach(vc);
    return mrc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(mrc, "communicators of a set");
}

static void let_others_go(const struct ftk_contexts *seen)
{
    for (struct ftk_vcomm *v = ftk_log.vcomms.list; v; v = v->next) {
        if (!ftk_vcomm_is_permanent(v) && v->state == FTK_VCOMM_LIVE
            && !ftk_contexts_has(seen, v->context))
            ftk_vcomm_detach(v);
    }
}

static void set_colls(int context, uint64_t colls)
{
    struct ftk_vcomm *vc = ftk_vcomm_in_context(context);
    if (vc)
        vc->colls = colls;
}

const uint64_t *ftk_vcomm_images_pass(const uint64_t *w, const uint64_t *end, uint64_t n)
{
    for (; n > 0; n--, w += HEAD + w[2])
        if (end - w < HEAD || w[2] > (uint64_t)(end - w - HEAD))
            return NULL;
    return w;
}

int ftk_vcomm_images_read(const uint64_t *w, const uint64_t *end, bool make)
{
    struct ftk_contexts seen;
    memset(&seen, 0, sizeof seen);
    while (w < end) {
        const uint64_t *next = ftk_vcomm_images_pass(w, end, 1);
        if (!next || !ftk_context_is_one(w[0]))
            return ftk_fail(FTKIT_ERR_FORMAT, "communicators of a set: cut short");
        struct reader r = { w + HEAD, w + HEAD + w[2], false };
        if (make && !ftk_context_shares((int)w[0]) && w[0] >= (uint64_t)ftk_log.vcomms.ncontexts)
            return ftk_fail(
                FTKIT_ERR_CONFIG, "the set has communicators for which log.contexts is too small");
        int rc = make && w[2] > 0 ? apply(r, (int)w[0]) : FTKIT_OK;
        if (rc != FTKIT_OK)
            return rc;
        set_colls((int)w[0], w[1]);
        ftk_contexts_add(&seen, (int)w[0]);
        w = next;
    }
    if (make)
        let_others_go(&seen);
    return FTKIT_OK;
}

/* ---- variables of the program -------------------------------------------------------- */

int ftk_vcomm_image_context(MPI_Comm comm)
{
    const struct ftk_vcomm *vc = comm == MPI_COMM_NULL || !ftk_log.on ? NULL : ftk_vcomm_find(comm);
    return vc ? vc->context : -1;
}

/* A variable is rolled back.  Free the handle that the variable had if the handle is detached: its
 * communicator was made since the line, and the log does not know the handle any more. */
static int let_go(MPI_Comm was)
{
    return ftk_log_is_rolling_back() && ftk_vcomm_is_detached(was) ? PMPI_Comm_free(&was)
                                                                   : MPI_SUCCESS;
}

int ftk_vcomm_of_context(int context, MPI_Comm *comm)
{
    const struct ftk_vcomm *vc = ftk_log.on && context >= 0 ? ftk_vcomm_in_context(context) : NULL;
    int rc = let_go(*comm);
    *comm = vc ? vc->handle : MPI_COMM_NULL;
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "freeing a communicator");
}
