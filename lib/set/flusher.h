/* The helper thread that writes sets to the file system.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One per context that flushes in the background.  It never calls MPI and knows no context:
 * everything it needs is in the job it is given, so it goes on whatever becomes of the ranks
 * and communicators meanwhile, and needs no further call of its process to finish.
 *
 * What a rank's thread does with a job:
 *   - its rank does not write: hand the segment to the writer of the node (store/ring.h)
 *   - it writes: its own segment and those of its ranks, in the order of ranks, into one
 *     part, which gets its name when it is whole and durable
 *   - rank 0, besides: wait for the parts of the others, compare them with the checksums
 *     all ranks have told, write master and manifest (the set is complete from here on),
 *     remove old sets.
 * FTKIT_ERR_PEER as the result means that the set was given up because another process is
 * gone or has given it up; any other error is one of this process's files. */
#ifndef FTK_FLUSHER_H
#define FTK_FLUSHER_H

#include "core/ftk.h"
#include "store/ring.h"

struct ftk_flusher;

/* What to write.  Tables and the ring are the giver's until the job is done. */
struct ftk_flush_job {
    char dir[FTK_PATH_MAX];
    char context[FTKIT_NAME_MAX + 1];
    char program[FTKIT_NAME_MAX + 1];
    uint64_t set;
    uint64_t run;
    int rank;
    int nranks;
    const int *writer;     /* [nranks] rank that writes each rank's segment */
    const int *member;     /* [nranks] its place in the ring of its node */
    const uint64_t *heads; /* [nranks] checksum of the head of each segment */
    const void *seg;       /* own segment, sealed */
    size_t bytes;
    struct ftk_ring *ring; /* NULL: nobody shares with us */
    double bytes_per_s;    /* of our part; 0: as fast as possible */
    bool deflate;          /* compress what is written */
    double patience_s;     /* how long others may do nothing */
    int keep;              /* complete sets that stay */
};

struct ftk_flush_result {
    uint64_t set;
    int rc;
    bool complete; /* rank 0 only: the whole set is */
    double seconds;
    char why[FTK_DETAIL_MAX];
};

/* Register what the process does for its threads at fork() and exit(); once is enough, and
 * ftk_flusher_start() does it too. */
void ftk_flusher_prepare(void);
int ftk_flusher_start(struct ftk_flusher **out);
/* Begin; the thread must be idle. */
void ftk_flusher_give(struct ftk_flusher *f, const struct ftk_flush_job *job);
/* Whether the job is done; its result then, every time it is asked for. */
bool ftk_flusher_done(struct ftk_flusher *f, struct ftk_flush_result *r);
/* Give the job up as soon as possible. */
void ftk_flusher_cancel(struct ftk_flusher *f);
/* Nobody else is writing any more: parts that are not there after grace_s will never be. */
void ftk_flusher_alone(struct ftk_flusher *f, double grace_s);
/* Cancel, and wait for the thread; NULL is fine. */
void ftk_flusher_close(struct ftk_flusher *f);

#endif
