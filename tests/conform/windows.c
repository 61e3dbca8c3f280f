/* ranks: 1 3
 * Windows (MPI 4.0, 12): attributes, groups, names, error handlers and hints; put, get and
 * accumulates with predefined and derived types; fences; post, start, complete and wait; memory
 * that is attached; errors of arguments and of epochs.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "errors.h"

enum { COUNT = 64 };

static int handled, deleted;

static void on_error(MPI_Win *win, int *code, ...)
{
    (void)win;
    (void)code;
    handled++;
}

static int on_delete(MPI_Win win, int key, void *value, void *extra)
{
    (void)win;
    (void)key;
    (void)value;
    (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

/* ---- facts (12.2.6, 7.7) ------------------------------------------------------------- */

static void facts(void)
{
    int x[COUNT], key, flag, len, result, *unit, *flavor, *model;
    MPI_Aint *size;
    void *base, *value;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Win win;
    MPI_Group group, world;
    MPI_Info info;
    OK(MPI_Win_create(x, sizeof x, sizeof *x, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
    TRUE(flag && base == x);
    OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag));
    TRUE(flag && *size == sizeof x);
    OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &flag));
    TRUE(flag && *unit == sizeof *x);
    OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag));
    TRUE(flag && *flavor == MPI_WIN_FLAVOR_CREATE);
    OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag));
    TRUE(flag && *model == MPI_WIN_UNIFIED);
    const char *on = getenv("FTKIT_LOG_ENABLED");
    OK(MPI_Win_get_name(win, name, &len));
    if (on && strcmp(on, "true") == 0) /* Open MPI has a name of its own */
        EQUAL(0, len);
    OK(MPI_Win_set_name(win, "the window"));
    OK(MPI_Win_get_name(win, name, &len));
    EQUAL(0, strcmp(name, "the window"));
    OK(MPI_Win_get_group(win, &group));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_compare(group, world, &result));
    EQUAL(MPI_IDENT, result);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
    OK(MPI_Win_get_info(win, &info));
    OK(MPI_Info_free(&info));
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &key, NULL));
    OK(MPI_Win_set_attr(win, key, &key));
    deleted = 0;
    OK(MPI_Win_delete_attr(win, key));
    EQUAL(1, deleted);
    OK(MPI_Win_get_attr(win, key, &value, &flag));
    TRUE(!flag);
    OK(MPI_Win_set_attr(win, key, name));
    OK(MPI_Win_get_attr(win, key, &value, &flag));
    TRUE(flag && value == name);
    TRUE(MPI_Win_f2c(MPI_Win_c2f(win)) == win);
    deleted = 0;
    OK(MPI_Win_free(&win));
    TRUE(win == MPI_WIN_NULL);
    OK(MPI_Win_free_keyval(&key));
}

/* ---- hints (12.2.1, 12.2.7, 12.7.2) -------------------------------------------------- */

static void expect_hint(MPI_Win win, const char *key, const char *want)
{
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int flag, room = sizeof value;
    MPI_Info info;
    OK(MPI_Win_get_info(win, &info));
    OK(MPI_Info_get_string(info, key, &room, value, &flag));
    OK(MPI_Info_free(&info));
    TRUE(flag && strcmp(value, want) == 0);
}

/* Operations of one rank on one place happen in the order of the calls. */
static void ordered(MPI_Win win, const int *x)
{
    const int next = (me + 1) % n, last = (me + n - 1) % n;
    int old[5] = { 0 };
    OK(MPI_Win_fence(0, win));
    for (int i = 1; i < 5; i++) {
        const int set = 10 * me + i, none = 0;
        OK(MPI_Accumulate(&set, 1, MPI_INT, next, 0, 1, MPI_INT, MPI_REPLACE, win)); /* waw, war */
        OK(MPI_Get_accumulate(&none, 0, MPI_INT, &old[i], 1, MPI_INT, next, 0, 1, MPI_INT,
            MPI_NO_OP, win)); /* raw, rar */
    }
    OK(MPI_Win_fence(0, win));
    for (int i = 1; i < 5; i++)
        EQUAL(10 * me + i, old[i]);
    EQUAL(10 * last + 4, x[0]);
}

static void hints(void)
{
    static const char *const orders[] = { NULL, "rar,raw,war,waw", "none" };
    int x[2] = { -1, -1 };
    MPI_Info info;
    MPI_Win win;
    for (int i = 0; i < 3; i++) {
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "no_locks", "false"));
        if (orders[i])
            OK(MPI_Info_set(info, "accumulate_ordering", orders[i]));
        OK(MPI_Win_create(x, sizeof x, sizeof *x, info, MPI_COMM_WORLD, &win));
        if (i < 2)
            ordered(win, x);
        OK(MPI_Info_set(info, "no_locks", "true"));
        OK(MPI_Win_set_info(win, info));
        OK(MPI_Info_free(&info));
        expect_hint(win, "no_locks", "true");
        OK(MPI_Win_free(&win));
    }
}

static void allocated(void)
{
    double *x = NULL;
    int flag, *flavor;
    MPI_Win win;
    OK(MPI_Win_allocate(
        (me + 1) * (MPI_Aint)sizeof *x, sizeof *x, MPI_INFO_NULL, MPI_COMM_WORLD, &x, &win));
    TRUE(x != NULL);
    OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag));
    TRUE(flag && *flavor == MPI_WIN_FLAVOR_ALLOCATE);
    for (int i = 0; i <= me; i++)
        x[i] = -1;
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
    const double mine = me;
    OK(MPI_Put(&mine, 1, MPI_DOUBLE, n - 1, me, 1, MPI_DOUBLE, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    for (int i = 0; i <= me; i++)
        TRUE(x[i] == (me == n - 1 ? i : -1));
    OK(MPI_Win_free(&win));
    EQUAL(1, deleted); /* of facts() */
}

/* ---- operations (12.3) --------------------------------------------------------------- */

static void operations(void)
{
    int x[COUNT], got[COUNT], old[4] = { -1, -1, -1, -1 }, one = 1, was = -1, next = (me + 1) % n;
    const int add[4] = { 1, 2, 3, 4 };
    struct {
        double value;
        int where;
    } pair = { me, me }, *most = NULL;
    MPI_Datatype second;
    MPI_Win win, pairs;
    for (int i = 0; i < COUNT; i++)
        x[i] = 100 * me + i;
    OK(MPI_Type_vector(4, 1, 2, MPI_INT, &second));
    OK(MPI_Type_commit(&second));
    OK(MPI_Win_create(x, sizeof x, sizeof *x, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get(got, 4, MPI_INT, next, 0, 1, second, win));
    OK(MPI_Get(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, 0, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < 4; i++)
        EQUAL(100 * next + 2 * i, got[i]);
    OK(MPI_Put(add, 4, MPI_INT, next, 8, 1, second, win));
    OK(MPI_Accumulate(add, 4, MPI_INT, next, 20, 1, second, MPI_SUM, win));
    OK(MPI_Accumulate(add, 4, MPI_INT, 0, 40, 4, MPI_INT, MPI_SUM, win));
    OK(MPI_Type_free(&second)); /* while the operations are under way */
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < 4; i++) {
        EQUAL(add[i], x[8 + 2 * i]);
        EQUAL(100 * me + 9 + 2 * i, x[9 + 2 * i]);
        EQUAL(100 * me + 20 + 2 * i + add[i], x[20 + 2 * i]);
        if (me == 0)
            EQUAL(40 + i + n * add[i], x[40 + i]);
    }
    OK(MPI_Get_accumulate(add, 4, MPI_INT, old, 4, MPI_INT, next, 50, 4, MPI_INT, MPI_PROD, win));
    OK(MPI_Fetch_and_op(&one, &was, MPI_INT, 0, 60, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < 4; i++) {
        EQUAL(100 * next + 50 + i, old[i]);
        EQUAL((100 * me + 50 + i) * add[i], x[50 + i]);
    }
    TRUE(was >= 60 && was < 60 + n);
    if (me == 0)
        EQUAL(60 + n, x[60]);
    const int wanted = 100 * next + 61, other = -5;
    OK(MPI_Compare_and_swap(&one, &wanted, &was, MPI_INT, next, 61, win));
    OK(MPI_Compare_and_swap(&one, &other, &old[0], MPI_INT, next, 62, win));
    OK(MPI_Win_fence(0, win));
    EQUAL(wanted, was);
    EQUAL(1, x[61]);
    EQUAL(100 * me + 62, x[62]);
    OK(MPI_Get_accumulate(NULL, 0, MPI_INT, got, 2, MPI_INT, next, 61, 2, MPI_INT, MPI_NO_OP, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    EQUAL(1, got[0]);
    OK(MPI_Win_free(&win));
    OK(MPI_Win_allocate(
        me == 0 ? sizeof pair : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &most, &pairs));
    if (me == 0) {
        most->value = -1;
        most->where = -1;
    }
    OK(MPI_Win_fence(0, pairs));
    OK(MPI_Accumulate(&pair, 1, MPI_DOUBLE_INT, 0, 0, 1, MPI_DOUBLE_INT, MPI_MAXLOC, pairs));
    OK(MPI_Win_fence(0, pairs));
    if (me == 0)
        EQUAL(n - 1, most->where);
    OK(MPI_Win_free(&pairs));
}

/* Open MPI reduces characters and bytes as integers; so do accumulates. */
static void characters(void)
{
    char *x = NULL;
    const char two = 2;
    char was = -1;
    MPI_Win win;
    OK(MPI_Win_allocate(me == 0 ? 4 : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &x, &win));
    for (int i = 0; me == 0 && i < 4; i++)
        x[i] = 1;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Accumulate(&two, 1, MPI_CHAR, 0, 0, 1, MPI_CHAR, MPI_SUM, win));
    OK(MPI_Accumulate(&two, 1, MPI_CHAR, 0, 1, 1, MPI_CHAR, MPI_BOR, win));
    OK(MPI_Accumulate(&two, 1, MPI_BYTE, 0, 2, 1, MPI_BYTE, MPI_SUM, win));
    OK(MPI_Fetch_and_op(&two, &was, MPI_CHAR, 0, 3, MPI_MAX, win));
    OK(MPI_Win_fence(0, win));
    TRUE(was == 1 || was == 2);
    if (me == 0) {
        EQUAL(1 + 2 * n, x[0]);
        EQUAL(3, x[1]);
        EQUAL(1 + 2 * n, x[2]);
        EQUAL(2, x[3]);
    }
    OK(MPI_Win_free(&win));
}

/* ---- post, start, complete, wait (12.5.2) -------------------------------------------- */

static void epochs(void)
{
    static double x[1 << 15], got[1 << 15];
    const int next = (me + 1) % n, last = (me + n - 1) % n, count = 1 << 15;
    MPI_Group world, from, to;
    MPI_Win win;
    int done = 0;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 1, &last, &from));
    OK(MPI_Group_incl(world, 1, &next, &to));
    for (int i = 0; i < count; i++)
        x[i] = me;
    OK(MPI_Win_create(x, sizeof x, sizeof *x, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_post(from, 0, win));
    OK(MPI_Win_start(to, 0, win));
    OK(MPI_Get(got, count, MPI_DOUBLE, next, 0, count, MPI_DOUBLE, win));
    OK(MPI_Win_complete(win));
    TRUE(got[0] == next && got[count - 1] == next);
    OK(MPI_Win_wait(win));
    for (int i = 0; i < count; i++)
        got[i] = 10 + me;
    OK(MPI_Win_start(to, 0, win));
    OK(MPI_Put(got, count, MPI_DOUBLE, next, 0, count, MPI_DOUBLE, win));
    OK(MPI_Win_post(from, 0, win)); /* behind operations of the access epoch */
    OK(MPI_Win_complete(win));
    while (!done)
        OK(MPI_Win_test(win, &done));
    TRUE(x[0] == 10 + last && x[count - 1] == 10 + last);
    /* a target that is in another call serves its origins */
    OK(MPI_Win_post(from, 0, win));
    OK(MPI_Win_start(to, MPI_MODE_NOCHECK, win));
    OK(MPI_Get(got, 1, MPI_DOUBLE, next, 7, 1, MPI_DOUBLE, win));
    OK(MPI_Win_complete(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    TRUE(got[0] == 10 + me);
    OK(MPI_Win_wait(win));
    OK(MPI_Win_free(&win));
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&from));
    OK(MPI_Group_free(&to));
}

/* ---- errors (12.7) ------------------------------------------------------------------- */

static void errors(void)
{
    int x[4] = { 0 }, y = 0;
    MPI_Win win;
    MPI_Errhandler own;
    OK(MPI_Win_create(x, sizeof x, sizeof *x, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_create_errhandler(on_error, &own));
    OK(MPI_Win_set_errhandler(win, own));
    OK(MPI_Errhandler_free(&own));
    handled = 0;
    FAILS(MPI_ERR_RMA_SYNC, MPI_Put(&y, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_complete(win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_wait(win));
    OK(MPI_Win_fence(0, win));
    FAILS(MPI_ERR_RANK, MPI_Put(&y, 1, MPI_INT, n, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_COUNT, MPI_Put(&y, -1, MPI_INT, 0, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_TYPE, MPI_Put(&y, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_DISP, MPI_Put(&y, 1, MPI_INT, 0, -1, 1, MPI_INT, win));
    const char *on = getenv("FTKIT_LOG_ENABLED");
    const int logged = on && strcmp(on, "true") == 0, told = handled;
    EQUAL(7, told);
    if (logged) { /* the MPI does not look */
        FAILS(MPI_ERR_RMA_RANGE, MPI_Put(&y, 1, MPI_INT, 0, 4, 1, MPI_INT, win));
        FAILS(MPI_ERR_RMA_RANGE, MPI_Get(&y, 1, MPI_INT, 0, INT64_MAX / 2, 1, MPI_INT, win));
        FAILS(MPI_ERR_OP, MPI_Accumulate(&y, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_OP_NULL, win));
        FAILS(MPI_ERR_OP, MPI_Accumulate(&y, 1, MPI_FLOAT, 0, 0, 1, MPI_FLOAT, MPI_BAND, win));
        FAILS(MPI_ERR_TRUNCATE, MPI_Put(&y, 1, MPI_INT, 0, 0, 2, MPI_INT, win));
        EQUAL(told + 5, handled);
        OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win)); /* the epoch has no operation */
    }
    OK(MPI_Win_fence(0, win));
    EQUAL(0, x[0]);
    OK(MPI_Win_free(&win));
}

/* A window that is none: the error handler of MPI_COMM_WORLD has the error. */
static void no_window(void)
{
    MPI_Errhandler before;
    MPI_Win win = MPI_WIN_NULL;
    int y = 0, z = 0;
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_WIN, MPI_Put(&y, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_WIN, MPI_Get(&y, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_WIN, MPI_Fetch_and_op(&y, &z, MPI_INT, 0, 0, MPI_SUM, win));
    FAILS(MPI_ERR_WIN, MPI_Win_fence(0, win));
    FAILS(MPI_ERR_WIN, MPI_Win_complete(win));
    FAILS(MPI_ERR_WIN, MPI_Win_wait(win));
    FAILS(MPI_ERR_WIN, MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    FAILS(MPI_ERR_WIN, MPI_Win_lock_all(0, win));
    FAILS(MPI_ERR_WIN, MPI_Win_unlock(0, win));
    FAILS(MPI_ERR_WIN, MPI_Win_flush(0, win));
    FAILS(MPI_ERR_WIN, MPI_Win_sync(win));
    FAILS(MPI_ERR_WIN, MPI_Win_free(&win));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, before));
    OK(MPI_Errhandler_free(&before));
}

/* ---- dynamic windows (12.2.4) -------------------------------------------------------- */

/* Errors of the user; the MPI without ftkit does not look. */
static void not_attached(MPI_Win win, MPI_Aint there, int *x)
{
    const int y = 77, next = (me + 1) % n;
    int got[2] = { -1, -1 };
    MPI_Win other;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&y, 1, MPI_INT, next, there + 3 * (MPI_Aint)sizeof y, 1, MPI_INT, win));
    OK(MPI_Put(&y, 1, MPI_INT, next, there + COUNT * (MPI_Aint)sizeof y, 1, MPI_INT, win));
    OK(MPI_Get(got, 2, MPI_INT, next, there + (COUNT - 1) * (MPI_Aint)sizeof y, 2, MPI_INT, win));
    FAILS(MPI_ERR_RMA_RANGE, MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    EQUAL(77, x[3]);
    EQUAL(-1, got[0]);
    FAILS(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, x + 1, sizeof *x));
    FAILS(MPI_ERR_SIZE, MPI_Win_attach(win, x + COUNT, -1));
    FAILS(MPI_ERR_BASE, MPI_Win_detach(win, x + 1));
    OK(MPI_Win_create(x, sizeof *x, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &other));
    OK(MPI_Win_set_errhandler(other, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_RMA_FLAVOR, MPI_Win_attach(other, x, sizeof *x));
    OK(MPI_Win_free(&other));
}

static void dynamic(void)
{
    static int x[2 * COUNT], y[COUNT];
    const int next = (me + 1) % n, last = (me + n - 1) % n, mine = 500 + me;
    int flag, *flavor, got[4] = { 0 }, was = -1;
    MPI_Aint at[2], there[2];
    MPI_Datatype second;
    MPI_Win win;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag));
    TRUE(flag && *flavor == MPI_WIN_FLAVOR_DYNAMIC);
    OK(MPI_Win_attach(win, x, COUNT * sizeof *x));
    OK(MPI_Win_attach(win, y, sizeof y));
    for (int i = 0; i < COUNT; i++)
        x[i] = y[i] = 100 * me + i;
    OK(MPI_Get_address(x, &at[0]));
    OK(MPI_Get_address(y, &at[1]));
    OK(MPI_Sendrecv(
        at, 2, MPI_AINT, last, 0, there, 2, MPI_AINT, next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Type_vector(4, 1, 2, MPI_INT, &second));
    OK(MPI_Type_commit(&second));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&mine, 1, MPI_INT, next, there[0], 1, MPI_INT, win));
    OK(MPI_Get(got, 4, MPI_INT, next, there[1] + 4 * (MPI_Aint)sizeof *y, 1, second, win));
    OK(MPI_Fetch_and_op(&mine, &was, MPI_INT, next, there[1] + (MPI_Aint)sizeof *y, MPI_SUM, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    OK(MPI_Type_free(&second));
    EQUAL(500 + last, x[0]);
    EQUAL(100 * me + 1 + 500 + last, y[1]);
    EQUAL(100 * next + 1, was);
    for (int i = 0; i < 4; i++)
        EQUAL(100 * next + 4 + 2 * i, got[i]);
    OK(MPI_Win_detach(win, y));
    const char *on = getenv("FTKIT_LOG_ENABLED");
    if (on && strcmp(on, "true") == 0)
        not_attached(win, there[0], x);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_detach(win, x));
    OK(MPI_Win_free(&win));
}

/* A window of some ranks, and one of a process alone, which is the MPI's. */
static void parts(void)
{
    int x = -1, rank, size;
    MPI_Comm half;
    MPI_Win win;
    OK(MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &half));
    OK(MPI_Comm_rank(half, &rank));
    OK(MPI_Comm_size(half, &size));
    OK(MPI_Win_create(&x, sizeof x, 1, MPI_INFO_NULL, half, &win));
    OK(MPI_Comm_free(&half));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&me, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    EQUAL(size == 1 ? me : rank == 0 ? me % 2 : me + 2, x);
    OK(MPI_Win_free(&win));
    OK(MPI_Win_create(&x, sizeof x, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_free(&win));
}

static void body(void)
{
    facts();
    hints();
    allocated();
    operations();
    characters();
    epochs();
    errors();
    no_window();
    dynamic();
    parts();
}

int main(int argc, char **argv)
{
    return conform(argc, argv, body);
}
