/* Intercommunicators: the remote group, and the calls that only they have.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An intercommunicator is a virtual communicator with a second list of ranks.  Its context is
 * unused at all ranks of both groups.  So a context and a sender still identify a message, and the
 * log, a repair and a replay need not distinguish the groups. */
#include <stdlib.h>

#include "log/coll/coll.h"
#include "log/mpi/construct.h"
#include "log/vcomm/inter.h"
#include "log/base/plane.h"

/* Tags of two leaders that construct an intercommunicator: behind the tags of all other
 * constructions. */
#define LEADER_TAG_COUNT 1024
#define LEADER_TAGS (FTK_COMM_TAGS + (1 << 20))

/* ---- questions ----------------------------------------------------------------------- */

int ftk_mpi_Comm_test_inter(MPI_Comm comm, int *flag)
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Comm_test_inter(comm, flag);
    if (!flag)
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    *flag = vc->remote != NULL;
    return MPI_SUCCESS;
}

int ftk_mpi_Comm_remote_size(MPI_Comm comm, int *size)
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Comm_remote_size(comm, size);
    ftk_vcomm_no_count(size);
    if (!vc->remote || !size)
        return ftk_vcomm_error(vc, vc->remote ? MPI_ERR_ARG : MPI_ERR_COMM);
    *size = vc->remote->size;
    return MPI_SUCCESS;
}

int ftk_mpi_Comm_remote_group(MPI_Comm comm, MPI_Group *group)
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Comm_remote_group(comm, group);
    if (!vc->remote || !group)
        return ftk_vcomm_error(vc, vc->remote ? MPI_ERR_ARG : MPI_ERR_COMM);
    int rc = PMPI_Group_incl(ftk_log.vcomms.group, vc->remote->size, vc->remote->member, group);
    return ftk_vcomm_end(vc, rc);
}

struct creating {
    struct ftk_construct m;
    struct ftk_vcomm *peer; /* at the leader: the peer communicator, */
    int world;              /* the world rank of the other leader, -1: there is none, */
    int tag;
};

/* ---- making one -------------------------------------------------------------------------
 * The local group agrees first (ftk_make_agree), so that its leader can speak for it.  The
 * two leaders exchange the members and the unused contexts of their groups, and each leader sends
 * the result to its group.  From there on every rank of both groups knows the same. */

/* Exchange a message with the other leader. */
static int swap(
    const struct creating *c, const void *out, size_t out_bytes, void *in, size_t in_bytes)
{
    const int tag = LEADER_TAGS + c->tag % LEADER_TAG_COUNT;
    const struct ftk_swap s = { .vc = c->peer,
        .out = out,
        .out_bytes = out_bytes,
        .to = c->world,
        .to_tag = tag,
        .in = in,
        .in_bytes = in_bytes,
        .from = c->world,
        .from_tag = tag };
    return ftk_make_swap(&s);
}

/* The part of the leader before the other members take part. */
static int find_leader(struct creating *c, MPI_Comm peer_comm, int remote_leader)
{
    c->peer = ftk_vcomm_find(peer_comm);
    if (!c->peer)
        return MPI_ERR_COMM;
    if (remote_leader < 0 || remote_leader >= ftk_vcomm_peers(c->peer))
        return MPI_ERR_RANK;
    c->world = ftk_vcomm_peer_world(c->peer, remote_leader);
    if (c->world != ftk_log.me)
        return MPI_SUCCESS;
    c->world = -1;
    return MPI_ERR_COMM; /* the groups have this process in common */
}

/* A group in a message: the ranks of its members within the plane, so that all replicas send the
 * same, then the context in which each member would receive if no plain context is free. */
static void write_group(const struct ftk_vcomm *vc, int *list)
{
    for (int i = 0; i < vc->size; i++) {
        const int world = ftk_vcomm_world(vc, i);
        list[i] = (int)ftk_log_to_plane(world);
        list[vc->size + i] = vc->there[world];
    }
}

static void read_group(struct ftk_vcomm *vc, const int *list, int n)
{
    vc->remote->size = n;
    for (int i = 0; i < n; i++) {
        vc->remote->member[i] = ftk_log_from_plane(list[i]);
        vc->there[vc->remote->member[i]] = list[n + i];
    }
}

/* Exchange the groups with the other leader.  *theirs: the proposal of the other group, with its
 * size.  list: room for two groups; the second is the other group. */
static int meet(
    struct creating *c, const struct ftk_proposal *ours, struct ftk_proposal *theirs, int *list)
{
    theirs->error = MPI_ERR_OTHER;
    int rc = swap(c, ours, sizeof *ours, theirs, sizeof *theirs);
    if (rc != MPI_SUCCESS || ours->error != MPI_SUCCESS || theirs->error != MPI_SUCCESS)
        return rc;
    /* lists are exchanged: both groups are able to make it */
    if (!list || theirs->color < 1 || theirs->color > ftk_log.n)
        return MPI_ERR_INTERN;
    write_group(c->m.vc, list);
    return swap(c, list, 2 * (size_t)ours->color * sizeof *list, list + 2 * (size_t)ftk_log.n,
        2 * (size_t)theirs->color * sizeof *list);
}

/* Broadcast to the local group, whose members have all agreed. */
static int pass_on(struct creating *c, int leader, struct ftk_proposal *theirs, int *list)
{
    struct ftk_vcomm *vc = c->m.parent;
    if (vc->size == 1)
        return MPI_SUCCESS;
    int rc = ftk_coll_broadcast(vc, leader, theirs, sizeof *theirs);
    if (rc != MPI_SUCCESS || theirs->error != MPI_SUCCESS)
        return rc;
    return ftk_coll_broadcast(
        vc, leader, list + 2 * (size_t)ftk_log.n, 2 * (size_t)theirs->color * sizeof *list);
}

/* Both groups are known here. */
static void decide(struct ftk_construct *m, const struct ftk_proposal *ours,
    const struct ftk_proposal *theirs, const int *list)
{
    const struct ftk_proposal both[2] = { *ours, *theirs };
    m->n = 2; /* one proposal for each group */
    ftk_make_decide_context(m, both);
    if (m->error != MPI_SUCCESS)
        return;
    read_group(m->vc, list + 2 * (size_t)ftk_log.n, theirs->color);
    if (!ftk_remote_seal(m->vc))
        m->error = MPI_ERR_COMM; /* both groups find that */
}

/* The proposal of a group: the contexts that all its members could use, and its size. */
static struct ftk_proposal word_of(const struct ftk_construct *m, const struct ftk_proposal *all)
{
    struct ftk_proposal w = { .free = UINT64_MAX, .color = m->parent->size, .error = m->error };
    for (int i = 0; m->error == MPI_SUCCESS && i < m->parent->size; i++) {
        w.free &= all[i].free;
        w.own = all[i].own < 0 ? -1 : w.own;
    }
    return w;
}

static int create(struct creating *c, struct ftk_vcomm *vc, int leader, MPI_Comm peer_comm,
    int remote_leader, MPI_Comm *newcomm)
{
    struct ftk_construct *m = &c->m;
    const struct ftk_proposal *all;
    struct ftk_proposal theirs = { .error = MPI_ERR_OTHER };
    bool leads = vc->rank == leader;
    int *list = malloc(4 * (size_t)ftk_log.n * sizeof *list);
    ftk_make_begin(m, vc, FTK_MAKE_NEW, MPI_INFO_NULL);
    ftk_make_first(m, vc->size);
    if (m->error == MPI_SUCCESS && (!list || !(m->vc->remote = ftk_remote_new(ftk_log.n))))
        m->error = MPI_ERR_NO_MEM;
    int wrong = leads ? find_leader(c, peer_comm, remote_leader) : MPI_SUCCESS;
    m->error = m->error == MPI_SUCCESS ? wrong : m->error;
    ftk_make_agree(m, &all);
    bool agreed = m->error == MPI_SUCCESS;
    const struct ftk_proposal ours = word_of(m, all);
    int rc = MPI_SUCCESS;
    if (leads && c->world >= 0)
        rc = meet(c, &ours, &theirs, agreed ? list : NULL);
    if (rc != MPI_SUCCESS)
        theirs.error = rc;
    if (agreed)
        rc = pass_on(c, leader, &theirs, list);
    if (m->error == MPI_SUCCESS)
        m->error = rc;
    if (m->error == MPI_SUCCESS)
        decide(m, &ours, &theirs, list);
    free(list);
    rc = ftk_make_end(m, newcomm);
    return ftk_vcomm_end(vc, rc);
}

/* A communicator of this process alone that is not one of ours, MPI_COMM_SELF for instance, can
 * be a local group. */
static bool is_single(MPI_Comm comm)
{
    int size = 0, inter = 1;
    return comm != MPI_COMM_NULL && PMPI_Comm_test_inter(comm, &inter) == MPI_SUCCESS && !inter
           && PMPI_Comm_size(comm, &size) == MPI_SUCCESS && size == 1;
}

int ftk_mpi_Intercomm_create(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm,
    int remote_leader, int tag, MPI_Comm *newintercomm)
{
    struct ftk_vcomm *vc = ftk_make_parent(local_comm, newintercomm);
    int me = ftk_log.me;
    struct ftk_vcomm single = { .handle = local_comm, .size = 1, .member = &me };
    if (!vc && ftk_vcomm_find(peer_comm) && is_single(local_comm)) {
        vc = &single;
        if (newintercomm)
            *newintercomm = MPI_COMM_NULL;
    }
    if (!vc)
        return PMPI_Intercomm_create(
            local_comm, local_leader, peer_comm, remote_leader, tag, newintercomm);
    struct creating c = { .world = -1, .tag = tag };
    int wrong = !newintercomm                                  ? MPI_ERR_ARG
                : vc->remote                                   ? MPI_ERR_COMM
                : local_leader < 0 || local_leader >= vc->size ? MPI_ERR_RANK
                : tag < 0                                      ? MPI_ERR_TAG
                                                               : MPI_SUCCESS;
    return wrong != MPI_SUCCESS
               ? ftk_vcomm_error(vc, wrong)
               : create(&c, vc, local_leader, peer_comm, remote_leader, newintercomm);
}

/* ---- making an intracommunicator of one ---------------------------------------------- */

/* All ranks of a group give the same value of high, so the value of its first rank counts.  When
 * both groups give the same value, the order is that of ftk_vcomm_nth(). */
static void merge(struct ftk_construct *m, const struct ftk_proposal *all)
{
    const struct ftk_vcomm *vc = m->parent;
    int front = vc->remote->first ? vc->remote->size : vc->size;
    int n = m->n, from = all[0].key > all[front].key ? front : 0;
    for (int i = 0; i < n; i++)
        m->vc->member[i] = ftk_vcomm_nth(vc, (from + i) % n);
    m->vc->size = n;
}

int ftk_mpi_Intercomm_merge(MPI_Comm intercomm, int high, MPI_Comm *newintracomm)
{
    struct ftk_construct m;
    const struct ftk_proposal *all;
    struct ftk_vcomm *vc = ftk_make_parent(intercomm, newintracomm);
    if (!vc)
        return PMPI_Intercomm_merge(intercomm, high, newintracomm);
    if (!vc->remote || !newintracomm)
        return ftk_vcomm_error(vc, vc->remote ? MPI_ERR_ARG : MPI_ERR_COMM);
    ftk_make_begin(&m, vc, FTK_MAKE_NEW, MPI_INFO_NULL);
    m.mine.key = high != 0;
    ftk_make_agree(&m, &all);
    if (m.error == MPI_SUCCESS)
        merge(&m, all);
    int rc = ftk_make_end(&m, newintracomm);
    return ftk_vcomm_end(vc, rc);
}
