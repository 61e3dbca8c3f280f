/* Relay of determinants to other nodes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Determinants are in shared memory of the node (det.h), which is enough while the node
 * lives.  With log.determinants = causal or pessimistic they also survive the loss of a node,
 * one node at a time: every process of another node that has a message which depends on a
 * determinant has the determinant, too, or a keeper on another node has it.
 *
 * causal: before a message leaves the node, the sender sends to the receiver, on the same
 * communicator, all determinants of this node that the receiver has not got yet.  The MPI keeps
 * the order of the two, so the receiver of the message has the determinants.  No message waits.
 * (Elnozahy & Zwaenepoel, IEEE Trans. Comput. 41(5), 1992; Meneses, Ni & Kalé, FTXS 2012, for
 * the shared memory of a node.)
 *
 * pessimistic: a message that leaves the node is held back until the keeper, a rank of
 * another node, has acknowledged all determinants of this node.  Determinants are sent in
 * rounds, so that several messages wait for one round.
 * (Bouteiller et al., IJHPCA 20(3), 2006.)
 *
 * A repair sends all determinants since the line again, to the keepers of the new epoch, before
 * the ranks agree on that epoch. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mpi_shim.h"
#include "detect/detect.h"
#include "detect/sure.h"
#include "log/mode.h"
#include "log/base/control.h"
#include "log/base/runtime.h"
#include "copies.h"
#include "log/request/send.h"
#include "rounds.h"

static struct {
    int n;                      /* ranks; 0: not open */
    struct ftk_copy (*copy)[2]; /* [n] by rank and parity of the line */
    struct ftk_reach **reach;   /* [n * FTK_LOG_PROGRAM_COMMS], NULL: none sent yet */
    int npeers;                 /* ranks of this node ... */
    int *peer, *keeper;         /* [npeers] the ranks; the keeper of each, -1: none */
    size_t *upto;             /* [npeers] determinants that the receiver of the message has then */
    long *pid;                /* [n] of the next epoch */
    struct ftk_words message; /* that is being written */
    struct ftk_rounds rounds; /* of determinants to keepers */
    /* what the repair under way has brought for this rank as a keeper */
    struct ftk_words arrived;
} relay;

/* Whether a message to dest needs determinants before it.  Before the first line a failure rolls
 * all ranks back anyway. */
static bool leaves(int dest)
{
    const struct ftk_log *l = &ftk_log;
    return !l->line.none_yet && l->node[dest] != l->node[l->me];
}

/* ---- messages of determinants -------------------------------------------------------- */

static int send_message(int dest, int tag, int context)
{
    return ftk_control_send(relay.message.v, relay.message.n, dest, tag, context);
}

static void poll_keepers(void);

/* ---- rounds -------------------------------------------------------------------------- */

enum { TAG_REPLICATE = 1, TAG_ACK };

static bool all_stable(void)
{
    for (int i = 0; i < relay.npeers; i++) {
        size_t n;
        (void)ftk_det_of(i, &n);
        if (ftk_det_stable(i) < n)
            return false;
    }
    return true;
}

/* Send the determinants of this node's ranks that are not stable to the keepers. */
static int begin_round(void)
{
    const uint64_t lines = ftk_log.line.count;
    ftk_rounds_begin(&relay.rounds);
    for (int i = 0; i < relay.npeers; i++) {
        size_t n, from = ftk_det_stable(i);
        const struct ftk_det *v = ftk_det_of(i, &n);
        if (from >= n)
            continue;
        int rc = MPI_ERR_NO_MEM;
        if (ftk_copies_begin(&relay.message, lines, relay.rounds.round)
            && ftk_copies_add(&relay.message, relay.peer[i], v, from, n))
            rc = send_message(relay.keeper[i], TAG_REPLICATE, FTK_LOG_DET_COMM);
        if (rc != MPI_SUCCESS && ftk_log_is_failure(rc))
            ftk_detect_raise(ftk_log.ctx); /* the repair ends this round */
        else if (rc != MPI_SUCCESS)
            return rc;
        ftk_rounds_sent(&relay.rounds);
    }
    ftk_rounds_begun(&relay.rounds);
    return MPI_SUCCESS;
}

static bool holds_any(void)
{
    return relay.rounds.holding > 0;
}

static bool holds(int dest)
{
    for (const struct ftk_req *r = holds_any() ? ftk_log.queue.first : NULL; r; r = r->next)
        if (r->state == FTK_REQ_HELD && r->peer == dest)
            return true;
    return false;
}

static bool hold(struct ftk_req *r)
{
    /* a held send is not overtaken, even by one that stays on this node */
    const bool waits = holds(r->peer) || leaves(r->peer);
    if (!ftk_rounds_holds(&relay.rounds, waits, waits && all_stable()))
        return false;
    bool running = relay.rounds.pending > 0;
    r->state = FTK_REQ_HELD;
    r->send.hold_round = ftk_rounds_hold(&relay.rounds);
    if (!running)
        poll_keepers();
    return true;
}

static void unhold(struct ftk_req *r)
{
    relay.rounds.holding--;
    r->state = FTK_REQ_WAITING;
}

/* A keeper has acknowledged a part. */
static void acknowledged(const uint64_t *w, size_t words)
{
    struct ftk_copies_head h;
    struct ftk_copies_part part;
    if (words < FTK_COPIES_HEAD_WORDS + FTK_COPIES_PART_WORDS)
        return;
    memcpy(&h, w, sizeof h);
    memcpy(&part, w + FTK_COPIES_HEAD_WORDS, sizeof part);
    if (!ftk_rounds_counts(&relay.rounds, h.round))
        return;
    for (int i = 0; i < relay.npeers; i++)
        if (relay.peer[i] == (int)part.owner && h.lines == ftk_log.line.count)
            ftk_det_set_stable(i, (size_t)(part.from + part.n));
    ftk_rounds_acknowledged(&relay.rounds);
}

/* Acknowledge a message to this keeper: the message has one part. */
static int acknowledge(const uint64_t *w, int dest)
{
    int rc = ftk_control_send(
        w, FTK_COPIES_HEAD_WORDS + FTK_COPIES_PART_WORDS, dest, TAG_ACK, FTK_LOG_DET_COMM);
    if (rc == MPI_SUCCESS || !ftk_log_is_failure(rc))
        return rc;
    ftk_detect_raise(ftk_log.ctx);
    return MPI_SUCCESS;
}

/* Release the sends whose round is acknowledged, in the order of posting. */
static void release_sends(void)
{
    for (struct ftk_req *r = ftk_log.queue.first, *next; relay.rounds.holding > 0 && r; r = next) {
        next = r->next;
        if (r->state == FTK_REQ_HELD && ftk_rounds_is_over(&relay.rounds, r->send.hold_round))
            ftk_send_release(r); /* the request has the error, if there is one */
    }
}

/* The sends that are held back cannot be sent: they end with an error. */
static void fail_sends(int error)
{
    for (struct ftk_req *r = ftk_log.queue.first, *next; relay.rounds.holding > 0 && r; r = next) {
        next = r->next;
        if (r->state == FTK_REQ_HELD)
            (void)ftk_req_fail(r, error);
    }
}

static void poll_keepers(void)
{
    struct ftk_log *l = &ftk_log;
    bool more = l->epoch.real[FTK_LOG_DET_COMM] != MPI_COMM_NULL;
    while (
        more && !l->ctx->detect.failed && !l->ctx->detect.repairing && !ftk_log_is_rolling_back()) {
        int found = 0;
        int rc = ftk_control_take(FTK_LOG_DET_COMM, MPI_ANY_SOURCE, &found);
        if (rc != MPI_SUCCESS)
            ftk_detect_raise(l->ctx);
        more = rc == MPI_SUCCESS && found;
    }
    if (l->ctx->detect.failed || l->ctx->detect.repairing || relay.rounds.holding == 0)
        return;
    release_sends();
    if (!ftk_rounds_is_due(&relay.rounds))
        return;
    int rc = begin_round();
    if (rc == MPI_SUCCESS)
        release_sends();
    else
        fail_sends(rc);
}

/* ---- causal: before messages --------------------------------------------------------- */

/* Contexts that share a communicator share the order of messages. */
static size_t at_of(int dest, int context)
{
    return (size_t)dest * FTK_LOG_PROGRAM_COMMS + (size_t)ftk_context_comm(context);
}

static struct ftk_reach *reach_of(int dest, int context)
{
    struct ftk_reach **at = &relay.reach[at_of(dest, context)], *r = *at;
    if (!r)
        r = *at = calloc(1, sizeof *r + (size_t)relay.npeers * sizeof r->upto[0]);
    if (r)
        ftk_reach_enter(r, relay.npeers, ftk_log.line.count);
    return r;
}

static int send_before(int dest, int context, int tag, const struct ftk_entry *e)
{
    size_t total = 0, n;
    (void)tag;
    (void)e;
    if (!leaves(dest))
        return MPI_SUCCESS;
    for (int i = 0; i < relay.npeers; i++) {
        (void)ftk_det_of(i, &n);
        total += n;
    }
    struct ftk_reach *r = reach_of(dest, context);
    if (!r)
        return MPI_ERR_NO_MEM;
    if (total == r->total)
        return MPI_SUCCESS;
    bool room = ftk_copies_begin(&relay.message, ftk_log.line.count, 0);
    for (int i = 0; room && i < relay.npeers; i++) {
        const struct ftk_det *v = ftk_det_of(i, &n); /* other ranks of the node may add some */
        relay.upto[i] = n > r->upto[i] ? n : r->upto[i];
        if (n > r->upto[i])
            room = ftk_copies_add(&relay.message, relay.peer[i], v, r->upto[i], n);
    }
    int rc = room ? send_message(dest, FTK_CONTROL_TAG, context) : MPI_ERR_NO_MEM;
    if (rc == MPI_SUCCESS)
        ftk_reach_sent(r, relay.npeers, relay.upto);
    return rc;
}

static int recv_all(int context, int source)
{
    return ftk_log.node[source] == ftk_log.node[ftk_log.me] ? MPI_SUCCESS
                                                            : ftk_control_all(context, source);
}

/* ---- the messages ---------------------------------------------------------------------- */

static int store_dets(const struct ftk_control *c)
{
    struct ftk_copies_head h;
    return ftk_copies_store(relay.copy, relay.n, c->w, c->words, &h);
}

static int keep_dets(const struct ftk_control *c)
{
    int rc = store_dets(c);
    return rc == MPI_SUCCESS && !ftk_log.ctx->detect.repairing ? acknowledge(c->w, c->source) : rc;
}

static int take_ack(const struct ftk_control *c)
{
    acknowledged(c->w, c->words);
    return MPI_SUCCESS;
}

static const struct ftk_control_kind before_messages = {
    .context = FTK_CONTROL_IN_BAND, .tag = FTK_CONTROL_TAG, .handle = store_dets
};
static const struct ftk_control_kind of_rounds[] = {
    { .context = FTK_LOG_DET_COMM, .tag = TAG_REPLICATE, .handle = keep_dets },
    { .context = FTK_LOG_DET_COMM, .tag = TAG_ACK, .handle = take_ack }
};

/* ---- in a repair --------------------------------------------------------------------- */

static const struct ftk_copy *copy_of(int rank, uint64_t lines)
{
    return relay.copy ? ftk_copies_of(relay.copy[rank], lines) : NULL;
}

/* The member of act that has most determinants of rank k, and how many. */
static int most_known(const struct ftk_log_repair *r, int k, uint64_t lines, size_t *n)
{
    enum { RANK_BITS = 24 };
    const struct ftk_copy *c = copy_of(k, lines);
    const struct ftk_sure s = { r->act, NULL, "collecting determinants" };
    int64_t mine = (int64_t)((uint64_t)(c ? c->n : 0) << RANK_BITS | (uint64_t)r->me);
    mine = -mine; /* the largest */
    int rc = ftk_sure_min(&s, &mine, 1);
    uint64_t most = (uint64_t)-mine;
    *n = rc == FTKIT_OK ? (size_t)(most >> RANK_BITS) : 0;
    return rc == FTKIT_OK ? (int)(most & ((1u << RANK_BITS) - 1)) : -1;
}

static int collect_one(const struct ftk_log_repair *r, int k, uint64_t lines)
{
    size_t n = 0;
    int root = most_known(r, k, lines, &n);
    if (root < 0 || n > INT32_MAX / sizeof(struct ftk_det))
        return ftk_fail(FTKIT_ERR_PEER, "collecting determinants");
    struct ftk_det *v = malloc((n + 1) * sizeof *v);
    if (!v)
        return ftk_fail(FTKIT_ERR_NOMEM, "collecting determinants");
    if (root == r->me && n > 0)
        memcpy(v, copy_of(k, lines)->v, n * sizeof *v);
    if (root == r->me)
        ftk_report(FTKIT_DEBUG, "context %s: rank %d knows %zu determinants of rank %d",
            ftk_log.ctx->cfg.name, r->me, n, k);
    const struct ftk_sure s = { r->act, NULL, "collecting determinants" };
    int rc = ftk_sure_bcast(&s, root, v, n * sizeof *v);
    if (rc == FTKIT_OK)
        ftk_det_adopt(k, lines, v, n);
    else
        free(v);
    return rc;
}

static int collect(const struct ftk_log_repair *r, uint64_t lines)
{
    int rc = FTKIT_OK;
    for (int k = 0; rc == FTKIT_OK && k < r->n; k++)
        if (r->is_new[k] && !ftk_det_is_adopted(k))
            rc = collect_one(r, k, lines);
    return rc;
}

/* Collective over act: each member sends its message to one member, its keeper; -1: to none. */
static int exchange(const struct ftk_log_repair *r, int keeper)
{
    size_t n = (size_t)r->n;
    size_t *to = calloc(2 * n, sizeof *to);
    if (!to)
        return ftk_fail(FTKIT_ERR_NOMEM, "sending determinants");
    if (keeper >= 0)
        to[keeper] = relay.message.n;
    int rc =
        ftk_words_exchange(r, &relay.message, to, &relay.arrived, to + n, "sending determinants");
    free(to);
    return rc;
}

static int replicate(const struct ftk_log_repair *r, uint64_t lines, bool nothing)
{
    size_t n = 0;
    long pid = (long)getpid();
    free(relay.pid);
    relay.pid = calloc((size_t)r->n, sizeof *relay.pid);
    if (!relay.pid)
        return ftk_fail(FTKIT_ERR_NOMEM, "sending determinants");
    const struct ftk_sure s = { r->act, NULL, "sending determinants" };
    int rc = ftk_sure_allgather(&s, &pid, sizeof pid, relay.pid);
    if (rc != FTKIT_OK)
        return rc;
    const struct ftk_det *v = ftk_det_own(lines, &n);
    int keeper = n > 0 && !nothing ? ftk_rounds_keeper(r->domain, r->n, r->me) : -1;
    bool room = ftk_copies_begin(&relay.message, lines, 0)
                && (keeper < 0 || ftk_copies_add(&relay.message, r->me, v, 0, n));
    if (!room || relay.message.n > INT32_MAX)
        return ftk_fail(FTKIT_ERR_NOMEM, "sending determinants");
    return exchange(r, keeper);
}

static void forget_copies(void)
{
    for (int k = 0; k < relay.n; k++) {
        for (int i = 0; i < 2; i++)
            free(relay.copy[k][i].v);
        for (size_t c = 0; c < FTK_LOG_PROGRAM_COMMS; c++) {
            struct ftk_reach **at = &relay.reach[(size_t)k * FTK_LOG_PROGRAM_COMMS + c];
            free(*at);
            *at = NULL;
        }
    }
    if (relay.n > 0)
        memset(relay.copy, 0, (size_t)relay.n * sizeof *relay.copy);
}

/* Store the messages that came with the repair; they are one behind the other. */
static int store_arrived(void)
{
    size_t at = 0;
    int rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && at < relay.arrived.n) {
        struct ftk_copies_head h;
        struct ftk_copies_part part;
        memcpy(&part, relay.arrived.v + at + FTK_COPIES_HEAD_WORDS, sizeof part);
        size_t words =
            FTK_COPIES_HEAD_WORDS + FTK_COPIES_PART_WORDS + (size_t)part.n * FTK_COPIES_DET_WORDS;
        rc = ftk_copies_store(relay.copy, relay.n, relay.arrived.v + at, words, &h);
        at += words;
    }
    ftk_words_free(&relay.arrived);
    return rc;
}

static int make_tables(const struct ftk_log_repair *r)
{
    size_t n = (size_t)r->n;
    if (relay.n == 0) {
        relay.copy = calloc(n, sizeof *relay.copy);
        relay.reach = calloc(n * FTK_LOG_PROGRAM_COMMS, sizeof(struct ftk_reach *));
        relay.peer = calloc(2 * n, sizeof *relay.peer);
        relay.keeper = relay.peer ? relay.peer + n : NULL;
        relay.upto = calloc(n, sizeof *relay.upto);
        if (!relay.copy || !relay.reach || !relay.peer || !relay.upto)
            return ftk_fail(FTKIT_ERR_NOMEM, "determinants of other nodes");
        relay.n = r->n;
    }
    relay.npeers = 0;
    for (int k = 0; k < r->n; k++) {
        if (r->domain[k] != r->domain[r->me])
            continue;
        relay.keeper[relay.npeers] = ftk_rounds_keeper(r->domain, r->n, k);
        relay.peer[relay.npeers++] = k;
    }
    return ftk_det_peers(relay.peer, relay.pid, relay.npeers);
}

static int install(const struct ftk_log_repair *r)
{
    forget_copies();
    int rc = make_tables(r);
    if (rc == FTKIT_OK && store_arrived() != MPI_SUCCESS)
        rc = ftk_fail(FTKIT_ERR_INTERNAL, "determinants of other nodes are damaged");
    ftk_rounds_end(&relay.rounds);
    for (struct ftk_req *q = ftk_log.queue.first; q; q = q->next)
        if (q->state == FTK_REQ_HELD)
            q->send.hold_round = ftk_rounds_next(&relay.rounds);
    return rc;
}

static void close_relay(void)
{
    forget_copies();
    free(relay.copy);
    free(relay.reach);
    free(relay.peer);
    free(relay.upto);
    free(relay.pid);
    ftk_words_free(&relay.message);
    ftk_words_free(&relay.arrived);
    (void)ftk_det_peers(NULL, NULL, 0);
    memset(&relay, 0, sizeof relay);
}

/* ---- the modes ----------------------------------------------------------------------- */

/* A small message to another node carries determinants; a message to a rank with a held send must
 * not overtake that send. */
static bool needs_request(int world)
{
    const struct ftk_log *l = &ftk_log;
    return l->node[world] != l->node[l->me] || holds(world);
}

const struct ftk_det_mode ftk_mode_causal = { .records = true,
    .off_node = true,
    .part = { .close = close_relay,
        .install = install,
        .may_sleep = ftk_mode_stays_awake,
        .controls = &before_messages,
        .ncontrols = 1 },
    .needs_request = needs_request,
    .before = send_before,
    .absorb = recv_all,
    .collect = collect,
    .replicate = replicate };

const struct ftk_det_mode ftk_mode_pessimistic = { .records = true,
    .off_node = true,
    .part = { .close = close_relay,
        .serve = poll_keepers,
        .install = install,
        .may_sleep = ftk_mode_stays_awake,
        .controls = of_rounds,
        .ncontrols = sizeof of_rounds / sizeof of_rounds[0] },
    .needs_request = needs_request,
    .hold = hold,
    .unhold = unhold,
    .holds_any = holds_any,
    .collect = collect,
    .replicate = replicate };
