/* Virtual communicators: their construction, contexts and handles.
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
#ifndef FTK_LOG_COMM_H
#define FTK_LOG_COMM_H

#include "log/log.h"
#include "mpi_calls.h" /* the entry points */

/* Tags in the context of collectives that coll/ does not use, because they are behind its own. */
#define FTK_COMM_TAGS (1 << 27)
#define FTK_COMM_GROUP_TAGS 1024 /* different ones of MPI_Comm_create_group() */

/* The proposal of a member in a construction. */
struct ftk_proposal {
    uint64_t free;      /* plain contexts that it could use */
    int32_t color, key; /* of a split; else free for the caller */
    int32_t error;      /* MPI code with which its part has failed */
    int32_t rank;       /* of the member; the receiver fills it in */
    int32_t own;        /* its shared context, if all members have no plain one free; or -1 */
    int32_t zero;       /* no padding: the replay check compares all bytes */
};

enum ftk_make_how {
    FTK_MAKE_NEW,     /* no attributes */
    FTK_MAKE_DUP,     /* attributes and topology of the parent */
    FTK_MAKE_DUP_INFO /* the same with other hints */
};

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
    bool tells;    /* this member reports errors for all members */
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

/* Memory for the proposals of all ranks, until the next exchange. */
struct ftk_proposal *ftk_make_room(void);

/* The program frees vc.  MPI code. */
int ftk_vcomm_free(struct ftk_vcomm *vc);

/* A call could not find out a count.  While this rank rolls back the count becomes 0, because the
 * program may loop over it before its next ftkit_checkpoint().  n may be NULL. */
static inline void ftk_vcomm_no_count(int *n)
{
    if (n && ftk_log_is_rolling_back())
        *n = 0;
}

static inline bool ftk_vcomm_is_permanent(const struct ftk_vcomm *vc)
{
    return vc == ftk_log.vcomms.world || vc == ftk_log.vcomms.user;
}
/* Delete those that have no reference any more (vcomm.h).  Callbacks of the program may run. */
void ftk_vcomm_sweep(void);
/* Add the contexts in use. */
void ftk_vcomm_contexts(struct ftk_contexts *to);
/* Make the handle of a communicator.  MPI code. */
int ftk_vcomm_handle(
    const struct ftk_vcomm *parent, enum ftk_make_how how, MPI_Info info, MPI_Comm *handle);
void ftk_vcomm_publish(struct ftk_vcomm *vc); /* into the list */
/* A communicator with room for members; NULL: no memory.  Free it. */
struct ftk_vcomm *ftk_vcomm_empty(int members);
void ftk_vcomm_discard(struct ftk_vcomm *vc);
/* For vcomm_image.c: give vc a handle and publish it; on an error vc is freed.  MPI code. */
int ftk_vcomm_attach(struct ftk_vcomm *vc);
/* vc is lost.  Its handle is left to the program, if the program has it. */
void ftk_vcomm_detach(struct ftk_vcomm *vc);
/* Whether a handle is detached: the last rollback has left it to the program.  True once. */
bool ftk_vcomm_is_detached(MPI_Comm handle);

/* vcomm_image.c: the communicators of a line in a set.  Reading: make constructs the missing
 * communicators and detaches others.  pass(): the address behind n images, NULL: they are cut
 * short. */
int ftk_vcomm_image_context(MPI_Comm comm);            /* log_ops.h: context_of */
int ftk_vcomm_of_context(int context, MPI_Comm *comm); /* log_ops.h: comm_back */
size_t ftk_vcomm_images_words(void);
uint64_t *ftk_vcomm_images_write(uint64_t *w);
int ftk_vcomm_images_read(const uint64_t *w, const uint64_t *end, bool make);
const uint64_t *ftk_vcomm_images_pass(const uint64_t *w, const uint64_t *end, uint64_t n);

/* mpi/comm_calls.c: the contexts that are promised to duplications under way. */
void ftk_idup_promised(struct ftk_contexts *to);

/* topology.c */
/* n integers on the heap, copied unless from is NULL; NULL: no memory. */
int *ftk_topo_ints(const int *from, int n);
int ftk_topo_copy(struct ftk_topo *to, const struct ftk_topo *from); /* MPI code */
void ftk_topo_free(struct ftk_topo *t);                              /* leaves it empty */

#endif
