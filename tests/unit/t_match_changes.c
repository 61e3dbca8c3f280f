/* Matching: calls of any tag while something else changes: a line is committed, a follower becomes
 * the leader, a repair binds a receive.  Programs by hand, like those of t_match_tags.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "t_match_tags.h"

#include "log/request/match.h"
#include "log/request/recv.h"

/* ---- in a wait of MPI_Probe ---------------------------------------------------------------- */

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

/* ---- receives of any tag that a repair has bound ------------------------------------------- */

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

static int tests(void)
{
    const struct CMUnitTest all[] = { cmocka_unit_test(committed_in_probe),
        cmocka_unit_test(leads_in_probe), cmocka_unit_test(told_its_tag),
        cmocka_unit_test(bound_then_tagged), cmocka_unit_test(bound_without_tag) };
    return cmocka_run_group_tests_name("any tag and changes", all, NULL, NULL);
}

int main(int argc, char **argv)
{
    return match_main(argc, argv, tests);
}
