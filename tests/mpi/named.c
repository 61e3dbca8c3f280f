/* Each step makes a communicator and uses it before it looks whether there is one, as programs
 * do: -m name, handler, attribute or pack; or looks for a message before it is received, and at
 * its length whether the probe has succeeded or not: -m probe or mprobe; or asks a communicator how
 * many neighbours there are, for a loop over them: -m counts.  With -m fatal it has an
 * error handler that ends the job: what ftkit repairs is no error.
 *
 * MPI_COMM_SELF has an attribute before ftkit_open().  No call of this program copies it, so its
 * copy function is never called, also in a repair.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

static struct {
    uint64_t *state; /* [2] registered: hash of the sums, wrong ones */
    int key;
    uint64_t garbage; /* lengths that no message has, such counts, and copies of the attribute, in
                         this process */
} g;

static int copied(MPI_Comm from, int key, void *extra, void *in, void *out, int *flag)
{
    (void)from;
    (void)key;
    (void)extra;
    (void)in;
    (void)out;
    *flag = 0;
    g.garbage++;
    return MPI_SUCCESS;
}

static int mark_self(void)
{
    int of_self;
    return MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, &of_self, NULL) != MPI_SUCCESS
           || MPI_Comm_set_attr(MPI_COMM_SELF, of_self, &g) != MPI_SUCCESS
           || MPI_Comm_free_keyval(&of_self) != MPI_SUCCESS;
}

static int prepare(struct foreign *f)
{
    g.state = calloc(2, sizeof *g.state);
    if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &g.key, NULL)
        != MPI_SUCCESS)
        return 1;
    return !g.state || ftkit_register(f->ft, "state", g.state, 2, MPI_UINT64_T) != FTKIT_OK;
}

static int set_up(struct foreign *f)
{
    if (strcmp(f->variant, "fatal") == 0)
        return MPI_Comm_set_errhandler(f->comm, MPI_ERRORS_ARE_FATAL) != MPI_SUCCESS;
    return 0;
}

static void use(const struct foreign *f, MPI_Comm made)
{
    char packed[64];
    int at = 0;
    if (strcmp(f->variant, "name") == 0)
        (void)MPI_Comm_set_name(made, "mine");
    else if (strcmp(f->variant, "handler") == 0)
        (void)MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    else if (strcmp(f->variant, "attribute") == 0)
        (void)MPI_Comm_set_attr(made, g.key, &g);
    else if (strcmp(f->variant, "pack") == 0)
        (void)MPI_Pack(&f->step, 1, MPI_INT, packed, sizeof packed, &at, made);
}

static void look(const struct foreign *f)
{
    int to = (f->rank + 1) % f->nranks, from = (f->rank + f->nranks - 1) % f->nranks;
    int words = 0, in = 0;
    MPI_Message m = MPI_MESSAGE_NULL;
    MPI_Status st;
    memset(&st, 0x5a, sizeof st);
    MPI_Send(&f->step, 1, MPI_INT, to, 4, f->comm);
    if (f->variant[0] == 'm')
        MPI_Mprobe(from, 4, f->comm, &m, &st);
    else
        MPI_Probe(from, 4, f->comm, &st);
    MPI_Get_count(&st, MPI_INT, &words);
    g.garbage += words != 0 && words != 1;
    if (f->variant[0] != 'm')
        MPI_Recv(&in, 1, MPI_INT, from, 4, f->comm, MPI_STATUS_IGNORE);
    else if (m != MPI_MESSAGE_NULL)
        MPI_Mrecv(&in, 1, MPI_INT, &m, MPI_STATUS_IGNORE);
}

static void none_or(int want, int count)
{
    g.garbage += count != 0 && count != want;
}

static void ask(const struct foreign *f)
{
    enum { UNSET = 1 << 30 };
    int n = f->nranks, one = 1, dims = UNSET, nodes = UNSET, edges = UNSET, near = UNSET;
    int in = UNSET, out = UNSET, weighted, remote = UNSET, next = (f->rank + 1) % n;
    int before = (f->rank + n - 1) % n, index[64], edge[64];
    MPI_Comm cart = MPI_COMM_NULL, graph = cart, dist = cart, half = cart, inter = cart;
    for (int i = 0; i < n; i++) {
        index[i] = i + 1;
        edge[i] = (i + 1) % n;
    }
    MPI_Cart_create(f->comm, 1, &n, &one, 0, &cart);
    MPI_Graph_create(f->comm, n, index, edge, 0, &graph);
    MPI_Dist_graph_create_adjacent(
        f->comm, 1, &before, &one, 1, &next, &one, MPI_INFO_NULL, 0, &dist);
    MPI_Comm_split(f->comm, f->rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, f->comm, 1 - f->rank % 2, 5, &inter);
    MPI_Cartdim_get(cart, &dims);
    MPI_Graphdims_get(graph, &nodes, &edges);
    MPI_Graph_neighbors_count(graph, f->rank, &near);
    MPI_Dist_graph_neighbors_count(dist, &in, &out, &weighted);
    MPI_Comm_remote_size(inter, &remote);
    none_or(1, dims);
    none_or(n, nodes);
    none_or(n, edges);
    none_or(1, near);
    none_or(1, in);
    none_or(1, out);
    none_or((n + f->rank % 2) / 2, remote);
    for (MPI_Comm *c[] = { &cart, &graph, &dist, &half, &inter }, **p = c; p < c + 5; p++)
        if (**p != MPI_COMM_NULL)
            MPI_Comm_free(*p);
}

static void step(struct foreign *f)
{
    MPI_Comm made = MPI_COMM_NULL;
    int in = f->rank + f->step, sum = 0;
    (void)FTK_FAULT("app.mid");
    if (strstr(f->variant, "probe"))
        look(f);
    if (strcmp(f->variant, "counts") == 0)
        ask(f);
    MPI_Comm_dup(f->comm, &made);
    use(f, made);
    if (MPI_Allreduce(&in, &sum, 1, MPI_INT, MPI_SUM, made) == MPI_SUCCESS)
        g.state[1] += sum != f->nranks * f->step + f->nranks * (f->nranks - 1) / 2;
    if (made != MPI_COMM_NULL)
        MPI_Comm_free(&made);
    g.state[0] = foreign_mix(g.state[0], (uint64_t)sum);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    return foreign_counted(f, g.state[0], g.state[1] + g.garbage, hash, detail, room);
}

static void release(void)
{
    MPI_Comm_free_keyval(&g.key);
    free(g.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "named", 30, 1, prepare, set_up, NULL, step, verdict,
        release };
    MPI_Init(&argc, &argv);
    if (mark_self())
        MPI_Abort(MPI_COMM_WORLD, 1);
    return foreign_main(argc, argv, &app);
}
