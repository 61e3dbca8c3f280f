/* Matching: programs by hand of one rank that receives, probes and cancels, over an MPI of the test
 * (t_match_mpi.h).  The random programs are in t_match.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "t_match_log.h"

#include "log/request/match.h"
#include "log/request/overtake.h"
#include "log/request/receives.h"
#include "log/request/recv.h"

#include "log/recovery/steps.h"

/* A probe shows a message, and a receive with its arguments begins.  Then the look for an older
 * receive finds a later message that the new receive could get. */
static void shown(void **state)
{
    static struct stepping s;
    const struct op older = { .context = 2, .source = 2, .tag = MPI_ANY_TAG };
    const struct op probe = { .context = 1, .source = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG };
    MPI_Status st;
    int flag;
    (void)state;
    begin_run(&s);
    fake.is_quiet = true;
    fake.nmessages = 2;
    sent[0] = message_of(1, 1, 0, false);
    sent[1] = message_of(1, 2, 0, false);
    begin(NULL, 0);
    const int first = receive_as(&older, -1);
    arrive_one(&sent[0]);
    EXPECT(
        ftk_mpi_Iprobe(probe.source, probe.tag, handle[probe.context], &flag, &st) == MPI_SUCCESS);
    EXPECT(flag && st.MPI_SOURCE == 1);
    const int second = receive_as(&probe, -1);
    arrive_one(&sent[1]);
    EXPECT(step_test(first) == NOTHING);
    EXPECT(step_test(second) == 0);
    close_log();
}

/* ---- a repair ------------------------------------------------------------------------------ */

static int look(void *arg)
{
    (void)arg;
    fake.idle = 0;
    return FTKIT_OK;
}

/* Which receives have been overtaken by messages of the channel: as recovery/suppress.c does.
 * Returns the number of gaps. */
static int bind_gaps(int context, int source, int tag)
{
    const struct ftk_channel *s = ftk_channel_find(context, source, tag);
    int gaps = 0;
    EXPECT(s != NULL);
    for (struct ftk_req *q = ftk_log.queue.first; q; q = q->next)
        if (ftk_overtake_count(s, q) > 0) {
            ftk_recv_bind(q, source);
            gaps++;
        }
    return gaps;
}

/* A rank has died, and a replacement has its place.  Returns the number of gaps of a channel of its
 * messages.  Those that have not come whole are sent again. */
static int repair(int rank, int context, int tag)
{
    int lost[RANKS] = { 0 };
    lost[rank] = 1;
    const struct ftk_log_repair r = { .n = RANKS, .is_new = lost, .back = lost };
    const struct ftk_quiescing s = { &r, look, NULL };
    for (int i = 0; i < fake.nmessages; i++)
        EXPECT(sent[i].source != rank || sent[i].place == MATCHED);
    EXPECT(ftk_part_messages.withdraw(&s) == FTKIT_OK);
    const int gaps = bind_gaps(context, rank, tag);
    for (int i = 0; i < fake.nmessages; i++)
        if (sent[i].source == rank && !sent[i].whole) {
            sent[i].place = COMING;
            sent[i].is_long = false;
        }
    model.ctx.detect.failed = false;
    for (struct ftk_req *q = ftk_log.queue.first, *next; q; q = next) {
        next = q->next;
        if (q->state != FTK_REQ_POSTED)
            EXPECT(ftk_match_post(q) == MPI_SUCCESS);
    }
    return gaps;
}

/* The MPI ends the receives that name a dead source. */
static void fail_receives(int rank)
{
    for (struct fake_request *r = asked; r < asked + REQUESTS; r++)
        r->failed = r->used && r->source == rank && !(r->got && r->got->whole);
}

/* A failure has ended a receive, which the program then cancels.  No message comes for it. */
static void dead(void **state)
{
    static struct stepping s;
    const struct op from = { .context = 0, .source = 1, .tag = 0 };
    (void)state;
    begin_case(&s, 0);
    const int k = receive_as(&from, -1);
    fail_receives(1);
    step_cancel(k);
    EXPECT(repair(1, 0, 0) == 0);
    EXPECT(step_test(k) == NOTHING + 1);
    close_log();
}

enum when { AT_ONCE, AFTER_A_LOOK, AFTER_THE_REPAIR };

/* A receive has been matched with a message whose sender has died, and a later message of the
 * sender has come.  The cancel of the receive is too late, before the repair and after it: the
 * replacement sends the first message again, and the second one no more. */
static void gap(bool fails, enum when cancels)
{
    static struct stepping s;
    const struct op from = { .context = 0, .source = 1, .tag = 0 };
    begin_case(&s, 2);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 0, false);
    for (int replays = 0; replays < 2; replays++) {
        const int first = receive_as(&from, -1), second = receive_as(&from, -1);
        for (int i = 0; i < 2 && !replays; i++)
            arrive_one(&sent[i]);
        if (fails && !replays)
            fail_receives(1);
        if (cancels == AT_ONCE)
            step_cancel(first);
        EXPECT(step_test(first) == NOTHING);
        if (cancels == AFTER_A_LOOK)
            step_cancel(first);
        EXPECT(replays || repair(1, 0, 0) == 1);
        if (cancels == AFTER_THE_REPAIR)
            step_cancel(first);
        EXPECT(step_test(first) == NOTHING);
        arrive_one(&sent[0]);
        if (replays)
            arrive_one(&sent[1]);
        EXPECT(step_test(second) == 1);
        EXPECT(step_test(first) == 0);
        if (!replays)
            die();
    }
    close_log();
}

static void cancelled_before_repair(void **state)
{
    (void)state;
    gap(true, AT_ONCE);
    gap(true, AFTER_A_LOOK);
    gap(false, AT_ONCE);
    gap(false, AFTER_A_LOOK);
}

static void cancelled_after_repair(void **state)
{
    (void)state;
    gap(true, AFTER_THE_REPAIR);
    gap(false, AFTER_THE_REPAIR);
}

/* The same of a receive from any source: a message of a live rank shows that it has been matched.
 * Its match is recorded, so a replay gives it the message. */
static void bound(void **state)
{
    static struct stepping s;
    const struct op any = { .context = 0, .source = MPI_ANY_SOURCE, .tag = 0 };
    const struct op from = { .context = 0, .source = 2, .tag = 0 };
    (void)state;
    begin_case(&s, 2);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 2, 0, false);
    for (int replays = 0; replays < 2; replays++) {
        const int first = receive_as(&any, -1), second = receive_as(&from, -1);
        for (int i = 0; i < 2 && !replays; i++)
            arrive_one(&sent[i]);
        EXPECT(step_test(second) == NOTHING);
        if (replays)
            arrive_one(&sent[1]);
        else
            (void)repair(1, 0, 0);
        EXPECT(!ftk_receives_may_cut()); /* a set would not have the match */
        EXPECT(step_test(second) == 1);
        step_cancel(first);
        EXPECT(step_test(first) == NOTHING);
        arrive_one(&sent[0]);
        EXPECT(step_test(first) == 0 && ftk_receives_may_cut());
        if (!replays)
            die();
    }
    close_log();
}

/* A receive from any source has been matched by a long message of a rank that has died.  A receive
 * of any tag has the next one; the repair finds it.  In the replay the first receive gets the
 * message of another source, and the second one the same again. */
static void withdrawn(void **state)
{
    static struct stepping s;
    const struct op any = { .context = 0, .source = MPI_ANY_SOURCE, .tag = 0 };
    const struct op from = { .context = 0, .source = 1, .tag = MPI_ANY_TAG };
    MPI_Status st;
    (void)state;
    for (int truncates = 0; truncates < 2; truncates++) {
        begin_case(&s, 3);
        sent[0] = message_of(0, 1, 0, true);
        sent[1] = message_of(0, 1, 1, false);
        sent[2] = message_of(0, 2, 0, false);
        for (int replays = 0; replays < 2; replays++) {
            (void)receive_as(&any, -1);
            const int second = receive_as(&from, -1);
            if (replays)
                arrive_one(&sent[2]);
            for (struct fake_request *r = asked; r < asked + REQUESTS; r++)
                r->truncates = truncates && r->used && r->source == 1;
            arrive_one(&sent[0]);
            arrive_one(&sent[1]);
            EXPECT(replays || repair(1, 0, 1) == 0);
            int flag = 0;
            EXPECT(ftk_mpi_Test(&model.slot[second].h, &flag, &st)
                   == (truncates ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
            EXPECT(flag && st.MPI_SOURCE == 1 && st.MPI_TAG == 1);
            if (!replays)
                die();
        }
        close_log();
    }
}

/* ---- cancels --------------------------------------------------------------------------------- */

/* The cancel of a receive comes too late, and an earlier receive from any source, which could get
 * the message, is not complete.  A probe finds a later message only when a replay repeats the
 * outcome of the cancel. */
static void doubt(void **state)
{
    static struct stepping s;
    const struct op any = { .context = 0, .source = MPI_ANY_SOURCE, .tag = 0 };
    const struct op from = { .context = 0, .source = 1, .tag = 0 };
    MPI_Status st;
    int flag, nothing = 0;
    (void)state;
    begin_case(&s, 3);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 0, true);
    sent[2] = message_of(0, 1, 0, false);
    int first = receive_as(&any, -1), second = receive_as(&from, -1);
    for (int i = 0; i < 3; i++)
        arrive_one(&sent[i]);
    step_cancel(second);
    sent[0].whole = true;
    EXPECT(step_test(first) == 0);
    for (;; nothing++) {
        EXPECT(ftk_mpi_Iprobe(1, 0, handle[0], &flag, &st) == MPI_SUCCESS && nothing < 2);
        if (flag)
            break;
        sent[1].whole = true;
    }
    die();
    first = receive_as(&any, -1);
    second = receive_as(&from, -1);
    step_cancel(second);
    for (int i = 0; i < 3; i++) {
        arrive_one(&sent[i]);
        sent[i].whole = true;
    }
    EXPECT(step_test(first) == 0);
    for (; nothing >= 0; nothing--)
        EXPECT(ftk_mpi_Iprobe(1, 0, handle[0], &flag, &st) == MPI_SUCCESS && flag == !nothing);
    EXPECT(step_test(receive_as(&from, -1)) == 2);
    EXPECT(step_test(second) == 1);
    close_log();
}

/* A receive has been matched, and a later one has the next message of the source.  In the replay
 * the program cancels the first one before the messages come.  The cancel comes too late. */
static void cancelled_before_known(void **state)
{
    static struct stepping s;
    const struct op from = { .context = 0, .source = 1, .tag = 0 };
    const struct op any = { .context = 0, .source = MPI_ANY_SOURCE, .tag = 0 };
    (void)state;
    begin_case(&s, 2);
    sent[0] = message_of(0, 1, 0, false);
    sent[1] = message_of(0, 1, 0, false);
    for (int replays = 0; replays < 2; replays++) {
        const int first = receive_as(&from, -1), second = receive_as(&any, -1);
        if (replays)
            step_cancel(first);
        arrive_one(&sent[0]);
        arrive_one(&sent[1]);
        EXPECT(step_test(second) == 1);
        if (replays)
            EXPECT(step_test(first) == 0);
        else
            die();
    }
    close_log();
}

/* ---- a line apart -------------------------------------------------------------------------- */

/* The log takes a late message beside the program, as recovery/drain.c does. */
static void drain_late(int source)
{
    MPI_Message m;
    MPI_Status st;
    int flag;
    EXPECT(ftk_match_can_drain());
    EXPECT(ftk_mpi_real.Improbe(source, MPI_ANY_TAG, ftk_log_real(0), &flag, &m, &st) == MPI_SUCCESS
           && flag);
    EXPECT(ftk_match_drain_later(0, &m, &st) == MPI_SUCCESS);
}

/* A receive from any source has been matched with a long message.  A late message of another
 * source, which it could get, is drained.  A later receive gets the late message when the first
 * receive is recorded. */
static void late(void **state)
{
    static struct stepping s;
    const struct op any = { .context = 0, .source = MPI_ANY_SOURCE, .tag = 0 };
    const struct op from = { .context = 0, .source = 1, .tag = 0 };
    MPI_Status st;
    int flag;
    (void)state;
    begin_case(&s, 2);
    sent[0] = message_of(0, 2, 0, true);
    sent[1] = message_of(0, 1, 0, false);
    for (int replays = 0; replays < 2; replays++) {
        (void)receive_as(&any, -1);
        if (!replays)
            arrive_one(&sent[0]);
        arrive_one(&sent[1]);
        if (!replays)
            drain_late(1);
        EXPECT(ftk_mpi_Iprobe(1, 0, handle[0], &flag, &st) == MPI_SUCCESS && !flag);
        const int second = receive_as(&from, -1);
        EXPECT(step_test(second) == NOTHING);
        sent[0].whole = !replays;
        EXPECT(step_test(second) == 1);
        if (!replays)
            die();
    }
    close_log();
}

/* ---- probes ------------------------------------------------------------------------------ */

/* A probe from any source has found a message, and the process dies.  In the replay the message of
 * another source comes first.  The receive behind the probe gets the message of the probe. */
static void found_again(void **state)
{
    static struct stepping s;
    const struct op any = { .context = 0, .source = MPI_ANY_SOURCE, .tag = 0 };
    MPI_Status st;
    int flag;
    (void)state;
    begin_case(&s, 2);
    sent[0] = message_of(0, 1, 0, false);
    sent[1] = message_of(0, 2, 0, false);
    arrive_one(&sent[1]);
    EXPECT(ftk_mpi_Iprobe(MPI_ANY_SOURCE, 0, handle[0], &flag, &st) == MPI_SUCCESS);
    EXPECT(flag && st.MPI_SOURCE == 2);
    die();
    arrive_one(&sent[0]);
    arrive_one(&sent[1]);
    EXPECT(ftk_mpi_Iprobe(MPI_ANY_SOURCE, 0, handle[0], &flag, &st) == MPI_SUCCESS);
    EXPECT(flag && st.MPI_SOURCE == 2);
    EXPECT(step_test(receive_as(&any, -1)) == 1);
    EXPECT(step_test(receive_as(&any, -1)) == 0);
    close_log();
}

/* A receive that may have been matched is cancelled before the repair.  What the program sees of a
 * later receive is repeated, also when the cancel comes before the messages. */
static void cancelled_in_doubt(void **state)
{
    static struct stepping s;
    const struct op from = { .context = 0, .source = 1, .tag = 0 };
    (void)state;
    for (int at_once = 0; at_once < 2; at_once++) {
        begin_case(&s, 2);
        sent[0] = message_of(0, 1, 0, true);
        sent[1] = message_of(0, 1, 0, false);
        int first = receive_as(&from, -1), second = receive_as(&from, -1);
        arrive_one(&sent[0]);
        arrive_one(&sent[1]);
        fail_receives(1);
        EXPECT(at_once || step_test(first) == NOTHING);
        step_cancel(first);
        const bool seen = step_test(second) == 1;
        die();
        first = receive_as(&from, -1);
        second = receive_as(&from, -1);
        step_cancel(first);
        arrive_one(&sent[0]);
        arrive_one(&sent[1]);
        EXPECT(!seen || step_test(second) == 1);
        close_log();
    }
}

/* The same with replicas, in the rank that leads: the cancel waits for the repair. */
static int gaps_found;

static int repair_now(struct ftkit_ctx *ctx)
{
    (void)ctx;
    gaps_found = repair(1, 0, 0);
    return FTKIT_OK;
}

static void cancelled_by_leader(void **state)
{
    static struct stepping s;
    const struct op from = { .context = 0, .source = 1, .tag = 0 };
    (void)state;
    for (int at_once = 0; at_once < 2; at_once++) {
        begin_case(&s, 2);
        sent[0] = message_of(0, 1, 0, true);
        sent[1] = message_of(0, 1, 0, false);
        ftk_log.mode = &ftk_mode_node_led;
        ftk_log.repair = repair_now;
        ftk_log.epoch.real[FTK_LOG_DET_COMM] = MPI_COMM_NULL;
        const int first = receive_as(&from, -1), second = receive_as(&from, -1);
        arrive_one(&sent[0]);
        arrive_one(&sent[1]);
        fail_receives(1);
        gaps_found = -1;
        if (!at_once)
            (void)ftk_req_progress(ftk_req_of(model.slot[first].h));
        model.ctx.detect.failed = true;
        step_cancel(first);
        EXPECT(gaps_found == 1);
        arrive_one(&sent[0]);
        EXPECT(step_test(second) == 1);
        EXPECT(step_test(first) == 0);
        close_log();
    }
}

/* In a follower the repair binds a receive that the leader has cancelled in time.  The outcome
 * comes before the repair, or while the follower waits for it.  Later receives of the two ranks
 * have other messages, so both return to the line. */
static bool learns_in_repair;

static void learn_cancel(void)
{
    static const struct ftk_det in_time = { FTK_DET_CANCEL, 1, 1, 0 };
    EXPECT(ftk_det_learn(&in_time, 0, 1));
}

static int repair_and_learn(struct ftkit_ctx *ctx)
{
    (void)repair_now(ctx);
    if (learns_in_repair)
        learn_cancel();
    return FTKIT_OK;
}

static void bound_in_follower(void **state)
{
    static struct stepping s;
    const struct op from = { .context = 0, .source = 1, .tag = 0 };
    (void)state;
    for (int late = 0; late < 2; late++) {
        learns_in_repair = late;
        begin_case(&s, 2);
        sent[0] = message_of(0, 1, 0, true);
        sent[1] = message_of(0, 1, 0, false);
        ftk_log.mode = &ftk_mode_node_led;
        ftk_log.repair = repair_and_learn;
        ftk_log.epoch.real[FTK_LOG_DET_COMM] = MPI_COMM_NULL;
        ftk_log.epoch.leader = 1;
        const int first = receive_as(&from, -1), second = receive_as(&from, -1);
        arrive_one(&sent[0]);
        arrive_one(&sent[1]);
        EXPECT(ftk_req_progress(ftk_req_of(model.slot[second].h)) == MPI_SUCCESS);
        if (!late)
            learn_cancel();
        fail_receives(1);
        model.ctx.detect.failed = true;
        gaps_found = -1;
        step_cancel(first);
        EXPECT(gaps_found == 1 && model.ctx.repair.differs == FTK_DIFFERS_HERE);
        close_log();
    }
}

static int tests(void)
{
    const struct CMUnitTest all[] = { cmocka_unit_test(late), cmocka_unit_test(shown),
        cmocka_unit_test(dead), cmocka_unit_test(cancelled_before_repair),
        cmocka_unit_test(cancelled_after_repair), cmocka_unit_test(bound), cmocka_unit_test(doubt),
        cmocka_unit_test(cancelled_before_known), cmocka_unit_test(found_again),
        cmocka_unit_test(cancelled_in_doubt), cmocka_unit_test(cancelled_by_leader),
        cmocka_unit_test(withdrawn), cmocka_unit_test(bound_in_follower) };
    return cmocka_run_group_tests_name("matching by hand", all, NULL, NULL);
}

int main(int argc, char **argv)
{
    return match_main(argc, argv, tests);
}
