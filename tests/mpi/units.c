/* Programs whose steps are 32 units of work a rank (ftkit_run_units()), in the style of the
 * programs of E. Meneses (thesis, 2013), whose cores have 32 objects each.
 *
 * The blocks of all ranks are a ring.  In a step each block becomes a function of itself and of the
 * faces of its two neighbours; the first and the last block of a rank have a neighbour on another
 * rank.  Then all ranks agree on a number.  -s: sweeps of a block in a step.
 *
 * The variants (-m): jacobi: Jacobi relaxation of 12 x 12 x 12 cells; wave: the wave equation on 48
 * x 48 points; hydro: density, velocity and energy of 8 x 8 x 8 zones, in the style of LULESH.
 * Of jacobi: sizes: the inputs have different sizes; fails: a unit fails in step 25, and the step
 * goes on; mpi: a unit calls MPI in step 25; asks: a unit calls ftkit in step 25; unknown: only
 * rank 0 and odd ranks know the kind.
 *
 * "slow-" before jacobi, wave or hydro: from step 3 on a unit also sleeps for 40 ms.  So ranks that
 * share a core do units at the same time, as on cores of their own.
 *
 * With -w each rank appends to the file of -w, ".units.RANK", in each step and at the end: step,
 * units_elsewhere, units_helped.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <math.h>
#include <time.h>

#include "foreign.h"

enum { UNITS = 32, MARK = 25 };
enum { JACOBI = 12, WAVE = 48, HYDRO = 8 }; /* edges of a block */
enum { ZONES = HYDRO * HYDRO * HYDRO, HYDRO_FACE = 3 * HYDRO * HYDRO };

/* A kind of block: `size` doubles, a plane of `face` doubles at its begin and at its end. */
struct kind {
    size_t size, face;
    void (*sweep)(const double *lo, const double *old, const double *hi, double *fresh);
};

static const char *const variants[] = { "jacobi", "wave", "hydro", "sizes", "fails", "mpi",
    "unknown", "asks", "slow-jacobi", "slow-wave", "slow-hydro" };
enum {
    V_JACOBI,
    V_WAVE,
    V_HYDRO,
    V_SIZES,
    V_FAILS,
    V_MPI,
    V_UNKNOWN,
    V_ASKS,
    V_SLOW,
    V_ALL = V_SLOW + 3
};

static struct units {
    int variant;
    struct kind kind;
    double *block;   /* [UNITS][size], registered */
    double *lo, *hi; /* [face] of the neighbours on other ranks */
    uint64_t all;    /* registered: what all ranks have agreed on */
    double *in[UNITS], *out[UNITS];
    size_t in_bytes[UNITS], out_bytes[UNITS];
    uint64_t bad;
    struct foreign *f;
} u;

/* ---- the kinds ----------------------------------------------------------------------- */

static double at3(const double *lo, const double *old, const double *hi, int x, int y, int z)
{
    const int edge = JACOBI, plane = (y + edge) % edge * edge + (z + edge) % edge;
    if (x < 0)
        return lo[plane];
    return x < edge ? old[x * edge * edge + plane] : hi[plane];
}

static void jacobi(const double *lo, const double *old, const double *hi, double *fresh)
{
    for (int x = 0, i = 0; x < JACOBI; x++)
        for (int y = 0; y < JACOBI; y++)
            for (int z = 0; z < JACOBI; z++, i++)
                fresh[i] =
                    (at3(lo, old, hi, x - 1, y, z) + at3(lo, old, hi, x + 1, y, z)
                        + at3(lo, old, hi, x, y - 1, z) + at3(lo, old, hi, x, y + 1, z)
                        + at3(lo, old, hi, x, y, z - 1) + at3(lo, old, hi, x, y, z + 1) + old[i])
                    / 7;
}

/* Row by row: the point now, the point before. */
static double now_at(const double *lo, const double *old, const double *hi, int x, int y)
{
    const int z = 2 * ((y + WAVE) % WAVE);
    if (x < 0)
        return lo[z];
    return x < WAVE ? old[2 * x * WAVE + z] : hi[z];
}

static void wave(const double *lo, const double *old, const double *hi, double *fresh)
{
    for (int x = 0, i = 0; x < WAVE; x++)
        for (int y = 0; y < WAVE; y++, i += 2) {
            const double four = now_at(lo, old, hi, x - 1, y) + now_at(lo, old, hi, x + 1, y)
                                + now_at(lo, old, hi, x, y - 1) + now_at(lo, old, hi, x, y + 1);
            fresh[i] = 2 * old[i] - old[i + 1] + 0.2 * (four - 4 * old[i]);
            fresh[i + 1] = old[i];
        }
}

/* Zone by zone: density, velocity along the ring, energy. */
static const double *zone(const double *lo, const double *old, const double *hi, int x, int plane)
{
    if (x < 0)
        return &lo[3 * plane];
    return x < HYDRO ? &old[3 * (x * HYDRO * HYDRO + plane)] : &hi[3 * plane];
}

static double pressure(const double *z)
{
    return 0.4 * z[0] * fabs(z[2]) / (1 + 0.1 * z[0]);
}

static void hydro(const double *lo, const double *old, const double *hi, double *fresh)
{
    for (int x = 0; x < HYDRO; x++)
        for (int plane = 0; plane < HYDRO * HYDRO; plane++) {
            const double *a = zone(lo, old, hi, x - 1, plane), *z = zone(lo, old, hi, x, plane),
                         *b = zone(lo, old, hi, x + 1, plane);
            double *to = &fresh[3 * (x * HYDRO * HYDRO + plane)];
            const double squeeze = (b[1] - a[1]) / 2;
            const double q = squeeze < 0 ? z[0] * squeeze * squeeze : 0; /* artificial viscosity */
            const double sound = sqrt(1.4 * pressure(z) / (0.1 + fabs(z[0])));
            to[0] = z[0] * (1 - 0.01 * squeeze);
            to[1] = z[1] - 0.01 * (pressure(b) - pressure(a)) / (1 + sound);
            to[2] = z[2] - 0.01 * (pressure(z) + q) * squeeze + 0.001 * (a[2] - 2 * z[2] + b[2]);
        }
}

static const struct kind kinds[] = {
    { JACOBI * JACOBI * JACOBI, JACOBI *JACOBI, jacobi },
    { 2 * WAVE * WAVE, 2 * WAVE, wave },
    { 3 * ZONES, HYDRO_FACE, hydro },
};

/* ---- a unit -----------------------------------------------------------------------------
 * Its input: number of the step, sweeps, face, block, face, padding. */

enum { HEAD = 2 };

static int mischief(double step)
{
    int size, code = 0;
    if (step != MARK)
        return 0;
    if (u.variant == V_FAILS)
        return 77;
    if (u.variant == V_MPI)
        code = MPI_Comm_size(u.f->comm, &size) != MPI_ERR_OTHER;
    if (u.variant == V_ASKS)
        code = ftkit_decide(u.f->ft, &size, sizeof size) != FTKIT_ERR_UNSUPPORTED;
    return code;
}

static int one_unit(const void *in, size_t in_bytes, void *out, size_t out_bytes, void *arg)
{
    const struct kind *k = arg;
    const double *from = in, *lo = from + HEAD, *old = lo + k->face, *hi = old + k->size;
    double *to = out, *other = malloc(out_bytes);
    if (!other || out_bytes != k->size * sizeof *to
        || in_bytes < (HEAD + 2 * k->face + k->size) * sizeof *from)
        abort();
    k->sweep(lo, old, hi, to);
    for (int i = 1; i < (int)from[1]; i++) { /* with the same faces */
        memcpy(other, to, out_bytes);
        k->sweep(lo, other, hi, to);
    }
    free(other);
    if (u.variant >= V_SLOW && from[0] >= 3)
        (void)nanosleep(&(struct timespec){ 0, 40000000 }, NULL);
    return mischief(from[0]);
}

/* ---- the program --------------------------------------------------------------------- */

static double *new_doubles(size_t n)
{
    double *p = aligned_alloc(64, (n * sizeof *p + 63) / 64 * 64);
    if (p)
        memset(p, 0, n * sizeof *p);
    return p;
}

static int prepare(struct foreign *f)
{
    u.f = f;
    u.variant = foreign_variant(f, variants, V_ALL);
    if (u.variant < 0
        || (u.variant == V_MPI && MPI_Comm_set_errhandler(f->comm, MPI_ERRORS_RETURN)))
        return 1;
    u.kind = kinds[u.variant <= V_HYDRO ? u.variant
                   : u.variant < V_SLOW ? V_JACOBI
                                        : u.variant - V_SLOW];
    const size_t size = u.kind.size, face = u.kind.face;
    u.block = new_doubles(UNITS * size);
    u.lo = new_doubles(face);
    u.hi = new_doubles(face);
    bool good = u.block && u.lo && u.hi;
    for (size_t i = 0; i < UNITS; i++) {
        const size_t more = u.variant == V_SIZES ? 64 * i : 0;
        u.in_bytes[i] = (HEAD + 2 * face + size + more) * sizeof(double);
        u.out_bytes[i] = size * sizeof(double);
        u.in[i] = new_doubles(u.in_bytes[i] / sizeof(double));
        u.out[i] = new_doubles(size);
        good = good && u.in[i] && u.out[i];
    }
    for (size_t i = 0; good && i < UNITS * size; i++)
        u.block[i] = (double)(foreign_mix(i, (uint64_t)f->rank) % 1000) / 1000 + 0.5;
    const bool knows = u.variant != V_UNKNOWN || f->rank == 0 || f->rank % 2 == 1;
    if (!good || (knows && ftkit_unit(f->ft, "block", one_unit, &u.kind) != FTKIT_OK)
        || (!knows && ftkit_unit(f->ft, "another", one_unit, &u.kind) != FTKIT_OK))
        return 1;
    return ftkit_register(f->ft, "blocks", u.block, UNITS * size, MPI_DOUBLE) != FTKIT_OK
           || ftkit_register(f->ft, "all", &u.all, 1, MPI_UINT64_T) != FTKIT_OK
           || ftkit_register(f->ft, "bad", &u.bad, 1, MPI_UINT64_T) != FTKIT_OK;
}

static void note_units(const struct foreign *f)
{
    char path[512];
    ftkit_info info = { .size = sizeof info };
    if (!f->watch || ftkit_query(f->ft, &info) != FTKIT_OK)
        return;
    snprintf(path, sizeof path, "%s.units.%d", f->watch, f->rank);
    FILE *out = fopen(path, "a");
    if (!out
        || fprintf(out, "%d %llu %llu\n", f->step, (unsigned long long)info.units_elsewhere,
               (unsigned long long)info.units_helped)
               < 0
        || fclose(out) != 0)
        fprintf(stderr, "units: cannot write %s\n", path);
}

static void exchange(const struct foreign *f)
{
    const int face = (int)u.kind.face, up = (f->rank + 1) % f->nranks;
    const int down = (f->rank + f->nranks - 1) % f->nranks;
    const double *first = u.block, *last = u.block + UNITS * u.kind.size - u.kind.face;
    MPI_Sendrecv(
        last, face, MPI_DOUBLE, up, 1, u.lo, face, MPI_DOUBLE, down, 1, f->comm, MPI_STATUS_IGNORE);
    MPI_Sendrecv(first, face, MPI_DOUBLE, down, 2, u.hi, face, MPI_DOUBLE, up, 2, f->comm,
        MPI_STATUS_IGNORE);
    /* as a time step or a residual: nobody goes ahead */
    const uint64_t mine = XXH3_64bits(last, u.kind.face * sizeof *last) >> 8;
    MPI_Allreduce(&mine, &u.all, 1, MPI_UINT64_T, MPI_MAX, f->comm);
}

static void fill(const struct foreign *f, size_t i)
{
    const size_t size = u.kind.size, face = u.kind.face;
    const double *block = u.block + i * size;
    double *in = u.in[i];
    in[0] = f->step;
    in[1] = f->size;
    memcpy(in + HEAD, i > 0 ? block - face : u.lo, face * sizeof *in);
    memcpy(in + HEAD + face, block, size * sizeof *in);
    memcpy(in + HEAD + face + size, i + 1 < UNITS ? block + size : u.hi, face * sizeof *in);
}

static void step(struct foreign *f)
{
    const void *in[UNITS];
    void *out[UNITS];
    (void)FTK_FAULT("app.mid");
    exchange(f);
    for (size_t i = 0; i < UNITS; i++) {
        fill(f, i);
        in[i] = u.in[i];
        out[i] = u.out[i];
    }
    const bool knows = u.variant != V_UNKNOWN || f->rank == 0 || f->rank % 2 == 1;
    const int rc = ftkit_run_units(
        f->ft, knows ? "block" : "another", UNITS, in, u.in_bytes, out, u.out_bytes);
    const bool fails = u.variant == V_FAILS && f->step == MARK;
    u.bad += rc != (fails ? FTKIT_ERR_CALLBACK : FTKIT_OK);
    if (fails)
        u.bad += strstr(ftkit_detail(f->ft), "unit 0 of 'block' has returned 77") == NULL;
    for (size_t i = 0; i < UNITS && !fails; i++)
        memcpy(u.block + i * u.kind.size, u.out[i], u.out_bytes[i]);
    (void)FTK_FAULT("app.inflight");
    note_units(f);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    note_units(f);
    return foreign_counted(
        f, XXH3_64bits(u.block, UNITS * u.kind.size * sizeof *u.block), u.bad, hash, detail, room);
}

static void release(void)
{
    for (int i = 0; i < UNITS; i++) {
        free(u.in[i]);
        free(u.out[i]);
    }
    free(u.block);
    free(u.lo);
    free(u.hi);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "units",
        .steps = 40,
        .size = 4,
        .prepare = prepare,
        .step = step,
        .verdict = verdict,
        .release = release };
    return foreign_run(argc, argv, &app, NULL);
}
