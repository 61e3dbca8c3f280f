/* Steps that follow each other at different places and look alike: in each, every rank sends
 * a part to every other one, takes theirs from any source, all with the same tag, and then
 * tells each that it has them; the next part goes to who has told.  Nothing else keeps the
 * ranks together, and no part can come before its step.  In which order parts come makes
 * no difference to anything; one that comes in the wrong step is counted, and changes the
 * result.
 *
 *   -m receive   MPI_Recv from any source
 *      posted    MPI_Irecv from any source for all parts at once, waits and tests
 *      probe     MPI_Probe, Iprobe, Mprobe from any source, some of any tag
 *
 * Parts are of many lengths, some are sent synchronously.  A step passes app.mid once, when
 * it has half of its parts, and app.inflight once, when its parts are on their way.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

#define RANKS 8      /* at most */
#define HEAD 3       /* number, step, token */
#define LONGEST 3000 /* words */

enum { PART = 1, HAVE };

static struct {
    uint64_t *state; /* registered: of the sums of all steps */
    struct foreign_pairs pairs;
    uint64_t *out[RANKS], *in[RANKS]; /* [LONGEST] */
    int nth;                          /* part of the step that is awaited */
    uint64_t sum;                     /* of the step */
    bool (*take)(const struct foreign *f);
} p;

static int words_of(const struct foreign *f, int to)
{
    static const int lengths[] = { HEAD, 20, 63, 64, 65, 700, LONGEST };
    return lengths[(f->step * 3 + f->rank * 5 + to) % (int)(sizeof lengths / sizeof *lengths)];
}

/* A part has come. */
static bool use(const struct foreign *f, const uint64_t *m, const MPI_Status *st)
{
    int words = 0;
    if (MPI_Get_count(st, MPI_UINT64_T, &words) != MPI_SUCCESS || words < HEAD || words > LONGEST)
        return false;
    foreign_received(&p.pairs, st->MPI_SOURCE, m, (size_t)words);
    *p.pairs.bad += m[1] != (uint64_t)f->step;
    p.sum += m[2] + m[words - 1];
    if (++p.nth == f->nranks / 2)
        (void)FTK_FAULT("app.mid");
    return true;
}

static bool take_received(const struct foreign *f)
{
    for (int k = 1; k < f->nranks; k++) {
        MPI_Status st;
        if (MPI_Recv(p.in[0], LONGEST, MPI_UINT64_T, MPI_ANY_SOURCE,
                f->step % 3 ? PART : MPI_ANY_TAG, f->comm, &st)
                != MPI_SUCCESS
            || !use(f, p.in[0], &st))
            return false;
    }
    return true;
}

/* All at once; in some steps each is used as soon as it is there. */
static bool take_posted(const struct foreign *f)
{
    MPI_Request q[RANKS];
    MPI_Status st[RANKS];
    int n = f->nranks - 1, which[RANKS], count = 0, left = n;
    for (int k = 0; k < n; k++)
        MPI_Irecv(p.in[k], LONGEST, MPI_UINT64_T, MPI_ANY_SOURCE, PART, f->comm, &q[k]);
    if (f->step % 3 == 0) {
        if (MPI_Waitall(n, q, st) != MPI_SUCCESS)
            return false;
        for (int k = 0; k < n; k++)
            if (!use(f, p.in[k], &st[k]))
                return false;
        return true;
    }
    MPI_Status of[RANKS];
    bool here[RANKS] = { false };
    while (left > 0) {
        int rc = f->step % 3 == 1 ? MPI_Waitsome(n, q, &count, which, st)
                                  : MPI_Testsome(n, q, &count, which, st);
        if (rc != MPI_SUCCESS)
            return false;
        for (int i = 0; i < count; i++) {
            of[which[i]] = st[i];
            here[which[i]] = true;
        }
        left -= count;
    }
    for (int k = 0; k < n; k++) /* those of one source come in the order of posting */
        if (!here[k] || !use(f, p.in[k], &of[k]))
            return false;
    return true;
}

static bool take_probed(const struct foreign *f)
{
    for (int k = 1; k < f->nranks; k++) {
        MPI_Status st = { .MPI_SOURCE = 0 };
        MPI_Message m;
        int flag = 0, rc = MPI_SUCCESS, how = (f->step + k) % 3;
        if (how == 0)
            rc = MPI_Probe(MPI_ANY_SOURCE, k % 2 ? PART : MPI_ANY_TAG, f->comm, &st);
        while (how == 1 && rc == MPI_SUCCESS && !flag)
            rc = MPI_Iprobe(MPI_ANY_SOURCE, PART, f->comm, &flag, &st);
        if (how == 2)
            rc = MPI_Mprobe(MPI_ANY_SOURCE, PART, f->comm, &m, &st);
        if (rc == MPI_SUCCESS && how == 2)
            rc = MPI_Mrecv(p.in[0], LONGEST, MPI_UINT64_T, &m, &st);
        else if (rc == MPI_SUCCESS)
            rc = MPI_Recv(p.in[0], LONGEST, MPI_UINT64_T, st.MPI_SOURCE, st.MPI_TAG, f->comm, &st);
        if (rc != MPI_SUCCESS || !use(f, p.in[0], &st))
            return false;
    }
    return true;
}

static int prepare(struct foreign *f)
{
    const char *how = f->variant ? f->variant : "receive";
    p.take = strcmp(how, "receive") == 0  ? take_received
             : strcmp(how, "posted") == 0 ? take_posted
             : strcmp(how, "probe") == 0  ? take_probed
                                          : NULL;
    p.state = calloc(1, sizeof *p.state);
    if (!p.take || !p.state || f->nranks > RANKS || foreign_pairs_open(f, &p.pairs) != 0)
        return 1;
    for (int r = 0; r < f->nranks; r++) {
        p.out[r] = calloc(LONGEST, sizeof(uint64_t));
        p.in[r] = calloc(LONGEST, sizeof(uint64_t));
        if (!p.out[r] || !p.in[r])
            return 1;
    }
    *p.state = foreign_mix((uint64_t)f->rank, 5);
    return ftkit_register(f->ft, "state", p.state, 1, MPI_UINT64_T) != FTKIT_OK;
}

/* So that "I have it" of a step does not mix with parts of any tag. */
static MPI_Comm aside = MPI_COMM_NULL;

static int connect_ranks(struct foreign *f)
{
    return MPI_Comm_dup(f->comm, &aside) != MPI_SUCCESS;
}

static void disconnect(void)
{
    if (aside != MPI_COMM_NULL)
        MPI_Comm_free(&aside);
}

static void send_parts(const struct foreign *f, MPI_Request *q)
{
    for (int k = 1; k < f->nranks; k++) {
        int to = (f->rank + k) % f->nranks, words = words_of(f, to);
        uint64_t *m = p.out[to];
        m[1] = (uint64_t)f->step;
        m[2] = foreign_mix(*p.state, (uint64_t)to);
        for (int w = HEAD; w < words; w++)
            m[w] = m[2] + (uint64_t)w;
        foreign_sent(&p.pairs, to, m, (size_t)words);
        if ((f->step + k) % 4 == 0)
            MPI_Issend(m, words, MPI_UINT64_T, to, PART, f->comm, &q[k - 1]);
        else
            MPI_Isend(m, words, MPI_UINT64_T, to, PART, f->comm, &q[k - 1]);
    }
}

static void step(struct foreign *f)
{
    MPI_Request q[RANKS];
    int n = f->nranks - 1;
    p.nth = 0;
    p.sum = 0;
    send_parts(f, q);
    (void)FTK_FAULT("app.inflight");
    if (!p.take(f))
        return;
    *p.state = foreign_mix(*p.state + p.sum, (uint64_t)f->step);
    for (int k = 1; k <= n; k++)
        MPI_Send(p.state, 1, MPI_UINT64_T, (f->rank + k) % f->nranks, HAVE, aside);
    uint64_t theirs = 0;
    for (int k = 1; k <= n; k++) {
        uint64_t one = 0;
        if (MPI_Recv(
                &one, 1, MPI_UINT64_T, (f->rank + k) % f->nranks, HAVE, aside, MPI_STATUS_IGNORE)
            != MPI_SUCCESS)
            return;
        theirs += one;
    }
    *p.state = foreign_mix(*p.state, theirs);
    MPI_Waitall(n, q, MPI_STATUSES_IGNORE);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t mine = foreign_pairs_compare(f, &p.pairs), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, f->comm);
    *hash = foreign_total(f, foreign_mix(*p.state, (uint64_t)f->rank));
    snprintf(detail, room, "%llu differences", (unsigned long long)all);
    return all == 0;
}

static void release(void)
{
    for (int r = 0; r < RANKS; r++) {
        free(p.out[r]);
        free(p.in[r]);
    }
    free(p.state);
    free(p.pairs.sent);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "relay", 40, 1, prepare, connect_ranks, disconnect,
        step, verdict, release };
    return foreign_main(argc, argv, &app);
}
