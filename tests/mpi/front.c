/* Two receives from one rank: of any tag, and of tag 5, which is posted later and tested first.
 * The messages have tags 1 and 5.  The first receive gets the message with tag 1, also when the log
 * looks for the messages by probes.
 *
 * With three ranks or more a step has another part: a receive of any tag from rank 2, and then two
 * receives of tag 6 + step from any rank, which are complete first.  Rank 1 sends a message with
 * that tag; rank 2 sends messages with tag 1 and with that tag.  The first receive gets the message
 * with tag 1.
 *
 * A step passes no fault point but app.step.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum { WORDS = 4, LOOKS = 100000 };

static uint64_t *state; /* the hash; wrong messages */

static int prepare(struct foreign *f)
{
    state = foreign_state(f, 2);
    return !state;
}

static void send_both(const struct foreign *f, int tag)
{
    uint64_t first[WORDS] = { (uint64_t)f->step, 1 },
             second[WORDS] = { (uint64_t)f->step, (uint64_t)tag };
    MPI_Request q[2];
    int flag; /* its outcome is a determinant, of which others may have to learn */
    MPI_Iprobe(0, 77, f->comm, &flag, MPI_STATUS_IGNORE);
    MPI_Isend(first, WORDS, MPI_UINT64_T, 0, 1, f->comm, &q[0]);
    MPI_Isend(second, WORDS, MPI_UINT64_T, 0, tag, f->comm, &q[1]);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
}

static void receive_both(const struct foreign *f)
{
    uint64_t first[WORDS] = { 0 }, second[WORDS] = { 0 };
    MPI_Request q[2];
    MPI_Status s = { .MPI_TAG = -1 };
    int done = 0;
    if (f->step % 2 == 1) /* the messages are there, or on their way */
        usleep(2000);
    MPI_Irecv(first, WORDS, MPI_UINT64_T, 1, MPI_ANY_TAG, f->comm, &q[0]);
    MPI_Irecv(second, WORDS, MPI_UINT64_T, 1, 5, f->comm, &q[1]);
    for (int i = 0; !done && i < LOOKS; i++)
        MPI_Test(&q[1], &done, MPI_STATUS_IGNORE);
    MPI_Wait(&q[0], &s);
    MPI_Wait(&q[1], MPI_STATUS_IGNORE);
    state[1] += s.MPI_TAG != 1 || first[1] != 1 || second[1] != 5;
    state[0] = foreign_mix(state[0], first[0] + second[0]);
}

/* No other step has this tag: the ranks do not wait for each other. */
static int tag_of(const struct foreign *f)
{
    return 6 + f->step;
}

static void send_one(const struct foreign *f)
{
    uint64_t words[WORDS] = { (uint64_t)f->step, (uint64_t)tag_of(f) };
    MPI_Send(words, WORDS, MPI_UINT64_T, 0, tag_of(f), f->comm);
}

static void receive_three(const struct foreign *f)
{
    uint64_t in[3][WORDS] = { { 0 } };
    MPI_Request q;
    MPI_Status s = { .MPI_TAG = -1 };
    int flag;
    if (f->step % 2 == 1) /* the messages are there: the MPI may find them in any order */
        usleep(2000);
    MPI_Iprobe(0, 77, f->comm, &flag, MPI_STATUS_IGNORE);
    MPI_Irecv(in[0], WORDS, MPI_UINT64_T, 2, MPI_ANY_TAG, f->comm, &q);
    for (int i = 1; i < 3; i++) /* hangs if the first receive has the message */
        MPI_Recv(in[i], WORDS, MPI_UINT64_T, MPI_ANY_SOURCE, tag_of(f), f->comm, MPI_STATUS_IGNORE);
    MPI_Wait(&q, &s);
    state[1] += s.MPI_TAG != 1 || in[0][1] != 1;
    state[1] += in[1][1] != (uint64_t)tag_of(f) || in[2][1] != (uint64_t)tag_of(f);
    state[0] = foreign_mix(state[0], in[0][0] + in[1][0] + in[2][0]);
}

static void three(const struct foreign *f)
{
    if (f->rank == 0)
        receive_three(f);
    else if (f->rank == 1)
        send_one(f);
    else if (f->rank == 2)
        send_both(f, tag_of(f));
}

static void step(struct foreign *f)
{
    if (f->nranks > 2)
        three(f);
    if (f->rank == 1)
        send_both(f, 5);
    else if (f->rank == 0)
        receive_both(f);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    return foreign_counted(f, state[0], state[1], hash, detail, room);
}

static void release(void)
{
    free(state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "front",
        .steps = 40,
        .size = 1,
        .prepare = prepare,
        .step = step,
        .verdict = verdict,
        .release = release };
    return foreign_main(argc, argv, &app);
}
