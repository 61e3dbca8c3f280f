/* Matching: programs by hand with calls of any tag, of one rank over an MPI of the test
 * (t_match_mpi.h).  The random programs are in t_match.c, and other programs by hand in
 * t_match_cases.c; t_match_changes.c has calls of any tag over commits, leaders and repairs.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "t_match_tags.h"

#include "log/request/match.h"
#include "log/request/recv.h"

/* ---- messages that are passed by ----------------------------------------------------------- */

/* A receive from any source has been matched by a long message.  A receive of any tag gets the next
 * message of this source, and the process dies.  In the replay a message of another source is there
 * first.  The second receive gets the same message again. */
static void next_of_source(void **state)
{
    static struct stepping s;
    (void)state;
    begin_case(&s, 3);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 1, false);
    sent[2] = message_of(0, 2, 0, false);
    for (int replays = 0; replays < 2; replays++) {
        (void)receive_as(&any_source, -1);
        const int second = receive_as(&any_tag, -1);
        if (replays)
            arrive_one(&sent[2]);
        arrive_all(0, 2);
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
    MPI_Status st;
    (void)state;
    begin_case(&s, 3);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 1, false);
    sent[2] = message_of(0, 2, 0, false);
    for (int replays = 0; replays < 2; replays++) {
        (void)receive_as(&any_source, -1);
        if (replays)
            arrive_one(&sent[2]);
        arrive_all(0, 2);
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
    arrive_all(0, 2);
    EXPECT(ftk_mpi_Improbe(1, 1, handle[0], &flag, &m, &st) == MPI_SUCCESS && !flag);
    sent[1].whole = true;
    EXPECT(ftk_mpi_Iprobe(1, MPI_ANY_TAG, handle[0], &flag, &st) == MPI_SUCCESS);
    EXPECT(flag && st.MPI_TAG == 0);
    close_log();
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
    const struct op from = { .context = 0, .source = 1, .tag = 0 };
    MPI_Status st;
    int flag;
    (void)state;
    begin_case(&s, 3);
    sent[0] = message_of(0, 1, 0, true);
    sent[1] = message_of(0, 1, 0, true);
    sent[2] = message_of(0, 1, 1, false);
    (void)receive_as(&any_source, -1);
    int second = receive_as(&from, -1);
    arrive_all(0, 3);
    step_cancel(second);
    EXPECT(ftk_mpi_Iprobe(1, MPI_ANY_TAG, handle[0], &flag, &st) == MPI_SUCCESS);
    const bool seen = flag;
    die();
    (void)receive_as(&any_source, -1);
    second = receive_as(&from, -1);
    step_cancel(second);
    arrive_all(0, 3);
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

/* ---- what a replay remembers of a probe ---------------------------------------------------- */

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
        cmocka_unit_test(of_earlier_version),

        cmocka_unit_test(remembered) };
    return cmocka_run_group_tests_name("matching with any tag", all, NULL, NULL);
}

int main(int argc, char **argv)
{
    return match_main(argc, argv, tests);
}
