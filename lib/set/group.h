/* Parity groups of a context, for the schemes xor and rs.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_GROUP_H
#define FTK_GROUP_H

#include "coding.h"
#include "level.h"

/* Messages between the members of a group, which are under way. */
struct ftk_group_exchange {
    const char *what; /* names the step in the detail */
    int n;
    MPI_Request req[2 * FTK_GROUP_MAX];
};

/* The parity of a set, made from the parity of the set before: group_update.c. */
struct ftk_parity_update {
    struct ftk_changes *changes;   /* of this rank's data; NULL: the whole parity is made */
    bool agreed;                   /* all members can update, unless data are corrupt */
    const struct ftk_mem_seg *was; /* this rank's parity of the set before, NULL: none */
    uint16_t *words;               /* of all members: 1 if the member can update, then its masks */
    uint16_t *of[FTK_GROUP_MAX];   /* where the words of each member begin */
    struct ftk_coding_delta delta;
};

/* What the parity of a set waits for, in this order. */
enum ftk_parity_phase {
    FTK_PARITY_START,   /* the first step */
    FTK_PARITY_SIZES,   /* the sizes of the other members */
    FTK_PARITY_FILL,    /* the segment is filled; the coding of its data may have begun */
    FTK_PARITY_CHANGES, /* the changes of the other members */
    FTK_PARITY_DATA,    /* the coding of the data */
    FTK_PARITY_HEAD,    /* the coding of the head */
    FTK_PARITY_DONE
};

/* The parity of a set that is being written.  It stays where it is: MPI has pointers into it. */
struct ftk_parity_write {
    struct ftk_group group;
    int phase;               /* enum ftk_parity_phase */
    struct ftk_mem_seg *own; /* this rank's segment */
    struct ftk_mem_seg *seg; /* of the parity, NULL: there is none */
    struct ftk_group_exchange under_way;
    uint64_t sizes[FTK_GROUP_MAX][FTK_CODED + 1]; /* of each member; last, the base of changes */
    struct ftk_coding coding;                     /* of the current object */
    int error;                                    /* why the parity could not be sealed */
    struct ftk_parity_update update;              /* the caller sets changes first */
};

/* Make the parity group of a rank.  domain [nranks]: the failure domain of each rank; size: the
 * most members that a group may have; m: how many of them may be lost.  *alone: the number of ranks
 * that are alone in their group.  FTKIT_ERR_NOMEM. */
int ftk_group_map(
    int rank, int nranks, const int *domain, int size, int m, struct ftk_group *g, int *alone);

/* The functions of a writing, in the order of the calls, for a struct of zeros.  A step does not
 * wait; it is called until *done.  *idle: nothing has moved.  FTKIT_ERR_PEER: a rank has failed. */
void ftk_parity_start(
    struct ftk_parity_write *w, const struct ftk_group *g, size_t head_bytes, size_t data_bytes);
/* Exchange the sizes in the group. */
int ftk_parity_sizes_step(struct ftk_parity_write *w, struct ftk_chan *ch, bool *idle, bool *done);
/* Take the memory.  The function fails with a local error, on which the ranks have to agree. */
int ftk_parity_take(struct ftk_parity_write *w, struct ftk_mem *mem,
    const struct ftk_seg_header *like, struct ftk_mem_seg *own);
/* Make progress while the segment is filled: the first ready bytes of the data may be read. */
int ftk_parity_progress(struct ftk_parity_write *w, struct ftk_chan *ch, size_t ready);
/* The segment is sealed: make its parity and seal that, too (or see w->error). */
int ftk_parity_step(struct ftk_parity_write *w, struct ftk_chan *ch, bool *idle, bool *done);
/* End all requests, and release a parity that is not sealed.  Messages that are under way end when
 * the other members go on, or because of FTKIT_ERR_PEER. */
void ftk_parity_end(struct ftk_parity_write *w, struct ftk_chan *ch);

/* Make the parity of a set whose segments all members of the group have in memory. */
int ftk_parity_make(
    struct ftk_mem *mem, const struct ftk_group *g, struct ftk_chan *ch, uint64_t set);

/* Send this member's part, part[g->index], to all other members, and receive part[i], of bytes[i]
 * bytes, from each member i.  what: names the step in the detail. */
int ftk_group_post(struct ftk_group_exchange *x, const struct ftk_group *g, struct ftk_chan *ch,
    int tag, void *const *part, const size_t *bytes, const char *what);
/* *all: nothing is under way any more. */
int ftk_group_test(struct ftk_group_exchange *x, struct ftk_chan *ch, bool *all);

/* Take the memory that an update needs.  When the data are packed, send the changes to the other
 * members.  When theirs have come, prepare w->coding to update the parity of the set before; if any
 * member cannot, w->coding makes the whole parity.  Without changes, the functions do nothing. */
int ftk_parity_update_take(struct ftk_parity_write *w, const struct ftk_mem *mem);
int ftk_parity_update_post(struct ftk_parity_write *w, struct ftk_chan *ch);
void ftk_parity_update_use(struct ftk_parity_write *w);
void ftk_parity_update_end(struct ftk_parity_write *w);

#endif
