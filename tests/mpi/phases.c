/* A program whose communication changes: groups of ranks that exchange much with each other are
 * others in each phase.
 *
 *   phases -o RESULT [PHASES [STEPS [PAUSE]]]
 *
 * PHASES is a word of letters; each phase has STEPS steps, of at least PAUSE ms.  In a step a rank
 * sends HEAVY bytes to each other member of its group, and LIGHT bytes to the next rank, and one
 * more message of LIGHT bytes to rank 0, which receives from any source.  Groups have 4 ranks: a:
 * consecutive ones; b: rank modulo the number of groups; c: in an order that no rule of ranks
 * shows.
 *
 * Before each call of ftkit_checkpoint() each rank appends to RESULT.logged.RANK: the step, and the
 * bytes that its log has had since the set.  The result is a hash of all that all ranks have
 * received, in order, by rank 0.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "core/ftk.h"
#include "core/hash.h"
#include "ftkit.h"

enum { HEAVY = 4096, LIGHT = 64, TEAM = 4, MOST = 64 };

struct app {
    MPI_Comm comm;
    const char *out, *phases;
    int steps, pause;
    int step;
    uint64_t state; /* of this rank: all that it has received, in order */
    uint64_t sum;   /* ... from any source: a sum, because a sender may be a step ahead */
    unsigned char in[TEAM][HEAVY], next[LIGHT], any[MOST][LIGHT];
    unsigned char heavy[HEAVY], light[LIGHT];
};

static int group_of(char phase, int rank)
{
    if (phase == 'b')
        return rank % (n / TEAM);
    if (phase == 'c')
        return (rank * 5 + 3) % n / TEAM;
    return rank / TEAM;
}

static void mix(struct app *a, const void *data, size_t bytes)
{
    a->state = ftk_xxh3(&a->state, sizeof a->state) ^ ftk_xxh3(data, bytes);
}

/* Data of this step that depend on all that this rank has received. */
static void fill(struct app *a)
{
    for (int i = 0; i < HEAVY; i++)
        a->heavy[i] = (unsigned char)(a->state >> (8 * (i % 8)));
    memcpy(a->light, a->heavy, LIGHT);
    a->heavy[0] = (unsigned char)a->step;
}

static void exchange(struct app *a)
{
    const char phase = a->phases[a->step / a->steps];
    MPI_Request req[2 * TEAM + 4];
    int k = 0, from = 0;
    for (int r = 0; r < n; r++) {
        if (r == me || group_of(phase, r) != group_of(phase, me))
            continue;
        MPI_Irecv(a->in[from++], HEAVY, MPI_BYTE, r, 1, a->comm, &req[k++]);
        MPI_Isend(a->heavy, HEAVY, MPI_BYTE, r, 1, a->comm, &req[k++]);
    }
    MPI_Irecv(a->next, LIGHT, MPI_BYTE, (me + n - 1) % n, 2, a->comm, &req[k++]);
    MPI_Isend(a->light, LIGHT, MPI_BYTE, (me + 1) % n, 2, a->comm, &req[k++]);
    if (me != 0)
        MPI_Isend(a->light, LIGHT, MPI_BYTE, 0, 3, a->comm, &req[k++]);
    for (int r = 1; me == 0 && r < n; r++)
        MPI_Recv(a->any[r], LIGHT, MPI_BYTE, MPI_ANY_SOURCE, 3, a->comm, MPI_STATUS_IGNORE);
    MPI_Waitall(k, req, MPI_STATUSES_IGNORE);
    for (int i = 0; i < from; i++)
        mix(a, a->in[i], HEAVY);
    mix(a, a->next, LIGHT);
    for (int r = 1; me == 0 && r < n; r++)
        a->sum += ftk_xxh3(a->any[r], LIGHT);
}

static void note_logged(ftkit_ctx *ft, const struct app *a)
{
    char path[4096];
    ftkit_info info = { .size = sizeof info };
    EQUAL(FTKIT_OK, ftkit_query(ft, &info));
    snprintf(path, sizeof path, "%s.logged.%d", a->out, me);
    FILE *f = fopen(path, "a");
    TRUE(f != NULL);
    TRUE(fprintf(f, "%d %llu\n", a->step, (unsigned long long)info.log_bytes) > 0);
    EQUAL(0, fclose(f));
}

static int loop(ftkit_ctx *ft, struct app *a)
{
    const struct timespec pause = { 0, a->pause * 1000000L };
    const int end = (int)strlen(a->phases) * a->steps;
    while (a->step < end) {
        note_logged(ft, a);
        int rc = ftkit_checkpoint(ft);
        if (rc < 0) {
            fprintf(stderr, "rank %d: %s: %s\n", me, ftkit_strerror(rc), ftkit_detail(ft));
            return rc;
        }
        (void)FTK_FAULT("app.step");
        fill(a);
        exchange(a);
        a->step++;
        (void)nanosleep(&pause, NULL);
    }
    return ftkit_finish(ft);
}

static int report(const struct app *a)
{
    uint64_t all[MOST];
    MPI_Gather(&a->state, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, a->comm);
    if (me != 0)
        return 0;
    FILE *f = fopen(a->out, "w");
    TRUE(f != NULL);
    TRUE(fprintf(f, "%d steps, %016llx\n", a->step,
             (unsigned long long)(a->sum + ftk_xxh3(all, (size_t)n * sizeof *all)))
         > 0);
    return fclose(f);
}

int main(int argc, char **argv)
{
    static struct app a;
    ftkit_ctx *ft;
    uint64_t set;
    a.out = argc > 2 ? argv[2] : "out";
    a.phases = argc > 3 ? argv[3] : "ab";
    a.steps = argc > 4 ? atoi(argv[4]) : 30;
    a.pause = argc > 5 ? atoi(argv[5]) : 1;
    MPI_Init(&argc, &argv);
    int rc = ftkit_open(MPI_COMM_WORLD, NULL, &ft);
    if (rc != FTKIT_OK) {
        fprintf(stderr, "ftkit_open: %s: %s\n", ftkit_strerror(rc), ftkit_detail(NULL));
        return 1;
    }
    EQUAL(FTKIT_OK, ftkit_bind_comm(ft, &a.comm));
    MPI_Comm_rank(a.comm, &me);
    MPI_Comm_size(a.comm, &n);
    TRUE(n % TEAM == 0 && n <= MOST);
    a.state = (uint64_t)me + 1;
    EQUAL(FTKIT_OK, ftkit_register_replicated(ft, "step", &a.step, 1, MPI_INT));
    EQUAL(FTKIT_OK, ftkit_register(ft, "state", &a.state, 1, MPI_UINT64_T));
    EQUAL(FTKIT_OK, ftkit_register(ft, "sum", &a.sum, 1, MPI_UINT64_T));
    rc = ftkit_recover(ft, &set);
    if (rc >= 0)
        rc = loop(ft, &a);
    if (rc < 0)
        fprintf(stderr, "rank %d: %s: %s\n", me, ftkit_strerror(rc), ftkit_detail(ft));
    rc = rc < 0 || report(&a) != 0;
    const int closed = ftkit_close(&ft);
    MPI_Finalize();
    return rc != 0 || closed < 0;
}
