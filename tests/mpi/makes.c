/* Communicators that are made in the loop and freed in the same step, by every call that
 * makes one.  A failure may come at any of them: the call fails in the ranks that fall back,
 * what it was to make is MPI_COMM_NULL, and the program, which looks at no code, goes on with
 * that until ftkit_checkpoint().
 *
 * A step passes app.mid once before each call.  A handle that a failed call has left is told
 * on stderr: "makes: rank R: CALL has left a handle".
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

/* MPI_UNWEIGHTED, which compilers take for the address of an array without elements */
static int *volatile unweighted;

static struct {
    uint64_t *state; /* registered */
    int failed;      /* calls, of this process */
} g;

static int prepare(struct foreign *f)
{
    unweighted = MPI_UNWEIGHTED;
    g.state = foreign_state(f, 1);
    return !g.state;
}

typedef int make_fn(const struct foreign *f, MPI_Comm *made);

static int duplicate(const struct foreign *f, MPI_Comm *made)
{
    return MPI_Comm_dup(f->comm, made);
}

static int dup_with_info(const struct foreign *f, MPI_Comm *made)
{
    return MPI_Comm_dup_with_info(f->comm, MPI_INFO_NULL, made);
}

static int idup(const struct foreign *f, MPI_Comm *made)
{
    MPI_Request q;
    int rc = MPI_Comm_idup(f->comm, made, &q);
    int waited = MPI_Wait(&q, MPI_STATUS_IGNORE);
    return rc == MPI_SUCCESS ? waited : rc;
}

static int split(const struct foreign *f, MPI_Comm *made)
{
    return MPI_Comm_split(f->comm, (f->rank + f->step) % 2, 0, made);
}

static int split_type(const struct foreign *f, MPI_Comm *made)
{
    return MPI_Comm_split_type(f->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, made);
}

static int create(const struct foreign *f, MPI_Comm *made)
{
    MPI_Group group;
    MPI_Comm_group(f->comm, &group);
    int rc = MPI_Comm_create(f->comm, group, made);
    MPI_Group_free(&group);
    return rc;
}

static int create_group(const struct foreign *f, MPI_Comm *made)
{
    MPI_Group group;
    MPI_Comm_group(f->comm, &group);
    int rc = MPI_Comm_create_group(f->comm, group, 3, made);
    MPI_Group_free(&group);
    return rc;
}

static int cart_create(const struct foreign *f, MPI_Comm *made)
{
    const int periodic = 1;
    return MPI_Cart_create(f->comm, 1, &f->nranks, &periodic, 0, made);
}

static int cart_sub(const struct foreign *f, MPI_Comm *made)
{
    const int dims[2] = { 1, f->nranks }, periods[2] = { 0, 1 }, remain[2] = { 0, 1 };
    MPI_Comm grid;
    MPI_Cart_create(f->comm, 2, dims, periods, 0, &grid);
    int rc = MPI_Cart_sub(grid, remain, made);
    MPI_Comm_free(&grid);
    return rc;
}

static int graph_create(const struct foreign *f, MPI_Comm *made)
{
    int index[64], edges[64];
    for (int r = 0; r < f->nranks; r++) {
        index[r] = r + 1;
        edges[r] = r ^ 1;
    }
    return MPI_Graph_create(f->comm, f->nranks, index, edges, 0, made);
}

static int adjacent(const struct foreign *f, MPI_Comm *made)
{
    int to = (f->rank + 1) % f->nranks, from = (f->rank + f->nranks - 1) % f->nranks;
    return MPI_Dist_graph_create_adjacent(
        f->comm, 1, &from, unweighted, 1, &to, unweighted, MPI_INFO_NULL, 0, made);
}

static int dist_graph(const struct foreign *f, MPI_Comm *made)
{
    int to = (f->rank + 1) % f->nranks, degree = 1;
    return MPI_Dist_graph_create(
        f->comm, 1, &f->rank, &degree, &to, unweighted, MPI_INFO_NULL, 0, made);
}

static const struct {
    const char *name;
    make_fn *make;
} calls[] = { { "MPI_Comm_dup", duplicate }, { "MPI_Comm_dup_with_info", dup_with_info },
    { "MPI_Comm_idup", idup }, { "MPI_Comm_split", split }, { "MPI_Comm_split_type", split_type },
    { "MPI_Comm_create", create }, { "MPI_Comm_create_group", create_group },
    { "MPI_Cart_create", cart_create }, { "MPI_Cart_sub", cart_sub },
    { "MPI_Graph_create", graph_create }, { "MPI_Dist_graph_create_adjacent", adjacent },
    { "MPI_Dist_graph_create", dist_graph } };
enum { CALLS = sizeof calls / sizeof *calls };

static void step(struct foreign *f)
{
    for (int i = 0; i < CALLS; i++) {
        MPI_Comm made = f->comm; /* not what a failed call leaves */
        uint64_t sum = 0;
        int size = 0;
        (void)FTK_FAULT("app.mid");
        int rc = calls[i].make(f, &made);
        if (rc != MPI_SUCCESS && made != MPI_COMM_NULL) {
            fprintf(stderr, "makes: rank %d: %s has left a handle\n", f->rank, calls[i].name);
            made = MPI_COMM_NULL;
        }
        g.failed += rc != MPI_SUCCESS;
        MPI_Allreduce(g.state, &sum, 1, MPI_UINT64_T, MPI_SUM, made);
        MPI_Comm_size(made, &size);
        MPI_Comm_free(&made);
        *g.state = foreign_mix(*g.state + (uint64_t)size, sum);
    }
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    *hash = foreign_total(f, foreign_mix(*g.state, (uint64_t)f->rank));
    fprintf(stderr, "makes: rank %d: %d calls have failed\n", f->rank, g.failed);
    snprintf(detail, room, "%d calls", (int)CALLS);
    return true;
}

static void release(void)
{
    free(g.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "makes", 30, 1, prepare, NULL, NULL, step, verdict,
        release };
    return foreign_main(argc, argv, &app);
}
