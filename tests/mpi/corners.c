/* Corners of MPI's calls that programs rely on without knowing: what becomes of communicators
 * that are freed, which parts of a status are left alone, which handles are fit for what.  The
 * same with the log and without it.  Three ranks or more; prints "OK checks".
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"
#include "overlog.h"

enum { OLD = 42 /* an error code nobody gives */ };

static int next, prev;

static MPI_Status marked(void)
{
    MPI_Status st;
    memset(&st, 0, sizeof st);
    st.MPI_ERROR = OLD;
    return st;
}

/* Only calls that complete several requests say in a status how each of them went. */
static void statuses(void)
{
    int out = me, in = -1, flag = 0, which;
    MPI_Request q, both[2];
    MPI_Status st = marked(), all[2] = { marked(), marked() };
    OK(MPI_Sendrecv(&out, 1, MPI_INT, next, 1, &in, 1, MPI_INT, prev, 1, MPI_COMM_WORLD, &st));
    EQUAL(OLD, st.MPI_ERROR);
    OK(MPI_Isend(&out, 1, MPI_INT, next, 2, MPI_COMM_WORLD, &q));
    OK(MPI_Probe(prev, 2, MPI_COMM_WORLD, &st));
    EQUAL(OLD, st.MPI_ERROR);
    OK(MPI_Recv(&in, 1, MPI_INT, prev, 2, MPI_COMM_WORLD, &st));
    EQUAL(OLD, st.MPI_ERROR);
    EQUAL(prev, st.MPI_SOURCE);
    OK(MPI_Wait(&q, &st));
    EQUAL(OLD, st.MPI_ERROR);
    OK(MPI_Irecv(&in, 1, MPI_INT, prev, 3, MPI_COMM_WORLD, &q));
    OK(MPI_Send(&out, 1, MPI_INT, next, 3, MPI_COMM_WORLD));
    while (!flag)
        OK(MPI_Test(&q, &flag, &st));
    EQUAL(OLD, st.MPI_ERROR);
    OK(MPI_Wait(&q, &st)); /* there is none */
    EQUAL(OLD, st.MPI_ERROR);
    for (int any = 0; any < 2; any++) {
        OK(MPI_Irecv(&in, 1, MPI_INT, prev, 3, MPI_COMM_WORLD, &both[0]));
        OK(MPI_Isend(&out, 1, MPI_INT, next, 3, MPI_COMM_WORLD, &both[1]));
        if (any) {
            OK(MPI_Waitany(2, both, &which, &st));
            EQUAL(OLD, st.MPI_ERROR);
        }
        OK(MPI_Waitall(2, both, all));
    }
}

/* One that is cancelled is complete, whatever was asked for before it. */
static void cancelled(void)
{
    int first = -1, second = -1, out = me, flag = 0;
    MPI_Request q[2];
    MPI_Status st;
    OK(MPI_Irecv(&first, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &q[0]));
    OK(MPI_Irecv(&second, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &q[1]));
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* nobody sends before this */
    OK(MPI_Cancel(&q[1]));
    OK(MPI_Wait(&q[1], &st));
    OK(MPI_Test_cancelled(&st, &flag));
    TRUE(flag);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Send(&out, 1, MPI_INT, next, 0, MPI_COMM_WORLD));
    OK(MPI_Wait(&q[0], MPI_STATUS_IGNORE));
    EQUAL(prev, first);
}

/* A message that is matched has its source, whatever becomes of the communicator. */
static void matched(void)
{
    MPI_Comm backwards;
    MPI_Message m;
    MPI_Request q;
    MPI_Status st;
    int mine, in = -1, out = me;
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &backwards));
    OK(MPI_Comm_rank(backwards, &mine));
    OK(MPI_Isend(&out, 1, MPI_INT, (mine + 1) % n, 9, backwards, &q));
    OK(MPI_Mprobe((mine + n - 1) % n, 9, backwards, &m, &st));
    OK(MPI_Comm_free(&backwards));
    OK(MPI_Mrecv(&in, 1, MPI_INT, &m, &st));
    EQUAL((mine + n - 1) % n, st.MPI_SOURCE);
    EQUAL(next, in);
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
}

/* Persistent requests outlive their communicator. */
static void persistent(void)
{
    MPI_Comm backwards;
    MPI_Request q[2];
    MPI_Status st[2];
    int mine, in = -1, out = 0;
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &backwards));
    OK(MPI_Comm_rank(backwards, &mine));
    OK(MPI_Recv_init(&in, 1, MPI_INT, (mine + 1) % n, 4, backwards, &q[0]));
    OK(MPI_Send_init(&out, 1, MPI_INT, (mine + n - 1) % n, 4, backwards, &q[1]));
    OK(MPI_Comm_free(&backwards));
    for (int i = 0; i < 3; i++) {
        MPI_Comm other; /* it must not be taken for the old one */
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
        out = 10 * me + i;
        OK(MPI_Startall(2, q));
        OK(MPI_Waitall(2, q, st));
        EQUAL((mine + 1) % n, st[0].MPI_SOURCE);
        EQUAL(10 * prev + i, in);
        OK(MPI_Comm_free(&other));
    }
    OK(MPI_Request_free(&q[0]));
    OK(MPI_Request_free(&q[1]));
}

/* What is asked for on a communicator is not answered on the next one that is made, though the
 * first is freed here and not yet elsewhere. */
static void next_one(void)
{
    MPI_Comm first, second, but_one;
    MPI_Request q = MPI_REQUEST_NULL;
    int a = -1, b = -1, out = 100 + me;
    OK(MPI_Comm_split(MPI_COMM_WORLD, me == 1 ? MPI_UNDEFINED : 0, 0, &but_one));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &first));
    if (me == 0)
        OK(MPI_Irecv(&a, 1, MPI_INT, MPI_ANY_SOURCE, 7, first, &q));
    if (me == 1) { /* when the other message has been received */
        OK(MPI_Recv(&b, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Send(&out, 1, MPI_INT, 0, 7, first));
    }
    OK(MPI_Comm_free(&first));
    if (me != 1) {
        OK(MPI_Comm_dup(but_one, &second));
        if (me == 2)
            OK(MPI_Send(&out, 1, MPI_INT, 0, 7, second));
        if (me == 0) {
            OK(MPI_Recv(&b, 1, MPI_INT, MPI_ANY_SOURCE, 7, second, MPI_STATUS_IGNORE));
            EQUAL(102, b);
            OK(MPI_Send(&b, 1, MPI_INT, 1, 8, MPI_COMM_WORLD));
            OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
            EQUAL(101, a);
        }
        OK(MPI_Comm_free(&second));
        OK(MPI_Comm_free(&but_one));
    }
}

static int deleted, rank_then, size_then;

static int delete_attribute(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)keyval;
    (void)value;
    (void)extra;
    deleted++;
    OK(MPI_Comm_rank(comm, &rank_then));
    OK(MPI_Comm_size(comm, &size_then));
    return MPI_SUCCESS;
}

/* Attributes go with the communicator, at once, also while other things are under way. */
static void attributes(void)
{
    MPI_Comm comm;
    MPI_Request q;
    int key, in, flag = 0, *most = NULL;
    OK(MPI_Irecv(&in, 1, MPI_INT, prev, 77, MPI_COMM_WORLD, &q));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_get_attr(comm, MPI_TAG_UB, &most, &flag));
    TRUE(flag && *most >= 32767);
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_attribute, &key, NULL));
    OK(MPI_Comm_set_attr(comm, key, &key));
    OK(MPI_Comm_free(&comm));
    EQUAL(1, deleted);
    EQUAL(me, rank_then);
    EQUAL(n, size_then);
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Send(&me, 1, MPI_INT, next, 77, MPI_COMM_WORLD));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
}

/* Reductions that are not complete at once, of a predefined type that is not named. */
static void numbers(void)
{
    MPI_Datatype type;
    MPI_Request q;
    double mine = me + 1, sum = -1;
    OK(MPI_Type_create_f90_real(15, MPI_UNDEFINED, &type));
    OK(MPI_Iallreduce(&mine, &sum, 1, type, MPI_SUM, MPI_COMM_WORLD, &q));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    EQUAL(n * (n + 1) / 2, sum);
    OK(MPI_Iscan(&mine, &sum, 1, type, MPI_SUM, MPI_COMM_WORLD, &q));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    EQUAL((me + 1) * (me + 2) / 2, sum);
}

/* Persistent collectives with a million others between them, started in any order. */
static void far_apart(void)
{
    MPI_Comm pair; /* of ranks 0 and 1 */
    MPI_Request q[2];
    int a = me + 1, b = 100 * (me + 1), sum_a, sum_b, nothing = 0;
    OK(MPI_Comm_split(MPI_COMM_WORLD, me > 1 ? MPI_UNDEFINED : 0, 0, &pair));
    if (me > 1)
        return;
    OK(MPI_Allreduce_init(&a, &sum_a, 1, MPI_INT, MPI_SUM, pair, MPI_INFO_NULL, &q[0]));
    for (int i = 1; i < 1 << 20; i++)
        OK(MPI_Bcast(&nothing, 0, MPI_INT, 0, pair));
    OK(MPI_Allreduce_init(&b, &sum_b, 1, MPI_INT, MPI_SUM, pair, MPI_INFO_NULL, &q[1]));
    for (int i = 0; i < 3; i++) {
        OK(MPI_Start(&q[me]));
        OK(MPI_Start(&q[1 - me]));
        OK(MPI_Waitall(2, q, MPI_STATUSES_IGNORE));
        EQUAL(3, sum_a);
        EQUAL(300, sum_b);
    }
    OK(MPI_Request_free(&q[0]));
    OK(MPI_Request_free(&q[1]));
    OK(MPI_Comm_free(&pair));
}

/* A file of one process, on whatever communicator has one. */
static void file(void)
{
    MPI_Comm alone;
    MPI_File f;
    char path[64];
    snprintf(path, sizeof path, "corners.%d", me);
    OK(MPI_Comm_split(MPI_COMM_WORLD, me, 0, &alone));
    OK(MPI_File_open(alone, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
        MPI_INFO_NULL, &f));
    OK(MPI_File_write_at(f, 0, &me, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&f));
    OK(MPI_Comm_free(&alone));
}

int main(int argc, char **argv)
{
    ftkit_ctx *ft = NULL;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &me));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n));
    next = (me + 1) % n;
    prev = (me + n - 1) % n;
    TRUE(overlog_open(&ft) >= 0);
    statuses();
    cancelled();
    matched();
    persistent();
    next_one();
    attributes();
    numbers();
    far_apart();
    file();
    if (ft) {
        EQUAL(FTKIT_OK, ftkit_finish(ft));
        EQUAL(FTKIT_OK, ftkit_close(&ft));
    }
    if (me == 0)
        printf("OK %ld\n", checks);
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
