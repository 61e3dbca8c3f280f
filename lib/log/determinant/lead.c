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
 * of ftkit need all planes.  So a leader that waits in such a call tells how many tests have failed
 * before: they fail in the follower, too.  At a set the leader tells when it has received all
 * messages: the receives that have no match then are under way in the set, in all replicas.
 *
 * If the plane of the leader stands still after a loss, the lowest other plane leads from then
 * on. */
#include <stdlib.h>
#include <string.h>

#include "detect/detect.h"
#include "log/control.h"
#include "log/det.h"
#include "log/mode.h"
#include "log/p2p.h"
#include "log/plane.h"

/* A letter, in words of 64 bits: this head, then the determinants. */
struct head {
    uint64_t lines;    /* committed before the determinants */
    uint64_t from, n;  /* number of the first determinant, from 0; how many follow */
    uint64_t waits;    /* 1: the leader waits in a call of ftkit, and has recorded no others */
    uint64_t nothings; /* then: probes and tests in a row that found nothing */
    uint64_t drained; /* call of ftkit_checkpoint() for whose set all messages are received; or 0 */
};
enum { HEAD_WORDS = sizeof(struct head) / 8, DET_WORDS = sizeof(struct ftk_det) / 8, TAG_LEAD = 1 };

/* A letter of the next interval: the leader has seen the commit of a line, and this rank has
 * not. */
struct early {
    struct early *next;
    size_t words;
    uint64_t w[];
};

static struct {
    uint64_t lines;       /* of which interval the rest is */
    size_t told;          /* leader: determinants that the followers have got */
    bool wait_told;       /* leader: the followers know that it waits, */
    uint32_t nothings;    /* ... and this */
    uint64_t drained;     /* the last such letter told, or got */
    bool astray;          /* follower: it has other determinants than its leader */
    bool withholds, news; /* follower: receives wait for matches; there may be some */
    struct {
        bool waits;
        size_t n; /* determinants */
        uint32_t nothings;
    } leader; /* follower: where the leader waits */
    struct early *early, **early_end;
} lead;

static void begin_interval(void)
{
    lead.lines = ftk_log.line.count;
    lead.told = 0;
    lead.drained = 0;
    lead.wait_told = lead.astray = lead.leader.waits = false;
    lead.news = true;
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

/* Sources in a letter are ranks within the plane. */
static struct ftk_det of_plane(struct ftk_det det)
{
    if ((det.kind == FTK_DET_RECV || det.kind == FTK_DET_PROBE) && det.a >= 0)
        det.a = (int32_t)ftk_log_to_plane(det.a);
    return det;
}

static int send_to_followers(const uint64_t *w, size_t words)
{
    const int n = ftk_log_plane_size(), home = ftk_log.me % n;
    int rc = MPI_SUCCESS;
    for (int p = 0; rc == MPI_SUCCESS && p < ftk_log.ctx->cfg.replicas; p++)
        if (p * n + home != ftk_log.me && !stands_still(p))
            rc = ftk_control_send(w, words, p * n + home, TAG_LEAD, FTK_LOG_DET_COMM);
    return rc;
}

/* Send a letter with the determinants from lead.told to n. */
static int send_letter(const struct ftk_det *v, size_t n, bool waits, uint64_t drained)
{
    const struct head h = { lead.lines, lead.told, n - lead.told, waits, ftk_det_nothings(),
        drained };
    const size_t words = HEAD_WORDS + (n - lead.told) * DET_WORDS;
    uint64_t *w = malloc(words * sizeof *w);
    if (!w)
        return MPI_ERR_NO_MEM;
    memcpy(w, &h, sizeof h);
    for (size_t i = lead.told; i < n; i++) {
        const struct ftk_det det = of_plane(v[i]);
        memcpy(w + HEAD_WORDS + (i - lead.told) * DET_WORDS, &det, sizeof det);
    }
    const int rc = send_to_followers(w, words);
    free(w);
    return rc;
}

/* Tell the followers what they do not know.  waits: this rank waits in a call of ftkit.  drained:
 * see struct head. */
static void tell(bool waits, uint64_t drained)
{
    size_t n;
    if (!is_ready() || !leads())
        return;
    if (lead.lines != ftk_log.line.count)
        begin_interval();
    const struct ftk_det *v = ftk_det_own(ftk_log.line.count, &n);
    n = lead.told + (n > lead.told ? ftk_det_whole(v + lead.told, n - lead.told) : 0);
    const uint32_t nothings = ftk_det_nothings();
    const bool known = lead.wait_told && nothings == lead.nothings;
    if (n == lead.told && (!waits || known) && drained == lead.drained)
        return;
    if (send_letter(v, n, waits, drained) != MPI_SUCCESS) {
        ftk_detect_raise(ftk_log.ctx); /* of a dead follower: the repair tells all again */
        return;
    }
    lead.told = n;
    lead.wait_told = waits;
    lead.nothings = nothings;
    lead.drained = drained;
}

static void recorded(void)
{
    tell(false, lead.drained);
}

static void waits(void)
{
    tell(true, lead.drained);
}

/* ---- a follower ----------------------------------------------------------------------------- */

static bool learn(const uint64_t *w, const struct head *h)
{
    bool good = true;
    struct ftk_det *v = malloc((size_t)(h->n + 1) * sizeof *v);
    for (uint64_t i = 0; v && i < h->n; i++) {
        memcpy(&v[i], w + HEAD_WORDS + i * DET_WORDS, sizeof v[i]);
        if ((v[i].kind == FTK_DET_RECV || v[i].kind == FTK_DET_PROBE) && v[i].a >= 0)
            v[i].a = ftk_log_from_plane(v[i].a);
    }
    good = v && ftk_det_learn(v, (size_t)h->from, (size_t)h->n);
    free(v);
    return good;
}

static void read_letter(const uint64_t *w, const struct head *h)
{
    if (lead.astray)
        return;
    if (!learn(w, h)) {
        ftk_report(FTKIT_DEBUG, "context %s: rank %d has other open outcomes than its replica",
            ftk_log.ctx->cfg.name, ftk_log.me);
        lead.astray = true;
        return;
    }
    lead.news = lead.news || h->n > 0;
    lead.leader.waits = h->waits != 0;
    lead.leader.n = (size_t)(h->from + h->n);
    lead.leader.nothings = (uint32_t)h->nothings;
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

/* A letter of an earlier interval is late: its line has been committed. */
static int take_letter(const uint64_t *w, size_t words)
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
        read_letter(w, &h);
    return MPI_SUCCESS;
}

static int control(int context, MPI_Message *m, const MPI_Status *s)
{
    uint64_t *w;
    size_t words;
    int rc = ftk_control_recv(context, m, s, &w, &words);
    if (rc == MPI_SUCCESS)
        rc = take_letter(w, words);
    free(w);
    return rc;
}

static bool leader_waits(size_t determinants, uint32_t *nothings)
{
    *nothings = lead.leader.nothings;
    return lead.leader.waits && lead.leader.n == determinants;
}

static void withheld(void)
{
    lead.withholds = true;
}

/* Post the receives whose match is known now, or all if this rank does not follow any more. */
static void post_withheld(void)
{
    if (!lead.withholds || (!lead.news && follows()))
        return;
    lead.withholds = lead.news = false;
    for (struct ftk_req *r = ftk_log.queue.first, *next; r; r = next) {
        next = r->next;
        if (r->kind == FTK_REQ_RECV && r->state == FTK_REQ_WAITING)
            (void)ftk_log.requests->post(r); /* the request has the error, if there is one */
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

static void line(void)
{
    struct early *e = lead.early;
    lead.early = NULL;
    begin_interval();
    while (e) {
        struct early *next = e->next;
        (void)take_letter(e->w, e->words); /* the letter was whole */
        free(e);
        e = next;
    }
}

/* Letters of the old epoch may be lost: the leader, which may be another one, tells all again. */
static int install(const struct ftk_log_repair *r)
{
    (void)r;
    forget_early();
    begin_interval();
    return FTKIT_OK;
}

static void progress(void)
{
    bool more = is_ready() && !leads();
    while (more) {
        MPI_Message m;
        MPI_Status s;
        int flag = 0;
        int rc = PMPI_Improbe(
            MPI_ANY_SOURCE, TAG_LEAD, ftk_log.epoch.real[FTK_LOG_DET_COMM], &flag, &m, &s);
        if (rc == MPI_SUCCESS && flag)
            rc = control(FTK_LOG_DET_COMM, &m, &s);
        if (rc != MPI_SUCCESS)
            ftk_detect_raise(ftk_log.ctx);
        more = rc == MPI_SUCCESS && flag && is_ready();
    }
    if (!is_ready())
        return;
    tell(false, lead.drained);
    post_withheld();
}

static bool settled(uint64_t call)
{
    tell(false, call);
    progress();
    return !follows() || lead.drained == call;
}

static void close_lead(void)
{
    forget_early();
    memset(&lead, 0, sizeof lead);
}

const struct ftk_det_mode ftk_mode_node_led = { .records = true,
    .own_comm = true,
    .close = close_lead,
    .control = control,
    .progress = progress,
    .recorded = recorded,
    .waits = waits,
    .follows = follows,
    .leader_waits = leader_waits,
    .withheld = withheld,
    .settled = settled,
    .line = line,
    .install = install };
