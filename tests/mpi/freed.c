/* Sends whose requests are freed at once, or are complete before anybody receives: ranks 0 and
 * 1, 2 and 3, ... exchange a message, and after the barrier that follows they use its memory
 * again.  In steps 12 to 14, when they are made again after a failure, rank 1 does not receive
 * before rank 0 has done so: the barrier does not keep rank 0, because all that makes it up is
 * there from before.
 *
 * FILE of -w has to be given: how far rank 0 is, it says by files beside it.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

#define WORDS 9000 /* more than what is sent at once */

static struct {
    uint64_t *state, *bad; /* registered: of all received; messages that were wrong */
    uint64_t out[WORDS], in[WORDS];
    char attached[WORDS * sizeof(uint64_t) + MPI_BSEND_OVERHEAD];
} g;

static int prepare(struct foreign *f)
{
    g.state = calloc(2, sizeof *g.state);
    if (!g.state || !f->watch)
        return 1;
    g.bad = g.state + 1;
    MPI_Buffer_attach(g.attached, sizeof g.attached);
    return ftkit_register(f->ft, "state", g.state, 2, MPI_UINT64_T) != FTKIT_OK;
}

static uint64_t word(int rank, int step, int w)
{
    return foreign_mix((uint64_t)(1000 * rank + w), (uint64_t)step);
}

/* A step that is made again, the first time. */
static bool again(const struct foreign *f)
{
    ftkit_info info = { .size = sizeof info };
    return ftkit_query(f->ft, &info) == FTKIT_OK && info.incarnation + info.rollbacks == 1
           && f->step >= 12 && f->step <= 14;
}

static void say_over(const struct foreign *f)
{
    char path[4200];
    snprintf(path, sizeof path, "%s.over.%d", f->watch, f->step);
    FILE *o = fopen(path, "w");
    if (!o || fclose(o) != 0)
        abort();
}

static void await_over(const struct foreign *f)
{
    char path[4200];
    snprintf(path, sizeof path, "%s.over.%d", f->watch, f->step);
    while (access(path, F_OK) != 0)
        usleep(1000);
}

static void begin(const struct foreign *f, int mate)
{
    MPI_Request q;
    for (int w = 0; w < WORDS; w++)
        g.out[w] = word(f->rank, f->step, w);
    switch (f->step % 3) {
    case 0:
        MPI_Isend(g.out, WORDS, MPI_UINT64_T, mate, 1, f->comm, &q);
        break;
    case 1:
        MPI_Send_init(g.out, WORDS, MPI_UINT64_T, mate, 1, f->comm, &q);
        MPI_Start(&q);
        break;
    default:
        MPI_Bsend_init(g.out, WORDS, MPI_UINT64_T, mate, 1, f->comm, &q);
        MPI_Start(&q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&q);
}

static void step(struct foreign *f)
{
    int mate = f->rank ^ 1;
    begin(f, mate);
    if (f->rank == 1 && again(f))
        await_over(f);
    if (MPI_Recv(g.in, WORDS, MPI_UINT64_T, mate, 1, f->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
    for (int w = 0; w < WORDS; w++) {
        *g.bad += g.in[w] != word(mate, f->step, w);
        *g.state = foreign_mix(*g.state, g.in[w]);
    }
    if (MPI_Barrier(f->comm) != MPI_SUCCESS) /* now the message has been received */
        return;
    memset(g.out, 0xff, sizeof g.out);
    if (f->rank == 0 && again(f))
        say_over(f);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t all = 0;
    MPI_Allreduce(g.bad, &all, 1, MPI_UINT64_T, MPI_SUM, f->comm);
    *hash = foreign_total(f, foreign_mix(*g.state, (uint64_t)f->rank));
    snprintf(detail, room, "%llu wrong words", (unsigned long long)all);
    return all == 0;
}

static void release(void)
{
    void *attached;
    int bytes;
    MPI_Buffer_detach(&attached, &bytes);
    free(g.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "freed", 30, 1, prepare, NULL, NULL, step, verdict,
        release };
    return foreign_main(argc, argv, &app);
}
