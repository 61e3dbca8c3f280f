/* A program with requests of a foreign kind (countdown.c) under way at each set, for tests/rooms.t.
 *
 * The variants (-m): none; endless: in step 8 rank 0 waits once for a countdown without an end;
 * loose: a countdown that is in no registered variable.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

int countdown_make(MPI_Comm comm, uint64_t *word, uint64_t value, uint64_t looks, bool persistent,
    MPI_Request *request);

enum { ONCE, OF_SETUP, OF_LOOP, MESSAGE, ALL };
enum { LOOKS = 3 };

static uint64_t *m; /* state, wrong, the words of the countdowns, the message */
enum { STATE, BAD, WORD, IN = WORD + MESSAGE, OUT, WORDS };
static MPI_Request q[ALL];

static int prepare(struct foreign *f)
{
    for (int i = 0; i < ALL; i++)
        q[i] = MPI_REQUEST_NULL;
    m = foreign_state(f, WORDS);
    return !m || ftkit_register_requests(f->ft, "countdowns", q, ALL) != FTKIT_OK;
}

static int connect(struct foreign *f)
{
    return countdown_make(f->comm, &m[WORD + OF_SETUP], 5, LOOKS, true, &q[OF_SETUP])
           != MPI_SUCCESS;
}

static bool is_variant(const struct foreign *f, const char *name)
{
    return f->variant && strcmp(f->variant, name) == 0;
}

/* What the step before has begun. */
static bool complete(void)
{
    MPI_Status s[ALL];
    uint64_t before[MESSAGE];
    memcpy(before, &m[WORD], sizeof before);
    if (MPI_Waitall(ALL, q, s) != MPI_SUCCESS)
        return false;
    for (int i = ONCE; i < MESSAGE; i++)
        m[BAD] += m[WORD + i] == before[i] || s[i].MPI_TAG != LOOKS;
    m[STATE] = foreign_mix(m[STATE] ^ m[WORD + ONCE] ^ m[WORD + OF_LOOP], m[IN]);
    return true;
}

/* A cancelled countdown adds nothing. */
static bool cancel_one(struct foreign *f)
{
    MPI_Request c;
    MPI_Status s;
    int yes = 0;
    const uint64_t before = m[WORD + ONCE];
    if (countdown_make(f->comm, &m[WORD + ONCE], 1, LOOKS, false, &c) != MPI_SUCCESS
        || MPI_Cancel(&c) != MPI_SUCCESS || MPI_Wait(&c, &s) != MPI_SUCCESS)
        return false;
    m[BAD] += MPI_Test_cancelled(&s, &yes) != MPI_SUCCESS || !yes || m[WORD + ONCE] != before;
    return true;
}

/* Begin what the next step completes; the first countdown has one look. */
static bool begin(struct foreign *f)
{
    const int next = (f->rank + 1) % f->nranks, prev = (f->rank + f->nranks - 1) % f->nranks;
    int done = 0;
    m[OUT] = m[STATE];
    if (q[OF_LOOP] == MPI_REQUEST_NULL
        && countdown_make(f->comm, &m[WORD + OF_LOOP], 3, LOOKS, true, &q[OF_LOOP]) != MPI_SUCCESS)
        return false;
    if (countdown_make(f->comm, &m[WORD + ONCE], m[STATE] | 1, LOOKS, false, &q[ONCE])
            != MPI_SUCCESS
        || MPI_Test(&q[ONCE], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return false;
    m[BAD] += done != 0;
    return MPI_Startall(2, &q[OF_SETUP]) == MPI_SUCCESS
           && MPI_Irecv(&m[IN], 1, MPI_UINT64_T, prev, 1, f->comm, &q[MESSAGE]) == MPI_SUCCESS
           && MPI_Send(&m[OUT], 1, MPI_UINT64_T, next, 1, f->comm) == MPI_SUCCESS;
}

static void step(struct foreign *f)
{
    static bool waited;
    static uint64_t never;
    MPI_Request loose;
    if (f->step > 0 && !complete())
        return;
    if (is_variant(f, "endless") && f->rank == 0 && f->step == 8 && !waited) {
        waited = true;
        (void)countdown_make(f->comm, &never, 1, UINT64_MAX, false, &loose);
        if (MPI_Wait(&loose, MPI_STATUS_IGNORE) == MPI_SUCCESS)
            abort(); /* all ranks roll back, so no variable remembers it */
        return;
    }
    (void)FTK_FAULT("app.mid");
    if (cancel_one(f) && begin(f) && is_variant(f, "loose"))
        (void)countdown_make(f->comm, &never, 1, LOOKS, false, &loose);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    if (!complete())
        return false;
    MPI_Request_free(&q[OF_SETUP]);
    MPI_Request_free(&q[OF_LOOP]);
    return foreign_counted(f, m[STATE], m[BAD], hash, detail, room);
}

static void release(void)
{
    free(m);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "countdowns",
        .steps = 60,
        .size = 1,
        .prepare = prepare,
        .connect = connect,
        .step = step,
        .verdict = verdict,
        .release = release };
    return foreign_main(argc, argv, &app);
}
