/* Virtual communicators: ordered lists of ranks with a context.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_VCOMM_H
#define FTK_LOG_VCOMM_H

#include <mpi.h>

#include "log/base/envelope.h"

/* ---- virtual communicators ----------------------------------------------------------- */

enum ftk_topology { FTK_TOPO_NONE, FTK_TOPO_CART, FTK_TOPO_GRAPH, FTK_TOPO_DIST };

struct ftk_topo {
    int kind;            /* enum ftk_topology */
    int ndims;           /* CART */
    int *dims, *periods; /* [ndims] */
    int nnodes, nedges;  /* GRAPH */
    int *index, *edges;  /* [nnodes], [nedges] */
    /* DIST; for the other kinds the neighbours of this rank in the order of neighbourhood
     * collectives, MPI_PROC_NULL where there is no neighbour */
    int nin, nout;
    int *in, *out;   /* [nin], [nout] ranks of the communicator */
    int *inw, *outw; /* weights, NULL: unweighted */
};

/* The remote group of an intercommunicator: its ranks are the ranks in calls of communication. */
struct ftk_remote {
    int size;
    int *member; /* [size] world ranks */
    int *index;  /* [world size] rank in it, -1: none */
    bool first;  /* its members come first in what both groups do together */
};

/* The life of a virtual communicator.  A state that is LOST never changes. */
enum ftk_vcomm_state {
    FTK_VCOMM_LIVE,
    FTK_VCOMM_FREED, /* by the program since the line: a rollback may bring it back */
    FTK_VCOMM_PAST,  /* freed before the line: what holds it may still use it */
    FTK_VCOMM_LOST   /* taken from the program, by a rollback or a restore: what holds it cannot use
                        it any more, and its context may be another one's */
};

struct ftk_vcomm {
    MPI_Comm handle;           /* the program's handle: a duplicate of MPI_COMM_SELF, which has
                               the attributes, the name and the error handler */
    int context;               /* in which this process receives messages on it */
    int *there;                /* [world size] the context in which each member of both groups
                               receives, by rank of the world; NULL: the same for all */
    int size, rank;            /* rank of this process in it */
    int *member;               /* [size] world ranks, NULL: all of them in order */
    int *index;                /* [world size] rank in it, -1: none; NULL with member */
    struct ftk_remote *remote; /* NULL: an intracommunicator; else size, rank, member and index
                               are those of the local group */
    uint64_t colls;      /* collectives begun, plus FTK_COLL_INIT for each persistent one made */
    uint64_t line_colls; /* the same at the line */
    uint64_t born;       /* lines committed when it was made */
    /* line apart: at the cut of this rank for the set that is being written */
    uint64_t cut_colls;
    enum ftk_vcomm_at_cut { FTK_CUT_LATER, FTK_CUT_LIVES, FTK_CUT_FREED } at_cut;
    enum ftk_vcomm_state state;
    uint32_t refs; /* of the program: its handle, and what it has under way.  As long as there is
                      one, the context is in use */
    uint32_t kept; /* of the log: they keep the memory, and not the context */
    struct ftk_req *sent; /* shared by sends that are over (ftk_req_sent()); NULL: none yet */
    struct ftk_coll *slot[FTK_COLL_SLOTS]; /* the last collective under way of each number */
    struct ftk_topo topo;
    struct ftk_vcomm *next; /* list of all */
};

/* ---- references ---------------------------------------------------------------------------
 * Whoever keeps a pointer to a virtual communicator beyond a call has a reference.  A reference of
 * the program (hold, drop) stands for something that the program has and completes itself, as its
 * request: these follow from the program's steps, so they decide whether the context is in use, the
 * same in a replay.  All other references keep the memory and the handle only (keep, let_go).
 *
 * The communicator is deleted when it has no reference, and no rollback can bring it back: in
 * ftk_vcomm_free(), or, after the last reference is dropped, when the next communicator is made or
 * the next line is committed (ftk_vcomm_sweep()).  Not within the drop: the deletion frees the
 * handle, which may call back the program, and requests end in the middle of other work.
 *
 * A set has no references: what a restore makes takes its own. */
static inline void ftk_vcomm_hold(struct ftk_vcomm *vc)
{
    vc->refs++;
}
static inline void ftk_vcomm_drop(struct ftk_vcomm *vc)
{
    vc->refs--;
}
static inline void ftk_vcomm_keep(struct ftk_vcomm *vc)
{
    vc->kept++;
}
static inline void ftk_vcomm_let_go(struct ftk_vcomm *vc)
{
    vc->kept--;
}
/* In place of one that is not there any more. */
extern struct ftk_vcomm ftk_vcomm_lost;

/* The rank of the world of rank r of vc; r may be MPI_PROC_NULL or MPI_ANY_SOURCE. */
static inline int ftk_vcomm_world(const struct ftk_vcomm *vc, int r)
{
    return r < 0 || !vc->member ? r : vc->member[r];
}
/* The rank in vc of a rank of the world, -1: no member. */
static inline int ftk_vcomm_rank(const struct ftk_vcomm *vc, int world)
{
    return world < 0 || !vc->index ? world : vc->index[world];
}

/* The same for the ranks that messages on vc go to and come from: those of the remote group, if
 * there is one. */
static inline int ftk_vcomm_peers(const struct ftk_vcomm *vc)
{
    return vc->remote ? vc->remote->size : vc->size;
}
static inline int ftk_vcomm_peer_world(const struct ftk_vcomm *vc, int r)
{
    return r < 0 || !vc->remote ? ftk_vcomm_world(vc, r) : vc->remote->member[r];
}
static inline int ftk_vcomm_peer_rank(const struct ftk_vcomm *vc, int world)
{
    return world < 0 || !vc->remote ? ftk_vcomm_rank(vc, world) : vc->remote->index[world];
}

/* The context in which a rank of the world receives on vc: a send to that rank uses it. */
static inline int ftk_vcomm_there(const struct ftk_vcomm *vc, int world)
{
    return __builtin_expect(vc->there != NULL, 0) && world >= 0 ? vc->there[world] : vc->context;
}

/* The virtual communicators of this process. */
struct ftk_vcomms {
    struct ftk_vcomm *list;         /* all in memory */
    struct ftk_vcomm *world, *user; /* MPI_COMM_WORLD, ftkit_comm() */
    MPI_Group group;                /* stands for the ranks in all groups of the program */
    int ncontexts;                  /* plain ones */
    struct ftk_req *spare;          /* requests of deleted ones, to be shared by sends again */
};

struct ftk_vcomm *ftk_vcomm_find(MPI_Comm comm); /* NULL: a communicator of the MPI */
/* The name of a communicator, for messages. */
void ftk_vcomm_describe(const struct ftk_vcomm *vc, char *text, size_t room);
/* The communicator in which this process receives in a context; NULL: none. */
struct ftk_vcomm *ftk_vcomm_in_context(int context);
/* Give the world and ftkit_comm() their virtual communicators. */
int ftk_vcomm_open(void);
/* An MPI error of a call on comm goes to the error handler the program has given it. */
int ftk_vcomm_error(const struct ftk_vcomm *vc, int code);
/* The same by the handle, which need not be in the list. */
int ftk_vcomm_raise(MPI_Comm handle, int code);
/* The result of a call on vc.  While this rank rolls back no error handler is called. */
static inline int ftk_vcomm_end(const struct ftk_vcomm *vc, int rc)
{
    return __builtin_expect(rc == MPI_SUCCESS, 1) ? rc : ftk_vcomm_error(vc, rc);
}

#endif
