/* Parity groups of a context, for the schemes xor and rs.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_GROUP_H
#define FTK_GROUP_H

#include "coding.h"
#include "level.h"

/* The parity of a set, made from the parity of the set before: group_update.c. */
struct ftk_parity_update {
    struct ftk_changes *changes;   /* of this rank's data; NULL: the whole parity is made */
    bool agreed;                   /* all members can update, unless data are corrupt */
    const struct ftk_mem_seg *was; /* this rank's parity of the set before, NULL: none */
    uint16_t *words;               /* of all members: 1 if the member can update, then its masks */
    uint16_t *of[FTK_GROUP_MAX];   /* where the words of each member begin */
    struct ftk_coding_delta delta;
};

/* The parity of a set that is being written. */
struct ftk_parity_write {
    struct ftk_group group;
    struct ftk_mem_seg *seg;         /* of the parity, NULL: there is none */
    struct ftk_coding coding;        /* of the current object */
    int error;                       /* why the parity could not be sealed */
    struct ftk_parity_update update; /* the caller sets changes first */
};

/* Make the parity group of a rank.  domain [nranks]: the failure domain of each rank; size: the
 * most members that a group may have; m: how many of them may be lost.  *alone: the number of ranks
 * that are alone in their group.  FTKIT_ERR_NOMEM. */
int ftk_group_map(
    int rank, int nranks, const int *domain, int size, int m, struct ftk_group *g, int *alone);

/* Exchange the sizes in the group; then take the memory.  The first function fails only when a rank
 * has failed; the second fails with a local error, on which the ranks have to agree. */
int ftk_parity_sizes(struct ftk_parity_write *w, struct ftk_chan *ch, const struct ftk_group *g,
    size_t head_bytes, size_t data_bytes);
int ftk_parity_take(struct ftk_parity_write *w, struct ftk_mem *mem,
    const struct ftk_seg_header *like, struct ftk_mem_seg *own);

/* Make progress: the first ready bytes of the data may be read.  Then, when the segment is sealed,
 * run to the end. */
int ftk_parity_progress(struct ftk_parity_write *w, struct ftk_chan *ch, size_t ready);
int ftk_parity_finish(struct ftk_parity_write *w, struct ftk_chan *ch, struct ftk_mem_seg *own);
/* Make the parity of a set that all ranks have in memory. */
int ftk_parity_make(struct ftk_level *l, struct ftk_chan *ch, uint64_t set);
void ftk_parity_end(struct ftk_parity_write *w, struct ftk_chan *ch);

/* Send this member's part, part[g->index], to all other members, and receive part[i], of bytes[i]
 * bytes, from each member i.  what: names the step in the detail. */
int ftk_group_exchange(const struct ftk_group *g, struct ftk_chan *ch, int tag, void *const *part,
    const size_t *bytes, const char *what);

/* Take the memory that an update needs.  Then, when the data are packed, prepare w->coding to
 * update the parity of the set before; if any member cannot, w->coding makes the whole parity. */
int ftk_parity_update_take(struct ftk_parity_write *w, const struct ftk_mem *mem);
int ftk_parity_update_run(struct ftk_parity_write *w, struct ftk_chan *ch);
void ftk_parity_update_end(struct ftk_parity_write *w);

#endif
