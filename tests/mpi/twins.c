/* A ring of ranks with every kind of region, for replicas: bits of it are flipped.
 *
 *   -m plain   (default) as above
 *   -m timer   ... and a region with the time, which is not compared
 *   -m scrub   ... and ftkit_scrub() behind step 12
 *   -m random  ... and rank 1 adds its process number to its data from step 20 on
 *   -m first   ... and rank 1 begins with its process number
 *   -m ahead   each step sends the message of the next one, so a message is under way at each set
 *
 * Fault points, with EIO: flip.data, flip.grown, flip.packed, flip.strided flip a bit of a region
 * of this name; flip.other flips another bit of data; flip.message flips a bit of a message before
 * it is sent.  Each step passes each once.  flip.begin flips a bit of data before the first set.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum { GROWN = 100, STRIDES = 40, PACKED = 24 };

static struct {
    uint64_t *data;  /* [n] */
    uint64_t *grown; /* [ngrown] */
    size_t n, ngrown;
    uint64_t strided[3 * STRIDES]; /* every third is registered */
    uint64_t packed[PACKED];
    uint64_t state[2]; /* registered; [1]: wrong */
    double timer;
    MPI_Datatype third;
    bool timed, random, first, ahead;
} g;

static void flip(bool now, uint64_t *word)
{
    if (now)
        *word ^= (uint64_t)1 << 41;
}

static int packed_bytes(void *arg, size_t *bytes)
{
    (void)arg;
    *bytes = sizeof g.packed;
    return 0;
}

static int pack(void *arg, void *to, size_t bytes)
{
    (void)arg;
    memcpy(to, g.packed, bytes);
    return 0;
}

static int unpack(void *arg, const void *from, size_t bytes)
{
    (void)arg;
    memcpy(g.packed, from, bytes);
    return 0;
}

static int scrub(struct foreign *f)
{
    return f->step == 12 ? ftkit_scrub(f->ft, NULL) : FTKIT_OK;
}

static int prepare(struct foreign *f)
{
    static const ftkit_serializer ops = {
        .size = sizeof ops, .measure = packed_bytes, .pack = pack, .unpack = unpack
    };
    const char *v = f->variant ? f->variant : "plain";
    f->after = strcmp(v, "scrub") == 0 ? scrub : NULL;
    g.timed = strcmp(v, "timer") == 0 || f->after;
    g.random = strcmp(v, "random") == 0;
    g.first = strcmp(v, "first") == 0;
    g.ahead = strcmp(v, "ahead") == 0;
    if (!g.timed && !g.random && !g.first && !g.ahead && strcmp(v, "plain") != 0)
        return 1;
    g.n = (size_t)f->size * (1 << 15);
    g.ngrown = GROWN;
    g.data = malloc(g.n * sizeof *g.data);
    g.grown = calloc(GROWN, sizeof *g.grown);
    if (!g.data || !g.grown)
        return 1;
    for (size_t i = 0; i < g.n; i++)
        g.data[i] = i * (uint64_t)(f->rank + 1);
    if (g.first && f->rank == 1)
        g.data[0] = (uint64_t)getpid();
    flip(FTK_FAULT("flip.begin"), &g.data[g.n - 7]);
    MPI_Type_vector(STRIDES, 1, 3, MPI_UINT64_T, &g.third);
    MPI_Type_commit(&g.third);
    int rc = ftkit_register(f->ft, "data", g.data, g.n, MPI_UINT64_T);
    rc |= ftkit_register(f->ft, "state", g.state, 2, MPI_UINT64_T);
    rc |= ftkit_register(f->ft, "strided", g.strided, 1, g.third);
    rc |= ftkit_register_serializer(f->ft, "packed", &ops, NULL);
    rc |= ftkit_register_growing(
        f->ft, "grown", (void **)&g.grown, &g.ngrown, MPI_UINT64_T, NULL, NULL);
    if (g.timed) {
        rc |= ftkit_register(f->ft, "timer", &g.timer, 1, MPI_DOUBLE);
        rc |= ftkit_compare(f->ft, "timer", FTKIT_COMPARE_OFF);
    }
    return rc != FTKIT_OK;
}

static void flip_some(void)
{
    flip(FTK_FAULT("flip.data"), &g.data[g.n - 7]);
    if (FTK_FAULT("flip.other"))
        g.data[g.n - 7] ^= 2;
    flip(FTK_FAULT("flip.grown"), &g.grown[g.ngrown - 1]);
    flip(FTK_FAULT("flip.packed"), &g.packed[5]);
    flip(FTK_FAULT("flip.strided"), &g.strided[3 * 17]);
}

static int send_to_next(struct foreign *f, int step)
{
    uint64_t out[3] = { (uint64_t)step, g.state[0], g.data[g.n - 7] };
    flip(FTK_FAULT("flip.message"), &out[1]);
    return MPI_Send(out, 3, MPI_UINT64_T, (f->rank + 1) % f->nranks, 1, f->comm);
}

static void step(struct foreign *f)
{
    const int before = (f->rank + f->nranks - 1) % f->nranks;
    uint64_t in[3] = { 0 };
    int rc = MPI_SUCCESS;
    if (!g.ahead || f->step == 0)
        rc = send_to_next(f, f->step);
    if (rc == MPI_SUCCESS)
        rc = MPI_Recv(in, 3, MPI_UINT64_T, before, 1, f->comm, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        return;
    g.state[1] += in[0] != (uint64_t)f->step;
    g.state[0] = foreign_mix(g.state[0] ^ in[1], in[2]);
    for (size_t i = (size_t)(f->step % 64); i < g.n; i += 64)
        g.data[i] = foreign_mix(g.data[i], g.state[0]);
    g.strided[3 * (f->step % STRIDES)] ^= g.state[0];
    g.packed[f->step % PACKED] += g.state[0];
    g.grown[(size_t)f->step % g.ngrown] += g.state[0];
    if (g.ngrown < (size_t)4 * GROWN) {
        uint64_t *more = realloc(g.grown, (g.ngrown + 1) * sizeof *more);
        if (!more)
            return;
        more[g.ngrown++] = g.state[0];
        g.grown = more;
    }
    if (g.random && f->rank == 1 && f->step >= 20)
        g.data[0] += (uint64_t)getpid();
    g.timer += MPI_Wtime();
    if (g.ahead && f->step + 1 < f->steps && send_to_next(f, f->step + 1) != MPI_SUCCESS)
        return;
    flip_some();
    (void)FTK_FAULT("app.mid");
    (void)FTK_FAULT("app.inflight");
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t mine = XXH3_64bits_withSeed(g.data, g.n * sizeof *g.data, g.state[0]);
    mine = XXH3_64bits_withSeed(g.grown, g.ngrown * sizeof *g.grown, mine);
    mine = XXH3_64bits_withSeed(g.strided, sizeof g.strided, mine);
    mine = XXH3_64bits_withSeed(g.packed, sizeof g.packed, mine);
    return foreign_counted(f, mine, g.state[1], hash, detail, room);
}

static void release(void)
{
    free(g.data);
    free(g.grown);
    if (g.third != MPI_DATATYPE_NULL)
        MPI_Type_free(&g.third);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "twins",
        .steps = 60,
        .size = 1,
        .prepare = prepare,
        .step = step,
        .verdict = verdict,
        .release = release };
    g.third = MPI_DATATYPE_NULL; /* a context that does not open does not make it */
    return foreign_main(argc, argv, &app);
}
