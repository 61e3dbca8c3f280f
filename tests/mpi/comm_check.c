/* Communicators, groups and topologies: an MPI program that knows what it should get.
 *
 *   comm_check [overlap]
 *
 * Up to 64 ranks.  Each call's outcome is compared with what the rank computes by
 * itself; what a communicator is good for is tried with messages.  With overlap, several
 * communicators are in the making at once, which Open MPI 5.0.7 itself gets wrong. Prints
 * "OK <checks>" on rank 0, or the first mismatch, and exits with 1.
 *
 * When FTKIT_LOG_ENABLED is "true" all of it goes through the message log of ftkit.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "overlog.h"

#define MOST 64 /* ranks */

static MPI_Group world;
/* MPI_UNWEIGHTED, which compilers take for the address of an array without elements */
static int *volatile unweighted;

#define FAILS(call) TRUE((call) != MPI_SUCCESS)

/* ---- what every communicator has to do ----------------------------------------------- */

/* Has the world ranks of the list, in that order, and carries messages between them. */
static void has_members(MPI_Comm comm, const int *list, int count)
{
    int size, rank, at[MOST], ranks[MOST], flag = 1;
    MPI_Group group;
    OK(MPI_Comm_size(comm, &size));
    EQUAL(count, size);
    OK(MPI_Comm_rank(comm, &rank));
    EQUAL(me, list[rank]);
    OK(MPI_Comm_test_inter(comm, &flag));
    EQUAL(0, flag);
    OK(MPI_Comm_group(comm, &group));
    for (int i = 0; i < count; i++)
        at[i] = i;
    OK(MPI_Group_translate_ranks(group, count, at, world, ranks));
    for (int i = 0; i < count; i++)
        EQUAL(list[i], ranks[i]);
    OK(MPI_Group_rank(group, &flag));
    EQUAL(rank, flag);
    OK(MPI_Group_free(&group));
    for (int d = 0; d < count; d++) {
        int to = (rank + d) % count, from = (rank + count - d) % count, got = -1;
        MPI_Status s;
        OK(MPI_Sendrecv(&me, 1, MPI_INT, to, d, &got, 1, MPI_INT, from, d, comm, &s));
        EQUAL(list[from], got);
        EQUAL(from, s.MPI_SOURCE);
        EQUAL(d, s.MPI_TAG);
    }
}

static void is_null(MPI_Comm comm)
{
    TRUE(comm == MPI_COMM_NULL);
}

static void frees(MPI_Comm *comm)
{
    OK(MPI_Comm_free(comm));
    is_null(*comm);
}

static void compares(int wanted, MPI_Comm a, MPI_Comm b)
{
    int got = -1;
    OK(MPI_Comm_compare(a, b, &got));
    EQUAL(wanted, got);
    OK(MPI_Comm_compare(b, a, &got));
    EQUAL(wanted, got);
}

/* 0, 1 ... */
static const int *in_order(void)
{
    static int list[MOST];
    for (int i = 0; i < MOST; i++)
        list[i] = i;
    return list;
}

/* Two messages on two communicators of the same ranks with the same tag, received the
 * other way round. */
static void are_apart(MPI_Comm a, MPI_Comm b)
{
    int size, rank, sent[2] = { 2 * me, 2 * me + 1 }, got[2] = { -1, -1 };
    MPI_Request req[4];
    OK(MPI_Comm_size(a, &size));
    OK(MPI_Comm_rank(a, &rank));
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    OK(MPI_Isend(&sent[0], 1, MPI_INT, to, 7, a, &req[0]));
    OK(MPI_Isend(&sent[1], 1, MPI_INT, to, 7, b, &req[1]));
    OK(MPI_Irecv(&got[1], 1, MPI_INT, from, 7, b, &req[2]));
    OK(MPI_Irecv(&got[0], 1, MPI_INT, from, 7, a, &req[3]));
    for (int i = 3; i >= 0; i--)
        OK(MPI_Wait(&req[i], MPI_STATUS_IGNORE));
    EQUAL(0, got[0] % 2);
    EQUAL(got[0] + 1, got[1]);
}

/* ---- duplicates ---------------------------------------------------------------------- */

static int copies, deletes, errors;

static int on_copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm;
    (void)key;
    (void)extra;
    copies++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int on_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    deletes++;
    return MPI_SUCCESS;
}

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    errors++;
}

static void check_world(void)
{
    int size = -1;
    has_members(MPI_COMM_WORLD, in_order(), n);
    compares(MPI_IDENT, MPI_COMM_WORLD, MPI_COMM_WORLD);
    compares(n > 1 ? MPI_UNEQUAL : MPI_CONGRUENT, MPI_COMM_WORLD, MPI_COMM_SELF);
    OK(MPI_Topo_test(MPI_COMM_WORLD, &size));
    EQUAL(MPI_UNDEFINED, size);
}

static void check_attributes(MPI_Comm comm)
{
    static char value[4];
    char *got = NULL;
    int key, other, flag = 0;
    MPI_Comm dup, part;
    OK(MPI_Comm_create_keyval(on_copy, on_delete, &key, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &other, NULL));
    OK(MPI_Comm_set_attr(comm, key, value));
    OK(MPI_Comm_set_attr(comm, other, value));
    copies = deletes = 0;
    OK(MPI_Comm_dup(comm, &dup));
    EQUAL(1, copies);
    OK(MPI_Comm_get_attr(dup, key, &got, &flag));
    TRUE(flag && got == value + 1);
    OK(MPI_Comm_get_attr(dup, other, &got, &flag));
    EQUAL(0, flag);
    OK(MPI_Comm_split(comm, 0, 0, &part));
    OK(MPI_Comm_get_attr(part, key, &got, &flag));
    EQUAL(0, flag);
    EQUAL(1, copies);
    frees(&part);
    EQUAL(0, deletes);
    frees(&dup);
    EQUAL(1, deletes);
    OK(MPI_Comm_delete_attr(comm, key));
    OK(MPI_Comm_delete_attr(comm, other));
    EQUAL(3, deletes);
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Comm_free_keyval(&other));
}

/* The handler of the parent is the handler of the child. */
static void check_handlers(MPI_Comm comm)
{
    MPI_Errhandler counting;
    MPI_Comm dup, part;
    int out[2] = { 0, 0 };
    OK(MPI_Comm_create_errhandler(on_error, &counting));
    OK(MPI_Comm_set_errhandler(comm, counting));
    OK(MPI_Comm_dup(comm, &dup));
    OK(MPI_Comm_split(comm, me % 2, 0, &part));
    errors = 0;
    FAILS(MPI_Cartdim_get(comm, out));
    FAILS(MPI_Cartdim_get(dup, out));
    FAILS(MPI_Graphdims_get(part, out, out + 1));
    EQUAL(3, errors);
    frees(&dup);
    frees(&part);
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&counting));
}

static void check_dup(void)
{
    MPI_Comm a, b, c;
    MPI_Info info;
    char name[MPI_MAX_OBJECT_NAME] = "";
    int bytes = 0;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &a));
    OK(MPI_Comm_dup(a, &b));
    OK(MPI_Info_create(&info));
    OK(MPI_Comm_dup_with_info(b, info, &c));
    OK(MPI_Info_free(&info));
    has_members(a, in_order(), n);
    has_members(c, in_order(), n);
    compares(MPI_CONGRUENT, a, MPI_COMM_WORLD);
    compares(MPI_CONGRUENT, a, b);
    compares(MPI_IDENT, b, b);
    are_apart(a, MPI_COMM_WORLD);
    are_apart(b, c);
    OK(MPI_Comm_set_name(b, "a name"));
    OK(MPI_Comm_get_name(b, name, &bytes));
    TRUE(strcmp(name, "a name") == 0);
    check_attributes(b);
    check_handlers(b);
    frees(&b);
    has_members(c, in_order(), n);
    frees(&a);
    frees(&c);
}

/* Messages go on while one is under way; who waits first differs. */
static void check_idup(void)
{
    MPI_Comm a = MPI_COMM_NULL, b = MPI_COMM_NULL;
    MPI_Request req;
    OK(MPI_Comm_idup(MPI_COMM_WORLD, &a, &req));
    has_members(MPI_COMM_WORLD, in_order(), n);
    OK(MPI_Wait(&req, MPI_STATUS_IGNORE));
    TRUE(req == MPI_REQUEST_NULL);
    has_members(a, in_order(), n);
    are_apart(a, MPI_COMM_WORLD);
    OK(MPI_Comm_idup_with_info(a, MPI_INFO_NULL, &b, &req));
    OK(MPI_Wait(&req, MPI_STATUS_IGNORE));
    are_apart(a, b);
    compares(MPI_CONGRUENT, a, b);
    frees(&a);
    has_members(b, in_order(), n);
    frees(&b);
}

/* Several under way, others made in between, and complete in another order. */
static void check_overlap(void)
{
    MPI_Comm a, b = MPI_COMM_NULL, c = MPI_COMM_NULL, part;
    MPI_Request req[2];
    int list[MOST], count = 0;
    for (int i = me % 2; i < n; i += 2)
        list[count++] = i;
    OK(MPI_Comm_split(MPI_COMM_WORLD, me % 2, 0, &a));
    OK(MPI_Comm_idup(MPI_COMM_WORLD, &b, &req[0]));
    if (me % 2 == 0)
        OK(MPI_Comm_idup_with_info(a, MPI_INFO_NULL, &c, &req[1]));
    OK(MPI_Comm_split(a, 0, -me, &part));
    if (me % 2 == 0)
        OK(MPI_Wait(&req[1], MPI_STATUS_IGNORE));
    frees(&part);
    OK(MPI_Wait(&req[0], MPI_STATUS_IGNORE));
    TRUE(req[0] == MPI_REQUEST_NULL);
    has_members(b, in_order(), n);
    are_apart(b, MPI_COMM_WORLD);
    if (me % 2 == 0) {
        has_members(c, list, count);
        are_apart(c, a);
        frees(&c);
    }
    frees(&a);
    frees(&b);
}

/* ---- parts --------------------------------------------------------------------------- */

/* Who is in the part of a split of the world, by brute force. */
static int expected(int color, const int *colors, const int *keys, int *list)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        if (colors[i] == color)
            list[count++] = i;
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && keys[list[j]] < keys[list[j - 1]]; j--) {
            int t = list[j];
            list[j] = list[j - 1];
            list[j - 1] = t;
        }
    return count;
}

static void check_split(void)
{
    int colors[MOST], keys[MOST], list[MOST];
    for (int kind = 0; kind < 12; kind++) {
        MPI_Comm part;
        for (int i = 0; i < n; i++) {
            colors[i] = kind % 4 == 0 ? 0 : kind % 4 == 3 ? i : i % (kind % 4 + 1);
            if (kind >= 6 && i % 3 == 1)
                colors[i] = MPI_UNDEFINED;
            keys[i] = kind % 3 == 0 ? 5 : kind % 3 == 1 ? -i : (i * 7) % 3;
        }
        OK(MPI_Comm_split(MPI_COMM_WORLD, colors[me], keys[me], &part));
        if (colors[me] == MPI_UNDEFINED) {
            is_null(part);
            continue;
        }
        int count = expected(colors[me], colors, keys, list);
        has_members(part, list, count);
        frees(&part);
    }
}

/* Parts of parts, with messages on all levels. */
static void check_nested(void)
{
    MPI_Comm level[4];
    int list[MOST], count = n;
    level[0] = MPI_COMM_WORLD;
    for (int i = 0; i < n; i++)
        list[i] = i;
    for (int l = 1; l < 4; l++) {
        int rank, left = 0, above[MOST], nabove = count;
        memcpy(above, list, sizeof above);
        OK(MPI_Comm_rank(level[l - 1], &rank));
        OK(MPI_Comm_split(level[l - 1], rank >= count / 2, -rank, &level[l]));
        int below = rank >= count / 2, next[MOST];
        for (int i = count - 1; i >= 0; i--)
            if ((i >= count / 2) == below)
                next[left++] = list[i];
        count = left;
        memcpy(list, next, sizeof list);
        has_members(level[l], list, count);
        has_members(level[l - 1], above, nabove);
    }
    compares(count < n ? MPI_UNEQUAL : MPI_CONGRUENT, level[3], MPI_COMM_WORLD);
    for (int l = 1; l < 4; l++)
        frees(&level[l]);
}

static void check_split_type(void)
{
    MPI_Comm part;
    int size, rank, got, before = -1;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_UNDEFINED, 0, MPI_INFO_NULL, &part));
    is_null(part);
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -me, MPI_INFO_NULL, &part));
    OK(MPI_Comm_size(part, &size));
    OK(MPI_Comm_rank(part, &rank));
    TRUE(rank < size && size <= n);
    for (int i = 0; i < size; i++) { /* which nodes there are is not ours to know */
        MPI_Request req;
        OK(MPI_Isend(&me, 1, MPI_INT, i, 1, part, &req));
        OK(MPI_Wait(&req, MPI_STATUS_IGNORE));
    }
    for (int i = size - 1; i >= 0; i--) {
        MPI_Request req;
        OK(MPI_Irecv(&got, 1, MPI_INT, i, 1, part, &req));
        OK(MPI_Wait(&req, MPI_STATUS_IGNORE));
        TRUE(got > before && got < n);
        before = got;
        if (i == rank)
            EQUAL(me, got);
    }
    frees(&part);
}

/* ---- groups -------------------------------------------------------------------------- */

static int in_list(const int *list, int count)
{
    for (int i = 0; i < count; i++)
        if (list[i] == me)
            return 1;
    return 0;
}

static void check_create(void)
{
    int list[MOST], count = 0;
    MPI_Group group, none;
    MPI_Comm comm;
    for (int i = n - 1; i >= 0; i--)
        if (i % 3 != 1)
            list[count++] = i;
    OK(MPI_Group_incl(world, count, list, &group));
    OK(MPI_Comm_create(MPI_COMM_WORLD, group, &comm));
    if (in_list(list, count)) {
        has_members(comm, list, count);
        compares(count == n && n > 1 ? MPI_SIMILAR
                 : count == n        ? MPI_CONGRUENT
                                     : MPI_UNEQUAL,
            comm, MPI_COMM_WORLD);
        frees(&comm);
    } else {
        is_null(comm);
    }
    OK(MPI_Group_free(&group));
    count = 0; /* now each its own of three groups */
    for (int i = me % 3; i < n; i += 3)
        list[count++] = i;
    OK(MPI_Group_incl(world, count, list, &group));
    OK(MPI_Comm_create(MPI_COMM_WORLD, group, &comm));
    has_members(comm, list, count);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_incl(world, 0, NULL, &none));
    MPI_Comm empty;
    OK(MPI_Comm_create(comm, none, &empty));
    is_null(empty);
    OK(MPI_Group_free(&none));
    frees(&comm);
}

/* Only members take part; the others do something else, and groups overlap. */
static void check_create_group(void)
{
    MPI_Comm first = MPI_COMM_NULL, second = MPI_COMM_NULL;
    MPI_Group group;
    int low[MOST], all[MOST], nlow = 0;
    for (int i = 0; i < n; i++)
        all[i] = n - 1 - i;
    for (int i = 0; i < (n + 1) / 2; i++)
        low[nlow++] = i;
    if (in_list(low, nlow)) {
        OK(MPI_Group_incl(world, nlow, low, &group));
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 3, &first));
        OK(MPI_Group_free(&group));
        has_members(first, low, nlow);
    }
    OK(MPI_Group_incl(world, n, all, &group));
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 4000, &second));
    OK(MPI_Group_free(&group));
    has_members(second, all, n);
    compares(n > 1 ? MPI_SIMILAR : MPI_CONGRUENT, second, MPI_COMM_WORLD);
    if (in_list(low, nlow)) {
        has_members(first, low, nlow);
        frees(&first);
    }
    frees(&second);
}

/* Contexts are used again. */
static void check_many(void)
{
    for (int round = 0; round < 100; round++) {
        MPI_Comm a, b;
        OK(MPI_Comm_split(MPI_COMM_WORLD, (me + round) % 2, 0, &a));
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &b));
        if (round % 20 == 0)
            are_apart(b, MPI_COMM_WORLD);
        frees(round % 3 ? &a : &b);
        frees(round % 3 ? &b : &a);
    }
}

/* ---- Cartesian ----------------------------------------------------------------------- */

static int wrap(int c, int dim)
{
    return ((c % dim) + dim) % dim;
}

static int rank_at(int ndims, const int *dims, const int *coords)
{
    int r = 0;
    for (int d = 0; d < ndims; d++)
        r = r * dims[d] + coords[d];
    return r;
}

static void coords_at(int ndims, const int *dims, int rank, int *coords)
{
    for (int d = ndims - 1; d >= 0; d--) {
        coords[d] = rank % dims[d];
        rank /= dims[d];
    }
}

static void check_shifts(MPI_Comm cart, int ndims, const int *dims, const int *periods, int rank)
{
    for (int d = 0; d < ndims; d++)
        for (int disp = -4; disp <= 4; disp++) {
            int source, dest, here[4], got = -1, wanted[2];
            coords_at(ndims, dims, rank, here);
            for (int side = 0; side < 2; side++) {
                int there[4];
                memcpy(there, here, sizeof there);
                there[d] += side ? disp : -disp;
                int out = !periods[d] && (there[d] < 0 || there[d] >= dims[d]);
                there[d] = wrap(there[d], dims[d]);
                wanted[side] = out ? MPI_PROC_NULL : rank_at(ndims, dims, there);
            }
            OK(MPI_Cart_shift(cart, d, disp, &source, &dest));
            EQUAL(wanted[0], source);
            EQUAL(wanted[1], dest);
            OK(MPI_Sendrecv(
                &rank, 1, MPI_INT, dest, 9, &got, 1, MPI_INT, source, 9, cart, MPI_STATUS_IGNORE));
            EQUAL(source == MPI_PROC_NULL ? -1 : source, got);
        }
}

/* Answers of one whose ranks are the first of the world, or of a duplicate of it. */
static void check_grid(MPI_Comm cart, int ndims, const int *dims, const int *periods)
{
    int rank, size, nd = -1, d1[4], p1[4], c1[4], c2[4], got = -1;
    OK(MPI_Comm_rank(cart, &rank));
    OK(MPI_Comm_size(cart, &size));
    OK(MPI_Topo_test(cart, &got));
    EQUAL(MPI_CART, got);
    OK(MPI_Cartdim_get(cart, &nd));
    EQUAL(ndims, nd);
    OK(MPI_Cart_get(cart, ndims, d1, p1, c1));
    coords_at(ndims, dims, rank, c2);
    for (int d = 0; d < ndims; d++) {
        EQUAL(dims[d], d1[d]);
        EQUAL(periods[d] != 0, p1[d] != 0);
        EQUAL(c2[d], c1[d]);
    }
    for (int r = 0; r < size; r++) {
        coords_at(ndims, dims, r, c2);
        OK(MPI_Cart_coords(cart, r, ndims, c1));
        for (int d = 0; d < ndims; d++)
            EQUAL(c2[d], c1[d]);
        for (int d = 0; d < ndims; d++)
            if (periods[d])
                c2[d] += (r % 5 - 2) * dims[d];
        OK(MPI_Cart_rank(cart, c2, &got));
        EQUAL(r, got);
    }
    check_shifts(cart, ndims, dims, periods, rank);
    FAILS(MPI_Graphdims_get(cart, d1, p1));
}

static void check_sub(MPI_Comm cart, int ndims, const int *dims, const int *periods)
{
    int here[4], rank;
    OK(MPI_Comm_rank(cart, &rank));
    coords_at(ndims, dims, rank, here);
    for (int mask = 0; mask < 1 << ndims; mask++) {
        int remain[4], left = 0, dl[4], pl[4], cl[4], at[4], size = 1, list[MOST];
        MPI_Comm sub;
        for (int d = 0; d < ndims; d++) {
            remain[d] = mask >> d & 1;
            if (!remain[d])
                continue;
            dl[left] = dims[d];
            pl[left] = periods[d];
            cl[left++] = here[d];
            size *= dims[d];
        }
        for (int r = 0; r < size; r++) {
            int full[4], from[4];
            coords_at(left, dl, r, from);
            for (int d = 0, f = 0; d < ndims; d++)
                full[d] = remain[d] ? from[f++] : here[d];
            list[r] = rank_at(ndims, dims, full);
        }
        OK(MPI_Cart_sub(cart, remain, &sub));
        has_members(sub, list, size);
        OK(MPI_Comm_rank(sub, at));
        EQUAL(rank_at(left, dl, cl), at[0]);
        check_grid(sub, left, dl, pl);
        frees(&sub);
    }
}

static void check_cart(void)
{
    static const int shapes[][4] = { /* dimensions, then what is asked of MPI_Dims_create */
        { 0, 0, 0, 0 }, { 1, 0, 0, 0 }, { 2, 0, 0, 0 }, { 3, 0, 0, 0 }, { 2, 1, 0, 0 },
        { 3, 1, 2, 1 }, { 2, 2, 0, 0 }
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        int ndims = shapes[s][0], dims[4] = { 0 }, periods[4], size = 1, open = 0, newrank;
        MPI_Comm cart, dup;
        for (int d = 0; d < ndims; d++) {
            dims[d] = shapes[s][d + 1];
            periods[d] = (int)s % 3 == 0 ? 0 : (d + (int)s) % 2;
            size *= dims[d] > 0 ? dims[d] : 1;
            open += dims[d] == 0;
        }
        if (size > n)
            continue;
        if (open > 0)
            OK(MPI_Dims_create(n / size * size, ndims, dims));
        size = 1;
        for (int d = 0; d < ndims; d++)
            size *= dims[d];
        OK(MPI_Cart_map(MPI_COMM_WORLD, ndims, dims, periods, &newrank));
        if (me < size || newrank != MPI_UNDEFINED) /* Open MPI has everybody */
            EQUAL(me, newrank);
        OK(MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 0, &cart));
        if (me >= size) {
            is_null(cart);
            continue;
        }
        has_members(cart, in_order(), size);
        check_grid(cart, ndims, dims, periods);
        OK(MPI_Comm_dup(cart, &dup));
        check_grid(dup, ndims, dims, periods);
        if (ndims > 0)
            check_sub(cart, ndims, dims, periods);
        frees(&cart);
        check_grid(dup, ndims, dims, periods);
        frees(&dup);
    }
    int most[1] = { n + 1 }, no[1] = { 0 };
    MPI_Comm cart;
    FAILS(MPI_Cart_create(MPI_COMM_WORLD, 1, most, no, 0, &cart));
}

/* ---- graphs -------------------------------------------------------------------------- */

/* A star around 0 with all nodes in a ring, but for the last rank of many. */
static int star(int nodes, int *index, int *edges)
{
    int at = 0;
    for (int i = 0; i < nodes; i++) {
        if (i == 0)
            for (int j = 1; j < nodes; j++)
                edges[at++] = j;
        else
            edges[at++] = 0;
        edges[at++] = (i + 1) % nodes;
        index[i] = at;
    }
    return at;
}

static void check_graph_of(MPI_Comm graph, int nodes, const int *index, const int *edges)
{
    int i1[MOST], e1[4 * MOST], a = -1, b = -1;
    OK(MPI_Topo_test(graph, &a));
    EQUAL(MPI_GRAPH, a);
    OK(MPI_Graphdims_get(graph, &a, &b));
    EQUAL(nodes, a);
    EQUAL(index[nodes - 1], b);
    OK(MPI_Graph_get(graph, a, b, i1, e1));
    for (int i = 0; i < nodes; i++)
        EQUAL(index[i], i1[i]);
    for (int i = 0; i < b; i++)
        EQUAL(edges[i], e1[i]);
    for (int r = 0; r < nodes; r++) {
        int from = r > 0 ? index[r - 1] : 0;
        OK(MPI_Graph_neighbors_count(graph, r, &a));
        EQUAL(index[r] - from, a);
        OK(MPI_Graph_neighbors(graph, r, a, e1));
        for (int i = 0; i < a; i++)
            EQUAL(edges[from + i], e1[i]);
    }
    FAILS(MPI_Cartdim_get(graph, &a));
}

static void check_graph(void)
{
    int nodes = n > 2 ? n - 1 : n, index[MOST], edges[4 * MOST], newrank;
    MPI_Comm graph, dup;
    (void)star(nodes, index, edges);
    OK(MPI_Graph_map(MPI_COMM_WORLD, nodes, index, edges, &newrank));
    if (me < nodes || newrank != MPI_UNDEFINED)
        EQUAL(me, newrank);
    OK(MPI_Graph_create(MPI_COMM_WORLD, nodes, index, edges, 0, &graph));
    if (me >= nodes) {
        is_null(graph);
        return;
    }
    has_members(graph, in_order(), nodes);
    check_graph_of(graph, nodes, index, edges);
    OK(MPI_Comm_dup(graph, &dup));
    frees(&graph);
    check_graph_of(dup, nodes, index, edges);
    frees(&dup);
}

/* ---- distributed graphs -------------------------------------------------------------- */

/* How often there is an edge from a to b, and what it weighs. */
static int edge(int a, int b)
{
    return (a * 5 + b * 3) % 4 == 0 ? (a + b) % 2 + 1 : 0;
}

static int weight(int a, int b)
{
    return 100 * a + b;
}

/* Neighbours in one direction, whatever their order. */
static void check_side(int count, const int *got, const int *weights, int incoming)
{
    int seen[MOST] = { 0 }, wanted = 0;
    for (int i = 0; i < n; i++)
        wanted += incoming ? edge(i, me) : edge(me, i);
    EQUAL(wanted, count);
    for (int i = 0; i < count; i++) {
        TRUE(got[i] >= 0 && got[i] < n);
        seen[got[i]]++;
        if (weights)
            EQUAL(incoming ? weight(got[i], me) : weight(me, got[i]), weights[i]);
    }
    for (int i = 0; i < n; i++)
        EQUAL(incoming ? edge(i, me) : edge(me, i), seen[i]);
}

static void check_dist_of(MPI_Comm graph, int weighted)
{
    int nin, nout, w = -1, got = -1;
    int in[2 * MOST], out[2 * MOST], inw[2 * MOST], outw[2 * MOST];
    OK(MPI_Topo_test(graph, &got));
    EQUAL(MPI_DIST_GRAPH, got);
    OK(MPI_Dist_graph_neighbors_count(graph, &nin, &nout, &w));
    EQUAL(weighted, w != 0);
    OK(MPI_Dist_graph_neighbors(
        graph, nin, in, weighted ? inw : unweighted, nout, out, weighted ? outw : unweighted));
    check_side(nin, in, weighted ? inw : NULL, 1);
    check_side(nout, out, weighted ? outw : NULL, 0);
}

static void check_adjacent(int weighted)
{
    int in[2 * MOST], out[2 * MOST], inw[2 * MOST], outw[2 * MOST], nin = 0, nout = 0;
    int got_in[2 * MOST], got_out[2 * MOST];
    MPI_Comm graph, dup;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < edge(i, me); k++) {
            inw[nin] = weight(i, me);
            in[nin++] = i;
        }
        for (int k = 0; k < edge(me, n - 1 - i); k++) {
            outw[nout] = weight(me, n - 1 - i);
            out[nout++] = n - 1 - i;
        }
    }
    const int *empty = weighted ? MPI_WEIGHTS_EMPTY : MPI_UNWEIGHTED;
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, nin, in, weighted && nin > 0 ? inw : empty,
        nout, out, weighted && nout > 0 ? outw : empty, MPI_INFO_NULL, 0, &graph));
    has_members(graph, in_order(), n);
    check_dist_of(graph, weighted);
    OK(MPI_Comm_dup(graph, &dup));
    frees(&graph);
    check_dist_of(dup, weighted);
    /* here the order is the one given */
    OK(MPI_Dist_graph_neighbors(dup, nin, got_in, unweighted, nout, got_out, unweighted));
    for (int i = 0; i < nin; i++)
        EQUAL(in[i], got_in[i]);
    for (int i = 0; i < nout; i++)
        EQUAL(out[i], got_out[i]);
    frees(&dup);
}

/* Each edge is given by somebody who has nothing to do with it. */
static void check_dist(int weighted)
{
    int sources[MOST], degrees[MOST], to[2 * MOST * MOST], w[2 * MOST * MOST];
    int count = 0, edges = 0;
    MPI_Comm graph;
    for (int a = 0; a < n; a++) {
        degrees[count] = 0;
        for (int b = 0; b < n; b++)
            for (int k = 0; k < edge(a, b); k++)
                if ((a + b + k) % n == me) {
                    w[edges] = weight(a, b);
                    to[edges++] = b;
                    degrees[count]++;
                }
        sources[count++] = a;
    }
    const int *weights = weighted ? edges > 0 ? w : MPI_WEIGHTS_EMPTY : MPI_UNWEIGHTED;
    OK(MPI_Dist_graph_create(
        MPI_COMM_WORLD, count, sources, degrees, to, weights, MPI_INFO_NULL, 0, &graph));
    has_members(graph, in_order(), n);
    check_dist_of(graph, weighted);
    frees(&graph);
}

/* More edges of one rank than of others, and more than go in one message. */
static void check_heavy(void)
{
    int sources[MOST], degrees[MOST], to[70 * MOST], w[70 * MOST], count = me == 0 ? n : 0;
    int in[70 * MOST], inw[70 * MOST], nin, nout, weighted, sum = 0;
    MPI_Comm graph;
    for (int i = 0; i < n; i++) {
        sources[i] = i;
        degrees[i] = 70;
        for (int k = 0; k < 70; k++) {
            to[70 * i + k] = n - 1 - i;
            w[70 * i + k] = k;
        }
    }
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, count, sources, degrees, to,
        count ? w : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &graph));
    OK(MPI_Dist_graph_neighbors_count(graph, &nin, &nout, &weighted));
    EQUAL(70, nin);
    EQUAL(70, nout);
    OK(MPI_Dist_graph_neighbors(graph, nin, in, inw, 0, NULL, unweighted));
    for (int i = 0; i < 70; i++) {
        EQUAL(n - 1 - me, in[i]);
        sum += inw[i];
    }
    EQUAL(70 * 69 / 2, sum);
    frees(&graph);
}

/* ---- errors -------------------------------------------------------------------------- */

static int told; /* calls of the error handler */

static void count_errors(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    told++;
}

static int class_of(int rc)
{
    int class = -1;
    OK(MPI_Error_class(rc, &class));
    return class;
}

/* An int, behind which there is no memory. */
static int *guarded(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, 64 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TRUE(p != MAP_FAILED && mprotect(p + page, 63 * page, PROT_NONE) == 0);
    return (int *)(p + page) - 1;
}

enum { WAIT, WAITALL, WAITANY, WAITSOME, TEST, TESTALL, TESTANY, TESTSOME, WAYS };

/* The error class of the first of the requests, told of in that way; both are completed. */
static int completed(int way, MPI_Request q[2])
{
    MPI_Status s[2];
    int rc = MPI_SUCCESS, flag = 0, which[2], some = 0;
    if (way != WAITALL && way != TESTALL)
        OK(MPI_Wait(&q[1], MPI_STATUS_IGNORE));
    while (way == WAIT && !flag) /* tells of no error */
        OK(MPI_Request_get_status(q[0], &flag, s));
    do {
        switch (way) {
        case WAIT:
            rc = MPI_Wait(&q[0], s);
            break;
        case WAITALL:
            rc = MPI_Waitall(2, q, s);
            break;
        case WAITANY:
            rc = MPI_Waitany(2, q, which, s);
            break;
        case WAITSOME:
            rc = MPI_Waitsome(2, q, &some, which, s);
            break;
        case TEST:
            rc = MPI_Test(&q[0], &flag, s);
            break;
        case TESTALL:
            rc = MPI_Testall(2, q, &flag, s);
            break;
        case TESTANY:
            rc = MPI_Testany(2, q, which, &flag, s);
            break;
        default:
            rc = MPI_Testsome(2, q, &some, which, s);
            flag = some;
        }
    } while (rc == MPI_SUCCESS && way >= TEST && !flag);
    if (way == WAITALL && class_of(s[1].MPI_ERROR) == MPI_ERR_PENDING) /* as the MPI may say */
        OK(MPI_Wait(&q[1], MPI_STATUS_IGNORE));
    TRUE(q[0] == MPI_REQUEST_NULL && q[1] == MPI_REQUEST_NULL);
    if (class_of(rc) != MPI_ERR_IN_STATUS)
        return class_of(rc);
    TRUE(way == WAITALL || way == WAITSOME || way == TESTALL || way == TESTSOME);
    return class_of(s[0].MPI_ERROR);
}

/* A message is longer than its receive: the error is told to the handler of the communicator
 * that it has come on, once. */
static void check_errors(void)
{
    MPI_Errhandler counts;
    MPI_Comm dup;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    OK(MPI_Comm_create_errhandler(count_errors, &counts));
    OK(MPI_Comm_set_errhandler(dup, counts));
    OK(MPI_Errhandler_free(&counts));
    static const int out[100];
    int *in = guarded();
    for (int way = 0; way < WAYS && n > 1; way++) { /* Open MPI 5.0 overruns one's own */
        MPI_Request q[2];
        told = 0;
        OK(MPI_Irecv(in, 1, MPI_INT, (me + n - 1) % n, way, dup, &q[0]));
        OK(MPI_Isend(out, 100, MPI_INT, (me + 1) % n, way, dup, &q[1]));
        EQUAL(MPI_ERR_TRUNCATE, completed(way, q));
        EQUAL(1, told);
    }
    frees(&dup);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    ftkit_ctx *ft;
    int rc = overlog_open(&ft);
    check_at(__FILE__, __LINE__, ftkit_detail(ft), rc < 0 ? rc : FTKIT_OK, FTKIT_OK);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &me));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n));
    TRUE(n <= MOST);
    unweighted = MPI_UNWEIGHTED;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    check_world();
    check_dup();
    check_idup();
    if (argc > 1 && strcmp(argv[1], "overlap") == 0)
        check_overlap();
    check_split();
    check_nested();
    check_split_type();
    check_create();
    check_create_group();
    check_many();
    check_cart();
    check_graph();
    check_adjacent(0);
    check_adjacent(1);
    check_dist(0);
    check_dist(1);
    check_heavy();
    check_errors();
    OK(MPI_Group_free(&world));
    if (me == 0)
        printf("OK %ld\n", checks);
    if (ft)
        EQUAL(FTKIT_OK, ftkit_close(&ft));
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
