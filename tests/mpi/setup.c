/* A set-up that receives more than one message of a kind, some from any source, and completes
 * them in another order than it has asked for them: what a rank needs in the loop is not
 * registered, but has come between ftkit_open() and ftkit_recover() with messages that are
 * not sent again.  Set-up also probes and tests where it is known what has not come yet, so that a
 * replay which finds more takes another course.  It leaves a receive under way.
 *
 * A step passes app.mid once, in the middle of its communication.
 *
 * VARIANT other: set-up sends the number of the process, which is another one in a replay.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

#define LONG 100000 /* words: these take longer than what is sent after them */
#define SHORT 3
#define RANKS 8 /* at most */

static struct {
    /* [3] registered: of the loop; order in which set-up was told of others; in which
     * attempt of the job, for set-up runs anew in each of them */
    uint64_t *state;
    /* from each rank: a long message and two short ones, of the same tag */
    uint64_t big[RANKS][LONG], small[2][RANKS][SHORT + 1];
    uint64_t any[RANKS][2]; /* one from each, in whatever order; who it is from */
    uint64_t sum, order;    /* of all that set-up has got, of this process */
    uint64_t next;          /* registered: what the request gets */
    MPI_Request ahead;      /* registered */
    uint64_t attempt;
} g;

static int prepare(struct foreign *f)
{
    const char *attempt = getenv("FTKIT_RUN_ATTEMPT");
    g.attempt = attempt ? strtoull(attempt, NULL, 10) : 0;
    g.state = foreign_state(f, 3);
    g.ahead = MPI_REQUEST_NULL;
    return !g.state || f->nranks > RANKS
           || ftkit_register(f->ft, "next", &g.next, 1, MPI_UINT64_T) != FTKIT_OK
           || ftkit_register_requests(f->ft, "ahead", &g.ahead, 1) != FTKIT_OK;
}

static void fill(const struct foreign *f, uint64_t *m, int words, int to, int which)
{
    for (int i = 0; i < words; i++)
        m[i] = foreign_mix((uint64_t)(f->rank * RANKS + to), (uint64_t)(which + 4 * i));
}

/* Asked for in the order in which they are sent, waited for in the reverse. */
static int exchange(const struct foreign *f, int with)
{
    static uint64_t out[LONG];
    uint64_t first[SHORT], second[SHORT];
    MPI_Request in[3], q[3];
    MPI_Datatype pair; /* of which the last comes only in part */
    int bad = MPI_Type_contiguous(2, MPI_UINT64_T, &pair) != MPI_SUCCESS
              || MPI_Type_commit(&pair) != MPI_SUCCESS;
    MPI_Irecv(g.big[with], LONG, MPI_UINT64_T, with, 7, f->comm, &in[0]);
    MPI_Irecv(g.small[0][with], SHORT, MPI_UINT64_T, with, 7, f->comm, &in[1]);
    MPI_Irecv(g.small[1][with], 2, pair, with, 7, f->comm, &in[2]);
    fill(f, out, LONG, with, 0);
    fill(f, first, SHORT, with, 1);
    fill(f, second, SHORT, with, 2);
    MPI_Isend(out, LONG, MPI_UINT64_T, with, 7, f->comm, &q[0]);
    MPI_Isend(first, SHORT, MPI_UINT64_T, with, 7, f->comm, &q[1]);
    MPI_Isend(second, SHORT, MPI_UINT64_T, with, 7, f->comm, &q[2]);
    for (int i = 2; i >= 0; i--) {
        MPI_Status st;
        int words = -1;
        bad += MPI_Wait(&in[i], &st) != MPI_SUCCESS;
        MPI_Get_count(&st, MPI_UINT64_T, &words);
        bad += words != (i == 0 ? LONG : SHORT);
    }
    MPI_Waitall(3, q, MPI_STATUSES_IGNORE);
    bad += MPI_Type_free(&pair) != MPI_SUCCESS;
    return bad;
}

static void remember(void)
{
    g.state[1] = g.order;
    g.state[2] = g.attempt;
}

/* Who comes first decides what is where, and the program goes by it: all have been asked for,
 * one after the other, before the last is waited for. */
static int from_any(const struct foreign *f)
{
    MPI_Request in[RANKS], q[RANKS];
    uint64_t mine = foreign_mix((uint64_t)f->rank, 9);
    int n = 0, bad = 0;
    for (int r = 0; r < f->nranks; r++)
        if (r != f->rank) {
            MPI_Irecv(g.any[n], 1, MPI_UINT64_T, MPI_ANY_SOURCE, 8, f->comm, &in[n]);
            MPI_Isend(&mine, 1, MPI_UINT64_T, r, 8, f->comm, &q[n++]);
        }
    for (int i = n - 1; i >= 0; i--) {
        MPI_Status st;
        bad += MPI_Wait(&in[i], &st) != MPI_SUCCESS;
        g.any[i][1] = (uint64_t)st.MPI_SOURCE;
        bad += g.any[i][0] != foreign_mix(g.any[i][1], 9);
    }
    for (int i = 0; i < n; i++)
        g.order = foreign_mix(g.order, g.any[i][1]);
    remember();
    MPI_Waitall(n, q, MPI_STATUSES_IGNORE);
    return bad;
}

/* A message that was matched before another was asked for, and is received after it. */
static int matched(const struct foreign *f)
{
    int to = (f->rank + 1) % f->nranks, from = (f->rank + f->nranks - 1) % f->nranks;
    uint64_t out[2] = { (uint64_t)f->rank, (uint64_t)f->rank + 100 }, in[2] = { 0 };
    MPI_Message m;
    MPI_Request q;
    MPI_Send(&out[0], 1, MPI_UINT64_T, to, 9, f->comm);
    MPI_Send(&out[1], 1, MPI_UINT64_T, to, 9, f->comm);
    if (MPI_Mprobe(from, 9, f->comm, &m, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return 1;
    MPI_Irecv(&in[1], 1, MPI_UINT64_T, from, 9, f->comm, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Mrecv(&in[0], 1, MPI_UINT64_T, &m, MPI_STATUS_IGNORE);
    return in[0] != (uint64_t)from || in[1] != (uint64_t)from + 100;
}

/* ---- what has not come yet ------------------------------------------------------------ */

enum { GO = 10, FOUND, ANSWER, LATER, KIND /* and the two behind it */ };

static int ring_to(const struct foreign *f)
{
    return (f->rank + 1) % f->nranks;
}

static int ring_from(const struct foreign *f)
{
    return (f->rank + f->nranks - 1) % f->nranks;
}

/* Let the rank before this one send. */
static void go(const struct foreign *f)
{
    MPI_Send(NULL, 0, MPI_BYTE, ring_from(f), GO, f->comm);
    MPI_Recv(NULL, 0, MPI_BYTE, ring_to(f), GO, f->comm, MPI_STATUS_IGNORE);
}

static void tell(const struct foreign *f, int tag)
{
    const uint64_t mine = foreign_mix((uint64_t)f->rank, (uint64_t)tag);
    MPI_Send(&mine, 1, MPI_UINT64_T, ring_to(f), tag, f->comm);
}

static int is_wrong(const struct foreign *f, uint64_t in, int tag)
{
    return in != foreign_mix((uint64_t)ring_from(f), (uint64_t)tag);
}

static int receive(const struct foreign *f, int tag)
{
    uint64_t in = 0;
    MPI_Recv(&in, 1, MPI_UINT64_T, ring_from(f), tag, f->comm, MPI_STATUS_IGNORE);
    return is_wrong(f, in, tag);
}

/* In each round there is one message, because the next one waits for the answer. */
static int one_in_a_round(const struct foreign *f)
{
    int bad = 0;
    for (int round = 0; round < 3; round++) {
        int found = 0, flag = 0;
        tell(f, FOUND);
        while (!flag)
            MPI_Iprobe(MPI_ANY_SOURCE, FOUND, f->comm, &flag, MPI_STATUS_IGNORE);
        for (; flag && found < 9; found++) {
            bad += receive(f, FOUND);
            MPI_Iprobe(MPI_ANY_SOURCE, FOUND, f->comm, &flag, MPI_STATUS_IGNORE);
        }
        MPI_Send(NULL, 0, MPI_BYTE, ring_from(f), ANSWER, f->comm);
        MPI_Recv(NULL, 0, MPI_BYTE, ring_to(f), ANSWER, f->comm, MPI_STATUS_IGNORE);
        bad += found != 1;
    }
    return bad;
}

/* The message of an envelope comes when this rank has said so. */
static int matched_later(const struct foreign *f)
{
    MPI_Message m;
    MPI_Status st;
    uint64_t in = 0;
    int flag = 1, bytes = -1, bad;
    MPI_Improbe(MPI_ANY_SOURCE, LATER, f->comm, &flag, &m, MPI_STATUS_IGNORE);
    bad = flag;
    go(f);
    tell(f, LATER);
    for (flag = 0; !flag;)
        MPI_Improbe(MPI_ANY_SOURCE, LATER, f->comm, &flag, &m, &st);
    MPI_Get_count(&st, MPI_BYTE, &bytes);
    MPI_Mrecv(&in, 1, MPI_UINT64_T, &m, MPI_STATUS_IGNORE);
    return bad + is_wrong(f, in, LATER) + (bytes != sizeof in || st.MPI_SOURCE != ring_from(f));
}

/* A cancelled receive leaves the message to the next one. */
static int cancelled(const struct foreign *f)
{
    MPI_Request q;
    MPI_Status st;
    uint64_t in = 7;
    int flag = 0, bad;
    MPI_Irecv(&in, 1, MPI_UINT64_T, ring_from(f), LATER, f->comm, &q);
    MPI_Test(&q, &flag, MPI_STATUS_IGNORE);
    bad = flag;
    MPI_Cancel(&q);
    MPI_Wait(&q, &st);
    MPI_Test_cancelled(&st, &flag);
    bad += !flag || in != 7;
    go(f);
    tell(f, LATER);
    return bad + receive(f, LATER);
}

/* Of three receives the last one completes first; call: how this rank learns that. */
static int last_first(const struct foreign *f, int call)
{
    MPI_Request q[3];
    uint64_t in[3] = { 0 };
    int flag = 1, which = -1, n = -1, at[3], bad = 0;
    for (int i = 0; i < 3; i++)
        MPI_Irecv(&in[i], 1, MPI_UINT64_T, ring_from(f), KIND + i, f->comm, &q[i]);
    MPI_Testany(3, q, &which, &flag, MPI_STATUS_IGNORE);
    bad += flag;
    MPI_Testall(3, q, &flag, MPI_STATUSES_IGNORE);
    bad += flag;
    MPI_Testsome(3, q, &n, at, MPI_STATUSES_IGNORE);
    bad += n != 0;
    go(f);
    tell(f, KIND + 2);
    if (call == 0)
        MPI_Waitany(3, q, &which, MPI_STATUS_IGNORE);
    for (flag = 0; call == 1 && !flag;)
        MPI_Testany(3, q, &which, &flag, MPI_STATUS_IGNORE);
    for (flag = 0; call == 2 && !flag;)
        MPI_Request_get_status(q[2], &flag, MPI_STATUS_IGNORE);
    if (call >= 2) {
        MPI_Waitsome(3, q, &n, at, MPI_STATUSES_IGNORE);
        which = n == 1 ? at[0] : -1;
    }
    bad += which != 2;
    go(f);
    tell(f, KIND);
    tell(f, KIND + 1);
    if (which == 2)
        MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
    for (int i = 0; which == 2 && i < 3; i++)
        bad += is_wrong(f, in[i], KIND + i);
    return bad;
}

/* A probe that names its source finds what has come first, not what is received first. */
static int first_of_two(const struct foreign *f)
{
    MPI_Status st;
    int flag = 1, bad;
    tell(f, KIND + 1);
    tell(f, KIND);
    MPI_Probe(ring_from(f), MPI_ANY_TAG, f->comm, &st);
    bad = st.MPI_TAG != KIND + 1;
    bad += receive(f, KIND) + receive(f, KIND + 1);
    MPI_Iprobe(MPI_ANY_SOURCE, KIND, f->comm, &flag, MPI_STATUS_IGNORE);
    return bad + flag;
}

static int not_yet(const struct foreign *f)
{
    int bad = one_in_a_round(f) + matched_later(f) + cancelled(f) + first_of_two(f);
    for (int call = 0; call < 4; call++)
        bad += last_first(f, call);
    return bad;
}

static void receive_ahead(const struct foreign *f)
{
    MPI_Irecv(&g.next, 1, MPI_UINT64_T, ring_from(f), 1, f->comm, &g.ahead);
}

static int connect_ranks(struct foreign *f)
{
    int bad = 0;
    for (int k = 0; k < f->nranks; k++) { /* in each round pairs, whose sum is k */
        int with = (k - f->rank + f->nranks) % f->nranks;
        bad += with != f->rank ? exchange(f, with) : 0;
    }
    bad += from_any(f) + matched(f) + not_yet(f);
    if (f->variant && strcmp(f->variant, "other") == 0) {
        uint64_t id = (uint64_t)getpid(), in;
        MPI_Sendrecv(&id, 1, MPI_UINT64_T, ring_to(f), 2, &in, 1, MPI_UINT64_T, ring_from(f), 2,
            f->comm, MPI_STATUS_IGNORE);
    }
    receive_ahead(f);
    g.sum = XXH3_64bits(g.big, sizeof g.big) + XXH3_64bits(g.small, sizeof g.small);
    if (bad)
        fprintf(stderr, "setup: rank %d: %d bad receives\n", f->rank, bad);
    return bad;
}

static void step(struct foreign *f)
{
    uint64_t mine = foreign_mix(*g.state, g.sum);
    if (g.state[2] != g.attempt)
        remember();
    MPI_Send(&mine, 1, MPI_UINT64_T, ring_to(f), 1, f->comm);
    (void)FTK_FAULT("app.mid");
    if (MPI_Wait(&g.ahead, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
    *g.state = foreign_mix(*g.state, g.next);
    receive_ahead(f);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    MPI_Cancel(&g.ahead);
    MPI_Wait(&g.ahead, MPI_STATUS_IGNORE);
    *hash = foreign_total(f, g.sum);
    snprintf(detail, room, "by what set-up has got");
    if (g.state[1] != g.order)
        fprintf(stderr, "setup: rank %d: another order than before\n", f->rank);
    return g.state[1] == g.order;
}

static void release(void)
{
    free(g.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "setup", 30, 1, prepare, connect_ranks, NULL, step,
        verdict, release };
    return foreign_main(argc, argv, &app);
}
