/* checkpoint.line = apart: the actions of a rank (apart_do.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "apart_do.h"

#include <stdlib.h>
#include <string.h>

#include "core/tags.h"
#include "log/base/alone.h"
#include "log/determinant/det.h"
#include "log/request/progress.h"
#include "log/request/recv.h"
#include "set/checkpoint.h"
#include "set/number.h"
#include "set/policy.h"
#include "set/steer.h"
#include "numbers.h"
#include "steps.h"

struct ftk_apart_work ftk_apart;

uint64_t ftk_apart_number(uint64_t set, enum ftk_apart_round round)
{
    return set * FTK_ROUND_MOST + round;
}

static void put_errors(struct ftk_vote *v, const struct ftk_apart_words *w)
{
    ftk_vote_init(v);
    v->min[FTK_WORD_ERROR] = w->error;
    v->min[FTK_WORD_LOCAL_ERROR] = w->local_error;
}

/* ---- texts of errors --------------------------------------------------------------------- */

void ftk_apart_note_error(void)
{
    const int cut = ftk_apart.cut ? ftk_cut_error(ftk_apart.cut) : FTKIT_OK;
    const int error = cut < ftk_apart.rank.error ? cut : ftk_apart.rank.error;
    if (error != FTKIT_OK && error != ftk_apart.noted)
        snprintf(ftk_apart.own_why, sizeof ftk_apart.own_why, "%s", ftk_detail_text());
    ftk_apart.noted = error;
}

/* The next ftkit_checkpoint() returns the code of a level that has not got the set. */
static void keep_result(int rc)
{
    if (rc == FTKIT_OK || rc == FTKIT_ERR_PEER)
        return;
    ftk_apart.result = rc;
    snprintf(ftk_apart.why, sizeof ftk_apart.why, "%s", ftk_detail_text());
}

/* ... of a set that was given up; own: for an error of this rank. */
static void keep_failure(uint64_t set, int code, bool own)
{
    ftk_apart.result = code;
    snprintf(ftk_apart.why, sizeof ftk_apart.why, "set %llu was not written: %s%s",
        (unsigned long long)set,
        own ? "" : "error on another rank: ", own ? ftk_apart.own_why : ftkit_strerror(code));
}

/* ---- actions: a round, the files, a halt --------------------------------------------------- */

static int announce(const struct ftk_apart_action *a)
{
    struct ftk_vote v;
    if (a->act == FTK_DO_END_ROUND) {
        ftk_report(FTKIT_WARNING,
            "context %s: set %llu is given up: a rank has not called ftkit_checkpoint for %.0f s",
            ftk_log.ctx->cfg.name, (unsigned long long)ftk_apart.rank.set,
            FTK_APART_GIVE_UP * ftk_log.ctx->cfg.patience_s);
        put_errors(&v, &a->words);
        return ftk_tally_announce(
            ftk_apart.tally, ftk_apart_number(ftk_apart.rank.set, FTK_ROUND_CUT), &v);
    }
    ftk_vote_init(&v);
    v.voters = 0;
    v.min[FTK_WORD_DURABLE] = a->words.durable;
    v.min[FTK_WORD_LOCAL] = a->words.local;
    v.min[FTK_WORD_WANT] = a->words.want;
    return ftk_tally_announce(ftk_apart.tally, ftk_apart_number(a->set, FTK_ROUND_INITIATE), &v);
}

static int say(const struct ftk_apart_action *a)
{
    struct ftk_vote v;
    put_errors(&v, &a->words);
    if (a->round == FTK_ROUND_SENT) {
        (void)FTK_FAULT("apart.vote");
        ftk_flush_ask(ftk_log.ctx, &v);
    }
    return ftk_tally_say(ftk_apart.tally, ftk_apart_number(ftk_apart.rank.set, a->round), &v,
        a->act == FTK_DO_SAY_UP);
}

static void end_local(int code)
{
    const bool own = ftk_cut_local_error(ftk_apart.cut) != FTKIT_OK;
    if (code != FTKIT_OK && own)
        (void)ftk_fail(code, "%s", ftk_cut_local_why(ftk_apart.cut));
    else if (code != FTKIT_OK)
        (void)ftk_fail(
            code, "level.local: writing failed on another rank: %s", ftkit_strerror(code));
    keep_result(code);
    ftk_cut_end_local(ftk_apart.cut, code);
}

/* The threads of all ranks are idle: begin to give them the set.  An error of this rank alone has
 * broken the channel, so a repair follows. */
static int start_flush(void)
{
    const double begin_s = ftk_now_s();
    ftk_apart.beside =
        ftk_chan_beside(ftk_log.ctx); /* a vote may be under way on act: see finish_set */
    const int rc = ftk_flush_start(&ftk_apart.beside, ftk_apart.rank.set, &ftk_apart.start);
    ftk_apart.start_s = ftk_now_s() - begin_s;
    return rc;
}

/* Take the receives from the MPI, and count those that have a message: a repair waits for all
 * messages that were sent. */
static void end_receives(void)
{
    for (struct ftk_req *r = ftk_log.queue.first, *next; r; r = next) {
        next = r->next;
        if (!ftk_req_is_receive(r) || r->state != FTK_REQ_POSTED)
            continue;
        if (PMPI_Cancel(&r->real) != MPI_SUCCESS)
            continue; /* it has ended with an error */
        while (r->state == FTK_REQ_POSTED && !ftk_detect_poll(ftk_log.ctx))
            (void)ftk_message_withdraw(r); /* the request has the error, if there is one */
    }
}

/* All calls fail, so that each rank comes to ftkit_checkpoint(). */
static void halt(void)
{
    end_receives();
    ftk_log_begin_rollback();
}

/* ---- actions: the cut, the segment, the commit --------------------------------------------- */

/* The state of the log at the cut. */
static int cut_log(struct ftkit_ctx *ctx)
{
    int rc = ftk_parts_cut(true);
    if (rc == FTKIT_OK)
        rc = ftk_requests_save(ctx);
    return rc == FTKIT_OK ? ftk_image_cut() : rc;
}

static int finish_image(void)
{
    (void)FTK_FAULT("apart.early");
    const int rc = ftk_image_finish();
    return rc == FTKIT_OK ? ftk_alone_check() : rc;
}

static void commit(int want)
{
    ftk_apart.flushing = ftk_flush_agreed(ftk_log.ctx, &ftk_apart.heard);
    (void)FTK_FAULT("apart.voted");
    ftk_cut_commit(ftk_apart.cut, want == FTK_WANT_HALT      ? FTK_ASK_HALT
                                  : want == FTK_WANT_OUTSIDE ? FTK_ASK_SET
                                                             : FTK_ASK_NOTHING);
}

static int do_segment(const struct ftk_apart_action *a)
{
    struct ftkit_ctx *ctx = ftk_log.ctx;
    switch (a->act) {
    case FTK_DO_COPY_LOG:
        ftk_apart.calls = ctx->policy.calls;
        ftk_apart_fails(cut_log(ctx));
        break;
    case FTK_DO_COPY_REGIONS:
        ftk_apart.cut =
            ftk_apart.rank.error == FTKIT_OK ? ftk_cut_begin(ctx, ftk_apart.rank.set) : NULL;
        if (!ftk_apart.cut && ftk_apart.rank.error == FTKIT_OK)
            ftk_apart_fails(ftk_fail(FTKIT_ERR_NOMEM, "a set"));
        ftk_apart_note_error();
        break;
    case FTK_DO_FINISH:
        ftk_apart_fails(finish_image());
        break;
    case FTK_DO_SEAL:
        ftk_cut_close(ftk_apart.cut);
        (void)FTK_FAULT("apart.tail");
        break;
    case FTK_DO_BEGIN_LOCAL:
        return ftk_cut_begin_local(ftk_apart.cut);
    case FTK_DO_END_LOCAL:
        end_local(a->words.local_error);
        break;
    case FTK_DO_COUNT_LOCAL:
        ftk_local_count(ctx);
        break;
    case FTK_DO_COMMIT:
        commit(a->number);
        break;
    default: /* FTK_DO_END_CUT */
        if (ftk_apart.cut)
            ftk_cut_end(ftk_apart.cut, a->words.error);
        ftk_apart.cut = NULL;
    }
    return FTKIT_OK;
}

/* ---- actions: the log, the next set -------------------------------------------------------- */

static void show(void)
{
    const struct ftk_apart_rank *r = &ftk_apart.rank;
    ftk_log.apart.set = r->set;
    ftk_log.apart.open = r->open;
    ftk_log.apart.all_cut = r->all_cut;
}

static int do_log(const struct ftk_apart_action *a)
{
    switch (a->act) {
    case FTK_DO_SHOW:
        show();
        break;
    case FTK_DO_SEND_COUNTS:
        ftk_apart_fails(ftk_numbers_send(FTK_TAG_COUNTS, ftk_apart.rank.set));
        break;
    case FTK_DO_STOP:
        ftk_det_stop();
        (void)FTK_FAULT("apart.all");
        break;
    case FTK_DO_SEND_EARLY:
        return ftk_numbers_send(FTK_TAG_EARLY, ftk_apart.rank.set);
    case FTK_DO_DROP_NUMBERS:
        ftk_numbers_drop();
        break;
    case FTK_DO_PASS_LINE:
        ftk_line_pass(ftk_log.ctx, FTK_PASS_CUT, ftk_apart.calls);
        break;
    case FTK_DO_DISCARD:
        ftk_parts_discard();
        break;
    default: /* FTK_DO_HALT */
        halt();
    }
    return FTKIT_OK;
}

/* When and where the next set is written. */
static void do_policy(const struct ftk_apart_action *a)
{
    struct ftkit_ctx *ctx = ftk_log.ctx;
    switch (a->act) {
    case FTK_DO_REQUEST:
        ftk_policy_ask(ctx, a->number);
        break;
    case FTK_DO_NUMBER:
        ftk_set_number(ctx, a->set);
        break;
    case FTK_DO_NUMBER_PAST:
        ftk_set_number_past(ctx, a->set);
        break;
    case FTK_DO_TRIED:
        ftk_policy_tried(ctx);
        break;
    case FTK_DO_REST:
        ftk_apart.again_s = ftk_now_s() + FTK_APART_REST_S;
        break;
    case FTK_DO_FAIL:
        keep_failure(a->set, a->words.error, a->number != 0);
        break;
    default: /* FTK_DO_FLUSH_LOST */
        ftk_policy_flush_lost(ctx);
    }
}

/* Some rank has no thread: the program waits until the set is written. */
static int write_files(void)
{
    struct ftk_chan ch = ftk_chan_beside(ftk_log.ctx);
    const int rc = ftk_flush_set(&ch, ftk_apart.rank.set, ftk_apart.rank.durable, false);
    if (rc != FTKIT_ERR_PEER)
        return ftk_apart_happens(
            (struct ftk_apart_event){ .kind = FTK_ON_FLUSHED, .words = { .error = rc } });
    ftk_policy_flush_lost(ftk_log.ctx);
    return rc;
}

/* Messages of rounds, and what stands between sets. */
static int do_round(const struct ftk_apart_action *a)
{
    switch (a->act) {
    case FTK_DO_INITIATE:
        if (announce(a) != FTKIT_OK)
            (void)ftk_apart_happens((struct ftk_apart_event){ .kind = FTK_ON_NOT_SAID });
        break;
    case FTK_DO_END_ROUND:
        return announce(a);
    case FTK_DO_SAY:
    case FTK_DO_SAY_UP:
        return say(a);
    case FTK_DO_VOID:
        if (ftk_apart.tally)
            ftk_tally_void(ftk_apart.tally, ftk_apart_number(a->set, a->round));
        break;
    case FTK_DO_ASK:
        if (ftk_tally_ask(ftk_apart.tally, a->number) != FTKIT_OK)
            (void)ftk_apart_happens((struct ftk_apart_event){ .kind = FTK_ON_NOT_ASKED });
        break;
    case FTK_DO_CLOCK:
        ftk_apart.since_s = ftk_now_s();
        ftk_apart.warned = false;
        break;
    default: /* FTK_DO_END_TALLY */
        ftk_tally_close(ftk_apart.tally);
        ftk_apart.tally = NULL;
        ftk_flush_start_drop(&ftk_apart.start);
    }
    return FTKIT_OK;
}

static int carry_out(const struct ftk_apart_action *a)
{
    switch (a->act) {
    case FTK_DO_START_FLUSH:
        return start_flush();
    case FTK_DO_WRITE_FILES:
        return write_files();
    case FTK_DO_RETURN:
        keep_result(a->words.error);
        keep_result(ftk_flush_return(ftk_log.ctx));
        return FTKIT_OK;
    default:
        break;
    }
    if (a->act < FTK_DO_SHOW)
        return do_round(a);
    if (a->act < FTK_DO_COPY_LOG)
        return do_log(a);
    if (a->act < FTK_DO_REQUEST)
        return do_segment(a);
    do_policy(a);
    return FTKIT_OK;
}

int ftk_apart_happens(struct ftk_apart_event e)
{
    struct ftk_apart_actions todo;
    const struct ftkit_ctx *ctx = ftk_log.ctx;
    int rc = FTKIT_OK;
    e.first = ctx && ctx->rank == 0;
    e.requested = ctx ? ctx->policy.requested : 0;
    e.cut_error = ftk_apart.cut ? ftk_cut_error(ftk_apart.cut) : FTKIT_OK;
    e.cut_local_error = ftk_apart.cut ? ftk_cut_local_error(ftk_apart.cut) : FTKIT_OK;
    ftk_apart_step(&ftk_apart.rank, &e, &todo);
    for (int i = 0; i < todo.n; i++) {
        const int own = carry_out(&todo.v[i]);
        rc = rc == FTKIT_OK ? own : rc;
    }
    ftk_apart_note_error();
    return rc;
}

void ftk_apart_fails(int code)
{
    (void)ftk_apart_happens(
        (struct ftk_apart_event){ .kind = FTK_ON_ERROR, .words = { .error = code } });
}
