/* The helper thread that writes sets to the file system.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A context that flushes in the background has one thread.  The thread never calls MPI and knows
 * no context: the job has all that the thread needs.  So the thread continues whatever happens to
 * ranks and communicators, and needs no further call of its process.
 *
 * The thread of a rank does this with a job:
 *   - rank 0, first: make the directory of the set, and leave the number of the flush there
 *   - any other writer, first: wait for this number
 *   - a rank that does not write: hand the segment to the writer of its group (store/ring.h)
 *   - a writer: write its own segment and those of its ranks, in the order of ranks, into one
 *     part, which gets its final name when it is complete and durable
 *   - rank 0, besides: wait for the parts of the other writers, compare them with the checksums
 *     of all ranks, write master and manifest (from here on the set is complete), remove old
 *     sets.
 * The result FTKIT_ERR_PEER means: the set was given up because another process is dead, because
 * another process has given the set up, or because the job was cancelled.  Any other error is an
 * error of this process's files. */
#ifndef FTK_FLUSHER_H
#define FTK_FLUSHER_H

#include "core/ftk.h"
#include "store/level_ops.h"
#include "store/ring.h"

#define GRACE_FAILED_S 1.0 /* until files of another node are visible here, after a repair */

struct ftk_flusher;

/* A job.  Tables and the ring are the caller's, and must live until the job is done. */
struct ftk_flush_job {
    char dir[FTK_PATH_MAX];
    char context[FTKIT_NAME_MAX + 1];
    char program[FTKIT_NAME_MAX + 1];
    uint64_t set;
    uint64_t run;
    int rank;
    int nranks;
    const int *writer;     /* [nranks] rank that writes each rank's segment */
    const int *member;     /* [nranks] its place in the ring of its group */
    const uint64_t *heads; /* [nranks] checksum of the head of each segment */
    const struct ftk_level_ops *level;
    const void *seg; /* own segment, sealed */
    size_t bytes;
    struct ftk_ring *ring; /* NULL: this rank writes its segment alone */
    double bytes_per_s;    /* limit for this rank's part; 0: no limit */
    bool deflate;          /* compress the part */
    bool plain;            /* regions of files as plain files */
    double patience_s;     /* how long other threads may make no progress */
    int keep;              /* number of complete sets that stay */
    uint64_t number;       /* of the flush; 0: the directory of the set is there */
    struct ftk_still own;  /* rank 0: make this job the owner of the sets; ask NULL: it is */
};

struct ftk_flush_result {
    uint64_t set;
    int rc;
    bool complete; /* rank 0 only: the whole set is complete */
    double seconds;
    char why[FTK_DETAIL_MAX];
};

/* Register the handlers of the process for fork() and exit(), once.  ftk_flusher_start() calls this
 * function, too. */
void ftk_flusher_prepare(void);
int ftk_flusher_start(struct ftk_flusher **out);
/* Give the thread a job; the thread must be idle. */
void ftk_flusher_give(struct ftk_flusher *f, const struct ftk_flush_job *job);
/* Return whether the job is done; if it is, *r is its result, at every call. */
bool ftk_flusher_done(struct ftk_flusher *f, struct ftk_flush_result *r);
/* Give the job up as soon as possible. */
void ftk_flusher_cancel(struct ftk_flusher *f);
/* No other thread is writing any more: parts that are missing after grace_s will never come. */
void ftk_flusher_alone(struct ftk_flusher *f, double grace_s);
/* A repair has ended: a directory that is missing after grace_s will never come, because rank 0 may
 * have been lost. */
void ftk_flusher_repaired(struct ftk_flusher *f, double grace_s);
/* How long the thread has been waiting for its file system, in seconds. */
double ftk_flusher_silent_s(const struct ftk_flusher *f);
/* Cancel the job, end the thread and free it; NULL is fine.  false: the thread waits for a file
 * system that does not answer, and needs all that the job names. */
bool ftk_flusher_close(struct ftk_flusher *f);

/* The event "flush": this rank has written its part of a set, or code is its error.  complete: also
 * the event "durable". */
void ftk_flush_event(const char *context, int rank, uint64_t set, size_t bytes, double seconds,
    int code, bool complete);

#endif
