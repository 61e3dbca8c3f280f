/* Channels and votes: waits that end when a process fails (see detect.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "core/log_ops.h"
#include "core/mpi_shim.h"
#include "detect.h"
#include "nap.h"

#define POLL_TURNS 16 /* turns of a wait for each test of the watch */

struct ftk_chan ftk_chan_of(struct ftkit_ctx *ctx)
{
    return (struct ftk_chan){ .ctx = ctx, .comm = ctx->comms.act, .also = MPI_COMM_NULL };
}

int ftk_chan_break(struct ftk_chan *ch, int mpi_rc, const char *what)
{
    ch->broken = true;
    if (ch->ctx->mode == FTKIT_MODE_RESTART)
        return ftk_fail_mpi(mpi_rc, what);
    if (ch->repairing) {
        ftk_mpi_revoke(ch->comm);
        ftk_mpi_revoke(ch->also);
    } else {
        ftk_detect_raise(ch->ctx);
    }
    (void)ftk_fail_mpi(mpi_rc, what);
    return FTKIT_ERR_PEER;
}

void ftk_chan_progress(struct ftk_chan *ch, unsigned *turns)
{
    if (!ch->repairing)
        ftk_log_keep_going(ch->ctx);
    if (ch->repairing || ch->broken || ++*turns % POLL_TURNS != 0
        || ch->ctx->mode == FTKIT_MODE_RESTART)
        return;
    if (ftk_detect_poll(ch->ctx))
        ch->broken = true; /* act is revoked, so pending requests end with an error */
    else
        ftk_nap_turn(*turns);
}

int ftk_chan_test(struct ftk_chan *ch, MPI_Request *reqs, int n, const char *what, bool *all)
{
    *all = true;
    for (int i = 0; i < n; i++) {
        int done = 1;
        if (reqs[i] == MPI_REQUEST_NULL)
            continue;
        int rc = MPI_Test(&reqs[i], &done, MPI_STATUS_IGNORE);
        if (rc != MPI_SUCCESS) {
            reqs[i] = MPI_REQUEST_NULL;
            return ftk_chan_break(ch, rc, what);
        }
        *all = *all && done;
    }
    return FTKIT_OK;
}

int ftk_chan_wait(struct ftk_chan *ch, MPI_Request *reqs, int n, const char *what)
{
    int result = FTKIT_OK;
    unsigned turns = 0;
    for (int i = 0; i < n; i++) {
        int done = reqs[i] == MPI_REQUEST_NULL;
        while (!done) {
            int rc = MPI_Test(&reqs[i], &done, MPI_STATUS_IGNORE);
            if (rc != MPI_SUCCESS) {
                result = ftk_chan_break(ch, rc, what);
                break;
            }
            if (!done)
                ftk_chan_progress(ch, &turns);
        }
    }
    if (result == FTKIT_OK && ch->broken)
        result = ftk_fail(FTKIT_ERR_PEER, "%s: a rank has failed", what);
    return result;
}

struct ftk_chan ftk_chan_beside(struct ftkit_ctx *ctx)
{
    return (struct ftk_chan){ .ctx = ctx, .comm = ctx->comms.app, .also = MPI_COMM_NULL };
}

/* ---- votes --------------------------------------------------------------------------- */

static MPI_Datatype vote_type = MPI_DATATYPE_NULL;
static MPI_Op vote_op = MPI_OP_NULL;

static void vote_reduce(void *in, void *inout, int *len, MPI_Datatype *type)
{
    const struct ftk_vote *a = in;
    struct ftk_vote *b = inout;
    (void)type;
    for (int i = 0; i < *len; i++) {
        b[i].voters += a[i].voters;
        for (int w = 0; w < FTK_VOTE_WORDS; w++)
            if (a[i].min[w] < b[i].min[w])
                b[i].min[w] = a[i].min[w];
    }
}

int ftk_vote_objects(void)
{
    int rc = MPI_SUCCESS;
    if (vote_type == MPI_DATATYPE_NULL) {
        /* a vote is one item of this type, so that no algorithm of MPI splits the vote */
        rc = MPI_Type_contiguous(1 + FTK_VOTE_WORDS, MPI_INT64_T, &vote_type);
        if (rc == MPI_SUCCESS)
            rc = MPI_Type_commit(&vote_type);
    }
    if (rc == MPI_SUCCESS && vote_op == MPI_OP_NULL)
        rc = MPI_Op_create(vote_reduce, 1, &vote_op);
    return rc;
}

void ftk_vote_forget(void)
{
    /* errors are ignored: nothing depends on these objects any more */
    (void)MPI_Type_free(&vote_type);
    (void)MPI_Op_free(&vote_op);
}

void ftk_vote_init(struct ftk_vote *v)
{
    v->voters = 1;
    for (int w = 0; w < FTK_VOTE_WORDS; w++)
        v->min[w] = INT64_MAX;
}

void ftk_vote_same(struct ftk_vote *v, int word, uint64_t value)
{
    memcpy(&v->min[word], &value, sizeof value);
    v->min[word + 1] = ~v->min[word];
}

bool ftk_vote_is_same(const struct ftk_vote *v, int word)
{
    return v->min[word] == ~v->min[word + 1];
}

int ftk_vote(struct ftk_chan *ch, int nranks, struct ftk_vote *v)
{
    struct ftkit_ctx *ctx = ch->ctx;
    MPI_Request req = MPI_REQUEST_NULL;
    if (ch->broken)
        return ftk_fail(FTKIT_ERR_PEER, "vote: a rank has failed");
    int64_t *in = ctx->detect.vote_in[ctx->detect.votes];
    int64_t *out = ctx->detect.vote_out[ctx->detect.votes];
    _Static_assert(sizeof ctx->detect.vote_in[0] == sizeof *v, "a vote and its buffers");
    memcpy(in, v, sizeof *v);
    /* if MPI returns success without a result, the number of voters is wrong */
    memset(out, 0, sizeof *v);
    int rc = MPI_Iallreduce(in, out, 1, vote_type, vote_op, ch->comm, &req);
    if (rc != MPI_SUCCESS)
        return ftk_chan_break(ch, rc, "vote");
    (void)FTK_FAULT("vote.wait");
    ctx->detect.votes++; /* the wait may commit a set apart, which takes votes of its own */
    rc = ftk_chan_wait(ch, &req, 1, "vote");
    ctx->detect.votes--;
    if (FTK_FAULT("sure.none")) /* injected: success, and nothing has been written */
        memset(out, 0, sizeof *v);
    memcpy(v, out, sizeof *v);
    if (rc == FTKIT_OK && v->voters != nranks) /* impossible without coll/han (mpi_ulfm.c) */
        rc = ftk_chan_break(ch, MPI_ERR_OTHER, "vote with missing ranks");
    return rc;
}

int ftk_agree(struct ftk_chan *ch, int rc, const char *what)
{
    struct ftk_vote v;
    if (rc == FTKIT_ERR_PEER)
        return rc;
    ftk_vote_init(&v);
    v.min[0] = rc;
    int voted = ftk_vote(ch, ch->ctx->nranks, &v);
    if (voted != FTKIT_OK)
        return voted;
    if (rc == FTKIT_OK && v.min[0] != FTKIT_OK)
        return ftk_fail((int)v.min[0], "%s: %s", what, ftkit_strerror((int)v.min[0]));
    return (int)v.min[0];
}
