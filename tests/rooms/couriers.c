/* A program whose ranks send amounts to each other by a part of the log (courier.c), for
 * tests/rooms.t.
 *
 * Number k of the amounts of a rank to another one is known.  So each account must be the sum of as
 * many amounts as it has got, at each step, and all amounts must be there at the end: none is lost,
 * and none counts twice.  -s: how many words every seventh amount of a rank has.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

int courier_post(int dest, uint64_t amount, size_t words, bool later);
int courier_wait(int source, uint64_t count);
void courier_account(int rank, uint64_t account[4]);

enum { CAME, CAME_SUM, GONE, GONE_SUM, ACCOUNT };
enum { STATE, BAD, POSTS, IN, OUT, TO }; /* TO + r: amounts for rank r so far */

static uint64_t *m;

static uint64_t amount_of(int from, int to, uint64_t k)
{
    return foreign_mix(k, (uint64_t)(1000 * from + to));
}

static uint64_t sum_of(int from, int to, uint64_t n)
{
    uint64_t sum = 0;
    for (uint64_t k = 1; k <= n; k++)
        sum += amount_of(from, to, k);
    return sum;
}

/* Amount i of a rank goes to this rank. */
static int dest_of(const struct foreign *f, int from, uint64_t i)
{
    return (int)(foreign_mix(i, (uint64_t)from) % (uint64_t)f->nranks);
}

/* How many amounts a step has, of a rank. */
static uint64_t posts_at(int step, int rank)
{
    return foreign_mix((uint64_t)step, 77 + (uint64_t)rank) % 4;
}

static uint64_t posts_of_all(const struct foreign *f, int rank)
{
    uint64_t n = 1; /* of set-up */
    for (int s = 0; s < f->steps; s++)
        n += posts_at(s, rank);
    return n;
}

static int prepare(struct foreign *f)
{
    m = foreign_state(f, TO + (size_t)f->nranks);
    return !m;
}

static bool post(struct foreign *f)
{
    const uint64_t i = m[POSTS];
    const int to = dest_of(f, f->rank, i);
    const uint64_t amount = amount_of(f->rank, to, m[TO + to] + 1);
    if (courier_post(to, amount, i % 7 == 3 ? (size_t)f->size : 2, i % 3 == 0) != MPI_SUCCESS)
        return false;
    m[POSTS]++;
    m[TO + to]++;
    return true;
}

static int connect(struct foreign *f)
{
    return !post(f);
}

/* The accounts with each other rank, as they are now. */
static void compare(const struct foreign *f)
{
    uint64_t a[ACCOUNT];
    for (int k = 0; k < f->nranks; k++) {
        courier_account(k, a);
        m[BAD] += a[CAME_SUM] != sum_of(k, f->rank, a[CAME]);
        m[BAD] += a[GONE] != m[TO + k] || a[GONE_SUM] != sum_of(f->rank, k, a[GONE]);
    }
}

static void step(struct foreign *f)
{
    const int next = (f->rank + 1) % f->nranks, prev = (f->rank + f->nranks - 1) % f->nranks;
    for (uint64_t n = posts_at(f->step, f->rank); n > 0; n--)
        if (!post(f))
            return;
    (void)FTK_FAULT("app.mid");
    m[OUT] = m[STATE];
    if (MPI_Sendrecv(&m[OUT], 1, MPI_UINT64_T, next, 1, &m[IN], 1, MPI_UINT64_T, prev, 1, f->comm,
            MPI_STATUS_IGNORE)
        != MPI_SUCCESS)
        return;
    m[STATE] = foreign_mix(m[STATE], m[IN]);
    compare(f);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    for (int k = 0; k < f->nranks; k++) {
        uint64_t n = 0, a[ACCOUNT];
        for (uint64_t i = 0, all = posts_of_all(f, k); i < all; i++)
            n += dest_of(f, k, i) == f->rank;
        if (courier_wait(k, n) != MPI_SUCCESS)
            return false;
        courier_account(k, a);
        m[BAD] += a[CAME] != n;
    }
    compare(f);
    return foreign_counted(f, m[STATE], m[BAD], hash, detail, room);
}

static void release(void)
{
    free(m);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "couriers",
        .steps = 240,
        .size = 20000,
        .prepare = prepare,
        .connect = connect,
        .step = step,
        .verdict = verdict,
        .release = release };
    return foreign_main(argc, argv, &app);
}
