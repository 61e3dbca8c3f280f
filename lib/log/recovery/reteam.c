/* log.teams = dynamic: teams that follow the communication of the program (papers/000, section 5.3:
 * TeamLB).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * At a set each rank compares the share of its bytes that goes to other teams with the least share
 * since the last look.  If the share of some rank has grown, or after some sets anyway, all ranks
 * give rank 0 what they have sent to each rank (a look).  A helper thread of rank 0 makes teams of
 * these rows.  If the new teams log clearly less, rank 0 shares them at the next set, and that set
 * has them: when it is committed, the new teams are in force.  The logs are empty then, so no entry
 * is of another table.
 *
 * A failure before the commit leaves the old teams in force, and rank 0 forgets the teams that it
 * has made.  After a set that is given up the old teams are in force, too, and rank 0 shares the
 * new ones at the next set. */
#define _GNU_SOURCE
#include "reteam.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/event.h"
#include "core/grow.h"
#include "core/team_cut.h"
#include "core/thread.h"
#include "detect/sure.h"
#include "log/base/part.h"
#include "log/recovery/matrix.h"
#include "log/recovery/recovery.h"
#include "steps.h"

enum { PER_WORD = 2 };               /* teams in a word of a set */
enum { SOON = 8, SELDOM = 1024 };    /* sets until the next look: twice as many after each one */
#define PAIRS_MOST ((size_t)1 << 21) /* of ranks that rank 0 looks at: about 240 MiB */
#define UNKNOWN (-1.0)               /* no bytes, so no share of them */

static struct {
    uint64_t *seen;  /* [n] bytes to each rank that count no more; NULL: all bytes count */
    double share;    /* the least share of the bytes to other teams since the last look */
    double now;      /* ... since the line or the last look */
    bool fresh;      /* the teams in force are new: the next share is the least one */
    int sets;        /* since the last look */
    int wait;        /* so many sets after the last look there is another one */
    double looked_s; /* the time of that look */
    bool looked;     /* the ranks give their rows in this set */
    bool warned;     /* that no teams can be made */
    int *next;       /* [n] the teams of the open set; NULL: those in force */
    int *loaded;     /* [n] the teams of the set that is restored at a start */
} own;

/* ---- rank 0: making teams in a helper thread ----------------------------------------- */

enum work { IDLE, WORKING, MADE };

/* From the start of the thread until state is MADE or IDLE the main thread writes stale, and no
 * other member that the thread reads. */
static struct making {
    _Atomic enum work state;
    atomic_bool stale; /* a failure, or the end: the thread stops, and its result is forgotten */
    bool started;      /* the thread is to be joined */
    pthread_t thread;
    struct ftk_pair *pairs; /* [n] */
    size_t npairs, room;
    bool full; /* there was no memory for a row */
    struct ftk_team_cut cut;
    double gain;
    int *old, *team;      /* [ranks] */
    double before, after; /* shares of the bytes between different ranks */
} making;

static bool is_dynamic(const struct ftkit_ctx *ctx)
{
    return ctx->cfg.log_teams == FTK_TEAMS_DYNAMIC;
}

static uint64_t bytes_in_all(const struct making *m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->npairs; i++)
        sum += m->pairs[i].from != m->pairs[i].to ? m->pairs[i].bytes : 0;
    return sum;
}

static void *make(void *arg)
{
    struct making *m = arg;
    const double all = (double)bytes_in_all(m);
    const struct ftk_cut old = ftk_team_cut_between(m->pairs, m->npairs, m->old);
    enum work state = IDLE;
    if (old.bytes > 0 && ftk_team_cut_make(&m->cut, m->team) == FTKIT_OK) {
        const struct ftk_cut cut = ftk_team_cut_between(m->pairs, m->npairs, m->team);
        m->before = (double)old.bytes / all;
        m->after = (double)cut.bytes / all;
        if (m->after <= (1 - m->gain) * m->before)
            state = MADE;
    }
    atomic_store(&m->state, state);
    return NULL;
}

/* The thread has ended: give back what it had. */
static void end_making(void)
{
    atomic_store(&making.stale, true);
    if (making.started)
        (void)pthread_join(making.thread, NULL); /* no error is possible: it is joined once */
    free(making.pairs);
    free(making.old);
    free(making.team);
    making = (struct making){ 0 };
}

/* Whether the teams that rank 0 was asked for can be shared.  A thread that has made none ends. */
static enum work look_at_making(void)
{
    const enum work state = atomic_load(&making.state);
    if (state == WORKING)
        return WORKING;
    if (state == MADE && !atomic_load(&making.stale))
        return MADE;
    if (making.started)
        end_making();
    return IDLE;
}

/* The consecutive ranks of a node, if all nodes have so many; else 1. */
static int ranks_per_node(const int *home, int n)
{
    int per = 1;
    while (per < n && home[per] == home[0])
        per++;
    if (per == n || n % per != 0)
        return 1;
    for (int r = 0; r < n; r++)
        if (home[r] != home[r - r % per] || (r % per == 0 && r > 0 && home[r] == home[r - 1]))
            return 1;
    return per;
}

int ftk_reteam_check(const struct ftkit_ctx *ctx, const int *home, int n)
{
    if (!is_dynamic(ctx))
        return FTKIT_OK;
    const int per = ranks_per_node(home, n);
    if (ctx->cfg.log_team_size % per == 0)
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_CONFIG,
        "log.team_size: %d is no multiple of the %d ranks of a node: with log.teams = dynamic a "
        "node is in one team",
        ctx->cfg.log_team_size, per);
}

static void take_row(void *arg, int from, const uint64_t *row)
{
    struct making *m = arg;
    const uint64_t *w = row + 1;
    if (m->full || m->npairs + row[0] > PAIRS_MOST
        || !ftk_grow(&m->pairs, &m->room, m->npairs + row[0], sizeof *m->pairs)) {
        m->full = true;
        return;
    }
    for (uint64_t i = 0; i < row[0]; i++, w += FTK_ROW_WORDS)
        m->pairs[m->npairs++] = (struct ftk_pair){ from, (int)w[0], w[1], w[2] };
}

/* All rows are here.  An error leaves the teams as they are. */
static void begin_making(const struct ftkit_ctx *ctx)
{
    struct making *m = &making;
    const int n = ctx->nranks, per = ranks_per_node(ftk_log.home, n);
    const size_t bytes = (size_t)n * sizeof *m->team;
    m->old = malloc(bytes);
    m->team = malloc(bytes);
    if (m->full || !m->old || !m->team) {
        if (!own.warned)
            ftk_report(FTKIT_WARNING,
                "context %s: the teams stay: there is no memory to make others, or more than %zu "
                "pairs of ranks exchange messages",
                ctx->cfg.name, PAIRS_MOST);
        own.warned = true;
        end_making();
        return;
    }
    memcpy(m->old, ftk_teams(), bytes);
    m->gain = ctx->cfg.log_reteam_gain / 100.0;
    m->cut = (struct ftk_team_cut){ .n = n,
        .per_unit = per,
        .k = ftk_team_cut_teams(n, per, ctx->cfg.log_team_size),
        .pairs = m->pairs,
        .npairs = m->npairs,
        .stop = &m->stale };
    atomic_store(&m->state, WORKING);
    const int err = ftk_thread_start(&m->thread, make, m);
    m->started = err == 0;
    if (err != 0) {
        char text[64];
        ftk_report(FTKIT_WARNING, "context %s: no thread to make teams: %s", ctx->cfg.name,
            strerror_r(err, text, sizeof text));
        end_making();
    }
}

/* ---- what this rank has sent --------------------------------------------------------- */

static uint64_t sent_to(int rank)
{
    const uint64_t bytes = ftk_peer(rank)->bytes, seen = own.seen ? own.seen[rank] : 0;
    return bytes > seen ? bytes - seen : 0;
}

/* Bytes that were sent so far do not count any more. */
static void begin_count(void)
{
    if (!own.seen)
        own.seen = calloc((size_t)ftk_log.n, sizeof *own.seen);
    for (int i = 0, peers = own.seen ? ftk_peers_count() : 0; i < peers; i++)
        own.seen[ftk_peers_rank(i)] = ftk_peer(ftk_peers_rank(i))->bytes;
}

/* The share of the bytes that went to other teams; UNKNOWN: there were no bytes. */
static double share_logged(void)
{
    double all = 0, logged = 0;
    for (int i = 0, peers = ftk_peers_count(); i < peers; i++) {
        const int r = ftk_peers_rank(i);
        if (r == ftk_log.me)
            continue;
        all += (double)sent_to(r);
        logged += ftk_log_crosses(r) ? (double)sent_to(r) : 0;
    }
    return all > 0 ? logged / all : UNKNOWN;
}

/* Whether this rank wants a look. */
static bool wants_look(const struct ftkit_ctx *ctx)
{
    const struct ftk_period *every = &ctx->cfg.log_reteam;
    own.sets++;
    own.now = ftk_log.line.none_yet ? UNKNOWN : share_logged();
    if (own.now >= 0 && (own.fresh || own.now < own.share))
        own.share = own.now;
    own.fresh = own.fresh && own.now < 0;
    if (own.now <= 0)
        return false;
    if (every->kind == FTK_PERIOD_COUNT)
        return own.sets >= every->value;
    if (every->kind == FTK_PERIOD_SECONDS)
        return ftk_now_s() - own.looked_s >= every->value;
    return own.sets >= own.wait || own.now > own.share * (1 + ctx->cfg.log_reteam_gain / 100.0);
}

static uint64_t none[1]; /* a row without pairs */

/* The row of this rank for ftk_matrix_collect(); none: no memory. */
static uint64_t *make_row(const struct ftkit_ctx *ctx)
{
    const int peers = ftk_peers_count();
    const int most = ctx->rank == 0 ? ctx->nranks : peers; /* rank 0 receives rows */
    uint64_t *row = malloc((1 + FTK_ROW_WORDS * (size_t)most) * sizeof *row);
    if (!row)
        return none;
    uint64_t *w = row + 1;
    row[0] = 0;
    for (int i = 0; i < peers; i++) {
        const int r = ftk_peers_rank(i);
        if (sent_to(r) == 0)
            continue;
        *w++ = (uint64_t)r;
        *w++ = 0;
        *w++ = sent_to(r);
        row[0]++;
    }
    return row;
}

/* ---- at a set ------------------------------------------------------------------------ */

/* Rank 0 shares the teams that it has made. */
static int share_next(struct ftk_chan *ch)
{
    const struct ftkit_ctx *ctx = ch->ctx;
    const struct ftk_sure s = { ch->comm, ch, "sharing new teams" };
    const size_t bytes = (size_t)ctx->nranks * sizeof *own.next;
    own.next = malloc(bytes);
    if (!own.next)
        return ftk_chan_break(ch, MPI_ERR_NO_MEM, s.what);
    if (ctx->rank == 0)
        memcpy(own.next, making.team, bytes);
    (void)FTK_FAULT("reteam.share");
    int rc = ftk_sure_bcast(&s, 0, own.next, bytes);
    (void)FTK_FAULT("reteam.shared");
    return rc;
}

/* Rank 0 gets all rows. */
static int look(struct ftk_chan *ch)
{
    uint64_t *row = make_row(ch->ctx);
    if (row == none && ch->ctx->rank == 0)
        return ftk_chan_break(ch, MPI_ERR_NO_MEM, "communication matrix");
    int rc = ftk_matrix_collect(ch, row, take_row, &making);
    if (row != none)
        free(row);
    (void)FTK_FAULT("reteam.look");
    if (ch->ctx->rank == 0 && rc == FTKIT_OK)
        begin_making(ch->ctx);
    else if (ch->ctx->rank == 0)
        end_making();
    own.looked = rc == FTKIT_OK;
    if (own.looked && own.now >= 0)
        own.share = own.now;
    return rc;
}

int ftk_reteam_meet(struct ftk_chan *ch)
{
    enum { LOOK, SHARE, BUSY, WORDS };
    const struct ftk_sure s = { ch->comm, ch, "asking for new teams" };
    if (!is_dynamic(ch->ctx))
        return FTKIT_OK;
    const enum work work = ch->ctx->rank == 0 ? look_at_making() : IDLE;
    int64_t v[WORDS] = { [LOOK] = -(int64_t)wants_look(ch->ctx),
        [SHARE] = -(int64_t)(work == MADE),
        [BUSY] = -(int64_t)(work == WORKING) };
    free(own.loaded);
    own.loaded = NULL;
    int rc = ftk_sure_min(&s, v, WORDS);
    if (rc == FTKIT_OK && v[SHARE] != 0)
        rc = share_next(ch);
    else if (rc == FTKIT_OK && v[LOOK] != 0 && v[BUSY] == 0)
        rc = look(ch);
    return rc;
}

static void say_new(const struct ftkit_ctx *ctx, const int *team, bool loaded)
{
    struct ftk_event e;
    ftk_event_of(&e, ctx, "teams");
    ftk_event_int(&e, "set", (int64_t)ctx->committed);
    ftk_event_int(&e, "team", team[ctx->rank]);
    ftk_event_end(&e);
    if (ctx->rank == 0 && loaded)
        ftk_report(FTKIT_INFO, "context %s: the teams are those of the set", ctx->cfg.name);
    if (ctx->rank != 0 || !making.started)
        return;
    ftk_report(FTKIT_INFO,
        "context %s: new teams from set %" PRIu64
        " on: of the bytes sent %.1f %% go to other teams, before %.1f %%",
        ctx->cfg.name, ctx->committed, 100 * making.after, 100 * making.before);
    end_making();
}

/* The teams of this line are in force; returns whether they are new.  A rank that has missed the
 * commit has them from the others (share_teams). */
static bool begin_teams(const struct ftkit_ctx *ctx, enum ftk_pass kind)
{
    int **next = own.next ? &own.next : &own.loaded;
    if (!*next || kind != FTK_PASS_MET)
        return false;
    say_new(ctx, *next, next == &own.loaded);
    own.fresh = next == &own.next;
    ftk_teams_change(*next, ctx->nranks, ctx->committed);
    *next = NULL;
    (void)FTK_FAULT("reteam.line");
    return true;
}

static void pass_line(enum ftk_pass kind, bool first)
{
    const struct ftkit_ctx *ctx = ftk_log.ctx;
    (void)first;
    const bool changes = begin_teams(ctx, kind), over = own.looked || changes;
    if (changes)
        own.wait = SOON;
    else if (own.looked && own.wait < SELDOM)
        own.wait *= 2;
    if (over || ctx->cfg.log_reteam.kind == FTK_PERIOD_AUTO)
        begin_count();
    if (over) {
        own.sets = 0;
        own.looked_s = ftk_now_s();
    }
    free(own.loaded);
    own.loaded = NULL;
}

/* The set is over, committed or given up. */
static void cut_over(void)
{
    free(own.next);
    own.next = NULL;
    own.looked = false;
}

/* ---- failures ------------------------------------------------------------------------ */

static void freeze(void)
{
    cut_over();
    if (making.started)
        atomic_store(&making.stale, true);
}

static int restored(void)
{
    begin_count();
    return FTKIT_OK;
}

static void close_reteam(void)
{
    if (making.started)
        end_making();
    free(own.seen);
    free(own.next);
    free(own.loaded);
    memset(&own, 0, sizeof own);
}

static void begin(void)
{
    own.wait = SOON;
    own.looked_s = ftk_now_s();
}

/* ---- in a set ------------------------------------------------------------------------ */

static size_t words(void)
{
    return ((size_t)ftk_log.n + PER_WORD - 1) / PER_WORD;
}

static uint64_t *save(uint64_t *w)
{
    const int *team = own.next ? own.next : ftk_teams();
    const size_t n = words();
    memset(w, 0, n * sizeof *w);
    for (int r = 0; r < ftk_log.n; r++)
        w[r / PER_WORD] |= (uint64_t)(uint32_t)team[r] << 32 * (r % PER_WORD);
    return w + n;
}

/* Whether this job could make these teams: the job that wrote the set may have had another
 * log.team_size, or other nodes.  size [n]: work space. */
static bool fits(const int *team, int *size)
{
    const int n = ftk_log.n, per = ranks_per_node(ftk_log.home, n);
    const int units = ftk_team_cut_units(n, per);
    const int k = ftk_team_cut_teams(n, per, ftk_log.ctx->cfg.log_team_size);
    bool good = true;
    memset(size, 0, (size_t)n * sizeof *size);
    for (int r = 0; r < n; r++) {
        good = good && team[r] == team[r - r % per];
        size[team[r]] += r % per == 0;
    }
    for (int t = 0; t < n; t++)
        good = good && (t < k ? size[t] >= units / k && size[t] <= units / k + 1 : size[t] == 0);
    return good;
}

static bool read_teams(const struct ftk_section *in, int *team)
{
    bool good = (size_t)(in->end - in->w) == words();
    for (int r = 0; good && r < ftk_log.n; r++) {
        const uint32_t t = (uint32_t)(in->w[r / PER_WORD] >> 32 * (r % PER_WORD));
        good = t < (uint32_t)ftk_log.n;
        team[r] = (int)t;
    }
    return good;
}

/* At a start all ranks restore the same set, or none: its teams are in force when all have it. */
static int load(const struct ftk_section *in)
{
    free(own.loaded);
    own.loaded = NULL;
    if (!in->w || in->w == in->end || !in->first || !in->as_many)
        return FTKIT_OK;
    int *team = malloc(2 * (size_t)ftk_log.n * sizeof *team);
    if (!team)
        return ftk_fail(FTKIT_ERR_NOMEM, "teams");
    const bool good = read_teams(in, team);
    if (good && fits(team, team + ftk_log.n))
        own.loaded = team;
    else
        free(team);
    return good ? FTKIT_OK : ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: the teams");
}

static const struct ftk_part *if_dynamic(void)
{
    const struct ftkit_ctx *ctx = ftk_log.ctx; /* NULL: a test reads an image */
    return ctx && is_dynamic(ctx) ? &ftk_part_reteam : NULL;
}

const struct ftk_part ftk_part_reteam = { .serves = if_dynamic,
    .begin = begin,
    .close = close_reteam,
    .line = pass_line,
    .cut_over = cut_over,
    .freeze = freeze,
    .restored = restored,
    .name = "teams",
    .words = words,
    .save = save,
    .load = load };
