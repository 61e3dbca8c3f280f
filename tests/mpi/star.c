/* A hub and its leaves, with a known pattern: what each rank has sent by a moment, and to whom,
 * does not depend on the run.  Rank 0 is the hub.  In a step it sends a row of cells to each leaf,
 * by a call of another kind in each step; a leaf works on the row and sends it back; the hub takes
 * the rows as they come, from any source, and adds them by their sources.  Rows are of different
 * lengths, from a few words to more than MPI sends at once.
 *
 *   -m quiet  behind step EARLY the hub sends nothing to leaves of an even number, which send it a
 *             word in each step
 *   -m ring   each leaf also sends a word of its own to the next leaf; and the hub sends leaf 1 a
 *             long row, frees the request, and writes to the row as soon as leaf 2 has told the
 *             hub, on behalf of leaf 1, that the row has come
 *   -m slow   the hub computes for 20 ms in each step before it sends, and all others wait
 *   -m other  what the hub sends to leaf 1 is not the same in another process: a mistake
 *
 * A step passes app.mid once: on the hub when all rows are out, on a leaf when its row has come;
 * and app.inflight on the hub before each row that it sends.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <time.h>

#include "foreign.h"

enum { ROW = 1, BACK, NEXT, LONG = 9000 /* words */, KINDS = 5 };
enum { QUIET = 1, RING, OTHER, SLOW, NVARIANTS, EARLY = 4, HAND = 4 /* a tag */ };

static const char *const variants[NVARIANTS] = { "all", "quiet", "ring", "other", "slow" };

static struct {
    int variant;
    uint64_t *state;    /* [nranks + 1] registered: of the hub a word of each leaf */
    uint64_t *row;      /* [nranks][LONG] of each leaf; on a leaf its own one */
    MPI_Request *req;   /* [nranks] */
    MPI_Request *again; /* [nranks] persistent sends of the hub, of short rows */
    struct foreign_pairs pairs;
} s;

static int prepare(struct foreign *f)
{
    const size_t n = (size_t)f->nranks;
    s.variant = foreign_variant(f, variants, NVARIANTS);
    s.state = foreign_state(f, n + 1);
    s.row = calloc(n * LONG, sizeof *s.row);
    s.req = calloc(2 * n, sizeof(MPI_Request));
    s.again = s.req + n;
    for (size_t i = 0; s.req && i < 2 * n; i++)
        s.req[i] = MPI_REQUEST_NULL;
    return s.variant < 0 || f->nranks < 2 || !s.state || !s.row || !s.req
           || foreign_pairs_open(f, &s.pairs) != 0;
}

static int prepare_sends(struct foreign *f)
{
    for (int r = 1; f->rank == 0 && r < f->nranks; r++)
        if (MPI_Send_init(
                s.row + (size_t)r * LONG, f->size, MPI_UINT64_T, r, ROW, f->comm, &s.again[r])
            != MPI_SUCCESS)
            return 1;
    return 0;
}

static void free_sends(void)
{
    for (MPI_Request *q = s.req; q && q < s.req + 2 * (s.again - s.req); q++)
        if (*q != MPI_REQUEST_NULL)
            MPI_Request_free(q);
}

static bool has_row(const struct foreign *f, int leaf)
{
    return s.variant != QUIET || leaf % 2 == 1 || f->step < EARLY;
}

/* Words of a row; persistent ones have one length. */
static int length(const struct foreign *f, int leaf)
{
    static const int words[] = { 3, 700, LONG };
    return f->step % KINDS == 4 ? f->size : words[(f->step + leaf) % 3];
}

static void send_row(struct foreign *f, int leaf)
{
    uint64_t *row = s.row + (size_t)leaf * LONG;
    const int words = length(f, leaf);
    for (int i = 1; i < words; i++)
        row[i] = foreign_mix(s.state[leaf] + (uint64_t)i, (uint64_t)f->step);
    if (s.variant == OTHER && leaf == 1)
        row[words - 1] += (uint64_t)getpid();
    foreign_sent(&s.pairs, leaf, row, (size_t)words);
    s.req[leaf] = MPI_REQUEST_NULL;
    (void)FTK_FAULT("app.inflight");
    switch (f->step % KINDS) {
    case 0:
        MPI_Isend(row, words, MPI_UINT64_T, leaf, ROW, f->comm, &s.req[leaf]);
        break;
    case 1:
        MPI_Send(row, words, MPI_UINT64_T, leaf, ROW, f->comm);
        break;
    case 2:
        MPI_Ssend(row, words, MPI_UINT64_T, leaf, ROW, f->comm);
        break;
    case 3: /* the program does not wait for the request */
        MPI_Isend(row, words, MPI_UINT64_T, leaf, ROW, f->comm, &s.req[leaf]);
        MPI_Request_free(&s.req[leaf]);
        break;
    default:
        MPI_Start(&s.again[leaf]);
    }
}

/* The word of leaf 2 proves that leaf 1 has the row: the hub may write to it. */
static bool hand_over(struct foreign *f)
{
    uint64_t *row = s.row, in[2];
    MPI_Request req;
    for (int i = 1; i < LONG; i++)
        row[i] = foreign_mix((uint64_t)i, (uint64_t)f->step);
    foreign_sent(&s.pairs, 1, row, LONG);
    if (MPI_Isend(row, LONG, MPI_UINT64_T, 1, HAND, f->comm, &req) != MPI_SUCCESS
        || MPI_Request_free(&req) != MPI_SUCCESS
        || MPI_Recv(in, 2, MPI_UINT64_T, 2, HAND, f->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return false;
    foreign_received(&s.pairs, 2, in, 2);
    memset(row, 0xff, LONG * sizeof *row);
    return true;
}

/* The part of the leaves 1 and 2. */
static bool pass_on(struct foreign *f)
{
    static uint64_t in[LONG];
    uint64_t word[2] = { 0, (uint64_t)f->step };
    const int words = f->rank == 1 ? LONG : 2, from = f->rank - 1, to = f->rank == 1 ? 2 : 0;
    if (MPI_Recv(in, words, MPI_UINT64_T, from, HAND, f->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return false;
    foreign_received(&s.pairs, from, in, (size_t)words);
    for (int i = 1; f->rank == 1 && i < LONG; i++)
        *s.pairs.bad += in[i] != foreign_mix((uint64_t)i, (uint64_t)f->step);
    foreign_sent(&s.pairs, to, word, 2);
    return MPI_Send(word, 2, MPI_UINT64_T, to, HAND, f->comm) == MPI_SUCCESS;
}

static void compute(void)
{
    const struct timespec t = { 0, 20000000 };
    nanosleep(&t, NULL);
}

static void hub(struct foreign *f)
{
    static uint64_t in[LONG];
    int rows = 0;
    if (s.variant == SLOW)
        compute();
    for (int r = 1; r < f->nranks; r++)
        if (has_row(f, r)) {
            send_row(f, r);
            rows++;
        }
    (void)FTK_FAULT("app.mid");
    if (s.variant == RING && !hand_over(f))
        return;
    for (int i = 0; i < rows; i++) {
        MPI_Status st;
        int words = 0;
        if (MPI_Recv(in, LONG, MPI_UINT64_T, MPI_ANY_SOURCE, BACK, f->comm, &st) != MPI_SUCCESS
            || MPI_Get_count(&st, MPI_UINT64_T, &words) != MPI_SUCCESS)
            return;
        *s.pairs.bad += words != length(f, st.MPI_SOURCE);
        foreign_received(&s.pairs, st.MPI_SOURCE, in, (size_t)words);
        s.state[st.MPI_SOURCE] += foreign_mix(in[words - 1], in[1]);
    }
    MPI_Waitall(f->nranks - 1, s.req + 1, MPI_STATUSES_IGNORE);
    for (int r = 1; r < f->nranks; r++) {
        if (has_row(f, r)) {
            if (f->step % KINDS == 4)
                MPI_Wait(&s.again[r], MPI_STATUS_IGNORE);
            continue;
        }
        if (MPI_Recv(in, 2, MPI_UINT64_T, r, NEXT, f->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        foreign_received(&s.pairs, r, in, 2);
        s.state[r] += foreign_mix(in[1], 1);
    }
}

static void leaf(struct foreign *f)
{
    const int next = f->rank % (f->nranks - 1) + 1;
    const int before = (f->rank + f->nranks - 3) % (f->nranks - 1) + 1;
    MPI_Status st;
    int words = 0;
    uint64_t out[2] = { 0, s.state[0] }, in[2] = { 0, 0 };
    if (!has_row(f, f->rank)) {
        (void)FTK_FAULT("app.mid");
        foreign_sent(&s.pairs, 0, out, 2);
        MPI_Send(out, 2, MPI_UINT64_T, 0, NEXT, f->comm);
        s.state[0] = foreign_mix(s.state[0], (uint64_t)f->step);
        return;
    }
    if (MPI_Recv(s.row, LONG, MPI_UINT64_T, 0, ROW, f->comm, &st) != MPI_SUCCESS
        || MPI_Get_count(&st, MPI_UINT64_T, &words) != MPI_SUCCESS)
        return;
    *s.pairs.bad += words != length(f, f->rank);
    foreign_received(&s.pairs, 0, s.row, (size_t)words);
    (void)FTK_FAULT("app.mid");
    s.state[0] = foreign_mix(s.state[0], s.row[words - 1]);
    for (int i = 1; i < words; i++)
        s.row[i] = foreign_mix(s.row[i], s.state[0]);
    if (s.variant == RING && f->rank < 3 && !pass_on(f))
        return;
    if (s.variant == RING) {
        foreign_sent(&s.pairs, next, out, 2);
        if (MPI_Sendrecv(out, 2, MPI_UINT64_T, next, NEXT, in, 2, MPI_UINT64_T, before, NEXT,
                f->comm, MPI_STATUS_IGNORE)
            != MPI_SUCCESS)
            return;
        foreign_received(&s.pairs, before, in, 2);
        s.state[0] += in[1];
    }
    foreign_sent(&s.pairs, 0, s.row, (size_t)words);
    MPI_Send(s.row, words, MPI_UINT64_T, 0, BACK, f->comm);
}

static void step(struct foreign *f)
{
    if (f->rank == 0)
        hub(f);
    else
        leaf(f);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    const size_t n = f->rank == 0 ? (size_t)f->nranks : 1;
    const uint64_t mine = XXH3_64bits(s.state, n * sizeof *s.state);
    return foreign_counted(f, mine, foreign_pairs_compare(f, &s.pairs), hash, detail, room);
}

static void release(void)
{
    free(s.state);
    free(s.row);
    free(s.req);
    free(s.pairs.sent);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "star", 40, 50, prepare, prepare_sends, free_sends,
        step, verdict, release };
    return foreign_main(argc, argv, &app);
}
