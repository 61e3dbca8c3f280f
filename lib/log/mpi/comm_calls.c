/* MPI's calls on communicators, for virtual ones.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls on other communicators go to the MPI unchanged.  Arguments are checked as the MPI checks
 * them: errors go to the error handler of the communicator. */
#include <stdlib.h>
#include <string.h>

#include "core/escape.h"
#include "log/coll/coll.h"
#include "log/mpi/construct.h"
#include "log/mpi/idup.h"
#include "log/request/progress.h"
#include "log/vcomm/attr.h"
#include "log/vcomm/inter.h"
#include "log/base/part.h"
#include "log/base/runtime.h"

void ftk_mpi_failed(void)
{
    if (ftk_log_is_rolling_back())
        ftk_escape_leave(ftk_log.ctx);
}

int ftk_mpi_refuse(const char *call, MPI_Comm comm)
{
    const struct ftk_vcomm *vc = ftk_log.vcomms.world;
    if (comm != MPI_COMM_NULL)
        vc = ftk_vcomm_find(comm);
    if (!vc
        || (vc->size == 1 && !vc->remote && vc != ftk_log.vcomms.world
            && strcmp(call, "MPI_File_open") == 0))
        return MPI_SUCCESS; /* the handle is valid in this process only */
    ftk_mpi_call = call;
    ftk_report(FTKIT_ERROR, "rank %d: %s is not possible with the message log (log.enabled)",
        ftk_log.me, call);
    return ftk_vcomm_error(vc, MPI_ERR_UNSUPPORTED_OPERATION);
}

/* The list of communicators is of the other thread now. */
int ftk_mpi_crowded(MPI_Comm comm)
{
    return ftk_vcomm_raise(
        comm != MPI_COMM_NULL ? comm : ftk_log.vcomms.world->handle, MPI_ERR_OTHER);
}

/* ---- questions ----------------------------------------------------------------------- */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* MPI_HOST is old in MPI 4.1 */

/* The MPI keeps the attributes that it defines on MPI_COMM_WORLD and on its duplicates.  The handle
 * of a virtual communicator is no such duplicate: the log takes them from MPI_COMM_WORLD. */
int ftk_mpi_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *flag)
{
    const int own[] = { MPI_HOST, MPI_IO, MPI_WTIME_IS_GLOBAL, MPI_UNIVERSE_SIZE, MPI_APPNUM,
        MPI_LASTUSEDCODE };
    static int most = FTK_TAG_MAX, appnum; /* the program may keep pointers to them */
    bool ours = ftk_vcomm_find(comm) != NULL;
    if (ours && keyval == MPI_APPNUM && ftk_log.ctx->programs.appnum > 0) { /* the MPI says 0 */
        appnum = ftk_log.ctx->programs.appnum;
        *(int **)value = &appnum;
        *flag = 1;
        return MPI_SUCCESS;
    }
    if (ours && keyval == MPI_TAG_UB) { /* of shared contexts: the smallest */
        *(int **)value = &most;
        *flag = 1;
        return MPI_SUCCESS;
    }
    for (size_t i = 0; ours && i < sizeof own / sizeof *own; i++)
        if (own[i] == keyval)
            return PMPI_Comm_get_attr(MPI_COMM_WORLD, keyval, value, flag);
    return PMPI_Comm_get_attr(comm, keyval, value, flag);
}
#pragma GCC diagnostic pop

int ftk_mpi_Comm_size(MPI_Comm comm, int *size)
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Comm_size(comm, size);
    if (!size)
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    *size = vc->size;
    return MPI_SUCCESS;
}

int ftk_mpi_Comm_rank(MPI_Comm comm, int *rank)
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Comm_rank(comm, rank);
    if (!rank)
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    *rank = vc->rank;
    return MPI_SUCCESS;
}

static int group_of(const struct ftk_vcomm *vc, MPI_Group *group)
{
    if (!vc->member) /* all ranks of the world */
        return PMPI_Group_excl(ftk_log.vcomms.group, 0, NULL, group);
    return PMPI_Group_incl(ftk_log.vcomms.group, vc->size, vc->member, group);
}

int ftk_mpi_Comm_group(MPI_Comm comm, MPI_Group *group)
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Comm_group(comm, group);
    if (!group)
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    int rc = group_of(vc, group);
    return ftk_vcomm_end(vc, rc);
}

static int compare(const struct ftk_vcomm *a, const struct ftk_vcomm *b)
{
    bool ordered = true;
    if (a == b)
        return MPI_IDENT;
    if (a->size != b->size || ftk_vcomm_peers(a) != ftk_vcomm_peers(b) || !a->remote != !b->remote)
        return MPI_UNEQUAL;
    for (int i = 0; a->remote && i < a->remote->size; i++) {
        int there = ftk_vcomm_peer_rank(b, a->remote->member[i]);
        if (there < 0)
            return MPI_UNEQUAL;
        ordered = ordered && there == i;
    }
    for (int i = 0; i < a->size; i++) {
        int there = ftk_vcomm_rank(b, ftk_vcomm_world(a, i));
        if (there < 0)
            return MPI_UNEQUAL;
        ordered = ordered && there == i;
    }
    return ordered ? MPI_CONGRUENT : MPI_SIMILAR;
}

/* Whether a virtual communicator and one of the MPI have the same processes. */
static int compare_mixed(const struct ftk_vcomm *vc, MPI_Comm other, int *result)
{
    MPI_Group ours, theirs;
    int inter = 0, same = MPI_UNEQUAL;
    int rc = PMPI_Comm_test_inter(other, &inter);
    if (rc != MPI_SUCCESS)
        return rc;
    if (inter || vc->remote) {
        *result = MPI_UNEQUAL;
        return rc;
    }
    rc = group_of(vc, &ours);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = PMPI_Comm_group(other, &theirs);
    if (rc == MPI_SUCCESS) {
        rc = PMPI_Group_compare(ours, theirs, &same);
        int freed = PMPI_Group_free(&theirs);
        rc = rc == MPI_SUCCESS ? freed : rc;
    }
    int freed = PMPI_Group_free(&ours);
    rc = rc == MPI_SUCCESS ? freed : rc;
    if (rc == MPI_SUCCESS)
        *result = same == MPI_IDENT ? MPI_CONGRUENT : same;
    return rc;
}

int ftk_mpi_Comm_compare(MPI_Comm comm1, MPI_Comm comm2, int *result)
{
    const struct ftk_vcomm *a = ftk_vcomm_find(comm1), *b = ftk_vcomm_find(comm2);
    if (!a && !b)
        return PMPI_Comm_compare(comm1, comm2, result);
    if (!result)
        return ftk_vcomm_error(a ? a : b, MPI_ERR_ARG);
    if (!a || !b) {
        const struct ftk_vcomm *ours = a ? a : b;
        MPI_Comm other = a ? comm2 : comm1;
        int rc = other == MPI_COMM_NULL ? MPI_ERR_COMM : compare_mixed(ours, other, result);
        return ftk_vcomm_end(ours, rc);
    }
    *result = compare(a, b);
    return MPI_SUCCESS;
}

/* ---- duplicates ---------------------------------------------------------------------- */

static int dup_comm(struct ftk_vcomm *vc, enum ftk_make_how how, MPI_Info info, MPI_Comm *newcomm)
{
    struct ftk_construct m;
    if (!newcomm)
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    ftk_make_begin(&m, vc, how, info);
    ftk_make_first(&m, vc->size);
    return ftk_make_known(&m, newcomm);
}

int ftk_mpi_Comm_dup(MPI_Comm comm, MPI_Comm *newcomm)
{
    struct ftk_vcomm *vc = ftk_make_parent(comm, newcomm);
    return vc ? dup_comm(vc, FTK_MAKE_DUP, MPI_INFO_NULL, newcomm) : PMPI_Comm_dup(comm, newcomm);
}

int ftk_mpi_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm)
{
    struct ftk_vcomm *vc = ftk_make_parent(comm, newcomm);
    return vc ? dup_comm(vc, FTK_MAKE_DUP_INFO, info, newcomm)
              : PMPI_Comm_dup_with_info(comm, info, newcomm);
}

/* An MPI_Comm_idup under way.  Its proposal offers only a part of the free plain contexts, and one
 * shared context, which no other communicator gets meanwhile.  So any number may be under way,
 * begun and complete in any order.  These contexts stay promised until the program sees the
 * completion: which contexts are free must depend on the program's steps and not on time, because a
 * replay repeats the steps. */
struct idup {
    struct ftk_construct m; /* m.vc: NULL after the construction */
    MPI_Comm *newcomm;      /* the program's */
    uint64_t promised;
    struct ftk_req *req;
    struct idup *next;         /* list of all */
    struct ftk_proposal all[]; /* [m.n] */
};

static struct idup *idups;

/* Whether the program still has the request; memory of requests is never given back. */
static bool pending(const struct idup *d)
{
    return d->req->state != FTK_REQ_FREE && d->req->arg == d;
}

/* Give up a duplication that is not complete. */
static void idup_delete(struct idup *d)
{
    MPI_Comm none;
    if (d->m.vc && d->m.error == MPI_SUCCESS)
        d->m.error = MPI_ERR_OTHER;
    if (d->m.vc)
        (void)ftk_make_end(&d->m, &none); /* the error is that of the construction */
    free(d);
}

void ftk_idup_promised(struct ftk_contexts *to)
{
    for (struct idup **p = &idups; *p;) {
        struct idup *d = *p;
        if (pending(d)) {
            p = &d->next;
        } else {
            *p = d->next;
            idup_delete(d);
            p = &idups; /* callbacks of the program may have changed the list */
        }
    }
    for (const struct idup *d = idups; d; d = d->next) {
        to->word[0] |= d->promised;
        if (d->m.mine.own >= 0)
            ftk_contexts_add(to, d->m.mine.own);
    }
}

/* The requests of these duplications have been deleted, or will be. */
static void clear_idups(void)
{
    while (idups) {
        struct idup *d = idups;
        idups = d->next;
        idup_delete(d);
    }
}

/* The higher half of the free contexts: other constructions take the lowest. */
static uint64_t offer(uint64_t spare)
{
    uint64_t some = 0;
    int take = (__builtin_popcountll(spare) + 1) / 2;
    for (int c = FTK_LOG_CONTEXTS - 1; c >= 0 && take > 0; c--) {
        if (spare >> c & 1) {
            some |= UINT64_C(1) << c;
            take--;
        }
    }
    return some;
}

static int idup_then(struct ftk_req *r)
{
    struct idup *d = r->arg;
    if (d->m.error == MPI_SUCCESS)
        ftk_make_decide(&d->m, d->all);
    return ftk_make_end(&d->m, d->newcomm);
}

static int idup(struct ftk_vcomm *vc, enum ftk_make_how how, MPI_Info info, MPI_Comm *newcomm,
    MPI_Request *request)
{
    if (!newcomm || !request)
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    *request = MPI_REQUEST_NULL;
    struct ftk_req *r = ftk_req_new(vc);
    struct idup *d = malloc(sizeof *d + (size_t)ftk_vcomm_members(vc) * sizeof d->all[0]);
    if (!r || !d) {
        if (r)
            ftk_req_delete(r);
        free(d);
        return ftk_vcomm_error(vc, MPI_ERR_NO_MEM);
    }
    ftk_make_begin(&d->m, vc, how, info);
    ftk_make_first(&d->m, vc->size);
    d->m.mine.error = d->m.error;
    d->m.mine.free = d->promised = offer(d->m.mine.free);
    d->newcomm = newcomm;
    d->req = r;
    d->next = idups;
    idups = d;
    r->then = idup_then;
    r->arg = d;
    int rc = ftk_coll_iallgather_bytes(r, vc, &d->m.mine, d->all, sizeof d->m.mine);
    if (rc != MPI_SUCCESS) {
        ftk_req_delete(r); /* the next look at the list deletes d */
        return ftk_vcomm_error(vc, rc);
    }
    *request = ftk_req_handle(r);
    return MPI_SUCCESS;
}

int ftk_mpi_Comm_idup(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request)
{
    struct ftk_vcomm *vc = ftk_make_parent(comm, newcomm);
    return vc ? idup(vc, FTK_MAKE_DUP, MPI_INFO_NULL, newcomm, request)
              : PMPI_Comm_idup(comm, newcomm, request);
}

int ftk_mpi_Comm_idup_with_info(
    MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm, MPI_Request *request)
{
    struct ftk_vcomm *vc = ftk_make_parent(comm, newcomm);
    return vc ? idup(vc, FTK_MAKE_DUP_INFO, info, newcomm, request)
              : PMPI_Comm_idup_with_info(comm, info, newcomm, request);
}

/* ---- parts --------------------------------------------------------------------------- */

int ftk_mpi_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *newcomm)
{
    struct ftk_construct m;
    struct ftk_vcomm *vc = ftk_make_parent(comm, newcomm);
    if (!vc)
        return PMPI_Comm_split(comm, color, key, newcomm);
    if (!newcomm)
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    ftk_make_begin(&m, vc, FTK_MAKE_NEW, MPI_INFO_NULL);
    return ftk_make_split(&m, color, key, newcomm);
}

/* The color of this process for a type of split.  Nodes are the failure domains of the opening,
 * because a repeated call has to have the same result.  Smaller units are not supported: a
 * replacement may not find the same units. */
static int color_of_type(const struct ftk_vcomm *vc, int type, int *color)
{
    switch (type) {
    case MPI_UNDEFINED:
        *color = MPI_UNDEFINED;
        return MPI_SUCCESS;
    case MPI_COMM_TYPE_SHARED:
#ifdef OMPI_COMM_TYPE_NODE /* Open MPI has more types */
    case OMPI_COMM_TYPE_BOARD:
    case OMPI_COMM_TYPE_HOST:
#endif
        *color = ftk_log.home[ftk_vcomm_world(vc, vc->rank)];
        return MPI_SUCCESS;
#ifdef OMPI_COMM_TYPE_NODE
    case OMPI_COMM_TYPE_CLUSTER:
        *color = 0;
        return MPI_SUCCESS;
#endif
    default:
        ftk_report(
            FTKIT_ERROR, "MPI_Comm_split_type with log.enabled: nodes and larger units only");
        return MPI_ERR_UNSUPPORTED_OPERATION;
    }
}

int ftk_mpi_Comm_split_type(
    MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm *newcomm)
{
    struct ftk_construct m;
    int color = MPI_UNDEFINED;
    struct ftk_vcomm *vc = ftk_make_parent(comm, newcomm);
    if (!vc)
        return PMPI_Comm_split_type(comm, split_type, key, info, newcomm);
    if (!newcomm)
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    ftk_make_begin(&m, vc, FTK_MAKE_NEW, MPI_INFO_NULL);
    int rc = color_of_type(vc, split_type, &color);
    if (m.error == MPI_SUCCESS)
        m.error = rc; /* other members, also with MPI_UNDEFINED, wait for this proposal */
    return ftk_make_split(&m, color, key, newcomm);
}

/* ---- groups -------------------------------------------------------------------------- */

/* World ranks of a group; each has to be a member of vc. */
static int members_of(const struct ftk_vcomm *vc, MPI_Group group, struct ftk_vcomm *to)
{
    int n;
    int rc = PMPI_Group_size(group, &n);
    if (rc != MPI_SUCCESS)
        return rc;
    if (n > vc->size)
        return MPI_ERR_GROUP;
    int *pos = malloc(((size_t)n + 1) * sizeof *pos);
    if (!pos)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < n; i++)
        pos[i] = i;
    rc = PMPI_Group_translate_ranks(group, n, pos, ftk_log.vcomms.group, to->member);
    free(pos);
    for (int i = 0; rc == MPI_SUCCESS && i < n; i++)
        if (to->member[i] < 0 || ftk_vcomm_rank(vc, to->member[i]) < 0) /* MPI_UNDEFINED */
            rc = MPI_ERR_GROUP;
    if (rc == MPI_SUCCESS)
        to->size = n;
    return rc;
}

/* Each process knows the members of its own group only: each member sends its rank in the group. */
static int create_both(struct ftk_construct *m, MPI_Comm *newcomm)
{
    int place = 0, size = m->vc ? m->vc->size : 0;
    while (place < size && m->vc->member[place] != ftk_log.me)
        place++;
    if (m->vc)
        m->vc->size = 0; /* the proposal has this size */
    return ftk_make_split(m, place < size ? 0 : MPI_UNDEFINED, place, newcomm);
}

int ftk_mpi_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *newcomm)
{
    struct ftk_construct m;
    struct ftk_vcomm *vc = ftk_make_parent(comm, newcomm);
    if (!vc)
        return PMPI_Comm_create(comm, group, newcomm);
    if (!newcomm || group == MPI_GROUP_NULL)
        return ftk_vcomm_error(vc, newcomm ? MPI_ERR_GROUP : MPI_ERR_ARG);
    ftk_make_begin(&m, vc, FTK_MAKE_NEW, MPI_INFO_NULL);
    if (m.error == MPI_SUCCESS)
        m.error = members_of(vc, group, m.vc);
    return vc->remote ? create_both(&m, newcomm) : ftk_make_known(&m, newcomm);
}

/* Send words to a member of the group, or receive them. */
static int pass_words(
    struct ftk_construct *m, bool send, int peer, int tag, struct ftk_proposal *w, int count)
{
    struct ftk_req r = { .kind = send ? FTK_REQ_SEND : FTK_REQ_RECV,
        .internal = true,
        .vc = m->parent,
        .context = FTK_LOG_COLLS,
        .send.buf = send ? w : NULL,
        .recv.buf = send ? NULL : w,
        .count = count * (int)sizeof *w,
        .type = MPI_BYTE,
        .peer = m->vc->member[peer],
        .tag = tag,
        .real = MPI_REQUEST_NULL };
    int rc = ftk_req_begin(&r);
    return rc == MPI_SUCCESS ? ftk_req_wait(&r) : rc;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The parent's other members take no part.  The exchange goes along a tree of the group: up with
 * the proposals of the members below, down with all proposals. */
static int agree_in_group(struct ftk_construct *m, int me, int tag)
{
    struct ftk_proposal *w = ftk_make_room();
    int n = m->vc->size, bit, rc = MPI_SUCCESS;
    w[me] = m->mine;
    for (bit = 1; bit < n && !(me & bit) && rc == MPI_SUCCESS; bit <<= 1)
        if (me + bit < n)
            rc = pass_words(m, false, me + bit, tag, &w[me + bit], least(bit, n - me - bit));
    if (me > 0 && rc == MPI_SUCCESS)
        rc = pass_words(m, true, me - bit, tag, &w[me], least(bit, n - me));
    if (me > 0 && rc == MPI_SUCCESS)
        rc = pass_words(m, false, me - bit, tag, w, n);
    for (bit >>= 1; bit > 0 && rc == MPI_SUCCESS; bit >>= 1)
        if (me + bit < n)
            rc = pass_words(m, true, me + bit, tag, w, n);
    m->n = n;
    m->in_order = true;
    if (rc == MPI_SUCCESS)
        ftk_make_decide(m, w);
    return rc;
}

int ftk_mpi_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm)
{
    struct ftk_construct m;
    int me;
    struct ftk_vcomm *vc = ftk_make_parent(comm, newcomm);
    if (!vc)
        return PMPI_Comm_create_group(comm, group, tag, newcomm);
    if (!newcomm || group == MPI_GROUP_NULL || tag < 0 || vc->remote)
        return ftk_vcomm_error(vc, !newcomm     ? MPI_ERR_ARG
                                   : vc->remote ? MPI_ERR_COMM
                                   : tag < 0    ? MPI_ERR_TAG
                                                : MPI_ERR_GROUP);
    int rc = PMPI_Group_rank(group, &me);
    if (rc != MPI_SUCCESS)
        return ftk_vcomm_error(vc, rc);
    if (me == MPI_UNDEFINED)
        return MPI_SUCCESS;
    ftk_make_begin(&m, vc, FTK_MAKE_NEW, MPI_INFO_NULL);
    m.reports = me == 0;
    /* without the list of members there is no member to send to */
    rc = m.vc ? members_of(vc, group, m.vc) : MPI_ERR_NO_MEM;
    m.mine.error = m.error;
    if (rc == MPI_SUCCESS)
        rc = agree_in_group(&m, me, FTK_COMM_TAGS + tag % FTK_COMM_GROUP_TAGS);
    if (m.error == MPI_SUCCESS)
        m.error = rc;
    rc = ftk_make_end(&m, newcomm);
    return ftk_vcomm_end(vc, rc);
}

/* ---- the end ------------------------------------------------------------------------- */

/* Free a virtual communicator; disconnect: wait for its requests first. */
static int end_comm(struct ftk_vcomm *vc, MPI_Comm *comm, bool disconnect)
{
    if (*comm == MPI_COMM_NULL) /* its construction has failed */
        return ftk_log_error();
    if (vc == ftk_log.vcomms.world
        || vc == ftk_log.vcomms.user) /* the program may not free these */
        return ftk_vcomm_error(vc, MPI_ERR_COMM);
    int rc = disconnect ? ftk_req_wait_all(vc) : MPI_SUCCESS;
    if (rc == MPI_SUCCESS)
        rc = ftk_attr_delete(vc->handle);
    if (rc != MPI_SUCCESS) /* of a callback: the communicator stays */
        return ftk_vcomm_error(vc, rc);
    *comm = MPI_COMM_NULL;
    return ftk_vcomm_free(vc);
}

int ftk_mpi_Comm_free(MPI_Comm *comm)
{
    struct ftk_vcomm *vc = comm ? ftk_vcomm_find(*comm) : NULL;
    return vc ? end_comm(vc, comm, false) : PMPI_Comm_free(comm);
}

int ftk_mpi_Comm_disconnect(MPI_Comm *comm)
{
    struct ftk_vcomm *vc = comm ? ftk_vcomm_find(*comm) : NULL;
    return vc ? end_comm(vc, comm, true) : PMPI_Comm_disconnect(comm);
}

const struct ftk_part ftk_part_idup = { .forget = clear_idups };
