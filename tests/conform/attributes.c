/* ranks: 1 2
 * Attributes of communicators (MPI 4.0, 7.7): the copy callback of each runs when a
 * communicator is duplicated, MPI_COMM_WORLD too, gets that communicator, and decides what the
 * duplicate has; its error fails the call.  The delete callback runs within MPI_Comm_free and
 * MPI_Comm_disconnect, and its error fails that.  Other new communicators have no attributes.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "conform.h"

static int copies, deletes, at_end, failing, dropped, key_deep, key_none, key_flat, key_drop;
static MPI_Comm copied_from;

static int deep(MPI_Comm from, int key, void *extra, void *in, void *out, int *flag)
{
    EQUAL(key_deep, key);
    TRUE(extra == &copies);
    copied_from = from;
    if (failing)
        return MPI_ERR_BUFFER;
    copies++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int refusing(MPI_Comm from, int key, void *extra, void *in, void *out, int *flag)
{
    (void)from;
    (void)key;
    (void)extra;
    (void)in;
    (void)out;
    dropped++;
    *flag = 0;
    return MPI_SUCCESS;
}

static int on_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    int size = 0;
    (void)key;
    (void)value;
    (void)extra;
    OK(MPI_Comm_size(comm, &size));
    TRUE(size > 0);
    if (failing)
        return MPI_ERR_BUFFER;
    deletes++;
    return MPI_SUCCESS;
}

static int last(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)extra;
    at_end++;
    *(int *)value = at_end;
    return MPI_SUCCESS;
}

static void is(MPI_Comm c, int key, const void *wanted)
{
    void *got = NULL;
    int flag = 0;
    OK(MPI_Comm_get_attr(c, key, &got, &flag));
    EQUAL(wanted != NULL, flag);
    TRUE(!wanted || got == wanted);
}

static char value[4];

/* A duplicate of c, which has deep, flat and none. */
static void is_copy(MPI_Comm c, const char *what)
{
    is(c, key_deep, what);
    is(c, key_flat, value);
    is(c, key_none, NULL);
    is(c, key_drop, NULL);
}

static void duplicates(MPI_Comm c)
{
    MPI_Comm dup, again, part;
    MPI_Request r;
    copies = deletes = dropped = 0;
    OK(MPI_Comm_dup(c, &dup));
    TRUE(copied_from == c);
    EQUAL(1, copies);
    EQUAL(1, dropped);
    is_copy(dup, value + 1);
    OK(MPI_Comm_dup_with_info(dup, MPI_INFO_NULL, &again));
    is_copy(again, value + 2);
    OK(MPI_Comm_free(&again));
    EQUAL(1, deletes);
    OK(MPI_Comm_idup(c, &again, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    is_copy(again, value + 1);
    EQUAL(3, copies);
    OK(MPI_Comm_split(dup, 0, 0, &part));
    is(part, key_deep, NULL);
    is(part, key_flat, NULL);
    OK(MPI_Comm_set_attr(part, key_deep, value));
    OK(MPI_Comm_free(&part));
    EQUAL(2, deletes);
    OK(MPI_Comm_set_attr(again, key_deep, value)); /* deletes the one before */
    EQUAL(3, deletes);
    OK(MPI_Comm_free(&again));
    EQUAL(4, deletes);
    OK(MPI_Comm_free(&dup));
    EQUAL(5, deletes);
}

/* Errors of callbacks fail the call. */
static void failures(MPI_Comm c)
{
    MPI_Comm dup = MPI_COMM_NULL;
    MPI_Errhandler handler;
    OK(MPI_Comm_get_errhandler(c, &handler));
    OK(MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN));
    failing = 1;
    TRUE(MPI_Comm_dup(c, &dup) != MPI_SUCCESS);
    failing = 0;
    OK(MPI_Comm_dup(c, &dup));
    failing = 1;
    TRUE(MPI_Comm_free(&dup) != MPI_SUCCESS);
    failing = 0;
    deletes = 0;
    OK(MPI_Comm_free(&dup));
    EQUAL(1, deletes);
    OK(MPI_Comm_set_errhandler(c, handler));
    OK(MPI_Errhandler_free(&handler));
}

static void with(MPI_Comm c)
{
    OK(MPI_Comm_set_attr(c, key_deep, value));
    OK(MPI_Comm_set_attr(c, key_flat, value));
    OK(MPI_Comm_set_attr(c, key_none, value));
    OK(MPI_Comm_set_attr(c, key_drop, value));
    duplicates(c);
    failures(c);
    deletes = 0;
    OK(MPI_Comm_delete_attr(c, key_deep));
    EQUAL(1, deletes);
    is(c, key_deep, NULL);
    OK(MPI_Comm_delete_attr(c, key_flat));
    OK(MPI_Comm_delete_attr(c, key_none));
    OK(MPI_Comm_delete_attr(c, key_drop));
}

/* A key that is freed goes on for those who have it. */
static void freed_key(void)
{
    MPI_Comm a, b;
    int key;
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, on_delete, &key, NULL));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &a));
    OK(MPI_Comm_set_attr(a, key, value));
    OK(MPI_Comm_free_keyval(&key));
    deletes = 0;
    OK(MPI_Comm_dup(a, &b));
    OK(MPI_Comm_free(&a));
    EQUAL(1, deletes);
    OK(MPI_Comm_free(&b));
    EQUAL(2, deletes);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &a));
    OK(MPI_Comm_free(&a));
}

static void disconnected(void)
{
    MPI_Comm c;
    MPI_Request r[2];
    int in = -1, to = (me + 1) % n, from = (me + n - 1) % n;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    OK(MPI_Comm_set_attr(c, key_deep, value));
    OK(MPI_Irecv(&in, 1, MPI_INT, from, 1, c, &r[0]));
    OK(MPI_Isend(&me, 1, MPI_INT, to, 1, c, &r[1]));
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    deletes = 0;
    OK(MPI_Comm_disconnect(&c));
    TRUE(c == MPI_COMM_NULL);
    EQUAL(1, deletes);
    EQUAL(from, in);
}

static void body(void)
{
    static int seen;
    int key;
    MPI_Comm part;
    OK(MPI_Comm_create_keyval(deep, on_delete, &key_deep, &copies));
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key_flat, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key_none, NULL));
    OK(MPI_Comm_create_keyval(refusing, MPI_COMM_NULL_DELETE_FN, &key_drop, NULL));
    with(MPI_COMM_WORLD);
    with(MPI_COMM_SELF);
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &part));
    with(part);
    OK(MPI_Comm_free(&part));
    freed_key();
    disconnected();
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, last, &key, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, &seen)); /* deleted by MPI_Finalize() */
}

int main(int argc, char **argv)
{
    int rc = conform(argc, argv, body);
    return rc != 0 ? rc : at_end != 1;
}
