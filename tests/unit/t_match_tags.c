/* Matching: programs by hand with calls of any tag, of one rank over an MPI of the test
 * (t_match_mpi.h).  The random programs are in t_match.c, and other programs by hand in
 * t_match_cases.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "t_match_log.h"

#include "log/request/match.h"
#include "log/request/recv.h"

static const struct op any_source = { .context = 0, .source = MPI_ANY_SOURCE, .tag = 0 };
static const struct op any_tag = { .context = 0, .source = 1, .tag = MPI_ANY_TAG };
static const struct op from_one = { .context = 0, .source = 1, .tag = 1 };

static void arrive_all(int from, int upto)
{
    for (int i = from; i < upto; i++)
        arrive_one(&sent[i]);
}

/* ---- messages that are passed by ----------------------------------------------------------- */

/* A receive from any source has been matched by a long message.  A receive of any tag gets the next
 * message of this source, and the process dies.  In the replay a message of another source is there
 * first.  The second receive gets the same message again. */
static void next_of_source(void **state)
{
    static struct stepping s;
    const struct op any = { .context = 0, .source = MPI_ANY_SOURCE, .tag = 0 };
    const struct op from = { .context = 0, .source = 1, .tag = MPI_ANY_TAG };
    (void)state;
    begin_case(&s, 3);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 1, false);
    sent[2] = message_of(0, 2, 0, false);
    for (int replays = 0; replays < 2; replays++) {
        (void)receive_as(&any, -1);
        const int second = receive_as(&from, -1);
        if (replays)
            arrive_one(&sent[2]);
        arrive_one(&sent[0]);
        arrive_one(&sent[1]);
        EXPECT(step_test(second) == 1);
        if (!replays)
            die();
    }
    close_log();
}

/* The same with MPI_Probe in place of the second receive. */
static void next_to_probe(void **state)
{
    static struct stepping s;
    const struct op any = { .context = 0, .source = MPI_ANY_SOURCE, .tag = 0 };
    MPI_Status st;
    (void)state;
    begin_case(&s, 3);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 1, false);
    sent[2] = message_of(0, 2, 0, false);
    for (int replays = 0; replays < 2; replays++) {
        (void)receive_as(&any, -1);
        if (replays)
            arrive_one(&sent[2]);
        arrive_one(&sent[0]);
        arrive_one(&sent[1]);
        EXPECT(ftk_mpi_Probe(1, MPI_ANY_TAG, handle[0], &st) == MPI_SUCCESS && st.MPI_TAG == 1);
        if (!replays)
            die();
    }
    close_log();
}

/* MPI_Improbe takes a long message of a tag.  A message of another tag stands in front. */
static void in_front(void **state)
{
    static struct stepping s;
    MPI_Message m = MPI_MESSAGE_NULL;
    MPI_Status st;
    int flag;
    (void)state;
    begin_case(&s, 2);
    sent[0] = message_of(0, 1, 0, false);
    sent[1] = message_of(0, 1, 1, true);
    arrive_one(&sent[0]);
    arrive_one(&sent[1]);
    EXPECT(ftk_mpi_Improbe(1, 1, handle[0], &flag, &m, &st) == MPI_SUCCESS && !flag);
    sent[1].whole = true;
    EXPECT(ftk_mpi_Iprobe(1, MPI_ANY_TAG, handle[0], &flag, &st) == MPI_SUCCESS);
    EXPECT(flag && st.MPI_TAG == 0);
    close_log();
}

/* The message that a test of the receive finds, when the messages up to m have come whole. */
static uint64_t test_again(int k, int upto)
{
    uint64_t got = step_test(k);
    for (int i = 0; got == NOTHING && i <= upto; i++) {
        sent[i].whole = sent[i].whole || sent[i].place == MATCHED;
        got = step_test(k);
    }
    return got;
}

/* A receive from any source and one of any tag have been matched by long messages.  A third receive
 * gets the next message, and the process dies.  In the replay the first receive gets the message of
 * another source.  The third one gets the same message again. */
static void behind_any_tag(void **state)
{
    static struct stepping s;
    (void)state;
    begin_case(&s, 4);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 1, true);
    sent[2] = message_of(0, 1, 1, false);
    sent[3] = message_of(0, 2, 0, false);
    for (int replays = 0; replays < 2; replays++) {
        (void)receive_as(&any_source, -1);
        (void)receive_as(&any_tag, -1);
        const int third = receive_as(&from_one, -1);
        if (replays)
            arrive_one(&sent[3]);
        arrive_all(0, 3);
        if (!replays) {
            const uint64_t at_once = step_test(third);
            sent[1].whole = true;
            EXPECT(at_once == 2 || step_test(third) == 2);
            die();
            continue;
        }
        EXPECT(test_again(third, 3) == 2);
    }
    close_log();
}

/* The same with MPI_Probe in place of the third receive. */
static void probe_behind_any_tag(void **state)
{
    static struct stepping s;
    MPI_Status st;
    (void)state;
    begin_case(&s, 4);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 1, true);
    sent[2] = message_of(0, 1, 2, false);
    sent[3] = message_of(0, 2, 0, false);
    for (int replays = 0; replays < 2; replays++) {
        (void)receive_as(&any_source, -1);
        const int second = receive_as(&any_tag, -1);
        if (replays)
            arrive_one(&sent[3]);
        arrive_all(0, 3);
        EXPECT(ftk_mpi_Probe(1, MPI_ANY_TAG, handle[0], &st) == MPI_SUCCESS && st.MPI_TAG == 2);
        EXPECT(test_again(second, 3) == 1);
        if (!replays)
            die();
    }
    close_log();
}

/* A receive behind one of any tag is cancelled too late.  In the replay the messages come in
 * another order, and there is none for it: the cancel is in time. */
static void cancelled_behind_any_tag(void **state)
{
    static struct stepping s;
    (void)state;
    begin_case(&s, 3);
    sent[0] = message_of(0, 1, 0, false);
    sent[1] = message_of(0, 1, 1, true);
    sent[2] = message_of(0, 2, 0, true);
    for (int replays = 0; replays < 2; replays++) {
        (void)receive_as(&any_source, -1);
        (void)receive_as(&any_tag, -1);
        const int third = receive_as(&from_one, -1);
        if (!replays)
            arrive_one(&sent[2]);
        arrive_all(0, 2);
        step_cancel(third);
        if (!replays)
            die();
        else
            EXPECT(test_again(third, 2) == NOTHING + 1);
    }
    close_log();
}

/* ---- cancels --------------------------------------------------------------------------------- */

/* The cancel of a receive comes too late, and an earlier receive from any source, which could get
 * the message, is not complete.  A probe of any tag finds the next message of the source. */
static void doubt_of_any_tag(void **state)
{
    static struct stepping s;
    const struct op any = { .context = 0, .source = MPI_ANY_SOURCE, .tag = 0 };
    const struct op from = { .context = 0, .source = 1, .tag = 0 };
    MPI_Status st;
    int flag;
    (void)state;
    begin_case(&s, 3);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 0, true);
    sent[2] = message_of(0, 1, 1, false);
    (void)receive_as(&any, -1);
    int second = receive_as(&from, -1);
    for (int i = 0; i < 3; i++)
        arrive_one(&sent[i]);
    step_cancel(second);
    EXPECT(ftk_mpi_Iprobe(1, MPI_ANY_TAG, handle[0], &flag, &st) == MPI_SUCCESS);
    const bool seen = flag;
    die();
    (void)receive_as(&any, -1);
    second = receive_as(&from, -1);
    step_cancel(second);
    for (int i = 0; i < 3; i++)
        arrive_one(&sent[i]);
    EXPECT(ftk_mpi_Iprobe(1, MPI_ANY_TAG, handle[0], &flag, &st) == MPI_SUCCESS);
    EXPECT(!seen || (flag && st.MPI_TAG == 1 && step_test(second) == 1));
    close_log();
}

/* The cancel of a receive of any tag comes too late.  The receive is complete before the earlier
 * receive from any source: by a test, or in a probe. */
static void doubt_about_any_tag(void **state)
{
    static struct stepping s;
    MPI_Status st;
    int flag;
    (void)state;
    for (int by_probe = 0; by_probe < 2; by_probe++) {
        begin_case(&s, 4);
        sent[0] = message_of(0, 1, 0, true);
        sent[1] = message_of(0, 1, 1, true);
        sent[2] = message_of(0, 1, 2, false);
        sent[3] = message_of(0, 2, 0, false);
        for (int replays = 0; replays < 2; replays++) {
            (void)receive_as(&any_source, -1);
            const int second = receive_as(&any_tag, -1);
            if (replays)
                arrive_one(&sent[3]);
            arrive_all(0, 3);
            step_cancel(second);
            sent[1].whole = true;
            if (by_probe)
                EXPECT(ftk_mpi_Iprobe(1, 2, handle[0], &flag, &st) == MPI_SUCCESS && flag);
            EXPECT(step_test(second) == 1);
            if (!replays)
                die();
        }
        close_log();
    }
}

/* The messages that a probe finds behind a receive in doubt have been taken aside, before the
 * receive came in doubt. */
static void doubt_and_aside(void **state)
{
    static struct stepping s;
    const struct op from = { .context = 0, .source = 1, .tag = 0 };
    MPI_Message m = MPI_MESSAGE_NULL;
    MPI_Status st;
    int flag;
    bool seen = false;
    (void)state;
    begin_case(&s, 4);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 0, true);
    sent[2] = message_of(0, 1, 1, false);
    sent[3] = message_of(0, 1, 2, true);
    for (int replays = 0; replays < 2; replays++) {
        (void)receive_as(&any_source, -1);
        const int second = receive_as(&from, -1);
        if (!replays)
            arrive_all(0, 4);
        EXPECT(ftk_mpi_Improbe(1, 2, handle[0], &flag, &m, &st) == MPI_SUCCESS && !flag);
        sent[3].whole = !replays;
        step_cancel(second);
        if (replays)
            arrive_all(0, 4);
        EXPECT(ftk_mpi_Iprobe(1, MPI_ANY_TAG, handle[0], &flag, &st) == MPI_SUCCESS);
        if (replays) {
            EXPECT(!seen || (flag && st.MPI_TAG == 1 && step_test(second) == 1));
            break;
        }
        seen = flag;
        sent[0].whole = sent[1].whole = true;
        EXPECT(ftk_mpi_Iprobe(1, MPI_ANY_TAG, handle[0], &flag, &st) == MPI_SUCCESS);
        EXPECT(flag && st.MPI_TAG == 1);
        die();
    }
    close_log();
}

/* ---- probes of any tag ---------------------------------------------------------------------- */

enum how { ONE_LOOK, WAITS };

/* A probe of any tag has found a message behind that of a receive from any source.  In the replays
 * that receive gets another message.  The receive behind the probe gets the message of the
 * probe. */
static void probed(int source, enum how how)
{
    static struct stepping s;
    const struct op same = { .context = 0, .source = source, .tag = MPI_ANY_TAG };
    MPI_Status st;
    begin_case(&s, 3);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 1, false);
    sent[2] = message_of(0, 2, 0, false);
    for (int replays = 0; replays < 3; replays++) {
        int flag = 1;
        (void)receive_as(&any_source, -1);
        if (replays)
            arrive_one(&sent[2]);
        arrive_all(0, 2);
        EXPECT((how == WAITS ? ftk_mpi_Probe(source, MPI_ANY_TAG, handle[0], &st)
                             : ftk_mpi_Iprobe(source, MPI_ANY_TAG, handle[0], &flag, &st))
               == MPI_SUCCESS);
        EXPECT(flag && st.MPI_SOURCE == 1 && st.MPI_TAG == 1);
        if (replays) {
            EXPECT(step_test(receive_as(&same, -1)) == 1);
            EXPECT(test_again(receive_as(&same, -1), 3) == 0);
        }
        if (replays < 2)
            die();
    }
    close_log();
}

static void found_with_its_tag(void **state)
{
    (void)state;
    for (enum how how = ONE_LOOK; how <= WAITS; how++) {
        probed(1, how);
        probed(MPI_ANY_SOURCE, how);
    }
}

/* MPI_Probe of any tag records nothing, if no earlier receive may have another message. */
static void nothing_recorded(void **state)
{
    static struct stepping s;
    MPI_Status st;
    (void)state;
    begin_case(&s, 2);
    sent[0] = message_of(0, 2, 0, false);
    sent[1] = message_of(0, 1, 1, false);
    arrive_all(0, 2);
    EXPECT(step_test(receive_as(&any_source, -1)) == 0);
    const size_t n = ftk_det_count();
    EXPECT(ftk_mpi_Probe(1, MPI_ANY_TAG, handle[0], &st) == MPI_SUCCESS && st.MPI_TAG == 1);
    EXPECT(step_test(receive_as(&any_tag, -1)) == 1);
    EXPECT(ftk_det_count() == n + 1); /* of the test */
    close_log();
}

/* The determinants of an earlier version have none of MPI_Probe with a source and any tag.  The
 * next one is of the next call. */
static void of_earlier_version(void **state)
{
    static struct stepping s;
    static const struct ftk_det old[] = { { FTK_DET_PROBE, 0, 2, 2 } };
    MPI_Status st;
    int flag;
    (void)state;
    begin_case(&s, 3);
    close_log();
    begin(old, 1);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 1, false);
    sent[2] = message_of(0, 2, 2, false);
    (void)receive_as(&any_source, -1);
    arrive_all(0, 3);
    EXPECT(ftk_mpi_Probe(1, MPI_ANY_TAG, handle[0], &st) == MPI_SUCCESS && st.MPI_TAG == 1);
    EXPECT(ftk_mpi_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, handle[0], &flag, &st) == MPI_SUCCESS);
    EXPECT(flag && st.MPI_SOURCE == 2 && st.MPI_TAG == 2);
    close_log();
}

/* ---- in a wait of MPI_Probe ------------------------------------------------------------------- */

/* The only part of the log.  It does its work in the first wait of a call. */
static void in_first_wait(ftk_look_fn *f)
{
    ftk_parts.progress[0] = f;
    ftk_parts.progress[1] = NULL;
}

static size_t count_of(uint64_t line, uint32_t kind, uint32_t number, int tag)
{
    size_t n, found = 0;
    const struct ftk_det *v = ftk_det_own(line, &n);
    for (size_t i = 0; i < n; i++)
        found += v[i].kind == kind && v[i].n == number && v[i].b == tag;
    return found;
}

static void commit_now(void)
{
    in_first_wait(NULL);
    ftk_log.line.count++;
    ftk_part_det.line(FTK_PASS_CUT, false);
    ftk_part_receives.line(FTK_PASS_CUT, false);
    arrive_one(&sent[2]);
}

/* A line apart is committed while MPI_Probe waits.  The determinant has the number of the probe in
 * each of the two intervals. */
static void committed_in_probe(void **state)
{
    static struct stepping s;
    MPI_Status st;
    (void)state;
    begin_case(&s, 3);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 1, false);
    sent[2] = message_of(0, 1, 2, false);
    (void)receive_as(&any_source, -1);
    arrive_all(0, 2);
    EXPECT(ftk_mpi_Probe(1, MPI_ANY_TAG, handle[0], &st) == MPI_SUCCESS && st.MPI_TAG == 1);
    EXPECT(step_test(receive_as(&from_one, -1)) == 1);
    EXPECT(ftk_part_receives.cut(true) == FTKIT_OK);
    in_first_wait(commit_now);
    EXPECT(ftk_mpi_Probe(1, MPI_ANY_TAG, handle[0], &st) == MPI_SUCCESS && st.MPI_TAG == 2);
    EXPECT(ftk_log.line.count == 2);
    EXPECT(count_of(1, FTK_DET_PROBED, 2, 2) == 1);
    EXPECT(count_of(2, FTK_DET_PROBED, 1, 2) == 1);
    close_log();
}

static bool is_follower;

static bool follows(void)
{
    return is_follower;
}

static void withheld(void)
{
}

static const struct ftk_det_mode led = {
    .records = true, .follows = follows, .withheld = withheld
};

static void begin_following(struct stepping *s, int nmessages)
{
    begin_case(s, nmessages);
    ftk_log.mode = &led;
    is_follower = true;
}

/* The leader is lost, and this rank leads. */
static void lead_now(void)
{
    is_follower = false;
    for (struct ftk_req *q = ftk_log.queue.first, *next; q; q = next) {
        next = q->next;
        EXPECT(ftk_match_post(q) == MPI_SUCCESS);
    }
}

static void learn_probed(void)
{
    static const struct ftk_det told = { FTK_DET_PROBED, 1, 1, 1 };
    in_first_wait(NULL);
    EXPECT(ftk_det_learn(&told, ftk_det_count(), 1));
    lead_now();
}

/* A follower waits in MPI_Probe.  Its leader has told a message, and is lost.  The follower leads,
 * and its receive from any source gets another message than that of the leader. */
static void leads_in_probe(void **state)
{
    static struct stepping s;
    MPI_Status st;
    (void)state;
    begin_following(&s, 3);
    sent[0] = message_of(0, 1, 0, false);
    sent[1] = message_of(0, 1, 1, false);
    sent[2] = message_of(0, 2, 0, false);
    const int first = receive_as(&any_source, -1);
    arrive_one(&sent[2]);
    arrive_all(0, 2);
    in_first_wait(learn_probed);
    EXPECT(ftk_mpi_Probe(1, MPI_ANY_TAG, handle[0], &st) == MPI_SUCCESS && st.MPI_TAG == 1);
    EXPECT(count_of(1, FTK_DET_PROBED, 1, 1) == 1 && count_of(1, FTK_DET_PROBED, 1, 0) == 0);
    EXPECT(step_test(first) == 2);
    close_log();
}

static void learn(const struct ftk_det *v, size_t n)
{
    EXPECT(ftk_det_learn(v, ftk_det_count(), n));
}

/* A follower has begun a receive of any tag.  Then its leader tells the tag, and the match of the
 * receive from any source in front. */
static void told_its_tag(void **state)
{
    static struct stepping s;
    static const struct ftk_det told[] = { { FTK_DET_TAG, 2, 1, 1 }, { FTK_DET_RECV, 1, 2, 0 } };
    (void)state;
    begin_following(&s, 3);
    sent[0] = message_of(0, 1, 0, false);
    sent[1] = message_of(0, 1, 1, false);
    sent[2] = message_of(0, 2, 0, false);
    (void)receive_as(&any_source, -1);
    const int second = receive_as(&any_tag, -1);
    arrive_all(0, 3);
    EXPECT(step_test(second) == NOTHING);
    learn(told, 2);
    lead_now();
    EXPECT(test_again(second, 2) == 1);
    close_log();
}

/* ---- receives of any tag that a repair has bound ----------------------------------------------- */

static void bind_to_one(int k)
{
    for (struct ftk_req *q = ftk_log.queue.first; q; q = q->next)
        if (q->recv.want.source == MPI_ANY_SOURCE && q->recv.want.tag == MPI_ANY_TAG)
            ftk_recv_bind(q, 1);
    EXPECT(k >= 0);
}

static const struct op any_message = { .context = 0, .source = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG };

/* The determinant of the bound receive has no tag.  A second determinant has the tag. */
static void bound_then_tagged(void **state)
{
    static struct stepping s;
    (void)state;
    begin_case(&s, 3);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 2, false);
    sent[2] = message_of(0, 2, 0, false);
    for (int replays = 0; replays < 2; replays++) {
        (void)receive_as(&any_source, -1);
        const int second = receive_as(&any_message, -1);
        if (replays)
            arrive_one(&sent[2]);
        arrive_all(0, 2);
        if (replays) {
            EXPECT(test_again(second, 2) == 1);
            break;
        }
        bind_to_one(second);
        EXPECT(step_test(second) == 1);
        die();
    }
    close_log();
}

/* The determinant of the bound receive has no tag.  The message may be one that the earlier receive
 * cannot take, so the cancel of that receive is open. */
static void bound_without_tag(void **state)
{
    static struct stepping s;
    (void)state;
    begin_case(&s, 1);
    sent[0] = message_of(0, 1, 0, true);
    for (int replays = 0; replays < 2; replays++) {
        const int first = receive_as(&from_one, -1), second = receive_as(&any_message, -1);
        arrive_one(&sent[0]);
        if (!replays) {
            bind_to_one(second);
            die();
            continue;
        }
        step_cancel(first);
        EXPECT(step_test(first) == NOTHING + 1);
    }
    close_log();
}

/* ---- what a replay remembers of a probe -------------------------------------------------------- */

enum between { ANOTHER_RECEIVE, A_PROBE, BOTH };

/* A replay has repeated a probe.  Before the receive with its arguments comes a receive that cannot
 * take the message, or a probe with the same arguments. */
static void remembers(enum between between, enum how how)
{
    static struct stepping s;
    static const struct op other = { .context = 0, .source = 3, .tag = 2 };
    MPI_Status st;
    begin_case(&s, 3);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 1, false);
    sent[2] = message_of(0, 2, 0, false);
    for (int replays = 0; replays < 2; replays++) {
        int flag = 1;
        (void)receive_as(&any_source, -1);
        if (replays)
            arrive_one(&sent[2]);
        arrive_all(0, 2);
        EXPECT(ftk_mpi_Probe(1, MPI_ANY_TAG, handle[0], &st) == MPI_SUCCESS && st.MPI_TAG == 1);
        if (!replays) {
            die();
            continue;
        }
        if (between != A_PROBE)
            (void)receive_as(&other, -1);
        if (between != ANOTHER_RECEIVE)
            EXPECT((how == WAITS ? ftk_mpi_Probe(1, MPI_ANY_TAG, handle[0], &st)
                                 : ftk_mpi_Iprobe(1, MPI_ANY_TAG, handle[0], &flag, &st))
                       == MPI_SUCCESS
                   && flag && st.MPI_TAG == 1);
        EXPECT(step_test(receive_as(&any_tag, -1)) == 1);
        EXPECT(test_again(receive_as(&any_tag, -1), 3) == 0);
    }
    close_log();
}

static void remembered(void **state)
{
    (void)state;
    for (enum between between = ANOTHER_RECEIVE; between <= BOTH; between++)
        for (enum how how = ONE_LOOK; how <= WAITS; how++)
            remembers(between, how);
}

static int tests(void)
{
    const struct CMUnitTest all[] = { cmocka_unit_test(next_of_source),
        cmocka_unit_test(next_to_probe), cmocka_unit_test(in_front),
        cmocka_unit_test(behind_any_tag), cmocka_unit_test(probe_behind_any_tag),
        cmocka_unit_test(cancelled_behind_any_tag), cmocka_unit_test(doubt_of_any_tag),
        cmocka_unit_test(doubt_about_any_tag), cmocka_unit_test(doubt_and_aside),
        cmocka_unit_test(found_with_its_tag), cmocka_unit_test(nothing_recorded),
        cmocka_unit_test(of_earlier_version), cmocka_unit_test(committed_in_probe),
        cmocka_unit_test(leads_in_probe), cmocka_unit_test(told_its_tag),
        cmocka_unit_test(bound_then_tagged), cmocka_unit_test(bound_without_tag),
        cmocka_unit_test(remembered) };
    return cmocka_run_group_tests_name("matching with any tag", all, NULL, NULL);
}

int main(int argc, char **argv)
{
    return match_main(argc, argv, tests);
}
