/* A message that its receive has matched and that is never whole, for its sender is dead, and
 * one behind it that has come: what was received has a hole.
 *
 * Each step every rank sends a long message and a short one to the next rank.  In step SIZE
 * rank 2 has asked for both and looks for neither before rank 1 is dead.
 *
 *   -m named   receives name their source and its tag
 *   -m source  they are from any source: it is sure still which message is missing
 *   -m any     of any tag, too: it is not, and everybody goes back
 *   -m two     the messages are those of ranks 1 and 3; rank 1 is late when it sends its again
 *
 * A step passes app.inflight once, when both have been sent and none has been waited for, and
 * app.mid when the short one has come (with -m two only ranks 2 and 3, which know that).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <time.h>

#include "foreign.h"

enum { LONG = 50000, SHORT = 3, VICTIM = 1 };

static struct {
    uint64_t *state; /* registered */
    uint64_t out[LONG], in[LONG], shorter[SHORT];
    int pid; /* of the first process of the rank before */
    MPI_Comm aside;
    int steps; /* of this process */
} g;

static int prepare(struct foreign *f)
{
    g.state = foreign_state(f, 1);
    return !g.state;
}

static int connect_ranks(struct foreign *f)
{
    int mine = (int)getpid(), next = (f->rank + 1) % f->nranks;
    return ftkit_decide(f->ft, &mine, sizeof mine) != FTKIT_OK
           || MPI_Comm_dup(f->comm, &g.aside) != MPI_SUCCESS
           || MPI_Sendrecv(&mine, 1, MPI_INT, next, 1, &g.pid, 1, MPI_INT,
                  (f->rank + f->nranks - 1) % f->nranks, 1, f->comm, MPI_STATUS_IGNORE)
                  != MPI_SUCCESS;
}

static void disconnect(void)
{
    MPI_Comm_free(&g.aside);
}

static void wait_for_death(const struct foreign *f)
{
    const struct timespec moment = { .tv_nsec = 1000000 };
    char path[64], state = 'R';
    const char *fault = getenv("FTKIT_FAULT");
    if (f->rank != VICTIM + 1 || f->step != f->size || !fault || !*fault)
        return; /* nobody dies */
    snprintf(path, sizeof path, "/proc/%d/stat", g.pid);
    while (state != 'Z') { /* or not there */
        FILE *in = fopen(path, "r");
        if (!in || fscanf(in, "%*d (%*[^)]) %c", &state) != 1)
            state = 'Z';
        if (in && fclose(in) != 0)
            state = 'Z';
        (void)nanosleep(&moment, NULL); /* between two looks */
    }
}

static void send_long(const struct foreign *f)
{
    int token = 1, flag = 0;
    double begun = MPI_Wtime();
    MPI_Request q;
    while (f->step == f->size && g.steps != f->step /* again: others go on meanwhile, and fail */
           && MPI_Wtime() < begun + 0.3)
        MPI_Iprobe(3, 99, f->comm, &flag, MPI_STATUS_IGNORE);
    g.out[LONG - 1] = foreign_mix(*g.state, (uint64_t)f->step);
    MPI_Recv(&token, 1, MPI_INT, 2, 3, f->comm, MPI_STATUS_IGNORE);
    MPI_Isend(g.out, LONG, MPI_UINT64_T, 2, 2, f->comm, &q);
    MPI_Send(&token, 1, MPI_INT, 3, 4, f->comm);
    (void)FTK_FAULT("app.inflight");
    MPI_Wait(&q, MPI_STATUS_IGNORE);
}

static void send_short(const struct foreign *f)
{
    int token;
    uint64_t brief = foreign_mix(*g.state, (uint64_t)f->step);
    if (MPI_Recv(&token, 1, MPI_INT, 1, 4, f->comm, MPI_STATUS_IGNORE) == MPI_SUCCESS
        && MPI_Send(&brief, 1, MPI_UINT64_T, 2, 2, f->comm) == MPI_SUCCESS
        && MPI_Recv(&token, 1, MPI_INT, 2, 5, f->comm, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        (void)FTK_FAULT("app.mid");
}

/* The second receive is through before the first; either may have got the long message. */
static void two_senders(struct foreign *f)
{
    static uint64_t in[2][LONG];
    int token = 1;
    uint64_t sum = 0;
    MPI_Status s[2];
    MPI_Request q[2];
    for (int i = 0; i < 2 && f->rank == 2; i++)
        MPI_Irecv(in[i], LONG, MPI_UINT64_T, MPI_ANY_SOURCE, 2, f->comm, &q[i]);
    if (f->rank == VICTIM)
        send_long(f);
    if (f->rank == 3)
        send_short(f);
    if (f->rank == 2) {
        MPI_Send(&token, 1, MPI_INT, VICTIM, 3, f->comm);
        wait_for_death(f);
        if (MPI_Wait(&q[1], &s[1]) != MPI_SUCCESS
            || MPI_Send(&token, 1, MPI_INT, 3, 5, f->comm) != MPI_SUCCESS)
            return;
        (void)FTK_FAULT("app.mid");
        if (MPI_Wait(&q[0], &s[0]) != MPI_SUCCESS)
            return;
        for (int i = 0; i < 2; i++)
            sum += foreign_mix(
                (uint64_t)s[i].MPI_SOURCE, in[i][s[i].MPI_SOURCE == VICTIM ? LONG - 1 : 0]);
        *g.state = foreign_mix(*g.state, sum);
    }
    if (MPI_Allreduce(g.state, &sum, 1, MPI_UINT64_T, MPI_SUM, f->comm) == MPI_SUCCESS)
        *g.state = foreign_mix(*g.state, sum);
}

static void ring(struct foreign *f)
{
    int next = (f->rank + 1) % f->nranks, prev = (f->rank + f->nranks - 1) % f->nranks;
    int from = strcmp(f->variant, "named") != 0 ? MPI_ANY_SOURCE : prev;
    int tag = strcmp(f->variant, "any") == 0 ? MPI_ANY_TAG : 2;
    int ready = 1;
    uint64_t brief[SHORT];
    MPI_Request q[4];
    for (int i = 0; i < LONG; i++)
        g.out[i] = foreign_mix(*g.state, (uint64_t)i);
    for (int i = 0; i < SHORT; i++)
        brief[i] = foreign_mix(*g.state, (uint64_t)(LONG + i));
    MPI_Irecv(g.in, LONG, MPI_UINT64_T, from, tag, f->comm, &q[0]);
    MPI_Irecv(g.shorter, SHORT, MPI_UINT64_T, from, tag, f->comm, &q[1]);
    if (f->rank == VICTIM) /* nothing of it is there before the receiver stops looking */
        MPI_Recv(&ready, 1, MPI_INT, next, 3, g.aside, MPI_STATUS_IGNORE);
    MPI_Isend(g.out, LONG, MPI_UINT64_T, next, 2, f->comm, &q[2]);
    MPI_Isend(brief, SHORT, MPI_UINT64_T, next, 2, f->comm, &q[3]);
    if (f->rank == VICTIM + 1)
        MPI_Send(&ready, 1, MPI_INT, prev, 3, g.aside);
    (void)FTK_FAULT("app.inflight");
    wait_for_death(f);
    if (MPI_Wait(&q[1], MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
    (void)FTK_FAULT("app.mid");
    if (MPI_Waitall(4, q, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
        return;
    *g.state = XXH3_64bits_withSeed(g.in, sizeof g.in, *g.state);
    *g.state = XXH3_64bits_withSeed(g.shorter, sizeof g.shorter, *g.state);
}

static void step(struct foreign *f)
{
    if (strcmp(f->variant, "two") == 0)
        two_senders(f);
    else
        ring(f);
    g.steps++;
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    *hash = foreign_total(f, foreign_mix(*g.state, (uint64_t)f->rank));
    snprintf(detail, room, "by what a ring has passed on");
    return true;
}

static void release(void)
{
    free(g.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "hole",
        .steps = 20,
        .size = 9,
        .prepare = prepare,
        .connect = connect_ranks,
        .disconnect = disconnect,
        .step = step,
        .verdict = verdict,
        .release = release };
    return foreign_main(argc, argv, &app);
}
