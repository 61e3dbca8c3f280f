/* One rank sends the same to many: rank 0, the hub, sends its buffer of SIZE words 15 times to each
 * other rank in a step.  The others answer with a hash of all that they have received.
 *
 *   -m same     the buffer changes in each eighth step
 *   -m differ   it changes in each step, and its last word before each message
 *   -m graph    by one MPI_Neighbor_allgather of a type with gaps; it changes in each step
 *
 * The hub compares what its log holds (log_held) with the bytes that are different, after each step
 * but those of `differ`, and prints at its end "hub holds MOST bytes in COPIES copies".
 *
 * A step passes app.mid once, in the middle of its messages.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum variant { SAME, DIFFER, GRAPH };
static const char *const variants[] = { "same", "differ", "graph" };

enum {
    MESSAGES = 15, /* to each rank in a step */
    STEPS = 8      /* for which the buffer stays as it is */
};

static struct {
    enum variant is;
    uint64_t *state; /* [2] registered: hash of what was received; what was wrong */
    uint64_t *buf, *in;
    MPI_Comm graph;
    MPI_Datatype gaps; /* [size] words, with a word between two of them */
    bool apart;        /* lines are: the log has messages of two intervals */
    int content;       /* number of what the buffer has; 0: nothing yet */
    uint64_t set;
    int rollbacks;
    uint64_t copies; /* that the log may have, of this interval */
    uint64_t held;   /* the most so far */
} g;

static uint64_t info_of(const struct foreign *f, ftkit_info *info)
{
    *info = (ftkit_info){ .size = sizeof *info };
    return ftkit_query(f->ft, info) != FTKIT_OK;
}

static size_t room(const struct foreign *f)
{
    return 2 * (size_t)f->size;
}

static int prepare(struct foreign *f)
{
    const int is = foreign_variant(f, variants, sizeof variants / sizeof variants[0]);
    g.is = (enum variant)is;
    g.apart = getenv("FTKIT_CHECKPOINT_LINE") != NULL;
    g.buf = malloc(room(f) * sizeof *g.buf);
    g.in = calloc(room(f) * MESSAGES, sizeof *g.in);
    g.state = foreign_state(f, 2);
    return is < 0 || !g.buf || !g.in || !g.state;
}

/* A graph with MESSAGES edges from the hub to each other rank. */
static int connect_graph(struct foreign *f)
{
    const int others = f->nranks - 1, in = f->rank > 0 ? MESSAGES : 0;
    const int out = f->rank == 0 ? MESSAGES * others : 0;
    int *from = calloc((size_t)in + 1, sizeof *from), *to = calloc((size_t)out + 1, sizeof *to);
    int *weight = calloc((size_t)(in + out) + 1, sizeof *weight);
    int bad = !from || !to || !weight;
    for (int i = 0; !bad && i < out; i++)
        to[i] = 1 + i % others;
    bad = bad
          || MPI_Dist_graph_create_adjacent(
                 f->comm, in, from, weight, out, to, weight, MPI_INFO_NULL, 0, &g.graph)
                 != MPI_SUCCESS
          || MPI_Type_vector(f->size, 1, 2, MPI_UINT64_T, &g.gaps) != MPI_SUCCESS
          || MPI_Type_commit(&g.gaps) != MPI_SUCCESS;
    free(from);
    free(to);
    free(weight);
    return bad;
}

static int connect(struct foreign *f)
{
    g.graph = MPI_COMM_NULL;
    g.gaps = MPI_DATATYPE_NULL;
    return g.is == GRAPH ? connect_graph(f) : 0;
}

static void disconnect(void)
{
    if (g.graph != MPI_COMM_NULL)
        MPI_Comm_free(&g.graph);
    if (g.gaps != MPI_DATATYPE_NULL)
        MPI_Type_free(&g.gaps);
}

static void fill(const struct foreign *f, int number)
{
    const uint64_t first = foreign_mix((uint64_t)number, 1);
    for (size_t i = 0; i < room(f); i++)
        g.buf[i] = first * (2 * i + 1);
    g.content = number;
    g.copies++;
}

/* A set or a rollback has been since the last step: the log is empty. */
static void look_for_set(const struct foreign *f)
{
    ftkit_info info;
    g.state[1] += info_of(f, &info);
    if (g.set == info.committed && g.rollbacks == info.rollbacks)
        return;
    g.set = info.committed;
    g.rollbacks = info.rollbacks;
    g.copies = g.content > 0;
}

static void begin(const struct foreign *f)
{
    const bool often = g.is == DIFFER || g.is == GRAPH;
    const int content = 1 + (often ? f->step : f->step / STEPS);
    look_for_set(f);
    if (content != g.content)
        fill(f, content);
}

static void look(const struct foreign *f)
{
    ftkit_info info;
    g.state[1] += info_of(f, &info);
    const uint64_t bytes = (uint64_t)f->size * sizeof *g.buf;
    if (g.is != DIFFER && info.log_held > (g.copies + g.apart) * (bytes + bytes / 100) + 65536) {
        fprintf(stderr, "hub: step %d: %llu bytes are held in %llu copies of %llu\n", f->step,
            (unsigned long long)info.log_held, (unsigned long long)g.copies,
            (unsigned long long)bytes);
        g.state[1]++;
    }
    g.held = info.log_held > g.held ? info.log_held : g.held;
}

/* The messages of number k to all others.  Every second time they are under way together. */
static bool send_all(const struct foreign *f, int k)
{
    MPI_Request req[64];
    int n = 0;
    for (int r = 1; r < f->nranks && r <= 64; r++) {
        if (g.is == DIFFER) {
            g.buf[f->size - 1]++;
            g.copies++;
        }
        if (k % 2 == 0 && g.is != DIFFER)
            MPI_Isend(g.buf, f->size, MPI_UINT64_T, r, k, f->comm, &req[n++]);
        else if (MPI_Send(g.buf, f->size, MPI_UINT64_T, r, k, f->comm) != MPI_SUCCESS)
            return false;
    }
    return MPI_Waitall(n, req, MPI_STATUSES_IGNORE) == MPI_SUCCESS;
}

static bool exchange(const struct foreign *f)
{
    if (g.is == GRAPH) {
        (void)FTK_FAULT("app.mid");
        return MPI_Neighbor_allgather(g.buf, 1, g.gaps, g.in, f->size, MPI_UINT64_T, g.graph)
               == MPI_SUCCESS;
    }
    for (int k = 0; k < MESSAGES; k++) {
        if (k == MESSAGES / 2)
            (void)FTK_FAULT("app.mid");
        if (f->rank == 0 ? !send_all(f, k)
                         : MPI_Recv(g.in + (size_t)k * (size_t)f->size, f->size, MPI_UINT64_T, 0, k,
                               f->comm, MPI_STATUS_IGNORE)
                               != MPI_SUCCESS)
            return false;
    }
    return true;
}

static void hub(const struct foreign *f)
{
    begin(f);
    if (!exchange(f))
        return;
    for (int r = 1; r < f->nranks; r++) {
        uint64_t theirs = 0;
        if (MPI_Recv(&theirs, 1, MPI_UINT64_T, r, 99, f->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        *g.state = foreign_mix(theirs, *g.state);
    }
    look(f);
}

static void step(struct foreign *f)
{
    if (f->rank == 0) {
        hub(f);
        return;
    }
    if (!exchange(f))
        return;
    *g.state =
        XXH3_64bits_withSeed(g.in, (size_t)MESSAGES * (size_t)f->size * sizeof *g.in, *g.state);
    MPI_Send(g.state, 1, MPI_UINT64_T, 0, 99, f->comm);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t length)
{
    if (f->rank == 0)
        fprintf(stderr, "hub holds %llu bytes in %llu copies\n", (unsigned long long)g.held,
            (unsigned long long)g.copies);
    return foreign_counted(f, *g.state, g.state[1], hash, detail, length);
}

static void release(void)
{
    free(g.buf);
    free(g.in);
    free(g.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "hub", 24, 131072, prepare, connect, disconnect, step,
        verdict, release };
    return foreign_main(argc, argv, &app);
}
