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
    uint16_t *words;               /* of all members: whether their data match, masks */
    uint16_t *of[FTK_GROUP_MAX];   /* the words of each member */
    struct ftk_coding_delta delta;
};

/* The parity of a set that is being written. */
struct ftk_parity_write {
    struct ftk_group group;
    struct ftk_mem_seg *seg;         /* of the parity, NULL: there is none */
    struct ftk_coding coding;        /* of the current object */
    int error;                       /* why it could not be sealed */
    struct ftk_parity_update update; /* changes are the caller's to set first */
};

/* Make the group of a rank, by the domains of the ranks, for groups of at most size members of
 * which m may be lost; *alone: the number of ranks that are alone in their group.
 * FTKIT_ERR_NOMEM. */
int ftk_group_map(
    int rank, int nranks, const int *domain, int size, int m, struct ftk_group *g, int *alone);

/* Exchange the sizes in the group; then take the memory.  The first function fails only when a rank
 * has failed; the second fails with a local error, on which the ranks have to agree. */
int ftk_parity_sizes(struct ftk_parity_write *w, struct ftk_chan *ch, const struct ftk_group *g,
    size_t head_bytes, size_t data_bytes);
int ftk_parity_take(struct ftk_parity_write *w, struct ftk_mem *mem,
    const struct ftk_seg_header *like, struct ftk_mem_seg *own);

/* Go on with what of the data is ready; then, with the segment sealed, to the end. */
int ftk_parity_progress(struct ftk_parity_write *w, struct ftk_chan *ch, size_t ready);
int ftk_parity_finish(struct ftk_parity_write *w, struct ftk_chan *ch, struct ftk_mem_seg *own);
/* Parity of a set that all ranks have in memory. */
int ftk_parity_make(struct ftk_level *l, struct ftk_chan *ch, uint64_t set);
void ftk_parity_end(struct ftk_parity_write *w, struct ftk_chan *ch);

/* Give one's part to all other members and get theirs: part[i], of bytes[i], is member i's. */
int ftk_group_exchange(const struct ftk_group *g, struct ftk_chan *ch, int tag, void *const *part,
    const size_t *bytes, const char *what);

/* Take what an update needs; with the data packed, make the parity of the data from that of
 * the set before, or leave it to c->coding as a whole when something does not hold. */
int ftk_parity_update_take(struct ftk_parity_write *w, const struct ftk_mem *mem);
int ftk_parity_update_run(struct ftk_parity_write *w, struct ftk_chan *ch);
void ftk_parity_update_end(struct ftk_parity_write *w);

#endif
