/* The making of virtual communicators (see comm.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/coll/coll.h"
#include "log/mpi/construct.h"
#include "log/mpi/idup.h"
#include "log/vcomm/inter.h"
#include "log/vcomm/topology.h"

/* ---- making: before the exchange ----------------------------------------------------- */

/* The free plain contexts of this process, and the first free shared one in *own (-1: none).  Both
 * depend on the program's steps only. */
static uint64_t free_contexts(int *own)
{
    struct ftk_contexts taken;
    memset(&taken, 0, sizeof taken);
    ftk_idup_promised(&taken); /* first: the call may free contexts */
    ftk_vcomm_sweep();
    ftk_vcomm_contexts(&taken);
    *own = FTK_LOG_EXTRA;
    while (*own < FTK_LOG_ALL && ftk_contexts_has(&taken, *own))
        ++*own;
    if (*own == FTK_LOG_ALL)
        *own = -1;
    uint64_t all = ftk_log.vcomms.ncontexts >= FTK_LOG_CONTEXTS
                       ? UINT64_MAX
                       : (UINT64_C(1) << ftk_log.vcomms.ncontexts) - 1;
    return ~taken.word[0] & all;
}

struct ftk_vcomm *ftk_make_parent(MPI_Comm comm, MPI_Comm *newcomm)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (vc && newcomm)
        *newcomm = MPI_COMM_NULL;
    return vc;
}

void ftk_make_begin(
    struct ftk_construct *m, struct ftk_vcomm *parent, enum ftk_make_how how, MPI_Info info)
{
    memset(m, 0, sizeof *m);
    m->parent = parent;
    m->n = ftk_vcomm_members(parent);
    m->reports = parent->rank == 0;
    m->context = -1;
    m->mine.free = free_contexts(&m->mine.own);
    m->vc = ftk_vcomm_empty(m->n);
    m->error = m->vc ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    if (m->error == MPI_SUCCESS && how != FTK_MAKE_NEW)
        m->error = ftk_topo_copy(&m->vc->topo, &parent->topo);
    if (m->error == MPI_SUCCESS && how != FTK_MAKE_NEW && parent->remote
        && !(m->vc->remote = ftk_remote_copy(parent->remote)))
        m->error = MPI_ERR_NO_MEM;
    if (m->error == MPI_SUCCESS)
        m->error = ftk_vcomm_handle(parent, how, info, &m->vc->handle);
}

void ftk_make_first(struct ftk_construct *m, int count)
{
    if (!m->vc)
        return;
    for (int i = 0; i < count; i++)
        m->vc->member[i] = ftk_vcomm_world(m->parent, i);
    m->vc->size = count;
    m->in_order = true;
}

/* ---- making: the exchange ------------------------------------------------------------ */

int ftk_make_proposals(
    struct ftk_vcomm *parent, const struct ftk_proposal *mine, const struct ftk_proposal **all)
{
    struct ftk_proposal *words = ftk_make_room();
    int n = ftk_vcomm_members(parent);
    if (n == 1) /* the communicator may not be in the list */
        words[0] = *mine;
    int rc = n == 1 ? MPI_SUCCESS : ftk_coll_allgather(parent, mine, words, sizeof *mine);
    if (rc != MPI_SUCCESS)
        return rc;
    for (int i = 0; i < n; i++)
        words[i].rank = i;
    *all = words;
    return rc;
}

int ftk_make_swap(const struct ftk_swap *s)
{
    struct ftk_req send = { .kind = FTK_REQ_SEND,
        .internal = true,
        .vc = s->vc,
        .context = FTK_LOG_COLLS,
        .send.buf = s->out,
        .count = (int)s->out_bytes,
        .type = MPI_BYTE,
        .peer = s->to,
        .tag = s->to_tag,
        .real = MPI_REQUEST_NULL };
    struct ftk_req recv = send;
    recv.kind = FTK_REQ_RECV;
    recv.send.buf = NULL;
    recv.recv.buf = s->in;
    recv.count = (int)s->in_bytes;
    recv.peer = s->from;
    recv.tag = s->from_tag;
    int rc = ftk_req_begin(&recv);
    if (rc != MPI_SUCCESS)
        return rc;
    int sent = ftk_req_begin(&send);
    if (sent == MPI_SUCCESS)
        sent = ftk_req_wait(&send);
    /* wait also after a failed send: the buffer of the receive is on this stack */
    rc = ftk_req_wait(&recv);
    return rc == MPI_SUCCESS ? sent : rc;
}

/* Self-echo: each member receives its own proposal from the member before it.  A replacement may
 * make another proposal than the lost process did, for example because it runs on another node.
 * But in a replay it receives the proposal of the lost process, and so constructs the same
 * communicator. */
static int self_echo(struct ftk_vcomm *vc)
{
    struct ftk_proposal *words = ftk_make_room();
    const int tag = FTK_COMM_TAGS + FTK_COMM_GROUP_TAGS;
    int n = ftk_vcomm_members(vc), me = ftk_vcomm_place(vc);
    int next = (me + 1) % n, to = ftk_vcomm_nth(vc, next);
    struct ftk_proposal own = words[me];
    const struct ftk_swap s = { .vc = vc,
        .out = &words[next],
        .out_bytes = sizeof own,
        .to = to,
        .to_tag = tag + ftk_vcomm_there(vc, to),
        .in = &own,
        .in_bytes = sizeof own,
        .from = ftk_vcomm_nth(vc, (me + n - 1) % n),
        .from_tag = tag + vc->context };
    int rc = ftk_make_swap(&s);
    if (rc == MPI_SUCCESS)
        words[me] = own;
    return rc;
}

void ftk_make_decide_context(struct ftk_construct *m, const struct ftk_proposal *all)
{
    uint64_t common = UINT64_MAX;
    m->shares = true;
    for (int i = 0; i < m->n; i++) {
        common &= all[i].free;
        m->shares = m->shares && all[i].own >= 0;
        if (all[i].error != MPI_SUCCESS && m->error == MPI_SUCCESS)
            m->error = MPI_ERR_OTHER; /* elsewhere */
    }
    m->context = -1;
    for (int c = 0; c < FTK_LOG_CONTEXTS && m->context < 0; c++)
        if (common >> c & 1)
            m->context = c;
}

void ftk_make_decide(struct ftk_construct *m, const struct ftk_proposal *all)
{
    ftk_make_decide_context(m, all);
    const struct ftk_vcomm *of = m->in_order ? m->vc : m->parent;
    int known = of ? ftk_vcomm_members(of) : 0; /* further ranks are no members */
    for (int i = 0; m->vc && i < m->n && i < known; i++)
        m->vc->there[ftk_vcomm_nth(of, i)] = all[i].own;
}

void ftk_make_agree(struct ftk_construct *m, const struct ftk_proposal **all)
{
    m->mine.error = m->error;
    int rc = ftk_make_proposals(m->parent, &m->mine, all);
    if (rc == MPI_SUCCESS && m->n > 1)
        rc = self_echo(m->parent);
    if (rc == MPI_SUCCESS)
        ftk_make_decide(m, *all);
    else if (m->error == MPI_SUCCESS)
        m->error = rc;
}

/* ---- making: after the exchange ------------------------------------------------------ */

/* The rank of this process, and the table from world ranks to ranks of vc. */
static void seal(struct ftk_vcomm *vc)
{
    bool plain = vc->size == ftk_log.n;
    vc->rank = -1;
    for (int w = 0; w < ftk_log.n; w++)
        vc->index[w] = -1;
    for (int i = 0; i < vc->size; i++) {
        vc->index[vc->member[i]] = i;
        plain = plain && vc->member[i] == i;
    }
    vc->rank = vc->index[ftk_log.me];
    if (!plain)
        return;
    free(vc->member);
    free(vc->index);
    vc->member = vc->index = NULL;
}

int ftk_make_end(struct ftk_construct *m, MPI_Comm *newcomm)
{
    struct ftk_vcomm *vc = m->vc;
    m->vc = NULL;
    if (m->error == MPI_SUCCESS)
        seal(vc);
    if (m->error == MPI_SUCCESS && vc->rank >= 0 && m->context < 0 && !m->shares) {
        if (m->reports)
            ftk_report(FTKIT_ERROR,
                "a member of a new communicator has %d already, more than log.contexts gives: "
                "free some",
                FTK_LOG_EXTRAS);
        m->error = MPI_ERR_OTHER;
    }
    if (m->error != MPI_SUCCESS) {
        ftk_vcomm_discard(vc);
        return m->error;
    }
    if (vc->rank < 0) {
        ftk_vcomm_discard(vc);
        return MPI_SUCCESS;
    }
    vc->context = m->context >= 0 ? m->context : vc->there[ftk_log.me];
    if (m->context >= 0) {
        free(vc->there);
        vc->there = NULL;
    }
    ftk_vcomm_publish(vc);
    *newcomm = vc->handle;
    return MPI_SUCCESS;
}

static int end_or_error(struct ftk_construct *m, MPI_Comm *newcomm)
{
    int rc = ftk_make_end(m, newcomm);
    return ftk_vcomm_end(m->parent, rc);
}

int ftk_make_known(struct ftk_construct *m, MPI_Comm *newcomm)
{
    const struct ftk_proposal *all;
    ftk_make_agree(m, &all);
    return end_or_error(m, newcomm);
}

static int by_key(const void *a, const void *b)
{
    const struct ftk_proposal *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* The i-th of all members of the parent. */
static void add_member(struct ftk_construct *m, int i)
{
    int rank, world = ftk_vcomm_nth(m->parent, i);
    if (ftk_vcomm_is_local(m->parent, i, &rank))
        m->vc->member[m->vc->size++] = world;
    else
        m->vc->remote->member[m->vc->remote->size++] = world;
}

/* An intercommunicator with an empty group does not exist. */
static void close_groups(struct ftk_vcomm *vc)
{
    if (vc->remote->size == 0)
        vc->size = 0;
    else
        (void)ftk_remote_seal(vc); /* the groups of the parent are disjoint */
}

int ftk_make_split(struct ftk_construct *m, int color, int key, MPI_Comm *newcomm)
{
    struct ftk_proposal *words = ftk_make_room();
    const struct ftk_proposal *all;
    m->mine.color = color;
    m->mine.key = key;
    if (color < 0 && color != MPI_UNDEFINED && m->error == MPI_SUCCESS)
        m->error = MPI_ERR_ARG;
    if (m->parent->remote && m->error == MPI_SUCCESS
        && !(m->vc->remote = ftk_remote_new(m->parent->remote->size)))
        m->error = MPI_ERR_NO_MEM;
    ftk_make_agree(m, &all);
    if (m->error == MPI_SUCCESS) {
        color = all[ftk_vcomm_place(m->parent)].color;
        qsort(words, (size_t)m->n, sizeof *words, by_key);
        for (int i = 0; i < m->n && color != MPI_UNDEFINED; i++)
            if (words[i].color == color)
                add_member(m, words[i].rank);
        if (m->parent->remote)
            close_groups(m->vc);
    }
    return end_or_error(m, newcomm);
}
