/* Particles that go where they like: in each step a rank sends a number of messages
 * that depends on its data to partners that depend on its data, most of them short and
 * some longer than what is sent eagerly.  How many will come it learns by
 * MPI_Reduce_scatter_block or MPI_Alltoall, from whom and how long by MPI_Probe.
 *
 *   -m ordered  (default) what has come is sorted by its source before it is used: the
 *               result is always the same, and is the hash
 *   -m arrival  it is used in the order of arrival, from which all follows that is sent
 *               later: the hash is that of what must not change, the particles there
 * are
 *
 * In both, all messages between each two ranks must agree in the end: see
 * foreign_pairs. A step passes app.mid once, when half of its messages have come, and
 * app.inflight once, when all are sent and none is received.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

#define HEAD 4     /* number, step, state of the sender, particles */
#define FILLER 900 /* words that some messages have at their end */
#define MOST 4     /* particles in a message */
#define ROOM (HEAD + 2 * MOST + FILLER)

static struct {
    bool arrival;
    uint64_t *p; /* [np]: pairs of a number and a state, registered */
    size_t np;
    uint64_t state; /* of the rank: made of all it has received in their order */
    struct foreign_pairs pairs;
    uint64_t *out; /* [nout][ROOM] messages of a step, to dest[nout] */
    size_t nout, space;
    int *dest, *length;
    MPI_Request *req;
    int *count;   /* [nranks] messages to each */
    int *counts;  /* [nranks] ... and from each */
    uint64_t *in; /* [nin][ROOM] what has come, before it is sorted */
    size_t nin, inspace;
    struct arrived {
        int source, order, words;
    } * arrived;
} g;

static int prepare(struct foreign *f)
{
    g.arrival = f->variant && strcmp(f->variant, "arrival") == 0;
    if (f->variant && !g.arrival && strcmp(f->variant, "ordered") != 0)
        return 1;
    g.np = 2 * (size_t)f->size;
    g.p = malloc(g.np * sizeof *g.p);
    g.count = calloc((size_t)f->nranks, sizeof *g.count);
    g.counts = calloc((size_t)f->nranks, sizeof *g.counts);
    if (!g.p || !g.count || !g.counts || foreign_pairs_open(f, &g.pairs) != 0)
        return 1;
    for (int i = 0; i < f->size; i++) {
        g.p[2 * i] = (uint64_t)(f->rank * f->size + i + 1);
        g.p[2 * i + 1] = foreign_mix(g.p[2 * i], 1);
    }
    g.state = foreign_mix((uint64_t)f->rank, 2);
    int rc =
        ftkit_register_growing(f->ft, "particles", (void **)&g.p, &g.np, MPI_UINT64_T, NULL, NULL);
    rc |= ftkit_register(f->ft, "state", &g.state, 1, MPI_UINT64_T);
    return rc != FTKIT_OK;
}

static void *grown(void *old, size_t items, size_t bytes)
{
    void *p = realloc(old, items * bytes);
    if (!p)
        abort();
    return p;
}

/* The message for dest that has room: the last one to it, or a new one. */
static uint64_t *letter(const struct foreign *f, int dest, int most)
{
    for (size_t i = g.nout; i-- > 0;)
        if (g.dest[i] == dest) {
            uint64_t *m = g.out + i * ROOM;
            if (m[3] < (uint64_t)most)
                return m;
            break;
        }
    if (g.nout == g.space) {
        g.space = g.space * 2 + 16;
        g.out = grown(g.out, g.space * ROOM, sizeof *g.out);
        g.dest = grown(g.dest, g.space, sizeof *g.dest);
        g.length = grown(g.length, g.space, sizeof *g.length);
        g.req = grown(g.req, g.space, sizeof *g.req);
    }
    uint64_t *m = g.out + g.nout * ROOM;
    m[1] = (uint64_t)f->step;
    m[2] = g.state;
    m[3] = 0;
    g.dest[g.nout++] = dest;
    return m;
}

/* Take the particles that go out of the list and put them into messages. */
static void pack(const struct foreign *f)
{
    uint64_t mood = foreign_mix(g.state, (uint64_t)f->step);
    int most = 1 + (int)(mood % MOST);
    size_t kept = 0;
    g.nout = 0;
    memset(g.count, 0, (size_t)f->nranks * sizeof *g.count);
    for (size_t i = 0; i + 1 < g.np; i += 2) {
        uint64_t way = foreign_mix(g.p[i] ^ g.p[i + 1], mood);
        int dest = (int)(way % (uint64_t)f->nranks);
        bool partner = mood >> (8 + dest % 48) & 1; /* of this step */
        if (dest == f->rank || !partner || way >> 32 & 1) {
            g.p[kept] = g.p[i];
            g.p[kept + 1] = g.p[i + 1];
            kept += 2;
            continue;
        }
        uint64_t *m = letter(f, dest, most);
        m[HEAD + 2 * m[3]] = g.p[i];
        m[HEAD + 2 * m[3] + 1] = g.p[i + 1];
        m[3]++;
    }
    g.np = kept;
    for (size_t i = 0; i < g.nout; i++) {
        uint64_t *m = g.out + i * ROOM;
        size_t words = HEAD + 2 * (size_t)m[3];
        if (m[HEAD + 1] % 16 == 0)
            for (int k = 0; k < FILLER; k++)
                m[words++] = m[HEAD] + (uint64_t)k;
        g.length[i] = (int)words;
        g.count[g.dest[i]]++;
    }
}

/* How many messages will come, or -1. */
static int expected(const struct foreign *f)
{
    int n = 0;
    if (f->step % 2 == 0)
        return MPI_Reduce_scatter_block(g.count, &n, 1, MPI_INT, MPI_SUM, f->comm) == MPI_SUCCESS
                   ? n
                   : -1;
    if (MPI_Alltoall(g.count, 1, MPI_INT, g.counts, 1, MPI_INT, f->comm) != MPI_SUCCESS)
        return -1;
    for (int r = 0; r < f->nranks; r++)
        n += g.counts[r];
    return n;
}

/* Receive whatever message is there first, of any source and tag. */
static bool receive(const struct foreign *f)
{
    MPI_Status st;
    int words = 0;
    if (g.nin == g.inspace) {
        g.inspace = g.inspace * 2 + 16;
        g.in = grown(g.in, g.inspace * ROOM, sizeof *g.in);
        g.arrived = grown(g.arrived, g.inspace, sizeof *g.arrived);
    }
    uint64_t *m = g.in + g.nin * ROOM;
    if (MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, f->comm, &st) != MPI_SUCCESS
        || MPI_Get_count(&st, MPI_UINT64_T, &words) != MPI_SUCCESS || words < HEAD || words > ROOM)
        return false;
    if (MPI_Recv(m, words, MPI_UINT64_T, st.MPI_SOURCE, st.MPI_TAG, f->comm, MPI_STATUS_IGNORE)
        != MPI_SUCCESS)
        return false;
    g.arrived[g.nin] = (struct arrived){ st.MPI_SOURCE, (int)g.nin, words };
    g.nin++;
    return true;
}

static int by_source(const void *va, const void *vb)
{
    const struct arrived *a = va, *b = vb;
    return a->source != b->source ? a->source - b->source : a->order - b->order;
}

/* Use what has come. */
static void deliver(const struct foreign *f)
{
    if (!g.arrival && g.nin > 1)
        qsort(g.arrived, g.nin, sizeof *g.arrived, by_source);
    for (size_t i = 0; i < g.nin; i++) {
        const struct arrived *a = &g.arrived[i];
        const uint64_t *m = g.in + (size_t)a->order * ROOM;
        size_t words = (size_t)a->words, n = (size_t)m[3];
        foreign_received(&g.pairs, a->source, m, words);
        g.state = XXH3_64bits_withSeed(m, words * sizeof *m, g.state + (uint64_t)a->source);
        if (m[1] != (uint64_t)f->step || n > MOST
            || (words != HEAD + 2 * n && words != HEAD + 2 * n + FILLER)) {
            ++*g.pairs.bad;
            continue;
        }
        g.p = grown(g.p, g.np + 2 * n + 1, sizeof *g.p);
        for (size_t k = 0; k < n; k++) {
            g.p[g.np++] = m[HEAD + 2 * k];
            g.p[g.np++] = foreign_mix(m[HEAD + 2 * k + 1], g.state);
        }
    }
}

static void step(struct foreign *f)
{
    pack(f);
    int n = expected(f);
    if (n < 0)
        return;
    for (size_t i = 0; i < g.nout; i++) {
        uint64_t *m = g.out + i * ROOM;
        foreign_sent(&g.pairs, g.dest[i], m, (size_t)g.length[i]);
        MPI_Isend(
            m, g.length[i], MPI_UINT64_T, g.dest[i], 10 + (int)(m[HEAD] % 3), f->comm, &g.req[i]);
    }
    (void)FTK_FAULT("app.inflight");
    g.nin = 0;
    for (int i = 0; i < n / 2 && receive(f); i++)
        ;
    (void)FTK_FAULT("app.mid");
    for (int i = n / 2; i < n && receive(f); i++)
        ;
    MPI_Waitall((int)g.nout, g.req, MPI_STATUSES_IGNORE);
    *g.pairs.bad += g.nin != (size_t)n;
    deliver(f);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    /* particles: how many, which, which again; histories that do not agree; the states
     */
    uint64_t mine[5] = { g.np / 2, 0, 0, foreign_pairs_compare(f, &g.pairs), 0 };
    uint64_t all[5] = { 0 };
    for (size_t i = 0; i + 1 < g.np; i += 2) {
        mine[1] += g.p[i];
        mine[2] += foreign_mix(g.p[i], 3);
    }
    mine[4] = XXH3_64bits_withSeed(g.p, g.np * sizeof *g.p, g.state);
    mine[4] = foreign_mix(mine[4], (uint64_t)f->rank);
    MPI_Allreduce(mine, all, 5, MPI_UINT64_T, MPI_SUM, f->comm);
    uint64_t want[3] = { (uint64_t)f->size * (uint64_t)f->nranks, 0, 0 };
    for (uint64_t i = 1; i <= want[0]; i++) {
        want[1] += i;
        want[2] += foreign_mix(i, 3);
    }
    *hash = g.arrival ? XXH3_64bits(all, 3 * sizeof *all) : all[4];
    snprintf(detail, room, "%s, %llu particles, %llu differences",
        g.arrival ? "arrival" : "ordered", (unsigned long long)all[0], (unsigned long long)all[3]);
    return memcmp(all, want, sizeof want) == 0 && all[3] == 0;
}

static void release(void)
{
    free(g.p);
    free(g.count);
    free(g.counts);
    free(g.pairs.sent);
    free(g.out);
    free(g.dest);
    free(g.length);
    free(g.req);
    free(g.in);
    free(g.arrived);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "irregular", 50, 60, prepare, NULL, NULL, step, verdict,
        release };
    return foreign_main(argc, argv, &app);
}
