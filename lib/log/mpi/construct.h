/* The construction of communicators.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every communicator is constructed in the same steps:
 *
 *     ftk_make_begin()   all that can fail: memory, the handle, attributes
 *     (the caller)       members and topology, as far as they are known
 *     ftk_make_agree()   the one exchange; the same outcome at every member of the parent
 *     ftk_make_end()     from here on other calls see the communicator
 *
 * So a process that cannot do its part makes the construction fail at all members by its proposal,
 * and no process is left with half a communicator. */
#ifndef FTK_LOG_CONSTRUCT_H
#define FTK_LOG_CONSTRUCT_H

#include "log/vcomm/comm.h"

/* Tags in the context of collectives that coll/ does not use, because they are behind its own. */
#define FTK_COMM_TAGS (1 << 27)
#define FTK_COMM_GROUP_TAGS 1024 /* different ones of MPI_Comm_create_group() */

/* A communicator under construction.  vc is NULL, or complete except for the context; its arrays
 * have room for all members of the parent.  error: the construction fails with this MPI code.
 *
 * The members agree on a context: a plain one for all members, or in vc->there the shared context
 * that each member has proposed.  ftk_make_decide() fills in vc->there for the members that are
 * known then; a caller that knows the members later fills it in itself (see ftk_make_split()). */
struct ftk_construct {
    struct ftk_vcomm *parent; /* until ftk_make_agree() */
    struct ftk_vcomm *vc;
    int n;         /* members of the parent */
    bool reports;  /* this member reports errors for all members */
    bool in_order; /* proposal i is of member i */
    int context;   /* plain; -1: none is free at all members ... */
    bool shares;   /* ... and all members have a shared one free */
    int error;
    struct ftk_proposal mine;
};

/* The virtual communicator of comm, the parent of a construction; NULL: comm is the MPI's.
 * *newcomm becomes MPI_COMM_NULL, and stays so when the call fails. */
struct ftk_vcomm *ftk_make_parent(MPI_Comm comm, MPI_Comm *newcomm);
/* Local.  Fails by m->error only. */
void ftk_make_begin(
    struct ftk_construct *m, struct ftk_vcomm *parent, enum ftk_make_how how, MPI_Info info);
/* The first count members of the parent are the members. */
void ftk_make_first(struct ftk_construct *m, int count);
/* Exchange proposals with all members of the parent; *all is valid until the next exchange. */
void ftk_make_agree(struct ftk_construct *m, const struct ftk_proposal **all);
/* Decide the context by n proposals. */
void ftk_make_decide_context(struct ftk_construct *m, const struct ftk_proposal *all);
/* The same by the proposals of all members; fills in vc->there, too. */
void ftk_make_decide(struct ftk_construct *m, const struct ftk_proposal *all);
/* Local: publish the communicator and set *newcomm; MPI_COMM_NULL if this process is no member, or
 * if the construction has failed.  MPI code. */
int ftk_make_end(struct ftk_construct *m, MPI_Comm *newcomm);

/* Agree and end, for known members; errors have gone to the parent's handler. */
int ftk_make_known(struct ftk_construct *m, MPI_Comm *newcomm);
/* Agree and end, for members by color and key. */
int ftk_make_split(struct ftk_construct *m, int color, int key, MPI_Comm *newcomm);
/* Exchange proposals only; *all is valid until the next exchange. */
int ftk_make_proposals(
    struct ftk_vcomm *parent, const struct ftk_proposal *mine, const struct ftk_proposal **all);

/* A message to one rank of the world and a message from one, at the same time; the tags are of
 * the context of collectives.  MPI code. */
struct ftk_swap {
    struct ftk_vcomm *vc;
    const void *out; /* [out_bytes] */
    size_t out_bytes;
    int to, to_tag;
    void *in; /* [in_bytes] */
    size_t in_bytes;
    int from, from_tag;
};
int ftk_make_swap(const struct ftk_swap *s);

#endif
