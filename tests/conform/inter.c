/* ranks: 2 4 5
 * Intercommunicators (MPI 4.0, 7.6): how they are made, of the whole groups and of parts;
 * who is in them; messages go to and come from ranks of the remote group (7.6); merge
 * puts the group that says high behind the other (7.6.2); dup, split and create keep two
 * groups, and give MPI_COMM_NULL where one of them would be empty (7.4.2).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "intergroups.h"

#include <string.h>

#define FAILS(call) TRUE((call) != MPI_SUCCESS)

static MPI_Group world;

/* ---- who is in it
 * ---------------------------------------------------------------------*/

static void has_group(MPI_Group group, const int *list, int count)
{
    int size, at[MOST], ranks[MOST];
    OK(MPI_Group_size(group, &size));
    EQUAL(count, size);
    for (int i = 0; i < count; i++)
        at[i] = i;
    OK(MPI_Group_translate_ranks(group, count, at, world, ranks));
    for (int i = 0; i < count; i++)
        EQUAL(list[i], ranks[i]);
    OK(MPI_Group_free(&group));
}

/* One message to every rank of the remote group, and one from each. */
static void carries(MPI_Comm inter, const int *theirs, int ntheirs, int tag)
{
    int in[MOST];
    MPI_Request r[2 * MOST];
    MPI_Status s[2 * MOST];
    for (int i = 0; i < ntheirs; i++) {
        OK(MPI_Irecv(&in[i], 1, MPI_INT, i, tag, inter, &r[i]));
        OK(MPI_Isend(&me, 1, MPI_INT, i, tag, inter, &r[ntheirs + i]));
    }
    OK(MPI_Waitall(2 * ntheirs, r, s));
    for (int i = 0; i < ntheirs; i++) {
        EQUAL(theirs[i], in[i]);
        EQUAL(i, s[i].MPI_SOURCE);
        EQUAL(tag, s[i].MPI_TAG);
    }
}

static void has_members(MPI_Comm inter, const int *mine, int nmine, const int *theirs, int ntheirs)
{
    int flag = 0, size = -1, rank = -1;
    MPI_Group group;
    OK(MPI_Comm_test_inter(inter, &flag));
    TRUE(flag);
    OK(MPI_Comm_size(inter, &size));
    EQUAL(nmine, size);
    OK(MPI_Comm_remote_size(inter, &size));
    EQUAL(ntheirs, size);
    OK(MPI_Comm_rank(inter, &rank));
    EQUAL(me, mine[rank]);
    OK(MPI_Comm_group(inter, &group));
    has_group(group, mine, nmine);
    OK(MPI_Comm_remote_group(inter, &group));
    has_group(group, theirs, ntheirs);
    carries(inter, theirs, ntheirs, 5);
    OK(MPI_Barrier(inter));
}

static void compares(int wanted, MPI_Comm a, MPI_Comm b)
{
    int got = -1;
    OK(MPI_Comm_compare(a, b, &got));
    EQUAL(wanted, got);
    OK(MPI_Comm_compare(b, a, &got));
    EQUAL(wanted, got);
}

static void who(struct groups *g)
{
    int flag = 1;
    has_members(g->inter, g->mine, g->nmine, g->theirs, g->ntheirs);
    compares(MPI_IDENT, g->inter, g->inter);
    compares(MPI_UNEQUAL, g->inter, MPI_COMM_WORLD);
    OK(MPI_Comm_test_inter(g->local, &flag));
    EQUAL(0, flag);
}

/* ---- messages
 * -------------------------------------------------------------------------*/

static void check(const MPI_Status *s, int source, int tag, int items)
{
    int count = -1;
    EQUAL(source, s->MPI_SOURCE);
    EQUAL(tag, s->MPI_TAG);
    OK(MPI_Get_count(s, MPI_INT, &count));
    EQUAL(items, count);
}

/* Ranks of the two groups in pairs; the first of each exchange. */
static void pairs(struct groups *g)
{
    int out[2] = { me, 7 }, in[2] = { -1, -1 }, there = g->theirs[0];
    MPI_Status s;
    if (g->rank != 0)
        return;
    OK(MPI_Sendrecv(out, 2, MPI_INT, 0, 1, in, 2, MPI_INT, 0, 1, g->inter, &s));
    check(&s, 0, 1, 2);
    EQUAL(there, in[0]);
    in[0] = me;
    OK(MPI_Sendrecv_replace(in, 1, MPI_INT, 0, 2, 0, 2, g->inter, &s));
    check(&s, 0, 2, 1);
    EQUAL(there, in[0]);
    if (g->side[me] == 0) {
        OK(MPI_Send(out, 1, MPI_INT, 0, 3, g->inter));
        OK(MPI_Ssend(out, 2, MPI_INT, 0, 4, g->inter));
        return;
    }
    OK(MPI_Recv(in, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, g->inter, &s));
    check(&s, 0, 3, 1);
    OK(MPI_Recv(in, 2, MPI_INT, 0, 4, g->inter, &s));
    check(&s, 0, 4, 2);
}

/* Every rank of one group to the first of the other, which takes them as they come. */
static void any_source(struct groups *g)
{
    int seen[MOST] = { 0 }, in;
    MPI_Status s;
    OK(MPI_Send(&me, 1, MPI_INT, 0, 6, g->inter));
    for (int i = 0; i < g->ntheirs && g->rank == 0; i++) {
        OK(MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 6, g->inter, &s));
        EQUAL(g->theirs[s.MPI_SOURCE], in);
        EQUAL(1, ++seen[s.MPI_SOURCE]);
    }
}

static void probes(struct groups *g)
{
    int last = g->ntheirs - 1, in = -1, flag = 0;
    MPI_Message m;
    MPI_Status s;
    for (int tag = 7; tag <= 9 && g->rank == g->nmine - 1; tag++)
        OK(MPI_Send(&me, 1, MPI_INT, last, tag, g->inter));
    if (g->rank != g->nmine - 1)
        return;
    OK(MPI_Probe(last, 7, g->inter, &s));
    check(&s, last, 7, 1);
    while (!flag)
        OK(MPI_Iprobe(MPI_ANY_SOURCE, 8, g->inter, &flag, &s));
    check(&s, last, 8, 1);
    OK(MPI_Recv(&in, 1, MPI_INT, s.MPI_SOURCE, 8, g->inter, &s));
    EQUAL(g->theirs[last], in);
    OK(MPI_Mprobe(MPI_ANY_SOURCE, 9, g->inter, &m, &s));
    check(&s, last, 9, 1);
    OK(MPI_Mrecv(&in, 1, MPI_INT, &m, &s));
    check(&s, last, 9, 1);
    OK(MPI_Recv(&in, 1, MPI_INT, last, 7, g->inter, &s));
    EQUAL(g->theirs[last], in);
}

static void persistent(struct groups *g)
{
    int out, in;
    MPI_Request r[2];
    MPI_Status s[2];
    if (g->rank != 0)
        return;
    OK(MPI_Send_init(&out, 1, MPI_INT, 0, 10, g->inter, &r[0]));
    OK(MPI_Recv_init(&in, 1, MPI_INT, 0, 10, g->inter, &r[1]));
    for (int i = 0; i < 3; i++) {
        out = 100 * me + i;
        OK(MPI_Startall(2, r));
        OK(MPI_Waitall(2, r, s));
        EQUAL(100 * g->theirs[0] + i, in);
        EQUAL(0, s[1].MPI_SOURCE);
    }
    OK(MPI_Request_free(&r[0]));
    OK(MPI_Request_free(&r[1]));
}

static void messages(struct groups *g)
{
    MPI_Status s;
    int in = 3;
    pairs(g);
    OK(MPI_Barrier(g->inter)); /* a receive of any tag takes what comes next */
    any_source(g);
    probes(g);
    persistent(g);
    OK(MPI_Recv(&in, 1, MPI_INT, MPI_PROC_NULL, 0, g->inter, &s));
    check(&s, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    FAILS(MPI_Send(&me, 1, MPI_INT, g->ntheirs, 0, g->inter));
    FAILS(MPI_Recv(&in, 1, MPI_INT, g->ntheirs, 0, g->inter, &s));
}

/* ---- merge
 * ----------------------------------------------------------------------------*/

/* high[side]; the group that says it comes last. */
static void merged(struct groups *g, int high0, int high1)
{
    int flag = 1, rank, size, order[MOST];
    const int high[2] = { high0, high1 };
    MPI_Comm intra;
    OK(MPI_Intercomm_merge(g->inter, high[g->side[me]], &intra));
    OK(MPI_Comm_test_inter(intra, &flag));
    EQUAL(0, flag);
    OK(MPI_Comm_size(intra, &size));
    EQUAL(n, size);
    OK(MPI_Comm_rank(intra, &rank));
    OK(MPI_Allgather(&me, 1, MPI_INT, order, 1, MPI_INT, intra));
    EQUAL(me, order[rank]);
    /* each group as a whole and in its order; which is the first, the flags say if they
     * differ */
    int behind = high0 != high1 ? high[g->side[me]] : order[0] != g->mine[0];
    EQUAL((behind ? g->ntheirs : 0) + g->rank, rank);
    OK(MPI_Comm_free(&intra));
}

static void merge(struct groups *g)
{
    merged(g, 0, 1);
    merged(g, 1, 0);
    merged(g, 0, 0);
    merged(g, 1, 1);
}

/* ---- duplicates
 * -----------------------------------------------------------------------*/

static int errors;

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    errors++;
}

/* A message on each, received the other way round. */
static void are_apart(struct groups *g, MPI_Comm a, MPI_Comm b)
{
    int in[2] = { -1, -1 }, out[2] = { 2 * me, 2 * me + 1 };
    MPI_Request r[4];
    if (g->rank != 0)
        return;
    OK(MPI_Isend(&out[0], 1, MPI_INT, 0, 3, a, &r[0]));
    OK(MPI_Isend(&out[1], 1, MPI_INT, 0, 3, b, &r[1]));
    OK(MPI_Irecv(&in[1], 1, MPI_INT, 0, 3, b, &r[2]));
    OK(MPI_Irecv(&in[0], 1, MPI_INT, 0, 3, a, &r[3]));
    OK(MPI_Waitall(4, r, MPI_STATUSES_IGNORE));
    EQUAL(2 * g->theirs[0], in[0]);
    EQUAL(2 * g->theirs[0] + 1, in[1]);
}

static void is_dup(struct groups *g, MPI_Comm *dup)
{
    has_members(*dup, g->mine, g->nmine, g->theirs, g->ntheirs);
    compares(MPI_CONGRUENT, g->inter, *dup);
    are_apart(g, g->inter, *dup);
    OK(MPI_Comm_free(dup));
    TRUE(*dup == MPI_COMM_NULL);
}

static void dup(struct groups *g)
{
    int key, flag = 0, length = 0;
    char name[MPI_MAX_OBJECT_NAME] = "";
    static int value;
    int *got = NULL;
    MPI_Comm d = MPI_COMM_NULL;
    MPI_Request r;
    MPI_Errhandler handler;
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_set_attr(g->inter, key, &value));
    OK(MPI_Comm_set_name(g->inter, "between"));
    OK(MPI_Comm_get_name(g->inter, name, &length));
    TRUE(strcmp(name, "between") == 0);
    OK(MPI_Comm_dup(g->inter, &d));
    OK(MPI_Comm_get_attr(d, key, &got, &flag));
    TRUE(flag && got == &value);
    OK(MPI_Comm_free_keyval(&key));
    is_dup(g, &d);
    OK(MPI_Comm_dup_with_info(g->inter, MPI_INFO_NULL, &d));
    is_dup(g, &d);
    OK(MPI_Comm_idup(g->inter, &d, &r));
    carries(g->inter, g->theirs, g->ntheirs, 11);
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    is_dup(g, &d);
    OK(MPI_Comm_create_errhandler(on_error, &handler));
    OK(MPI_Comm_set_errhandler(g->inter, handler));
    OK(MPI_Comm_dup(g->inter, &d));
    errors = 0;
    FAILS(MPI_Send(&me, 1, MPI_INT, g->ntheirs, 0, d));
    EQUAL(1, errors);
    OK(MPI_Comm_set_errhandler(g->inter, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(d, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&handler));
    is_dup(g, &d);
}

/* ---- parts
 * ----------------------------------------------------------------------------*/

/* Those of a list whose rank has the parity, the last first. */
static int half(const int *list, int count, int parity, int *part)
{
    int k = 0;
    for (int i = count - 1; i >= 0; i--)
        if (i % 2 == parity)
            part[k++] = list[i];
    return k;
}

static void split(struct groups *g)
{
    int mine[MOST], theirs[MOST];
    MPI_Comm part;
    int nmine = half(g->mine, g->nmine, g->rank % 2, mine);
    int ntheirs = half(g->theirs, g->ntheirs, g->rank % 2, theirs);
    OK(MPI_Comm_split(g->inter, g->rank % 2, -g->rank, &part));
    if (ntheirs == 0) { /* nobody there has the color */
        TRUE(part == MPI_COMM_NULL);
    } else {
        has_members(part, mine, nmine, theirs, ntheirs);
        OK(MPI_Comm_free(&part));
    }
    OK(MPI_Comm_split(g->inter, g->side[me], 0, &part)); /* each color is in one group only */
    TRUE(part == MPI_COMM_NULL);
    OK(MPI_Comm_split(g->inter, g->rank == 0 ? 3 : MPI_UNDEFINED, 0, &part));
    if (g->rank == 0) {
        has_members(part, g->mine, 1, g->theirs, 1);
        OK(MPI_Comm_free(&part));
    }
    TRUE(part == MPI_COMM_NULL);
}

/* Open MPI 5.0.7 leaves the remote group in the order of the old one. */
static void create(struct groups *g)
{
    int down = over_log(), count = g->nmine > 1 ? 2 : 1;
    int ends[2] = { down ? g->nmine - 1 : 0, down ? 0 : g->nmine - 1 };
    int mine[2] = { g->mine[ends[0]], g->mine[ends[1]] };
    int theirs[2] = { g->theirs[down ? g->ntheirs - 1 : 0], g->theirs[down ? 0 : g->ntheirs - 1] };
    MPI_Group whole, part, none;
    MPI_Comm made;
    OK(MPI_Comm_group(g->inter, &whole));
    OK(MPI_Group_incl(whole, count, ends, &part));
    OK(MPI_Group_incl(whole, 0, ends, &none));
    OK(MPI_Comm_create(g->inter, part, &made));
    if (g->rank == 0 || g->rank == g->nmine - 1) {
        has_members(made, mine, count, theirs, g->ntheirs > 1 ? 2 : 1);
        OK(MPI_Comm_free(&made));
    }
    TRUE(made == MPI_COMM_NULL);
    OK(MPI_Comm_create(g->inter, g->side[me] == 0 ? whole : none, &made));
    TRUE(made == MPI_COMM_NULL);
    OK(MPI_Group_free(&none));
    OK(MPI_Group_free(&part));
    OK(MPI_Group_free(&whole));
}

/* ---- the groups are of one process, or not apart
 * ----------------------------------------*/

static void singles(void)
{
    MPI_Comm inter, intra;
    int other = 1 - me, sum = 0;
    if (me > 1)
        return;
    OK(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, other, 3, &inter));
    has_members(inter, &me, 1, &other, 1);
    OK(MPI_Intercomm_merge(inter, me == 0, &intra));
    OK(MPI_Allreduce(&other, &sum, 1, MPI_INT, MPI_SUM, intra));
    EQUAL(1, sum);
    OK(MPI_Comm_rank(intra, &sum));
    EQUAL(other, sum);
    OK(MPI_Comm_free(&intra));
    OK(MPI_Comm_free(&inter));
}

static void mistakes(struct groups *g)
{
    int size, dims[1] = { 1 }, periods[1] = { 0 };
    MPI_Comm made;
    MPI_Group group;
    if (over_log()) { /* Open MPI 5.0.7 has 0 for an answer */
        FAILS(MPI_Comm_remote_size(g->local, &size));
        FAILS(MPI_Comm_remote_group(g->local, &group));
    }
    FAILS(MPI_Intercomm_merge(g->local, 0, &made));
    FAILS(MPI_Cart_create(g->inter, 1, dims, periods, 0, &made));
    FAILS(MPI_Intercomm_create(g->inter, 0, MPI_COMM_WORLD, g->theirs[0], 3, &made));
    FAILS(MPI_Intercomm_create(g->local, g->nmine, MPI_COMM_WORLD, 0, 3, &made));
}

static void body(void)
{
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    groups_each(who);
    groups_each(messages);
    groups_each(merge);
    groups_each(dup);
    groups_each(split);
    groups_each(create);
    groups_each(mistakes);
    singles();
    OK(MPI_Group_free(&world));
}

int main(int argc, char **argv)
{
    return conform(argc, argv, body);
}
