/* Receives that are cancelled while their messages may be coming: whether they have got them
 * decides what the program does and sends.  What comes is named by its source in one half of
 * the steps, of any source in the other; a cancelled receive is done again.
 *
 * All messages between each two ranks must agree in the end: see foreign_pairs.  When it ends
 * each rank prints to stderr "cancels: rank R: N cancelled, M not".
 *
 * A step passes app.mid once, between sending and cancelling.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

#define WORDS 4 /* number, step, state of the sender, times it has cancelled */

static struct {
    uint64_t *state; /* [3] registered: of all that happened; cancelled; not cancelled */
    struct foreign_pairs pairs;
} g;

static int prepare(struct foreign *f)
{
    g.state = calloc(3, sizeof *g.state);
    if (!g.state || foreign_pairs_open(f, &g.pairs) != 0)
        return 1;
    g.state[0] = foreign_mix((uint64_t)f->rank, 1);
    return ftkit_register(f->ft, "state", g.state, 3, MPI_UINT64_T) != FTKIT_OK;
}

/* It takes its time, and another one each time, also when a step is done again. */
static void compute(void)
{
    static uint64_t x = 1;
    volatile uint64_t sink = 0;
    x = foreign_mix(x, (uint64_t)getpid());
    for (uint64_t i = 0; i < x % 4096; i++)
        sink += foreign_mix(x, i);
}

/* Whether it was cancelled; -1: this rank falls back. */
static int cancel(MPI_Request *q)
{
    MPI_Status st;
    int cancelled = 0;
    if (MPI_Cancel(q) != MPI_SUCCESS || MPI_Wait(q, &st) != MPI_SUCCESS)
        return -1;
    MPI_Test_cancelled(&st, &cancelled);
    return cancelled;
}

static void step(struct foreign *f)
{
    int to = (f->rank + 1) % f->nranks, from = (f->rank + f->nranks - 1) % f->nranks;
    int source = f->step % 2 ? MPI_ANY_SOURCE : from;
    uint64_t out[WORDS] = { 0, (uint64_t)f->step, g.state[0], g.state[1] }, in[WORDS] = { 0 };
    MPI_Request q, s;
    MPI_Irecv(in, WORDS, MPI_UINT64_T, source, 3, f->comm, &q);
    compute();
    foreign_sent(&g.pairs, to, out, WORDS);
    MPI_Isend(out, WORDS, MPI_UINT64_T, to, 3, f->comm, &s);
    (void)FTK_FAULT("app.mid");
    compute();
    int cancelled = cancel(&q);
    if (cancelled < 0)
        return;
    if (cancelled
        && MPI_Recv(in, WORDS, MPI_UINT64_T, from, 3, f->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
    MPI_Wait(&s, MPI_STATUS_IGNORE);
    foreign_received(&g.pairs, from, in, WORDS);
    *g.pairs.bad += in[1] != (uint64_t)f->step;
    g.state[cancelled ? 1 : 2]++;
    g.state[0] = foreign_mix(g.state[0] + (uint64_t)cancelled, in[2]);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t bad = foreign_pairs_compare(f, &g.pairs), all = 0;
    MPI_Allreduce(&bad, &all, 1, MPI_UINT64_T, MPI_SUM, f->comm);
    fprintf(stderr, "cancels: rank %d: %llu cancelled, %llu not\n", f->rank,
        (unsigned long long)g.state[1], (unsigned long long)g.state[2]);
    *hash = foreign_mix((uint64_t)f->step, all);
    snprintf(detail, room, "%llu differences", (unsigned long long)all);
    return all == 0 && g.state[1] + g.state[2] == (uint64_t)f->steps;
}

static void release(void)
{
    free(g.state);
    free(g.pairs.sent);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "cancels", 60, 1, prepare, NULL, NULL, step, verdict,
        release };
    return foreign_main(argc, argv, &app);
}
