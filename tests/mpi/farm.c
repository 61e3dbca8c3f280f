/* A master and its workers.  Rank 0 hands out the items of a round to whoever asks,
 * with MPI_ANY_SOURCE and MPI_ANY_TAG; workers hand in results by MPI_Ssend and poll
 * for the next item by MPI_Iprobe.  Who does what is different in every run.  A round,
 * which is a step, is over when all workers are idle and the master has told each of
 * them so.
 *
 * The result of an item depends on its number alone, so that the results of all have a
 * hash, on any number of ranks.  And what the master has heard of a worker must be what
 * the worker has told, and the other way round: see foreign_pairs.
 *
 * A step passes, on the master, app.mid once, when half of the items are handed out,
 * and app.inflight for every message, before it is answered; on a worker, app.mid for
 * every answer and app.inflight for every message it has sent, before it looks for the
 * answer.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum { READY = 1, RESULT, WORK, OVER };
#define HEAD 3 /* number, item or round, value */
#define ROOM (HEAD + 2000)
#define UNDONE 0

static struct {
    uint64_t *results; /* [steps * items] on the master, registered */
    uint64_t done;     /* items this rank has done, registered */
    struct foreign_pairs pairs;
    int *idle; /* [nranks] workers in the order in which they have become idle */
    uint64_t message[ROOM];
} s;

static size_t items(const struct foreign *f)
{
    return (size_t)f->steps * (size_t)f->size;
}

static int prepare(struct foreign *f)
{
    size_t n = f->rank == 0 ? items(f) : 0;
    s.results = calloc(n + 1, sizeof *s.results);
    s.idle = calloc((size_t)f->nranks, sizeof *s.idle);
    if (f->nranks < 2 || !s.results || !s.idle || foreign_pairs_open(f, &s.pairs) != 0)
        return 1;
    int rc = ftkit_register(f->ft, "results", s.results, n + 1, MPI_UINT64_T);
    rc |= ftkit_register(f->ft, "done", &s.done, 1, MPI_UINT64_T);
    return rc != FTKIT_OK;
}

/* The work: some items take much longer than others. */
static uint64_t compute(uint64_t item)
{
    uint64_t x = item + 1;
    for (uint64_t i = 0; i < 100 + item * 7919 % 3000; i++)
        x = foreign_mix(x, item);
    return x == UNDONE ? 1 : x;
}

/* Words of a message with the result of an item. */
static size_t length(uint64_t item)
{
    return item % 41 == 0 ? ROOM : HEAD + (size_t)(item % 7);
}

/* ---- master -------------------------------------------------------------------------- */

static void answer(struct foreign *f, int worker, int tag, uint64_t what)
{
    uint64_t m[2] = { 0, what };
    foreign_sent(&s.pairs, worker, m, 2);
    MPI_Send(m, 2, MPI_UINT64_T, worker, tag, f->comm);
}

/* The result of an item of this round that has none yet, whole. */
static bool take(const struct foreign *f, const uint64_t *m, size_t words)
{
    uint64_t item = m[1];
    if (item / (uint64_t)f->size != (uint64_t)f->step || s.results[item] != UNDONE
        || words != length(item) || m[2] == UNDONE)
        return false;
    for (size_t k = HEAD; k < words; k++)
        if (m[k] != m[2] + k)
            return false;
    s.results[item] = m[2];
    return true;
}

static void master(struct foreign *f)
{
    int next = 0, nidle = 0;
    while (nidle < f->nranks - 1) {
        MPI_Status st;
        int words = 0;
        if (MPI_Recv(s.message, ROOM, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, f->comm, &st)
                != MPI_SUCCESS
            || MPI_Get_count(&st, MPI_UINT64_T, &words) != MPI_SUCCESS || words < 2)
            return;
        foreign_received(&s.pairs, st.MPI_SOURCE, s.message, (size_t)words);
        bool good = st.MPI_TAG == RESULT ? take(f, s.message, (size_t)words)
                                         : s.message[1] == (uint64_t)f->step;
        *s.pairs.bad += !good;
        (void)FTK_FAULT("app.inflight");
        if (next == f->size / 2)
            (void)FTK_FAULT("app.mid");
        if (next < f->size)
            answer(f, st.MPI_SOURCE, WORK, (uint64_t)(f->step * f->size + next++));
        else
            s.idle[nidle++] = st.MPI_SOURCE; /* nobody begins the next round before all */
    }
    for (int i = 0; i < nidle; i++)
        answer(f, s.idle[i], OVER, (uint64_t)f->step);
}

/* ---- worker -------------------------------------------------------------------------- */

static bool tell(struct foreign *f, int tag, size_t words)
{
    foreign_sent(&s.pairs, 0, s.message, words);
    return MPI_Ssend(s.message, (int)words, MPI_UINT64_T, 0, tag, f->comm) == MPI_SUCCESS;
}

/* Look for the answer until it is there: its tag, or 0 when there can be none. */
static int poll_answer(struct foreign *f, uint64_t *what)
{
    MPI_Status st;
    uint64_t m[2] = { 0, 0 };
    int there = 0, words = 0;
    while (!there)
        if (MPI_Iprobe(0, MPI_ANY_TAG, f->comm, &there, &st) != MPI_SUCCESS)
            return 0;
    if (MPI_Get_count(&st, MPI_UINT64_T, &words) != MPI_SUCCESS || words != 2
        || MPI_Recv(m, 2, MPI_UINT64_T, 0, st.MPI_TAG, f->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return 0;
    foreign_received(&s.pairs, 0, m, 2);
    *what = m[1];
    return st.MPI_TAG;
}

static void worker(struct foreign *f)
{
    int tag = READY;
    size_t words = 2;
    uint64_t item = 0;
    s.message[1] = (uint64_t)f->step;
    while (tell(f, tag, words)) {
        (void)FTK_FAULT("app.inflight");
        int order = poll_answer(f, &item);
        (void)FTK_FAULT("app.mid");
        if (order != WORK) {
            *s.pairs.bad += order != OVER || item != (uint64_t)f->step;
            return;
        }
        tag = RESULT;
        words = length(item);
        s.message[1] = item;
        s.message[2] = compute(item);
        for (size_t k = HEAD; k < words; k++)
            s.message[k] = s.message[2] + k;
        s.done++;
    }
}

static void step(struct foreign *f)
{
    if (f->rank == 0)
        master(f);
    else
        worker(f);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t mine[3] = { s.done, foreign_pairs_compare(f, &s.pairs), 0 }, all[3] = { 0 };
    for (size_t i = 0; f->rank == 0 && i < items(f); i++)
        mine[2] += s.results[i] == UNDONE;
    MPI_Allreduce(mine, all, 3, MPI_UINT64_T, MPI_SUM, f->comm);
    if (f->rank == 0)
        *hash = XXH3_64bits(s.results, items(f) * sizeof *s.results);
    snprintf(detail, room, "%llu items done, %llu missing, %llu differences",
        (unsigned long long)all[0], (unsigned long long)all[2], (unsigned long long)all[1]);
    return all[0] == items(f) && all[1] == 0 && all[2] == 0;
}

static void release(void)
{
    free(s.results);
    free(s.idle);
    free(s.pairs.sent);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "farm", 40, 30, prepare, NULL, NULL, step, verdict,
        release };
    return foreign_main(argc, argv, &app);
}
