/* A set-up that receives more than one message of a kind, some from any source, and completes
 * them in another order than it has asked for them: what a rank needs in the loop is not
 * registered, but has come between ftkit_open() and ftkit_recover() with messages that are
 * not sent again.
 *
 * A step passes app.mid once, in the middle of its communication.
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
    uint64_t attempt;
} g;

static int prepare(struct foreign *f)
{
    const char *attempt = getenv("FTKIT_RUN_ATTEMPT");
    g.attempt = attempt ? strtoull(attempt, NULL, 10) : 0;
    g.state = foreign_state(f, 3);
    return !g.state || f->nranks > RANKS;
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

static int connect_ranks(struct foreign *f)
{
    int bad = 0;
    for (int k = 0; k < f->nranks; k++) { /* in each round pairs, whose sum is k */
        int with = (k - f->rank + f->nranks) % f->nranks;
        bad += with != f->rank ? exchange(f, with) : 0;
    }
    bad += from_any(f) + matched(f);
    g.sum = XXH3_64bits(g.big, sizeof g.big) + XXH3_64bits(g.small, sizeof g.small);
    if (bad)
        fprintf(stderr, "setup: rank %d: %d bad receives\n", f->rank, bad);
    return bad;
}

static void step(struct foreign *f)
{
    int to = (f->rank + 1) % f->nranks, from = (f->rank + f->nranks - 1) % f->nranks;
    uint64_t in = 0, mine = foreign_mix(*g.state, g.sum);
    if (g.state[2] != g.attempt)
        remember();
    MPI_Send(&mine, 1, MPI_UINT64_T, to, 1, f->comm);
    (void)FTK_FAULT("app.mid");
    if (MPI_Recv(&in, 1, MPI_UINT64_T, from, 1, f->comm, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        *g.state = foreign_mix(*g.state, in);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
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
