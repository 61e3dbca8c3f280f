/* Collectives that prove their result.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A native collective in which a process dies may return MPI_SUCCESS although it has written no
 * result, or only a part: Open MPI 5.0 drops the error of the second half of some collectives.  So
 * every block travels with a seal (length, sender, receiver, checksum), buffers are wiped before,
 * and reductions count their members.  A success without a result is an error like the failure of a
 * peer.
 *
 * Blocks are one behind the other in the order of ranks; sizes are in bytes.  Outputs are written
 * on success only.  All functions are collective over the communicator. */
#ifndef FTK_SURE_H
#define FTK_SURE_H

#include "detect.h"

/* The arguments that all calls have in common.  With a channel waits are polled, and errors break
 * the channel (detect.h).  Without a channel calls block, and errors are FTKIT_ERR_MPI.
 * Without a channel FTKIT_ERR_NOMEM comes before any message is sent, and the caller makes sure
 * that no rank waits for this one. */
struct ftk_sure {
    MPI_Comm comm;
    struct ftk_chan *ch; /* NULL: none; else comm is the communicator of the channel */
    const char *what;    /* the beginning of the detail of an error */
};

int ftk_sure_bcast(const struct ftk_sure *s, int root, void *buf, size_t bytes);
/* all: n blocks of `bytes` bytes each */
int ftk_sure_allgather(const struct ftk_sure *s, const void *mine, size_t bytes, void *all);
/* The same on a channel, without waiting.  step until *done: then all is filled, and *g is NULL.
 * After an error of step *g is NULL, too.  drop ends a call that is under way, after a failure.  s
 * and its channel stay the caller's until the end. */
struct ftk_gather;
int ftk_sure_gather_begin(
    const struct ftk_sure *s, const void *mine, size_t bytes, struct ftk_gather **g);
int ftk_sure_gather_step(struct ftk_gather **g, void *all, bool *done);
void ftk_sure_gather_drop(struct ftk_gather **g);
/* bytes [n]: length of each rank's block, the same on all ranks; mine may be this rank's block in
 * all */
int ftk_sure_allgatherv(const struct ftk_sure *s, const void *mine, const size_t *bytes, void *all);
/* out, in: n blocks of `bytes` bytes each */
int ftk_sure_alltoall(const struct ftk_sure *s, const void *out, size_t bytes, void *in);
/* to [n], from [n]: bytes to and from each rank */
int ftk_sure_alltoallv(
    const struct ftk_sure *s, const void *out, const size_t *to, void *in, const size_t *from);
/* v [n]: in: words of this rank; out: the minimum of each word over all ranks */
int ftk_sure_min(const struct ftk_sure *s, int64_t *v, int n);
/* The same on a channel, without waiting: as with ftk_sure_gather_begin(). */
struct ftk_minimum;
int ftk_sure_min_begin(const struct ftk_sure *s, const int64_t *v, int n, struct ftk_minimum **m);
int ftk_sure_min_step(struct ftk_minimum **m, int64_t *v, bool *done);
void ftk_sure_min_drop(struct ftk_minimum **m);
/* A barrier.  Success: every member has called it. */
int ftk_sure_meet(const struct ftk_sure *s);

/* Check the return code mpi_rc and the result *made of a constructor of a communicator.  *made must
 * have the members [n] of comm in that order (NULL: all members of comm), with this process among
 * them; with n = 0 *made must be MPI_COMM_NULL.  *made gets MPI_ERRORS_RETURN.  If the result is
 * wrong: FTKIT_ERR_MPI, and *made becomes MPI_COMM_NULL.  Local: it breaks no channel. */
int ftk_sure_comm(const struct ftk_sure *s, int mpi_rc, MPI_Comm *made, const int *members, int n);

/* A repair has ended.  The buffers of a failed call are not freed at once, because the rest of the
 * call may still write into them.  Free the buffers of calls that had failed before the previous
 * call of this function. */
void ftk_sure_close(void);

#endif
