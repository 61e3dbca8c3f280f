/* Mode node with replicas: the replicas of a rank have the same open outcomes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The replica of a rank in one plane is the leader.  It decides as without replicas, and sends each
 * determinant to the other replicas of the rank, the followers.  A follower is a rank in a replay
 * that does not end: before an outcome that MPI leaves open it waits for the determinant of the
 * leader, and then repeats the outcome. [DINO 3]
 *
 * A wildcard receive is withheld: it is posted when its match is known.  Receives behind it that
 * could get the same message wait with it.
 *
 * No follower can block its leader, because messages of the program stay within a plane.  But calls
 * of ftkit need all planes.  So a leader that waits in such a call decides what is open: it looks
 * at its wildcard receives, and records how many tests have failed before the call.  Otherwise the
 * sender of a long message could wait in the plane of a follower, whose receive is not posted.  At
 * a set the leader says when it has received all messages: the receives that have no match then
 * are under way in the set, in all replicas.
 *
 * If the plane of the leader stands still after a loss, the lowest other plane leads from then on.
 * Outcomes of the old leaders have spread by messages: the outcome of one rank may be the reason of
 * an outcome of another.  So each new leader has to know all that its predecessor has decided, also
 * that no message has carried.  A live predecessor sends the rest in the repair (send_last()).  The
 * determinants of a lost one are in shared memory of its node, and the repair has sent them to all
 * (adopt()).  Invariant: the list of each follower is the beginning of the list of its leader.
 * [docs/model/lead.pml] */
#include <stdlib.h>
#include <string.h>

#include "detect/detect.h"
#include "log/base/control.h"
#include "log/determinant/det.h"
#include "log/mode.h"
#include "log/base/plane.h"
#include "log/request/match.h"

/* A message of the leader, in words of 64 bits: this head, then the determinants. */
struct head {
    uint64_t lines;   /* committed before the determinants */
    uint64_t from, n; /* number of the first determinant, from 0; how many follow */
    uint64_t drained; /* call of ftkit_checkpoint() for whose set all messages are received; or 0 */
};
enum { HEAD_WORDS = sizeof(struct head) / 8, DET_WORDS = sizeof(struct ftk_det) / 8, TAG_LEAD = 1 };

/* A message of the next interval: the leader has seen the commit of a line, and this rank has
 * not. */
struct early {
    struct early *next;
    size_t words;
    uint64_t w[];
};

static struct {
    uint64_t lines;          /* of which interval the rest is */
    size_t sent;             /* leader: determinants that the followers have got */
    uint64_t drained;        /* the last such message sent, or got */
    bool astray;             /* follower: it has other determinants than its leader */
    bool withholds, arrived; /* follower: receives wait for matches; there may be some */
    struct early *early, **early_end;
} lead;

static void begin_interval(void)
{
    lead.lines = ftk_log.line.count;
    lead.sent = 0;
    lead.drained = 0;
    lead.astray = false;
    lead.arrived = true;
}

/* ---- who leads -------------------------------------------------------------------------- */

static bool is_ready(void)
{
    const struct ftk_log *l = &ftk_log;
    return l->on && l->epoch.real[FTK_LOG_DET_COMM] != MPI_COMM_NULL && !l->ctx->detect.failed
           && !l->ctx->detect.repairing && !ftk_log_is_rolling_back();
}

static bool leads(void)
{
    return ftk_log_plane_of(ftk_log.me) == ftk_log.epoch.leader;
}

static bool stands_still(int plane)
{
    return ftk_log.ctx->replica.stale >> plane & 1;
}

static bool follows(void)
{
    return !leads() && !stands_still(ftk_log_plane_of(ftk_log.me)) && !lead.astray;
}

/* ---- the leader ----------------------------------------------------------------------------- */

/* The determinants of this rank that the followers lack: from lead.sent to the result. */
static size_t dets_to_send(const struct ftk_det **v)
{
    size_t n;
    if (lead.lines != ftk_log.line.count)
        begin_interval();
    *v = ftk_det_own(ftk_log.line.count, &n);
    return lead.sent + (n > lead.sent ? ftk_det_whole(*v + lead.sent, n - lead.sent) : 0);
}

/* Send a message with the determinants from lead.sent to n to the replicas in these planes. */
static int send_dets(const struct ftk_det *v, size_t n, uint64_t drained, unsigned planes)
{
    const struct head h = { lead.lines, lead.sent, n - lead.sent, drained };
    const size_t words = HEAD_WORDS + (n - lead.sent) * DET_WORDS;
    const int size = ftk_log_plane_size(), home = ftk_log.me % size;
    uint64_t *w = malloc(words * sizeof *w);
    if (!w)
        return MPI_ERR_NO_MEM;
    memcpy(w, &h, sizeof h);
    for (size_t i = lead.sent; i < n; i++) {
        const struct ftk_det det = ftk_det_to_plane(v[i]);
        memcpy(w + HEAD_WORDS + (i - lead.sent) * DET_WORDS, &det, sizeof det);
    }
    int result = MPI_SUCCESS; /* a dead replica does not keep the message from the others */
    for (int p = 0; p < ftk_log.ctx->cfg.replicas; p++) {
        if (!(planes >> p & 1) || p * size + home == ftk_log.me)
            continue;
        if (h.n > 0 && FTK_FAULT("lead.lost"))
            continue; /* injected: the message does not arrive, and this process dies soon */
        const int rc = ftk_control_send(w, words, p * size + home, TAG_LEAD, FTK_LOG_DET_COMM);
        result = rc == MPI_SUCCESS ? result : rc;
    }
    free(w);
    return result;
}

/* Send the followers the outcomes that they lack.  drained: see struct head. */
static void send_decided(uint64_t drained)
{
    const struct ftk_det *v;
    if (!is_ready() || !leads())
        return;
    const size_t n = dets_to_send(&v);
    if (n == lead.sent && drained == lead.drained)
        return;
    if (send_dets(v, n, drained, ~ftk_log.ctx->replica.stale) != MPI_SUCCESS) {
        ftk_detect_raise(ftk_log.ctx); /* of a dead follower: the repair sends all again */
        return;
    }
    lead.sent = n;
    lead.drained = drained;
}

static void recorded(void)
{
    send_decided(lead.drained);
}

/* Other planes may wait for an outcome before they come to this call.  So a failed probe or test
 * is recorded here, as before a message. */
static void waits(void)
{
    if (!is_ready() || !leads())
        return;
    ftk_det_before_send();
    send_decided(lead.drained);
}

/* ---- a follower ----------------------------------------------------------------------------- */

static bool learn(const uint64_t *w, const struct head *h)
{
    struct ftk_det *v = malloc((size_t)(h->n + 1) * sizeof *v);
    for (uint64_t i = 0; v && i < h->n; i++) {
        memcpy(&v[i], w + HEAD_WORDS + i * DET_WORDS, sizeof v[i]);
        v[i] = ftk_det_from_plane(v[i]);
    }
    const bool good = v && ftk_det_learn(v, (size_t)h->from, (size_t)h->n);
    free(v);
    return good;
}

static void go_astray(void)
{
    ftk_report(FTKIT_DEBUG, "context %s: rank %d has other open outcomes than its replica",
        ftk_log.ctx->cfg.name, ftk_log.me);
    lead.astray = true;
}

static void read_dets(const uint64_t *w, const struct head *h)
{
    if (lead.astray)
        return;
    if (!learn(w, h)) {
        go_astray();
        return;
    }
    lead.arrived = lead.arrived || h->n > 0;
    lead.drained = h->drained;
}

static int keep_for_later(const uint64_t *w, size_t words)
{
    struct early *e = malloc(sizeof *e + words * sizeof *w);
    if (!e)
        return MPI_ERR_NO_MEM;
    e->next = NULL;
    e->words = words;
    memcpy(e->w, w, words * sizeof *w);
    *(lead.early ? lead.early_end : &lead.early) = e;
    lead.early_end = &e->next;
    return MPI_SUCCESS;
}

/* A message of an earlier interval is late: its line has been committed. */
static int take_dets(const uint64_t *w, size_t words)
{
    struct head h;
    if (words < HEAD_WORDS)
        return MPI_ERR_INTERN;
    memcpy(&h, w, sizeof h);
    if (h.n != (words - HEAD_WORDS) / DET_WORDS)
        return MPI_ERR_INTERN;
    if (lead.lines != ftk_log.line.count)
        begin_interval();
    if (h.lines > lead.lines)
        return keep_for_later(w, words);
    if (h.lines == lead.lines)
        read_dets(w, &h);
    return MPI_SUCCESS;
}

static int handle_dets(const struct ftk_control *c)
{
    return take_dets(c->w, c->words);
}

static const struct ftk_control_kind outcomes = {
    .context = FTK_LOG_DET_COMM, .tag = TAG_LEAD, .handle = handle_dets
};

static bool await(unsigned *turns)
{
    return follows() && ftk_log_progress(turns) == MPI_SUCCESS;
}

static void withheld(void)
{
    lead.withholds = true;
}

/* Post the receives whose match is known now, or all if this rank does not follow any more. */
static void post_withheld(void)
{
    if (!lead.withholds || (!lead.arrived && follows()))
        return;
    lead.withholds = lead.arrived = false;
    for (struct ftk_req *r = ftk_log.queue.first, *next; r; r = next) {
        next = r->next;
        if (ftk_req_is_receive(r) && r->state == FTK_REQ_WAITING)
            (void)ftk_match_post(r); /* the request has the error, if there is one */
    }
}

/* ---- lines and failures ----------------------------------------------------------------- */

static void forget_early(void)
{
    while (lead.early) {
        struct early *e = lead.early;
        lead.early = e->next;
        free(e);
    }
}

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    (void)first;
    struct early *e = lead.early;
    lead.early = NULL;
    begin_interval();
    while (e) {
        struct early *next = e->next;
        (void)take_dets(e->w, e->words); /* the message was whole */
        free(e);
        e = next;
    }
}

/* In a repair, on the old communicators: what this rank has decided, and could not send any more
 * since a failure was known.  The followers drain it.  An error is that of a dead follower. */
static void send_last(const struct ftk_log_repair *r)
{
    const int n = ftk_log_plane_size();
    const struct ftk_det *v;
    unsigned live = 0;
    if (r->is_new[r->me] || !leads() || ftk_log.epoch.real[FTK_LOG_DET_COMM] == MPI_COMM_NULL)
        return;
    for (int p = 0; p < ftk_log.ctx->cfg.replicas; p++)
        live |= (unsigned)!r->is_new[p * n + r->me % n] << p;
    const size_t end = dets_to_send(&v);
    if (end > lead.sent)
        (void)send_dets(v, end, lead.drained, live & ~ftk_log.ctx->replica.stale);
    lead.sent = end;
}

/* The replica that led this rank is lost: take over all that it has decided since the line. */
static void adopt(const struct ftk_log_repair *r)
{
    const int leader = ftk_log.epoch.leader * ftk_log_plane_size() + r->me % ftk_log_plane_size();
    const bool back = ftk_log.epoch.all_rolled_back >> ftk_log_plane_of(r->me) & 1;
    size_t n;
    if (r->fresh || back || leader == r->me || !r->is_new[leader])
        return;
    const struct ftk_det *v = ftk_det_adopted(leader, ftk_log.line.count, &n);
    struct ftk_det *mine = malloc((n + 1) * sizeof *mine);
    n = v ? ftk_det_whole(v, n) : 0;
    for (size_t i = 0; mine && i < n; i++)
        mine[i] = ftk_det_from_plane(ftk_det_to_plane(v[i]));
    if (!mine || !ftk_det_learn(mine, 0, n))
        go_astray();
    free(mine);
}

/* Messages of the old epoch may be lost: the leader, which may be another one, sends all again. */
static int install(const struct ftk_log_repair *r)
{
    forget_early();
    begin_interval();
    adopt(r);
    return FTKIT_OK;
}

static void serve(void)
{
    bool more = is_ready() && !leads();
    while (more) {
        int found = 0;
        int rc = ftk_control_take(FTK_LOG_DET_COMM, MPI_ANY_SOURCE, &found);
        if (rc != MPI_SUCCESS)
            ftk_detect_raise(ftk_log.ctx);
        more = rc == MPI_SUCCESS && found && is_ready();
    }
    if (!is_ready())
        return;
    if (leads() && ftk_log.line.state == FTK_LINE_AWAY)
        ftk_match_progress_wildcards();
    send_decided(lead.drained);
    post_withheld();
}

static bool settled(uint64_t call)
{
    send_decided(call);
    serve();
    return !follows() || lead.drained == call;
}

static void close_lead(void)
{
    forget_early();
    memset(&lead, 0, sizeof lead);
}

const struct ftk_det_mode ftk_mode_node_led = {
    .records = true,
    .part = { .close = close_lead,
        .serve = serve,
        .line = pass_line,
        .quiesce = send_last,
        .install = install,
        .controls = &outcomes,
        .ncontrols = 1 },
    .recorded = recorded,
    .waits = waits,
    .follows = follows,
    .await = await,
    .withheld = withheld,
    .settled = settled,
};
