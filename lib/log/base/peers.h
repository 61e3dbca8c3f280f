/* What the log knows of each other rank.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A job may have a million ranks, and a rank exchanges messages with few of them: its partners.
 * The table has an entry for each rank, in pages of memory that the kernel makes when they are
 * written.  So an entry is found by its rank alone, and only entries of partners need memory.
 * Whatever looks at all entries goes through the list of partners. */
#ifndef FTK_LOG_PEERS_H
#define FTK_LOG_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log/base/envelope.h"

struct ftk_entry;

/* Messages since the last repair. */
struct ftk_count {
    uint64_t sent;      /* handed to the MPI */
    uint64_t received;  /* completed or drained here */
    uint64_t announced; /* what the rank says it has sent */
};

struct ftk_peer {
    struct ftk_count count[FTK_COUNTS]; /* by ftk_context_counter() */
    /* of the program, since the first line; rolled back with this rank (recovery/matrix.c) */
    uint64_t messages, bytes;
    struct ftk_entry *first, *last; /* of the sender log, since the line */
    struct ftk_entry *last_before;  /* line apart: the last entry before the cut; or NULL */
    bool joined;                    /* is in the list */
    bool unkept;                    /* this rank, of a silent team, has sent to it since the line */
    bool unkept_since_cut; /* ... since the last cut, which is the line if its set is committed */
};

struct ftk_peers {
    struct ftk_peer *at; /* [n] */
    int n;
    int *list; /* [nlist] partners */
    int nlist;
    size_t room;
    bool sorted; /* the list is rising */
    bool all;    /* there was no memory for the list: all ranks count as partners */
};

extern struct ftk_peers ftk_peers;

void ftk_peer_join(int rank);

/* The entry of a rank, which is a partner from now on. */
static inline struct ftk_peer *ftk_peer(int rank)
{
    struct ftk_peer *p = &ftk_peers.at[rank];
    if (!p->joined)
        ftk_peer_join(rank);
    return p;
}

/* The number of partners, and partner i in rising order.  A new partner may have any place until
 * the next call of ftk_peers_count(). */
int ftk_peers_count(void);
static inline int ftk_peers_rank(int i)
{
    return ftk_peers.all ? i : ftk_peers.list[i];
}

/* This rank sends to another team without keeping the message (recovery/silent.c). */
static inline void ftk_silent_sends(struct ftk_peer *p)
{
    p->unkept = p->unkept_since_cut = true;
}

#endif
