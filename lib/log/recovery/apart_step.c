/* checkpoint.line = apart: the states of a set, and what a rank does at each event.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Rank 0 initiates a set.  Each rank cuts: it copies its regions and the state of the log, and goes
 * on.  All later steps are made in calls of MPI and of ftkit.  No rank waits for another rank in
 * these steps, with one exception: if some rank has no helper thread that writes files, all ranks
 * wait until the set is written.
 *
 *                   AWAY         no set is open <-------------------------------------------+
 *                     | initiation                                                          |
 *                     v                                                                     |
 *                 INITIATED      this rank knows that a set is due, and has not cut         |
 *                     |          -- round CUT is over: the set is given up --------- SEEN ->+
 *                     | a call of ftkit_checkpoint(), in which this rank may cut            |
 *                     v                                                                     |
 *                 COUNTING       announces to each receiver how many messages it had sent   |
 *                     | taken: says round CUT     on each channel at its cut                |
 *                     v                                                                     |
 *                 COUNTED        -- error in round CUT: given up ------------------- SEEN ->+
 *                     | round CUT is over: all ranks have cut.  This rank stops recording   |
 *                     v                                                                     |
 *                 CLOSING        late messages come into the set of their receiver; the     |
 *                     |          receivers announce to the senders their early messages     |
 *                     | late messages are here, numbers are taken: says round CLOSED        |
 *                     v                                                                     |
 *                 CLOSED         -- error in round CLOSED: given up ---------------- SEEN ->+
 *                     | round CLOSED is over.  The segment is sealed                        |
 *                     v                                                                     |
 *                 SIZING         the ranks that will get copies or parity take memory       |
 *                     | sizes are known: says round SIZED                                   |
 *                     v                                                                     |
 *                 SIZED          -- error in round SIZED: given up ----------------- SEEN ->+
 *                     | round SIZED is over                                                 |
 *                     v                                                                     |
 *                 SENDING        copies and parity go to these ranks                        |
 *                     | sent: says round SENT                                               |
 *                     v                                                                     |
 *                  SENT          -- error in round SENT: given up ------------------ SEEN ->+
 *                     | round SENT is over: this rank commits                               |
 *                     v                                                                     |
 *                COMMITTED       how the set goes to the files is looked up.  No files,     |
 *                     |          written while the program waits, or a halt ---- SEEN ----->+
 *                     v                                                                     |
 *                 STARTING       the ranks exchange what their threads need to write        |
 *                     |          the set to the files                                       |
 *                     +------------------------------------------------------------- SEEN ->+
 *
 *     any state, a repair begins:  INITIATED, COMMITTED, STARTING -> AWAY
 *                                  COUNTING ... SENT              -> FROZEN
 *     FROZEN, the line is known:   the set was committed by a rank that lives, or is given up
 *                                                                 -> AWAY
 *     any state, the ranks meet in another call: if some ranks have not cut, the newest set is
 *                                  given up                       -> AWAY
 *
 * Between two steps stands a round of a tally (detect/tally.h): a rank takes the next step when all
 * have ended the last one.  The most severe error of all ranks is in each result, so all ranks give
 * the set up together.  A rank that has seen the last result commits.  After a failure the census
 * shows whether a survivor has seen it, as for a line together (set/checkpoint.c).  Round SEEN goes
 * to rank 0 only, which initiates no other set before: a message crosses at most one line.
 *
 * A message is late if it was sent before the cut of its sender and received after the cut of its
 * receiver.  A message is early if it was sent after the cut of its sender and received before the
 * cut of its receiver. [Schulz et al., SC 2004, 2.3, 3.1; docs/model/apart.pml] */
#include "apart_step.h"

#include "core/ftk.h"

static struct ftk_apart_action *add(struct ftk_apart_actions *todo, enum ftk_apart_act act)
{
    struct ftk_apart_action *a = &todo->v[todo->n++];
    *a = (struct ftk_apart_action){ .act = act };
    return a;
}

static int more_severe(int x, int y)
{
    return x < y ? x : y;
}

/* ---- the request of the program ---------------------------------------------------------- */

/* The open set is for the request of the program of this rank, if it goes to the requested level.
 * The request holds until the commit: rank 0, which knows it, may be lost. */
static void take_request(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    if (e->requested == 2 && r->want < FTK_WANT_DURABLE && r->durable != 2)
        return;
    r->served = e->requested;
    add(todo, FTK_DO_REQUEST)->number = 0;
}

/* The set is given up: on rank 0 the request for it still holds. */
static int kept(const struct ftk_apart_rank *r, const struct ftk_apart_event *e, int requested)
{
    if (!e->first || requested != 0)
        return requested;
    return r->want == FTK_WANT_SET ? 1 : r->want == FTK_WANT_DURABLE ? 2 : 0;
}

/* ... and on each rank the request that the open set was for. */
static int returned(struct ftk_apart_rank *r, int requested)
{
    const int served = r->served;
    r->served = 0;
    return served > requested ? served : requested;
}

static void request(int requested, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    if (requested != e->requested)
        add(todo, FTK_DO_REQUEST)->number = requested;
}

/* ---- the end of a set -------------------------------------------------------------------- */

/* The set is over, for this rank. */
static void end_set(struct ftk_apart_rank *r, struct ftk_apart_actions *todo)
{
    r->error = r->local_error = FTKIT_OK;
    r->state = FTK_APART_AWAY;
    add(todo, FTK_DO_SAY_UP)->round = FTK_ROUND_SEEN;
}

/* What this rank has done since its cut, and the interval before, are one interval again. */
static void withdraw(struct ftk_apart_rank *r, struct ftk_apart_actions *todo)
{
    add(todo, FTK_DO_DISCARD);
    r->open = r->all_cut = false;
    add(todo, FTK_DO_SHOW);
}

static void end_cut(int code, struct ftk_apart_actions *todo)
{
    add(todo, FTK_DO_DROP_NUMBERS);
    add(todo, FTK_DO_END_CUT)->words.error = code;
}

static void give_up(struct ftk_apart_rank *r, const struct ftk_apart_event *e, int code,
    struct ftk_apart_actions *todo)
{
    struct ftk_apart_action *fail = add(todo, FTK_DO_FAIL);
    fail->words.error = code;
    fail->set = r->set;
    fail->number = more_severe(r->error, e->cut_error) != FTKIT_OK;
    end_cut(code, todo);
    request(kept(r, e, returned(r, e->requested)), e, todo);
    withdraw(r, todo);
    add(todo, FTK_DO_NUMBER_PAST)->set = r->set;
    add(todo, FTK_DO_TRIED);
    add(todo, FTK_DO_REST);
    end_set(r, todo);
}

/* All ranks have met.  Some ranks cannot cut for the newest set in this call: no rank waits for
 * them. */
static void meet(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    if (e->least == e->most && e->set <= e->most)
        return; /* all have cut: the set is written to its end */
    end_cut(FTKIT_ERR_STATE, todo);
    int requested = r->open ? returned(r, e->requested) : e->requested;
    if (r->state == FTK_APART_INITIATED || r->busy)
        requested = kept(r, e, requested);
    request(requested, e, todo);
    if (r->open)
        withdraw(r, todo);
    r->error = r->local_error = FTKIT_OK;
    r->state = FTK_APART_AWAY;
    r->busy = false;
    r->wanted = 0; /* this rank may not have heard the initiation: it asks again */
    add(todo, FTK_DO_NUMBER_PAST)->set = e->set;
    add(todo, FTK_DO_VOID)->set = e->set + 1;
}

/* ---- the commit, and what follows -------------------------------------------------------- */

/* The set is where it has to be, or a level has not got it. */
static void passed_on(struct ftk_apart_rank *r, int code, struct ftk_apart_actions *todo)
{
    add(todo, FTK_DO_RETURN)->words.error = code;
    end_set(r, todo);
}

static void halt(struct ftk_apart_rank *r, struct ftk_apart_actions *todo)
{
    r->halted = true;
    add(todo, FTK_DO_SHOW);
    add(todo, FTK_DO_HALT);
}

static void end_local(struct ftk_apart_rank *r, int code, struct ftk_apart_actions *todo)
{
    r->local_error = code;
    add(todo, FTK_DO_END_LOCAL)->words.local_error = code;
}

/* The log passes the line of the open set. */
static void pass_line(struct ftk_apart_rank *r, struct ftk_apart_actions *todo)
{
    r->served = 0;
    add(todo, FTK_DO_PASS_LINE);
    r->open = r->all_cut = false;
    add(todo, FTK_DO_SHOW);
}

static void commit(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    add(todo, FTK_DO_COMMIT)->number = r->want;
    if (!r->local)
        add(todo, FTK_DO_COUNT_LOCAL);
    else if (r->local_error == FTKIT_OK)
        end_local(r, e->words.local_error, todo);
    add(todo, FTK_DO_END_CUT)->words.error = FTKIT_OK;
    r->error = FTKIT_OK; /* the others cannot hear of it any more */
    pass_line(r, todo);
    r->state = FTK_APART_COMMITTED;
}

static void pass_on(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    if (r->want == FTK_WANT_HALT) { /* ftkit_checkpoint() writes the files */
        passed_on(r, FTKIT_OK, todo);
        halt(r, todo);
        return;
    }
    switch (e->how) {
    case FTK_HOW_NOT:
        passed_on(r, FTKIT_OK, todo);
        break;
    case FTK_HOW_WAIT: /* some rank has no thread */
        add(todo, FTK_DO_WRITE_FILES);
        break;
    case FTK_HOW_AFTER: /* an earlier set still is being written: rank 0 initiates another one */
        if (e->first)
            add(todo, FTK_DO_REQUEST)->number = 2;
        add(todo, FTK_DO_REST);
        passed_on(r, FTKIT_OK, todo);
        break;
    default:
        r->state = FTK_APART_STARTING;
        add(todo, FTK_DO_START_FLUSH);
    }
}

/* ---- the steps of a set ------------------------------------------------------------------ */

/* No other set is open anywhere. */
static void initiate(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    struct ftk_apart_action *a;
    if (r->state != FTK_APART_AWAY || r->busy || !e->first)
        return;
    r->set = e->set;
    r->busy = true;
    a = add(todo, FTK_DO_INITIATE);
    a->set = e->set;
    a->words = e->words;
}

static void hear_initiation(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    struct ftk_apart_action *a;
    r->set = e->set;
    r->durable = e->words.durable;
    r->local = e->words.local;
    r->want = e->words.want;
    if (r->want >= r->wanted)
        r->wanted = 0; /* else rank 0 gets it when this set is initiated already */
    r->state = FTK_APART_INITIATED;
    add(todo, FTK_DO_CLOCK);
    a = add(todo, FTK_DO_VOID); /* rounds of earlier sets are over */
    a->set = r->set;
    a->round = FTK_ROUND_CUT;
}

static void cut(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    if (r->state != FTK_APART_INITIATED)
        return;
    take_request(r, e, todo);
    r->error = FTKIT_OK;
    r->open = true;
    r->all_cut = false;
    r->state = FTK_APART_COUNTING;
    add(todo, FTK_DO_COPY_LOG);
    add(todo, FTK_DO_SHOW);
    add(todo, FTK_DO_COPY_REGIONS);
    add(todo, FTK_DO_SEND_COUNTS);
}

/* The state after the work of a state: this rank waits for the other ranks. */
static enum ftk_apart_state after(enum ftk_apart_state state)
{
    switch (state) {
    case FTK_APART_COUNTING:
        return FTK_APART_COUNTED;
    case FTK_APART_CLOSING:
        return FTK_APART_CLOSED;
    case FTK_APART_SIZING:
        return FTK_APART_SIZED;
    case FTK_APART_SENDING:
        return FTK_APART_SENT;
    default: /* a state without work */
        return state;
    }
}

/* This rank has ended the work of its state. */
static void ready(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    struct ftk_apart_action *a;
    r->state = after(r->state);
    a = add(todo, FTK_DO_SAY);
    a->round = ftk_apart_round_of(r->state);
    a->words.error = more_severe(r->error, e->cut_error);
    a->words.local_error = r->local_error == FTKIT_OK ? e->cut_local_error : r->local_error;
}

/* The result of a round has come: the next step. */
static void result(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    if (r->state == FTK_APART_INITIATED) { /* rank 0 has lost patience */
        add(todo, FTK_DO_NUMBER)->set = r->set + 1;
        end_set(r, todo);
        return;
    }
    if (e->words.error != FTKIT_OK) {
        give_up(r, e, e->words.error, todo);
        return;
    }
    switch (r->state) {
    case FTK_APART_COUNTED: /* all have cut */
        r->all_cut = true;
        r->state = FTK_APART_CLOSING;
        add(todo, FTK_DO_SHOW);
        add(todo, FTK_DO_STOP);
        add(todo, FTK_DO_SEND_EARLY);
        break;
    case FTK_APART_CLOSED: /* the tail of each rank is complete */
        r->state = FTK_APART_SIZING;
        add(todo, FTK_DO_FINISH);
        add(todo, FTK_DO_SEAL);
        if (r->local)
            add(todo, FTK_DO_BEGIN_LOCAL);
        break;
    case FTK_APART_SIZED: /* all have memory */
        if (e->words.local_error != FTKIT_OK)
            end_local(r, e->words.local_error, todo);
        r->state = FTK_APART_SENDING;
        break;
    case FTK_APART_SENT:
        commit(r, e, todo);
        break;
    default: /* no result without an error comes before this rank has said its words */
        break;
    }
}

/* No rank has the result of round CUT, so all give the set up. */
static void lose_patience(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    if (!e->first || ftk_apart_round_of(r->state) != FTK_ROUND_CUT)
        return;
    add(todo, FTK_DO_END_ROUND)->words.error = FTKIT_ERR_STATE;
}

/* ---- failures ---------------------------------------------------------------------------- */

/* A repair begins: messages are lost. */
static void freeze(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    end_cut(FTKIT_ERR_PEER, todo);
    const bool is_due = r->state == FTK_APART_COMMITTED && r->durable != 0; /* to the files */
    if (r->state == FTK_APART_STARTING || is_due)
        add(todo, FTK_DO_FLUSH_LOST);
    else if (r->state != FTK_APART_AWAY && r->state != FTK_APART_COMMITTED)
        request(kept(r, e, e->requested), e, todo);
    add(todo, FTK_DO_END_TALLY);
    r->busy = false;
    r->wanted = 0;
    r->error = r->local_error = FTKIT_OK;
    r->state = r->open ? FTK_APART_FROZEN : FTK_APART_AWAY;
}

/* The ranks have agreed on the line: the open set is committed, or given up. */
static void install(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    if (!r->open)
        return;
    if (e->set == r->set) { /* another rank has seen the commit */
        pass_line(r, todo);
        if (r->durable != 0)
            add(todo, FTK_DO_FLUSH_LOST);
    } else {
        request(returned(r, e->requested), e, todo);
        withdraw(r, todo);
    }
    r->state = FTK_APART_AWAY;
}

/* Forget the open set. */
static void roll_back(struct ftk_apart_rank *r, struct ftk_apart_actions *todo)
{
    r->halted = r->open = r->all_cut = false;
    r->served = 0; /* the program asks again, if it did so behind the line */
    r->state = FTK_APART_AWAY;
    add(todo, FTK_DO_SHOW);
}

/* ---- for the driver ---------------------------------------------------------------------- */

/* This rank asks rank 0. */
static void want(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    if (e->first || r->state != FTK_APART_AWAY || e->words.want <= r->wanted)
        return;
    r->wanted = e->words.want;
    add(todo, FTK_DO_ASK)->number = r->wanted;
}

enum ftk_apart_round ftk_apart_round_of(enum ftk_apart_state state)
{
    switch (state) {
    case FTK_APART_INITIATED: /* rank 0 may lose patience */
    case FTK_APART_COUNTING:
    case FTK_APART_COUNTED:
        return FTK_ROUND_CUT;
    case FTK_APART_CLOSED:
        return FTK_ROUND_CLOSED;
    case FTK_APART_SIZED:
        return FTK_ROUND_SIZED;
    case FTK_APART_SENT:
        return FTK_ROUND_SENT;
    default:
        return FTK_ROUND_INITIATE;
    }
}

uint64_t ftk_apart_cut_for(const struct ftk_apart_rank *r, uint64_t committed)
{
    return r->open ? r->set : committed;
}

uint64_t ftk_apart_knows(const struct ftk_apart_rank *r)
{
    return r->state == FTK_APART_INITIATED || r->busy ? r->set : 0;
}

/* The events of a set. */
static void step(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    switch (e->kind) {
    case FTK_ON_INITIATION:
        hear_initiation(r, e, todo);
        break;
    case FTK_ON_CALL:
        cut(r, e, todo);
        break;
    case FTK_ON_READY:
        ready(r, e, todo);
        break;
    case FTK_ON_RESULT:
        result(r, e, todo);
        break;
    case FTK_ON_PATIENCE:
        lose_patience(r, e, todo);
        break;
    case FTK_ON_HOW:
        pass_on(r, e, todo);
        break;
    case FTK_ON_FLUSHED:
        passed_on(r, e->words.error, todo);
        break;
    case FTK_ON_FAILURE:
        freeze(r, e, todo);
        break;
    case FTK_ON_LINE:
        install(r, e, todo);
        break;
    case FTK_ON_MEETING:
        meet(r, e, todo);
        break;
    default:
        break;
    }
}

void ftk_apart_step(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo)
{
    todo->n = 0;
    switch (e->kind) {
    case FTK_ON_DUE:
        initiate(r, e, todo);
        break;
    case FTK_ON_NOT_SAID:
    case FTK_ON_SEEN:
        r->busy = false;
        break;
    case FTK_ON_WANT:
        want(r, e, todo);
        break;
    case FTK_ON_NOT_ASKED:
        r->wanted = 0;
        break;
    case FTK_ON_ERROR:
        r->error = more_severe(r->error, e->words.error);
        break;
    case FTK_ON_STAY:
        halt(r, todo);
        break;
    case FTK_ON_ROLLBACK:
        roll_back(r, todo);
        break;
    default:
        step(r, e, todo);
    }
}
