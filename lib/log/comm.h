/* Virtual communicators: what vcomm/ and the calls of mpi/ that make them share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every communicator is made in the same steps:
 *
 *     ftk_make_begin()   everything that can fail is done: memory, the handle, attributes
 *     (the caller)       members and topology, as far as they are known
 *     ftk_make_agree()   the one exchange; the same outcome at every member of the parent
 *     ftk_make_end()     only now does anything change that others can see
 *
 * so that a process that could not do its part takes the others' part down with its word,
 * and nobody is left with half a communicator. */
#ifndef FTK_LOG_COMM_H
#define FTK_LOG_COMM_H

#include "log/log.h"
#include "mpi_calls.h" /* the entry points */

/* Tags of what is not a collective of coll/ in the context of collectives: behind all of
 * its own. */
#define FTK_COMM_TAGS (1 << 27)
#define FTK_COMM_GROUP_TAGS 1024 /* different ones of MPI_Comm_create_group() */

/* What a member says in the making of a communicator. */
struct ftk_proposal {
    uint64_t free;      /* plain contexts that it could use */
    int32_t color, key; /* of a split; else what the caller likes */
    int32_t error;      /* MPI code with which its part has failed */
    int32_t rank;       /* filled in by the receiver: whose word it is */
    int32_t own;        /* where it would receive if no plain one is free at all, or -1 */
    int32_t zero;       /* no padding: what is sent is compared in a replay */
};

enum ftk_make_how {
    FTK_MAKE_NEW,     /* no attributes */
    FTK_MAKE_DUP,     /* attributes and topology of the parent */
    FTK_MAKE_DUP_INFO /* the same with other hints */
};

/* A communicator in the making.  vc is NULL or whole but for what is agreed; its arrays
 * have room for all members of the parent.  error says why it will come to nothing.
 *
 * What is agreed is a context: a plain one for all members, or vc->there, for each member the
 * one that it has said.  ftk_make_decide() fills in there for the members that are known by
 * then; who comes to know them later does that (see ftk_make_split()). */
struct ftk_construct {
    struct ftk_vcomm *parent; /* until ftk_make_agree() */
    struct ftk_vcomm *vc;
    int n;       /* members of the parent */
    bool tells;  /* of the members it is this one that reports */
    bool in_order; /* the words are those of the members, in their order */
    int context; /* plain, -1: none was free at all members ... */
    bool shares; /* ... and whether all could use one that shares its communicator */
    int error;
    struct ftk_proposal mine;
};

/* What a call makes a new one of; NULL: not one of ours.  *newcomm is MPI_COMM_NULL until it
 * is made, and stays so when the call fails: nobody uses what is not there. */
struct ftk_vcomm *ftk_make_parent(MPI_Comm comm, MPI_Comm *newcomm);
/* Local.  Never fails otherwise than by m->error. */
void ftk_make_begin(
    struct ftk_construct *m, struct ftk_vcomm *parent, enum ftk_make_how how, MPI_Info info);
/* The first count members of the parent are the members. */
void ftk_make_first(struct ftk_construct *m, int count);
/* Exchange words with all members of the parent; they are in *all until the next
 * exchange. */
void ftk_make_agree(struct ftk_construct *m, const struct ftk_proposal **all);
/* The context that the n words come to. */
void ftk_make_decide_context(struct ftk_construct *m, const struct ftk_proposal *all);
/* ... when they are those of all members; also where each of them receives. */
void ftk_make_decide(struct ftk_construct *m, const struct ftk_proposal *all);
/* Local: the communicator to the list and to *newcomm, or MPI_COMM_NULL where this
 * process is no member or it has come to nothing; then the MPI code. */
int ftk_make_end(struct ftk_construct *m, MPI_Comm *newcomm);

/* Agree and end when the members are known; errors have gone to the parent's handler. */
int ftk_make_known(struct ftk_construct *m, MPI_Comm *newcomm);
/* ... when color and key decide. */
int ftk_make_split(struct ftk_construct *m, int color, int key, MPI_Comm *newcomm);
/* The words of all members of the parent alone; they are in *all until the next one. */
int ftk_make_proposals(
    struct ftk_vcomm *parent, const struct ftk_proposal *mine, const struct ftk_proposal **all);

/* A message to one rank of the world and a message from one, at the same time; the tags are of
 * the context of collectives.  MPI code. */
struct ftk_swap {
    struct ftk_vcomm *vc;
    const void *out; /* [out_bytes] */
    size_t out_bytes;
    int to, to_tag;
    void *in;        /* [in_bytes] */
    size_t in_bytes;
    int from, from_tag;
};
int ftk_make_swap(const struct ftk_swap *s);

/* Memory for the words of all ranks, until the next exchange. */
struct ftk_proposal *ftk_make_room(void);

/* Plain contexts that this process could use for a new communicator, and the first of those
 * that share theirs; -1: none.  Both depend on the program's steps only. */
uint64_t ftk_vcomm_free_contexts(int *own);
/* The program has freed it; the MPI code of doing so. */
int ftk_vcomm_free(struct ftk_vcomm *vc);

/* A count that a call could not find out.  A program that falls back may loop over it before it
 * comes to its next ftkit_checkpoint(): it is 0 then.  n may be NULL. */
static inline void ftk_vcomm_no_count(int *n)
{
    if (n && ftk_log.rolling_back)
        *n = 0;
}

static inline bool ftk_vcomm_is_permanent(const struct ftk_vcomm *vc)
{
    return vc == ftk_log.world || vc == ftk_log.user;
}
/* One without members, NULL: no memory, and back; for vcomm_image.c: one that is whole but for its
 * handle gets into the list, or is discarded and the MPI code says why; one that the program
 * keeps, if it does, as a communicator of its own. */
void ftk_vcomm_give_up(struct ftk_vcomm *vc); /* its context is free again */
int ftk_vcomm_handle(const struct ftk_vcomm *parent, enum ftk_make_how how, MPI_Info info,
    MPI_Comm *handle);
void ftk_vcomm_publish(struct ftk_vcomm *vc); /* into the list */
struct ftk_vcomm *ftk_vcomm_empty(int members);
void ftk_vcomm_discard(struct ftk_vcomm *vc);
int ftk_vcomm_attach(struct ftk_vcomm *vc);
void ftk_vcomm_detach(struct ftk_vcomm *vc);
/* Whether a handle is one of those that ftk_vcomm_back() has last left to the program; only
 * once. */
bool ftk_vcomm_is_detached(MPI_Comm handle);

/* vcomm_image.c: the communicators of a line in a set.  Reading makes those that are not there and
 * lets others go (make), and sets what was begun on each (colls); *at is behind them then. */
int ftk_vcomm_image_context(MPI_Comm comm); /* log_ops.h: context_of */
int ftk_vcomm_of_context(int context, MPI_Comm *comm); /* log_ops.h: comm_back */
size_t ftk_vcomm_images_words(void);
uint64_t *ftk_vcomm_images_write(uint64_t *w);
int ftk_vcomm_images_read(
    const uint64_t **at, const uint64_t *end, uint64_t n, bool make, bool colls);

/* mpi/comm_calls.c: contexts that are promised to duplications under way. */
void ftk_idup_promised(struct ftk_contexts *to);
/* Their requests have been dropped. */
void ftk_idup_clear(void);

/* topo.c */
/* n integers on the heap, copied unless from is NULL; NULL: no memory. */
int *ftk_topo_ints(const int *from, int n);
int ftk_topo_copy(struct ftk_topo *to, const struct ftk_topo *from); /* MPI code */
void ftk_topo_free(struct ftk_topo *t); /* leaves it empty */

#endif
