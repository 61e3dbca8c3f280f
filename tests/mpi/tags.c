/* Messages under ever new tags, of ever new lengths: what the message log keeps of one
 * interval between sets is of no use in the next.  In each step every rank sends SIZE
 * words at most, twice, to every other, and receives them in another order than they
 * were sent.  With -m one only the last rank has so much to say, the others next to nothing.
 * With -m busy ftkit_checkpoint() is also called in the middle of some steps, where it can
 * write no set.
 *
 * Between two steps nothing is under way, so right after a set the log has to be empty;
 * the program looks.  When it ends each rank prints a line to stderr:
 *
 *   log RANK held MOST spilled BYTES sets N resent MESSAGES refused TIMES memory EARLY LATE
 *
 * where EARLY and LATE are KiB of its memory after a tenth of the steps and at the end.
 *
 * A step passes app.mid once, when all is sent and nothing is received.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

#define TWICE 2
#define HEAD 4 /* number, step, state of the sender, which of the two */
#define TAGS 32000

static struct {
    uint64_t *state; /* registered: of all that has been received */
    struct foreign_pairs pairs;
    uint64_t *out, *in; /* [nranks][TWICE][size] */
    MPI_Request *req;   /* [2][nranks][TWICE] */
    uint64_t held;      /* the most that was kept at the end of a step */
    uint64_t set;       /* the last one that was seen */
    bool one, busy;     /* the variants */
    int refused;        /* sets that were due in the middle of a step */
    long early, late;   /* KiB */
} g;

static int prepare(struct foreign *f)
{
    size_t n = (size_t)f->nranks * TWICE;
    g.one = f->variant && strcmp(f->variant, "one") == 0;
    g.busy = f->variant && strcmp(f->variant, "busy") == 0;
    if (f->variant && !g.one && !g.busy)
        return 1;
    f->size = f->size < HEAD ? HEAD : f->size;
    g.state = calloc(1, sizeof *g.state);
    g.out = calloc(n * (size_t)f->size, sizeof *g.out);
    g.in = calloc(n * (size_t)f->size, sizeof *g.in);
    g.req = calloc(2 * n, sizeof(MPI_Request));
    if (!g.state || !g.out || !g.in || !g.req || foreign_pairs_open(f, &g.pairs) != 0)
        return 1;
    *g.state = foreign_mix((uint64_t)f->rank, 1);
    return ftkit_register(f->ft, "state", g.state, 1, MPI_UINT64_T) != FTKIT_OK;
}

/* Of this process, without what it shares with others; -1: not known. */
static long own_kib(void)
{
    char line[128];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && kib < 0 && fgets(line, sizeof line, status))
        if (sscanf(line, "RssAnon: %ld kB", &kib) != 1)
            kib = -1;
    if (status && fclose(status) != 0)
        kib = -1;
    return kib;
}

static void look(const struct foreign *f)
{
    ftkit_info info = { .size = sizeof info };
    if (ftkit_query(f->ft, &info) != FTKIT_OK)
        ++*g.pairs.bad;
    if (info.committed != g.set && info.log_held != 0) {
        fprintf(stderr, "tags: rank %d, step %d: %llu bytes are kept after set %llu\n", f->rank,
            f->step, (unsigned long long)info.log_held, (unsigned long long)info.committed);
        ++*g.pairs.bad;
    }
    g.set = info.committed;
    g.held = info.log_held > g.held ? info.log_held : g.held;
    if (f->step == f->steps / 10)
        g.early = own_kib();
}

/* Tag and length of message k of a step between two ranks. */
static int tag_of(const struct foreign *f, int from, int to, int k)
{
    return (int)(foreign_mix((uint64_t)f->step, (uint64_t)(64 * from + to) + 1) % TAGS) * TWICE + k;
}

static int words_of(const struct foreign *f, int from, int to, int k)
{
    uint64_t m = foreign_mix((uint64_t)(tag_of(f, from, to, k)), (uint64_t)f->step);
    if (g.one && from < f->nranks - 1)
        return HEAD;
    return HEAD + (int)(m % (uint64_t)(f->size - HEAD + 1));
}

static size_t place(const struct foreign *f, int rank, int k)
{
    return ((size_t)rank * TWICE + (size_t)k) * (size_t)f->size;
}

static int send_all(const struct foreign *f)
{
    int n = 0;
    for (int r = 0; r < f->nranks; r++)
        for (int k = 0; r != f->rank && k < TWICE; k++) {
            uint64_t *m = g.out + place(f, r, k);
            int words = words_of(f, f->rank, r, k);
            for (int i = HEAD; i < words; i++)
                m[i] = *g.state + (uint64_t)i;
            m[1] = (uint64_t)f->step;
            m[2] = *g.state;
            m[3] = (uint64_t)k;
            foreign_sent(&g.pairs, r, m, (size_t)words);
            MPI_Isend(m, words, MPI_UINT64_T, r, tag_of(f, f->rank, r, k), f->comm, &g.req[n++]);
        }
    return n;
}

/* A call that comes too early; false: this rank is back at the line, from where it goes on as
 * if the loop had called. */
static bool call_early(struct foreign *f)
{
    if (!g.busy || f->step % 3 != 1)
        return true;
    int rc = ftkit_checkpoint(f->ft);
    g.refused += rc == FTKIT_ERR_STATE;
    *g.pairs.bad += rc != FTKIT_OK && rc != FTKIT_ERR_STATE && rc != FTKIT_ROLLED_BACK;
    return rc != FTKIT_ROLLED_BACK;
}

static void step(struct foreign *f)
{
    int n;
    do {
        look(f);
        n = send_all(f);
    } while (!call_early(f));
    (void)FTK_FAULT("app.mid");
    for (int r = f->nranks - 1; r >= 0; r--)
        for (int k = TWICE - 1; r != f->rank && k >= 0; k--)
            MPI_Irecv(g.in + place(f, r, k), f->size, MPI_UINT64_T, r, tag_of(f, r, f->rank, k),
                f->comm, &g.req[n++]);
    if (MPI_Waitall(n, g.req, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
        return;
    for (int r = 0; r < f->nranks; r++)
        for (int k = 0; r != f->rank && k < TWICE; k++) {
            const uint64_t *m = g.in + place(f, r, k);
            size_t words = (size_t)words_of(f, r, f->rank, k);
            *g.pairs.bad += m[1] != (uint64_t)f->step || m[3] != (uint64_t)k;
            foreign_received(&g.pairs, r, m, words);
            *g.state = XXH3_64bits_withSeed(m, words * sizeof *m, *g.state);
        }
}

static void tell(const struct foreign *f)
{
    ftkit_info info = { .size = sizeof info };
    int rc = ftkit_query(f->ft, &info);
    fprintf(stderr,
        "%slog %d held %llu spilled %llu sets %llu resent %llu refused %d memory %ld %ld\n",
        rc == FTKIT_OK ? "" : "tags: no ", f->rank, (unsigned long long)g.held,
        (unsigned long long)info.log_spilled, (unsigned long long)info.committed,
        (unsigned long long)info.log_resent, g.refused, g.early, g.late);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t mine[2] = { foreign_mix(*g.state, (uint64_t)f->rank) }, all[2] = { 0 };
    look(f);
    g.late = own_kib();
    mine[1] = foreign_pairs_compare(f, &g.pairs);
    MPI_Allreduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, f->comm);
    tell(f);
    *hash = all[0];
    snprintf(detail, room, "%llu differences", (unsigned long long)all[1]);
    return all[1] == 0;
}

static void release(void)
{
    free(g.state);
    free(g.pairs.sent);
    free(g.out);
    free(g.in);
    free(g.req);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "tags", 50, 64, prepare, NULL, NULL, step, verdict,
        release };
    return foreign_main(argc, argv, &app);
}
