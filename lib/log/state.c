/* The message log of a context: opening, closing, and its part of the checkpoint.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll.h"
#include "comm.h"
#include "core/log_ops.h"
#include "det.h"
#include "detect/detect.h"
#include "gate.h"
#include "matrix.h"
#include "mpi_calls.h"
#include "news.h"
#include "p2p.h"
#include "post.h"
#include "set/region.h"
#include "settle.h"
#include "store/h5/h5.h"

/* ---- what lies in the segment ------------------------------------------------------------------
 * Words of 64 bits, little-endian: what the rank has of collectives on each communicator,
 * what it had sent to whom since the first line, the messages that had come and waited for
 * the program, and those its set-up received.  Version 2 had no contexts from FTK_LOG_EXTRA
 * on, and is a state of version 3. */

enum { STATE_MAGIC = 0x6c6b7466, STATE_VERSION = 3, HEAD = 7, MESSAGE = 4 };
enum { STATE_OLDEST = 2 }; /* it has no remote groups of communicators (recipe.c) */

static bool version_is_known(uint64_t word)
{
    return (uint32_t)word == STATE_MAGIC && word >> 32 >= STATE_OLDEST
        && word >> 32 <= STATE_VERSION;
}

static size_t list_bytes(const struct ftk_held *h)
{
    size_t bytes = 0;
    for (; h; h = h->next)
        bytes += (MESSAGE + (h->bytes + 7) / 8) * sizeof(uint64_t);
    return bytes;
}

static size_t list_length(const struct ftk_held *h)
{
    size_t n = 0;
    for (; h; h = h->next)
        n++;
    return n;
}

static size_t live_comms(void)
{
    size_t n = 0;
    for (const struct ftk_vcomm *v = ftk_log.comms; v; v = v->next)
        n += !v->freed;
    return n;
}

static int measure_state(void *arg, size_t *bytes)
{
    (void)arg;
    *bytes = (HEAD + ftk_recipes_words() + FTK_MATRIX_WORDS * ftk_matrix_length())
            * sizeof(uint64_t)
        + list_bytes(ftk_log.held_first)
        + list_bytes(ftk_log.journal_first);
    return 0;
}

static uint64_t *write_list(uint64_t *w, const struct ftk_held *h)
{
    for (; h; h = h->next) {
        *w++ = (uint64_t)h->context;
        *w++ = (uint64_t)h->source;
        *w++ = (uint64_t)(uint32_t)h->tag;
        *w++ = h->bytes;
        size_t words = (h->bytes + 7) / 8;
        if (words > 0)
            w[words - 1] = 0;
        memcpy(w, h->data, h->bytes);
        w += words;
    }
    return w;
}

static int pack_state(void *arg, void *to, size_t bytes)
{
    struct ftk_log *l = &ftk_log;
    uint64_t *w = to;
    (void)arg;
    *w++ = STATE_MAGIC | (uint64_t)STATE_VERSION << 32;
    *w++ = live_comms();
    *w++ = list_length(l->held_first);
    *w++ = list_length(l->journal_first);
    *w++ = l->ctx->calls;
    *w++ = ftk_matrix_length();
    *w++ = (uint64_t)l->n;
    w = ftk_recipes_write(w);
    w = ftk_matrix_write(w);
    w = write_list(w, l->held_first);
    w = write_list(w, l->journal_first);
    return (size_t)((char *)w - (char *)to) == bytes ? 0 : -1;
}

/* Nothing is trusted: a state may come from a file. */
struct reader {
    const uint64_t *w, *end;
};

static int read_message(struct reader *r, struct ftk_held **out)
{
    if (r->end - r->w < MESSAGE)
        return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: cut short");
    uint64_t bytes = r->w[3];
    if (bytes > (uint64_t)(r->end - r->w - MESSAGE) * 8 || !(ftk_context_is_one(r->w[0]) || r->w[0] == FTK_LOG_COLLS)
        || r->w[1] >= (uint64_t)ftk_log.n || r->w[2] > INT32_MAX)
        return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: a message is damaged");
    struct ftk_held *h
        = ftk_held_new((int)r->w[0], (int)r->w[1], (int)r->w[2], (size_t)bytes);
    if (!h)
        return ftk_fail(FTKIT_ERR_NOMEM, "messages of the log");
    memcpy(h->data, r->w + MESSAGE, (size_t)bytes);
    r->w += MESSAGE + (bytes + 7) / 8;
    *out = h;
    return FTKIT_OK;
}

/* Each message of a list to add, or over it when add is NULL. */
static int read_list(struct reader *r, uint64_t n, void (*add)(struct ftk_held *h))
{
    for (uint64_t i = 0; i < n; i++) {
        struct ftk_held *h = NULL;
        int rc = read_message(r, &h);
        if (rc != FTKIT_OK)
            return rc;
        if (add)
            add(h);
        else
            ftk_held_free(h);
    }
    return FTKIT_OK;
}

static int read_head(const void *from, size_t bytes, struct reader *r, const uint64_t **head)
{
    r->w = from;
    r->end = r->w + bytes / 8;
    *head = r->w;
    if (bytes / sizeof(uint64_t) < HEAD || !version_is_known(r->w[0])
        || r->w[1] > FTK_LOG_ALL || r->w[5] > bytes / 8 / FTK_MATRIX_WORDS)
        return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: not one");
    r->w += HEAD;
    return FTKIT_OK;
}

/* The communicators; behind them is the matrix, whole. */
static int read_comms(struct reader *r, const uint64_t *head, bool make, bool colls)
{
    int rc = ftk_recipes_read(&r->w, r->end, head[1], make, colls);
    if (rc == FTKIT_OK && head[5] > (uint64_t)(r->end - r->w) / FTK_MATRIX_WORDS)
        rc = ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: cut short");
    return rc;
}

static int unpack_state(void *arg, const void *from, size_t bytes)
{
    struct ftk_log *l = &ftk_log;
    struct reader r;
    const uint64_t *head;
    (void)arg;
    int rc = read_head(from, bytes, &r, &head);
    if (rc != FTKIT_OK)
        return -1;
    bool first = l->ctx->where < FTK_IN_LOOP; /* it has been at no line yet */
    if (l->falling) {
        ftk_coll_forget();
        ftk_p2p_forget_requests();
        ftk_matched_clear();
        if (!first)
            ftk_vcomm_back(ftk_idup_clear);
    }
    bool make = (first || !l->falling) && head[6] == (uint64_t)l->n;
    if (read_comms(&r, head, make, true) != FTKIT_OK)
        return -1;
    if ((l->falling || l->reborn) && !ftk_matrix_read(r.w, head[5]))
        return -1;
    r.w += FTK_MATRIX_WORDS * head[5];
    if (ftk_det_back() != FTKIT_OK)
        return -1;
    if (first)
        ftk_vcomm_line(); /* what set-up has made is older than the line */
    ftk_held_clear();
    rc = read_list(&r, head[2], ftk_held_add);
    if (rc == FTKIT_OK && l->reborn) {
        ftk_journal_clear();
        rc = read_list(&r, head[3], ftk_journal_add);
    }
    return rc == FTKIT_OK ? 0 : -1;
}

/* What set-up has received, from the state in the segment of this rank. */
static int read_journal(const void *seg)
{
    struct reader r;
    const uint64_t *head;
    const struct ftk_seg_region *rec = ftk_seg_find(seg, FTK_LOG_REGION);
    if (!rec)
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "the set has no state of the message log");
    int rc = read_head(ftk_seg_data_c(seg) + rec->offset, rec->bytes, &r, &head);
    if (rc == FTKIT_OK)
        rc = read_comms(&r, head, false, false);
    if (rc != FTKIT_OK)
        return rc;
    r.w += FTK_MATRIX_WORDS * head[5];
    rc = read_list(&r, head[2], NULL);
    return rc == FTKIT_OK ? read_list(&r, head[3], ftk_held_add) : rc;
}

static int read_journal_of(struct ftkit_ctx *ctx, uint64_t set)
{
    struct ftk_h5_manifest m = { 0 };
    void *seg = NULL;
    size_t bytes;
    int rc = ftk_h5_open_set(ctx->cfg.h5_dir, ctx->cfg.name, set, false, &m);
    if (rc == FTKIT_OK && m.nranks != (uint32_t)ftk_log.n)
        rc = ftk_fail(FTKIT_ERR_SIZE, "set %llu is of %u ranks", (unsigned long long)set,
            m.nranks);
    if (rc == FTKIT_OK)
        rc = ftk_h5_read(ctx->cfg.h5_dir, &m, ctx->rank, &seg, &bytes);
    if (rc == FTKIT_OK)
        rc = read_journal(seg);
    free(seg);
    ftk_h5_manifest_free(&m);
    return rc;
}

/* Of any set in files: set-up was before the first.  Which one all ranks can use comes out
 * only in ftkit_recover(); so does where else the line may be. */
static int read_journal_of_files(struct ftkit_ctx *ctx)
{
    uint64_t *sets = NULL;
    int n = 0;
    int rc = ctx->cfg.h5_enabled ? ftk_h5_list(ctx->cfg.h5_dir, ctx->cfg.name, &sets, &n)
                                 : FTKIT_OK;
    bool read = false;
    for (int i = 0; i < n && !read; i++) {
        read = read_journal_of(ctx, sets[i]) == FTKIT_OK;
        if (!read)
            ftk_held_clear(); /* of one that is damaged */
    }
    free(sets);
    ftk_log.unread = !read;
    return rc;
}

int ftk_log_read_journal(struct ftkit_ctx *ctx, uint64_t line)
{
    struct ftk_mem_seg *s = ftk_mem_find(&ctx->mem, line, ctx->rank);
    if (!s)
        return read_journal_of_files(ctx);
    int rc = ftk_mem_verify(s, "own copy");
    return rc == FTKIT_OK ? read_journal(s->buf) : rc;
}

/* ---- teams -----------------------------------------------------------------------------------------*/

/* Ranks of one domain are a team, named by its first rank.  Teams that are written down are
 * known to whoever opened the context with the first processes; others have -1. */
void ftk_log_make_teams(const int *domain, int n, int *team)
{
    const struct ftk_config *cfg = &ftk_log.ctx->cfg;
    bool written = *cfg->log_team_list || *cfg->log_team_file;
    for (int r = 0; written && r < n; r++)
        team[r] = ftk_log.ctx->teams ? ftk_log.ctx->teams[r] : -1;
    for (int r = 0; !written && r < n; r++) {
        team[r] = r;
        if (cfg->log_teams == FTK_TEAMS_ALL)
            team[r] = 0;
        if (cfg->log_team_size > 0)
            team[r] = r / cfg->log_team_size;
        else if (cfg->log_teams == FTK_TEAMS_DOMAIN)
            for (int q = r - 1; q >= 0 && team[r] == r; q--)
                team[r] = domain[q] == domain[r] ? team[q] : r;
    }
}

static const int *teams_of(void)
{
    return ftk_log.team;
}

/* How many teams there are, of what sizes; false: no memory. */
static bool count_teams(const int *team, int n, int *teams, int *least, int *most)
{
    int *size = calloc((size_t)n, sizeof *size);
    if (!size)
        return false;
    *teams = *most = 0;
    *least = n;
    for (int r = 0; r < n; r++)
        size[team[r]]++;
    for (int t = 0; t < n; t++) {
        *teams += size[t] > 0;
        *most = size[t] > *most ? size[t] : *most;
        *least = size[t] > 0 && size[t] < *least ? size[t] : *least;
    }
    free(size);
    return true;
}

/* A rank that is in another team than the one before it on the same node, 0: there is none.
 * With all on one node its loss is that of the job anyway. */
static int splits_domain(const struct ftkit_ctx *ctx, const int *team, int *with)
{
    bool several = false;
    for (int r = 1; r < ctx->nranks; r++)
        several = several || ctx->domain[r] != ctx->domain[0];
    for (int r = 1; several && r < ctx->nranks; r++) {
        int q = r - 1;
        while (q >= 0 && ctx->domain[q] != ctx->domain[r])
            q--;
        *with = q;
        if (q >= 0 && team[q] != team[r])
            return r;
    }
    return 0;
}

static void say_teams(const struct ftkit_ctx *ctx)
{
    const int *team = ftk_log.team;
    int teams = 0, least, most, with;
    if (ctx->rank != 0 || ctx->incarnation > 0 || !team)
        return;
    if (count_teams(team, ctx->nranks, &teams, &least, &most))
        ftk_report(FTKIT_INFO, "context %s: %d teams, the smallest of %d ranks, the largest of %d",
            ctx->cfg.name, teams, least, most);
    if (teams == 1 && ctx->nranks > 1 && ctx->cfg.log_teams != FTK_TEAMS_ALL)
        ftk_report(FTKIT_WARNING,
            "context %s: log.enabled with one team of all %d ranks: a failure sends everybody "
            "back, as without the log; choose log.team_size or log.teams = rank, or all to have "
            "it so",
            ctx->cfg.name, ctx->nranks);
    int rank = ctx->teams ? splits_domain(ctx, team, &with) : 0;
    if (rank > 0)
        ftk_report(FTKIT_WARNING,
            "context %s: ranks %d and %d are on the same node and in different teams: the "
            "loss of that node sends all these teams back",
            ctx->cfg.name, with, rank);
}

/* ---- opening and closing ------------------------------------------------------------------------------*/

static MPI_Comm comm_of_program(void)
{
    return ftk_log.user ? ftk_log.user->handle : MPI_COMM_NULL;
}

/* The layer that sends the program's calls here answers to this call of MPI, which is made
 * for such layers and does nothing else. */
static bool layer_on(void)
{
    const struct ftk_mpi_calls *p = &ftk_mpi_calls;
    return MPI_Pcontrol(FTK_PCONTROL, &p) == MPI_SUCCESS && p == NULL;
}

static void layer_off(void)
{
    (void)MPI_Pcontrol(FTK_PCONTROL_OFF); /* it has answered before */
}

static int start_log(struct ftkit_ctx *ctx)
{
    ctx->mode = FTKIT_MODE_TEAM;
    int rc = ftk_vcomm_open();
    if (rc != MPI_SUCCESS)
        return ftk_fail_mpi(rc, "communicators of the message log");
    ftk_log.on = true;
    if (!layer_on())
        return ftk_fail(FTKIT_ERR_INTERNAL, "libftkit_mpi does not answer any more");
    say_teams(ctx);
    ftk_matrix_start();
    return FTKIT_OK;
}

static void close_log(struct ftkit_ctx *ctx)
{
    struct ftk_log *l = &ftk_log;
    if (l->on) {
        layer_off();
        l->on = false;
        ftk_log_fall(); /* what the program has left under way */
        ftk_coll_forget();
        ftk_p2p_forget_requests();
        ftk_coll_close();
        ftk_vcomm_close(ftk_idup_clear);
    }
    ftk_p2p_close();
    ftk_news_close();
    ftk_post_close();
    ftk_gate_close();
    ftk_det_close();
    ftk_det_clean(ctx->job);
    ftk_det_forget_search();
    ftk_held_clear();
    ftk_journal_clear();
    ftk_stream_in_clear();
    ftk_mark_clear();
    if (l->log_first)
        ftk_keep_clear();
    ftk_log_free_comms(ctx);
    free(l->early);
    free(l->outs);
    free(l->sent);
    free(l->received);
    free(l->told);
    free(l->news_sent);
    free(l->stat_messages);
    free(l->stat_bytes);
    free(l->log_first);
    free(l->log_last);
    free(l->team);
    free(l->node);
    free(l->home);
    memset(l, 0, sizeof *l);
    ctx->log = NULL;
}

/* ---- falling back ----------------------------------------------------------------------------------------*/

static bool falls(void)
{
    return ftk_log.falling;
}

/* What set-up has asked for and not got: the lost process had it before the line, and it is
 * not sent again. */
static void give_up_receives(void)
{
    struct ftk_log *l = &ftk_log;
    for (struct ftk_req *r = l->first, *next; r; r = next) {
        next = r->next;
        if (r->kind != FTK_REQ_RECV || r->done)
            continue;
        ftk_report(FTKIT_ERROR,
            "context %s: rank %d: a receive that set-up has begun was not complete at "
            "ftkit_recover(), where the replacement cannot have it: it has to be",
            l->ctx->cfg.name, l->me);
        (void)ftk_p2p_fail(r, MPI_ERR_PENDING);
    }
}

static void restored(struct ftkit_ctx *ctx, uint64_t set)
{
    struct ftk_log *l = &ftk_log;
    if (set == 0)
        return;
    if (l->falling || l->reborn) {
        ctx->calls = l->line_calls - 1; /* the next one is the line's, see loop.c */
        ctx->next_event = l->line_next_event;
    }
    if (l->falling)
        ftk_event("context %s: rank %d is back at set %llu", ctx->cfg.name, ctx->rank,
            (unsigned long long)set);
    if (l->reborn)
        give_up_receives();
    l->falling = l->reborn = false;
}

static bool replayed(struct ftkit_ctx *ctx, int *code)
{
    struct ftk_log *l = &ftk_log;
    if (l->seq >= l->nouts)
        return false;
    *code = (int)l->outs[l->seq].code;
    ctx->next_event = l->outs[l->seq].next_event;
    l->seq++;
    if (*code < 0)
        (void)ftk_fail(*code, "as before the failure: %s", ftkit_strerror(*code));
    return true;
}

static int outcome(struct ftkit_ctx *ctx, int code)
{
    struct ftk_log *l = &ftk_log;
    if (code == FTKIT_ERR_PEER || l->seq < l->nouts)
        return code;
    struct ftk_logged_call *all = realloc(l->outs, (l->nouts + 1) * sizeof *all);
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "calls since the line");
    l->outs = all;
    all[l->nouts++] = (struct ftk_logged_call){ ctx->next_event, code };
    l->seq = l->nouts;
    return code;
}

static const char *current_call(void)
{
    return ftk_mpi_call;
}

static void add_stats(ftkit_info *info)
{
    const struct ftk_log *l = &ftk_log;
    info->log_messages = l->logged_messages;
    info->log_bytes = l->logged_bytes;
    info->log_held = l->log_bytes;
    info->log_determinants = ftk_det_count();
    info->log_determinant_bytes = l->news_bytes;
    info->log_resent = l->resent;
    info->log_suppressed = l->suppressed;
    info->log_drained = l->drained;
    info->log_spilled = l->spilled;
    info->log_differs = l->differs;
}

/* ---- the table of the log (log_ops.h) -----------------------------------------------------*/

static const struct ftk_log_ops log_ops = {
    .start = start_log,
    .close = close_log,
    .call = current_call,
    .stats = add_stats,
    .matrix = ftk_matrix_save,
    .comm = comm_of_program,
    .context_of = ftk_recipe_context_of,
    .comm_back = ftk_recipe_comm_back,
    .teams = teams_of,
    .share_teams = ftk_recovery_share_teams,
    .search = ftk_recovery_search,
    .settle = ftk_recovery_settle,
    .discard = ftk_recovery_discard,
    .install = ftk_recovery_install,
    .replayed = replayed,
    .outcome = outcome,
    .keep_going = ftk_p2p_keep_going,
    .falls = falls,
    .restored = restored,
    .loaded = ftk_line_loaded,
    .inherited = ftk_line_inherited,
    .calls_left = ftk_keep_calls_left,
    .drain = ftk_line_drain,
    .committed = ftk_line_committed,
};

static const struct ftk_req_hooks request_hooks = { .fail = ftk_p2p_fail,
    .release = ftk_p2p_release, .deliver = ftk_p2p_deliver, .draw = ftk_p2p_draw,
    .uses_comm = ftk_p2p_has, .part = ftk_p2p_part };
static const struct ftk_coll_hooks coll_hooks = { ftk_coll_turn, ftk_coll_progress };

int ftk_log_open(struct ftkit_ctx *ctx, ftk_log_repair_fn *repair)
{
    int provided = 0;
    if (!ctx->cfg.log_enabled)
        return FTKIT_OK;
    if (ctx->mode != FTKIT_MODE_GLOBAL) {
        ftk_report(FTKIT_WARNING, "context %s: log.enabled has no effect in this job",
            ctx->cfg.name);
        return FTKIT_OK;
    }
    if (ftk_log.ctx)
        return ftk_fail(FTKIT_ERR_STATE, "another context of this process logs messages");
    if (PMPI_Query_thread(&provided) != MPI_SUCCESS || provided == MPI_THREAD_MULTIPLE)
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "log.enabled with MPI_THREAD_MULTIPLE: the order of messages would be the "
            "threads' race (ask for MPI_THREAD_SERIALIZED)");
    if (!layer_on())
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "log.enabled needs libftkit_mpi between the program and MPI: link it before MPI, "
            "or start it with ftkit run --log, which preloads it");
    layer_off();
    memset(&ftk_log, 0, sizeof ftk_log);
    ftk_log.ctx = ctx;
    ftk_log.alone = true;
    ftk_log.tells = ctx->cfg.log_dets == FTK_DETS_CAUSAL
        || ctx->cfg.log_dets == FTK_DETS_PESSIMISTIC;
    ftk_log.gates = ctx->cfg.log_dets == FTK_DETS_RELAXED;
    ftk_log.ncontexts = ctx->cfg.log_contexts;
    ftk_log.group = MPI_GROUP_NULL;
    for (int c = 0; c < FTK_LOG_COMMS; c++)
        ftk_log.real[c] = ftk_log.next[c] = MPI_COMM_NULL;
    ftk_log.repair = repair;
    ftk_log.requests = &request_hooks;
    ftk_log.colls = &coll_hooks;
    ctx->log = &log_ops;
    static const ftkit_serializer ops = { sizeof ops, measure_state, pack_state, unpack_state };
    return ftk_region_add_log(ctx, FTK_LOG_REGION, &ops);
}

/* ---- what is told ------------------------------------------------------------------------------------------*/

/* A communicator in the words of the program. */
static void name_comm(const struct ftk_vcomm *vc, char *text, size_t room)
{
    char name[MPI_MAX_OBJECT_NAME];
    int n = 0;
    int rc = PMPI_Comm_get_name(vc->handle, name, &n);
    if (rc == MPI_SUCCESS && n > 0)
        snprintf(text, room, "%s", name);
    else
        snprintf(text, room, "a communicator of %d ranks without a name", vc->size);
}

void ftk_log_differs(const struct ftk_req *r, uint64_t n)
{
    char comm[MPI_MAX_OBJECT_NAME + 64], what[160];
    const struct ftk_coll *c = r->internal ? r->coll : NULL;
    int dest = c ? ftk_vcomm_rank(r->vc, r->peer) : ftk_vcomm_peer_rank(r->vc, r->peer);
    if (c && dest < 0) /* of the remote group */
        dest = ftk_vcomm_peer_rank(r->vc, r->peer);
    name_comm(r->vc, comm, sizeof comm);
    if (c)
        snprintf(what, sizeof what, "what %s, %scollective %llu, sends to rank %d", c->call.name,
            c->persistent ? "persistent " : "", (unsigned long long)c->number, dest);
    else
        snprintf(what, sizeof what, "message %llu to rank %d with tag %d", (unsigned long long)n,
            dest, r->tag);
    ftk_report(FTKIT_ERROR,
        "context %s: rank %d: %s on %s is not what it was before the failure: the program does "
        "not send the same again",
        ftk_log.ctx->cfg.name, ftk_log.me, what, comm);
    ftk_log.differs++;
}

bool ftk_log_refuses(const char *call)
{
    const struct ftkit_ctx *ctx = ftk_log.ctx;
    if (ctx->cfg.log_dets != FTK_DETS_REFUSE)
        return false;
    ftk_report(FTKIT_ERROR,
        "context %s: rank %d: %s: what it comes to is open, and log.determinants = refuse",
        ctx->cfg.name, ftk_log.me, call);
    return true;
}

int ftk_log_strange(const struct ftk_req *r)
{
    ftk_report(FTKIT_ERROR,
        "context %s: rank %d: between ftkit_open() and ftkit_recover() the replacement "
        "receives from rank %d with tag %d what the lost process did not%s",
        ftk_log.ctx->cfg.name, ftk_log.me, r->peer, r->tag,
        ftk_log.unread ? ", as far as can be known, for no set in files tells and none is in "
                         "memory: the job has to start again"
                       : ": the set-up has to be the same");
    return MPI_ERR_PENDING;
}
