/* Values that MPI does not know of: each rank sends random values round the ring, and keeps what it
 * has told the next rank and what it was told.  A replay that decides anew would tell another value
 * than the one that the next rank has.
 *
 *   -m wait   ... and all ranks call ftkit_wait() in some steps
 *
 * The values are random in each run, so the result is not, and the hash is of the step alone.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <sys/random.h>

#include "foreign.h"

enum { LONGEST = 65536, SETUP = 5 };

static uint64_t *told; /* [4] registered: hash of what was told, and heard; bad; of set-up */
static char value[LONGEST], heard[LONGEST];

static int get_random(void *to, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 256)
        if (getrandom((char *)to + at, bytes - at < 256 ? bytes - at : 256, 0) < 0)
            return 1;
    return 0;
}

static int decide(struct foreign *f, void *to, size_t bytes)
{
    return get_random(to, bytes) || ftkit_decide(f->ft, to, bytes) != FTKIT_OK;
}

/* -m wait: all ranks call ftkit_wait() behind every seventh step, and pass app.inflight before. */
static int after(struct foreign *f)
{
    if (f->step % 7 != 0)
        return FTKIT_OK;
    (void)FTK_FAULT("app.inflight");
    return ftkit_wait(f->ft);
}

/* Set-up decides, too, and tells the next rank. */
static int prepare(struct foreign *f)
{
    uint64_t mine[SETUP], theirs[SETUP];
    const int next = (f->rank + 1) % f->nranks, prev = (f->rank + f->nranks - 1) % f->nranks;
    told = calloc(4, sizeof *told);
    if (f->variant && strcmp(f->variant, "wait") == 0)
        f->after = after;
    if (!told || ftkit_register(f->ft, "told", told, 4, MPI_UINT64_T) != FTKIT_OK)
        return 1;
    for (int i = 0; i < SETUP; i++)
        if (decide(f, &mine[i], sizeof mine[i]))
            return 1;
    if (MPI_Sendrecv(mine, SETUP, MPI_UINT64_T, next, 1, theirs, SETUP, MPI_UINT64_T, prev, 1,
            f->comm, MPI_STATUS_IGNORE)
        != MPI_SUCCESS)
        return 1;
    told[0] = XXH3_64bits(mine, sizeof mine);
    told[1] = XXH3_64bits(theirs, sizeof theirs);
    told[3] = told[0];
    return 0;
}

/* A length of any size, by the step. */
static size_t length_of(int step, int i)
{
    static const size_t lengths[] = { 1, 8, 11, 12, 13, 24, 100, 5000, LONGEST };
    return lengths[(step + i) % 9];
}

static void step(struct foreign *f)
{
    const int next = (f->rank + 1) % f->nranks, prev = (f->rank + f->nranks - 1) % f->nranks;
    for (int i = 0; i < 3; i++) {
        const int bytes = (int)length_of(f->step, i);
        MPI_Request q[2];
        int flag = 0, n = 0;
        if (decide(f, value, (size_t)bytes))
            told[2]++;
        if (MPI_Irecv(heard, LONGEST, MPI_BYTE, prev, 2, f->comm, &q[0]) != MPI_SUCCESS)
            return;
        if (i == 1)
            (void)FTK_FAULT("app.mid");
        if (MPI_Isend(value, bytes, MPI_BYTE, next, 2, f->comm, &q[1]) != MPI_SUCCESS)
            return;
        /* tests that find nothing are determinants, too: values stand among them */
        while (!flag)
            if (MPI_Test(&q[0], &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS)
                return;
        if (MPI_Wait(&q[1], MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        if (decide(f, &n, sizeof n))
            told[2]++;
        told[0] = XXH3_64bits_withSeed(value, (size_t)bytes, told[0]);
        told[1] = XXH3_64bits_withSeed(heard, (size_t)bytes, told[1]);
    }
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t theirs[2] = { 0, 0 };
    const int next = (f->rank + 1) % f->nranks, prev = (f->rank + f->nranks - 1) % f->nranks;
    MPI_Sendrecv(told, 1, MPI_UINT64_T, next, 3, theirs, 1, MPI_UINT64_T, prev, 3, f->comm,
        MPI_STATUS_IGNORE);
    return foreign_counted(f, 0, told[2] + (theirs[0] != told[1]), hash, detail, room);
}

static void release(void)
{
    free(told);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "decide",
        .steps = 40,
        .size = 1,
        .prepare = prepare,
        .step = step,
        .verdict = verdict,
        .release = release };
    return foreign_main(argc, argv, &app);
}
