/* Messages of more than 2 GiB from rank 0 to rank 1, in the message log and out of it.
 *
 *   -m received  (default) rank 0 waits until its message has been received
 *   -m flight    it goes on, and a set is written while the message is under way: what rank 1
 *                receives, in the next step, lies in its part of the set
 *   -m drawn     rank 1 first waits for rank 2 (of three); when that is lost meanwhile, the
 *                message has been drawn before it is asked for
 *
 * In turn it is a number of words and one item of a type that is as long; rank 1 looks at each
 * word.  A step passes app.mid once, between the sending and the receiving.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* MPI_Get_elements_x, in MPI 4.1 */

#define WORDS ((1 << 28) + 513) /* of 8 bytes */

static struct {
    uint64_t *state; /* [2] registered: of all that has come; words that were wrong */
    uint64_t *buf;   /* [WORDS] on ranks 0 and 1 */
    MPI_Datatype all;
    bool flight, drawn;
} g = { .all = MPI_DATATYPE_NULL };

static int prepare(struct foreign *f)
{
    g.flight = f->variant && strcmp(f->variant, "flight") == 0;
    g.drawn = f->variant && strcmp(f->variant, "drawn") == 0;
    if (f->nranks < 2 + g.drawn)
        return 1;
    g.state = calloc(2, sizeof *g.state);
    g.buf = malloc(f->rank < 2 ? WORDS * sizeof *g.buf : 1);
    if (!g.state || !g.buf || MPI_Type_contiguous(WORDS, MPI_UINT64_T, &g.all) != MPI_SUCCESS
        || MPI_Type_commit(&g.all) != MPI_SUCCESS)
        return 1;
    return ftkit_register(f->ft, "state", g.state, 2, MPI_UINT64_T) != FTKIT_OK;
}

static uint64_t word(int step, size_t i)
{
    return (uint64_t)(step + 1) * 0x9e3779b97f4a7c15u + i;
}

/* Whether what is sent in a step is one item; the receiver has it the other way. */
static bool is_one(int step)
{
    return (g.flight ? step / 2 : step) % 2 == 0;
}

static void send_large(const struct foreign *f, MPI_Request *q)
{
    bool one = is_one(f->step);
    for (size_t i = 0; i < WORDS; i++)
        g.buf[i] = word(f->step, i);
    MPI_Isend(g.buf, one ? 1 : WORDS, one ? g.all : MPI_UINT64_T, 1, 5, f->comm, q);
}

/* sent: the step in which it was sent */
static void receive_large(const struct foreign *f, int sent)
{
    bool one = !is_one(sent);
    uint64_t wrong = 0;
    MPI_Status st;
    MPI_Count bytes = 0;
    memset(g.buf, 0, WORDS * sizeof *g.buf);
    if (MPI_Recv(g.buf, one ? 1 : WORDS, one ? g.all : MPI_UINT64_T, 0, 5, f->comm, &st)
        != MPI_SUCCESS)
        return;
    MPI_Get_elements_x(&st, MPI_BYTE, &bytes);
    for (size_t i = 0; i < WORDS; i++)
        wrong += g.buf[i] != word(sent, i);
    if (wrong || bytes != (MPI_Count)(WORDS * sizeof *g.buf))
        fprintf(stderr, "large: step %d: %llu words are wrong of %lld bytes\n", sent,
            (unsigned long long)wrong, (long long)bytes);
    g.state[1] += wrong + (bytes != (MPI_Count)(WORDS * sizeof *g.buf));
    g.state[0] = foreign_mix(g.state[0] + 1, (uint64_t)sent);
}

/* Rank 1 does not go on before rank 2 has. */
static void pass_on(const struct foreign *f)
{
    uint64_t x = (uint64_t)f->step;
    if (f->rank == 2)
        MPI_Send(&x, 1, MPI_UINT64_T, 1, 6, f->comm);
    else if (f->rank == 1
             && MPI_Recv(&x, 1, MPI_UINT64_T, 2, 6, f->comm, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        *g.state = foreign_mix(*g.state, x);
}

static void step(struct foreign *f)
{
    MPI_Request q = MPI_REQUEST_NULL;
    bool sends = !g.flight || f->step % 2 == 0;
    bool receives = !g.flight || !sends;
    if (f->rank == 0 && sends)
        send_large(f, &q);
    (void)FTK_FAULT("app.mid");
    if (g.drawn)
        pass_on(f);
    if (f->rank == 1 && receives)
        receive_large(f, f->step - g.flight);
    if (g.flight && q != MPI_REQUEST_NULL)
        MPI_Request_free(&q); /* it is drawn at the set: the memory is used again after it */
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Barrier(f->comm);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    *hash = foreign_total(f, *g.state);
    snprintf(detail, room, "%zu bytes", WORDS * sizeof *g.buf);
    int received = f->rank != 1 || g.state[0] != 0;
    return received && g.state[1] == 0;
}

static void release(void)
{
    free(g.state);
    free(g.buf);
    if (g.all != MPI_DATATYPE_NULL)
        MPI_Type_free(&g.all);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "large", 2, 1, prepare, NULL, NULL, step, verdict,
        release };
    return foreign_main(argc, argv, &app);
}
