/* Public calls on one rank: wrong ones are refused with a code and a text that names the
 * culprit, and nothing is lost by them.  (Restoring into other regions: t_api_misfit.c;
 * what is saved and restored: t_api_save.c.)
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "t_api.h"

#include "set/region.h"

#define NAME63 "63 bytes, the longest name that a region can have, no byte less"
#define ITEMS 100

/* ---- A program that must come to no harm ------------------------------------------------
 * Its state is registered in each test.  saved() writes a set and remembers the state;
 * kept() restarts and compares. */

static struct program {
    ftkit_ctx *ft;
    int step;
    double x[ITEMS];
    struct {
        int step;
        double x[ITEMS];
    } last;
} p;

static void begin(void)
{
    memset(&p, 0, sizeof p);
    p.ft = open_context();
    CHECK(FTKIT_OK, p.ft, ftkit_register_replicated(p.ft, "step", &p.step, 1, MPI_INT));
    CHECK(FTKIT_OK, p.ft, ftkit_register(p.ft, "x", p.x, ITEMS, MPI_DOUBLE));
}

static void saved(void)
{
    p.step++;
    fill(p.x, sizeof p.x, (uint64_t)p.step);
    save(p.ft);
    p.last.step = p.step;
    memcpy(p.last.x, p.x, sizeof p.x);
}

static void start(void)
{
    uint64_t set = 77;
    begin();
    CHECK(FTKIT_NO_SET, p.ft, ftkit_recover(p.ft, &set));
    assert_int_equal(set, 0);
    saved();
}

/* The set that is there holds the last state. */
static void check_kept(void)
{
    uint64_t set = 0;
    ftkit_info before;
    p.ft = open_context();
    p.step = -1;
    memset(p.x, SCRIBBLE, sizeof p.x);
    CHECK(FTKIT_OK, p.ft, ftkit_register_replicated(p.ft, "step", &p.step, 1, MPI_INT));
    CHECK(FTKIT_OK, p.ft, ftkit_register(p.ft, "x", p.x, ITEMS, MPI_DOUBLE));
    CHECK(FTKIT_OK, p.ft, ftkit_recover(p.ft, &set));
    before = query(p.ft);
    assert_int_equal(set, before.restored);
    assert_int_equal(set, before.committed);
    assert_int_equal(p.step, p.last.step);
    check_bytes("x", p.x, p.last.x, 0, sizeof p.x);
}

/* All is well: the program can go on, end, and be started again. */
static void kept(void)
{
    saved();
    close_context(&p.ft);
    check_kept();
    close_context(&p.ft);
}

/* ---- No context ---------------------------------------------------------------------- */

static int nothing(ftkit_ctx *ft, MPI_Comm comm, void *arg)
{
    (void)ft;
    (void)comm;
    (void)arg;
    return 0;
}

static int measure_nothing(void *arg, size_t *bytes)
{
    (void)arg;
    *bytes = 0;
    return 0;
}

static int pack_nothing(void *arg, void *buf, size_t bytes)
{
    (void)arg;
    (void)buf;
    (void)bytes;
    return 0;
}

static int unpack_nothing(void *arg, const void *buf, size_t bytes)
{
    (void)arg;
    (void)buf;
    (void)bytes;
    return 0;
}

static const ftkit_serializer empty_object = { sizeof empty_object, measure_nothing, pack_nothing,
    unpack_nothing };

/* Every call that takes a context, without one: before opening and after closing. */
static void check_no_context(ftkit_ctx *ft)
{
    size_t one[1] = { 1 };
    size_t zero[1] = { 0 };
    size_t count = 0;
    void *data = NULL;
    double x = 0;
    int done = 5;
    uint64_t set = 5;
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Win win = MPI_WIN_NULL;
    ftkit_info info = { .size = sizeof info, .rank = 5 };
    assert_null(ft);
#define REFUSED(name, ...)                                                                         \
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, #name "|context is NULL", name(ft, __VA_ARGS__))
    REFUSED(ftkit_register, "x", &x, 1, MPI_DOUBLE);
    REFUSED(ftkit_register_replicated, "x", &x, 1, MPI_DOUBLE);
    REFUSED(ftkit_register_array, "x", &x, MPI_DOUBLE, 1, one, one, zero, NULL);
    REFUSED(ftkit_register_growing, "x", &data, &count, MPI_CHAR, NULL, NULL);
    REFUSED(ftkit_register_serializer, "x", &empty_object, NULL);
    REFUSED(ftkit_register_comm, "x", &comm);
    REFUSED(ftkit_register_window, "x", &win);
    REFUSED(ftkit_resize, "x", &x, 1);
    REFUSED(ftkit_unregister, "x");
    REFUSED(ftkit_recover, &set);
    REFUSED(ftkit_request, 1);
    REFUSED(ftkit_bind_comm, &comm);
    REFUSED(ftkit_on_repair, nothing, NULL);
    REFUSED(ftkit_track_comm, MPI_COMM_WORLD);
    REFUSED(ftkit_untrack_comm, MPI_COMM_WORLD);
    REFUSED(ftkit_query, &info);
    REFUSED(ftkit_failures, NULL, &done);
    REFUSED(ftkit_test, 1, &done);
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, "ftkit_checkpoint", ftkit_checkpoint(ft));
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, "ftkit_finish", ftkit_finish(ft));
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, "ftkit_end", ftkit_end(ft));
    assert_int_equal(ftkit_step(ft, &done), 0);
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, "ftkit_step|context is NULL", done);
    done = 5;
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, "ftkit_wait", ftkit_wait(ft));
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, "ftkit_scrub", ftkit_scrub(ft, NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, "ftkit_close", ftkit_close(&ft));
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, "ftkit_close", ftkit_close(NULL));
    assert_true(ftkit_comm(ft) == MPI_COMM_NULL);
    assert_int_equal(ftkit_failed(ft), 0);
    /* outputs are untouched */
    assert_int_equal(done, 5);
    assert_int_equal(set, 5);
    assert_int_equal(info.rank, 5);
    assert_true(comm == MPI_COMM_WORLD);
}

static void no_context(void **state)
{
    (void)state;
    check_no_context(NULL);
    start();
    check_no_context(NULL); /* another one is open */
    kept();
    check_no_context(p.ft);
}

/* ---- Names --------------------------------------------------------------------------- */

static int register_as(ftkit_ctx *ft, int call, const char *name)
{
    static double x[4];
    static void *data;
    static size_t count;
    static const size_t four[1] = { 4 };
    static const size_t zero[1] = { 0 };
    static MPI_Comm comm = MPI_COMM_NULL;
    switch (call) {
    case 0:
        return ftkit_register(ft, name, x, 4, MPI_DOUBLE);
    case 1:
        return ftkit_register_replicated(ft, name, x, 4, MPI_DOUBLE);
    case 2:
        return ftkit_register_array(ft, name, x, MPI_DOUBLE, 1, four, four, zero, NULL);
    case 3:
        return ftkit_register_growing(ft, name, &data, &count, MPI_CHAR, NULL, NULL);
    case 4:
        return ftkit_register_serializer(ft, name, &empty_object, NULL);
    case 5:
        return ftkit_register_comm(ft, name, &comm);
    case 6:
        return ftkit_resize(ft, name, x, 4);
    default:
        return ftkit_unregister(ft, name);
    }
}
#define REGISTERING 6 /* of the calls above */
#define NAMING 8

static const char *const call_names[NAMING] = { "ftkit_register", "ftkit_register_replicated",
    "ftkit_register_array", "ftkit_register_growing", "ftkit_register_serializer",
    "ftkit_register_comm", "ftkit_resize", "ftkit_unregister" };

static void bad_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *words;
    } bad[] = { { "", "0" }, { NAME63 "4", "63" },
        { NAME63 NAME63 NAME63 NAME63 NAME63 NAME63 NAME63 NAME63 NAME63, "63" },
        { "a/b", "a/b|'/'" }, { "/", "'/'" }, { "new\nline", "0x0a" }, { "tab\there", "0x09" },
        { "\x1b[31mred", "0x1b|red" }, { "del\x7f", "0x7f" },
        { "gr\xc3\xb6\xc3\x9f"
          "e",
            "0xc3" } };
    _Static_assert(sizeof NAME63 == 64, "name of 63 bytes");
    start();
    for (int call = 0; call < NAMING; call++) {
        CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "name is NULL", register_as(p.ft, call, NULL));
        assert_non_null(strstr(ftkit_detail(p.ft), call_names[call]));
        for (size_t i = 0; i < COUNT(bad); i++) {
            CHECK_ERROR(FTKIT_ERR_NAME, p.ft, bad[i].words, register_as(p.ft, call, bad[i].name));
            assert_non_null(strstr(ftkit_detail(p.ft), call_names[call]));
        }
        if (call >= REGISTERING) {
            CHECK_ERROR(FTKIT_ERR_NOT_FOUND, p.ft, "nobody", register_as(p.ft, call, "nobody"));
        } else {
            static const char *const good[] = { NAME63, " ", ".", "..", "%s%n", "a b~!" };
            for (size_t i = 0; i < COUNT(good); i++) {
                CHECK(FTKIT_OK, p.ft, register_as(p.ft, call, good[i]));
                CHECK(FTKIT_OK, p.ft, ftkit_unregister(p.ft, good[i]));
            }
        }
    }
    kept();
}

static void twice(void **state)
{
    (void)state;
    start();
    for (int first = 0; first < REGISTERING; first++) {
        CHECK(FTKIT_OK, p.ft, register_as(p.ft, first, "the same"));
        for (int second = 0; second < REGISTERING; second++) {
            if (first == 2 && second == 2) { /* an array's block may be replaced */
                CHECK(FTKIT_OK, p.ft, register_as(p.ft, second, "the same"));
                continue;
            }
            CHECK_ERROR(FTKIT_ERR_EXISTS, p.ft, "the same", register_as(p.ft, second, "the same"));
        }
        CHECK(FTKIT_OK, p.ft, ftkit_unregister(p.ft, "the same"));
        CHECK_ERROR(FTKIT_ERR_NOT_FOUND, p.ft, "the same", ftkit_unregister(p.ft, "the same"));
    }
    /* the one that was there first is the one that counts */
    double other[ITEMS] = { 0 };
    CHECK_ERROR(FTKIT_ERR_EXISTS, p.ft, "'x'", ftkit_register(p.ft, "x", other, ITEMS, MPI_DOUBLE));
    kept();
}

/* ---- Arguments ----------------------------------------------------------------------- */

static void bad_data(void **state)
{
    (void)state;
    static const size_t huge = SIZE_MAX / 2;
    double x[4];
    size_t count = 0;
    void *data = NULL;
    MPI_Datatype empty;
    MPI_Type_contiguous(0, MPI_DOUBLE, &empty);
    start();
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'r'|data", ftkit_register(p.ft, "r", NULL, 4, MPI_DOUBLE));
    CHECK_ERROR(
        FTKIT_ERR_ARG, p.ft, "'r'|data", ftkit_register_replicated(p.ft, "r", NULL, 4, MPI_DOUBLE));
    CHECK_ERROR(FTKIT_ERR_SIZE, p.ft, "'r'|8", ftkit_register(p.ft, "r", x, huge, MPI_DOUBLE));
    CHECK_ERROR(FTKIT_ERR_TYPE, p.ft, "'r'|MPI_DATATYPE_NULL",
        ftkit_register(p.ft, "r", x, 4, MPI_DATATYPE_NULL));
    CHECK_ERROR(FTKIT_ERR_TYPE, p.ft, "'r'|empty", ftkit_register(p.ft, "r", x, 4, empty));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'r'|NULL",
        ftkit_register_growing(p.ft, "r", NULL, &count, MPI_CHAR, NULL, NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'r'|NULL",
        ftkit_register_growing(p.ft, "r", &data, NULL, MPI_CHAR, NULL, NULL));
    CHECK_ERROR(FTKIT_ERR_TYPE, p.ft, "'r'",
        ftkit_register_growing(p.ft, "r", &data, &count, MPI_DATATYPE_NULL, NULL, NULL));
    for (int missing = 0; missing < 5; missing++) {
        ftkit_serializer ops = empty_object;
        if (missing == 1)
            ops.measure = NULL;
        if (missing == 2)
            ops.pack = NULL;
        if (missing == 3)
            ops.unpack = NULL;
        if (missing == 4)
            ops.size = 0;
        CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'r'",
            ftkit_register_serializer(p.ft, "r", missing ? &ops : NULL, NULL));
    }
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'r'|comm", ftkit_register_comm(p.ft, "r", NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'x'|data", ftkit_resize(p.ft, "x", NULL, 4));
    CHECK_ERROR(FTKIT_ERR_SIZE, p.ft, "'x'", ftkit_resize(p.ft, "x", p.x, huge));
    MPI_Type_free(&empty);
    CHECK_ERROR(FTKIT_ERR_NOT_FOUND, p.ft, "'r'", ftkit_unregister(p.ft, "r"));
    /* found only when a set is written: no set, the last one holds */
    CHECK(FTKIT_OK, p.ft, ftkit_register_growing(p.ft, "r", &data, &count, MPI_CHAR, NULL, NULL));
    count = 3;
    CHECK(FTKIT_OK, p.ft, ftkit_request(p.ft, 1));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'r'|NULL", ftkit_checkpoint(p.ft));
    count = SIZE_MAX;
    data = x;
    CHECK(FTKIT_OK, p.ft, ftkit_checkpoint(p.ft)); /* without a request not before a period */
    CHECK(FTKIT_OK, p.ft, ftkit_request(p.ft, 1));
    CHECK_ERROR(FTKIT_ERR_SIZE, p.ft, "'r'", ftkit_checkpoint(p.ft));
    assert_int_equal(query(p.ft).committed, 1);
    CHECK(FTKIT_OK, p.ft, ftkit_unregister(p.ft, "r"));
    kept();
}

/* A region that is refused leaves the late ones of the library in the list, as that of the log. */
static void bad_before_late(void **state)
{
    (void)state;
    const struct ftk_system_region late = { .name = "late", .ops = empty_object, .late = true };
    double x[4];
    start();
    CHECK(FTKIT_OK, p.ft, ftk_region_add_system(p.ft, &late));
    CHECK_ERROR(
        FTKIT_ERR_SIZE, p.ft, "'r'|8", ftkit_register(p.ft, "r", x, SIZE_MAX / 2, MPI_DOUBLE));
    assert_null(ftk_region_find(p.ft, "r"));
    assert_non_null(ftk_region_find(p.ft, "late"));
    CHECK(FTKIT_OK, p.ft, ftkit_unregister(p.ft, "late"));
    kept();
}

static void bad_arrays(void **state)
{
    (void)state;
    static const size_t max = SIZE_MAX;
    double a[400];
    size_t g[FTKIT_DIMS_MAX + 1];
    size_t zero[FTKIT_DIMS_MAX + 1] = { 0 };
    MPI_Datatype pair;
    for (size_t d = 0; d < COUNT(g); d++)
        g[d] = 1;
    start();
#define ARRAY(data, type, n, global, local, start, halo)                                           \
    ftkit_register_array(p.ft, "arr", data, type, n, global, local, start, halo)
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'arr'|0", ARRAY(a, MPI_DOUBLE, 0, g, g, zero, NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'arr'|-1", ARRAY(a, MPI_DOUBLE, -1, g, g, zero, NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'arr'|16", ARRAY(a, MPI_DOUBLE, 16, g, g, zero, NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'arr'|NULL", ARRAY(a, MPI_DOUBLE, 2, NULL, g, zero, NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'arr'|NULL", ARRAY(a, MPI_DOUBLE, 2, g, NULL, zero, NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'arr'|NULL", ARRAY(a, MPI_DOUBLE, 2, g, g, NULL, NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'arr'|data", ARRAY(NULL, MPI_DOUBLE, 2, g, g, zero, NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'arr'|dimension 1",
        ARRAY(a, MPI_DOUBLE, 2, ((size_t[]){ 4, 4 }), ((size_t[]){ 4, 3 }), ((size_t[]){ 0, 2 }),
            NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "'arr'|dimension 0",
        ARRAY(a, MPI_DOUBLE, 1, ((size_t[]){ 4 }), ((size_t[]){ 1 }), ((size_t[]){ max }), NULL));
    /* sizes that overflow when they are added or multiplied must not become small ones */
    CHECK_ERROR(FTKIT_ERR_SIZE, p.ft, "'arr'",
        ARRAY(a, MPI_DOUBLE, 1, &max, &max, zero, ((size_t[]){ 1 })));
    CHECK_ERROR(FTKIT_ERR_SIZE, p.ft, "'arr'",
        ARRAY(a, MPI_DOUBLE, 1, ((size_t[]){ max - 1 }), ((size_t[]){ max - 1 }), zero,
            ((size_t[]){ 1 })));
    CHECK_ERROR(FTKIT_ERR_SIZE, p.ft, "'arr'", ARRAY(a, MPI_DOUBLE, 1, g, g, zero, &max));
    CHECK_ERROR(FTKIT_ERR_SIZE, p.ft, "'arr'",
        ARRAY(a, MPI_DOUBLE, 2, ((size_t[]){ max, max }), ((size_t[]){ max, max }), zero, NULL));
    CHECK_ERROR(FTKIT_ERR_SIZE, p.ft, "'arr'",
        ARRAY(a, MPI_DOUBLE, 1, ((size_t[]){ max / 8 }), ((size_t[]){ max / 8 }), zero, NULL));
    CHECK_ERROR(FTKIT_ERR_TYPE, p.ft, "'arr'", ARRAY(a, MPI_DATATYPE_NULL, 1, g, g, zero, NULL));
    MPI_Type_contiguous(2, MPI_DOUBLE, &pair);
    CHECK_ERROR(FTKIT_ERR_TYPE, p.ft, "'arr'|predefined", ARRAY(a, pair, 1, g, g, zero, NULL));
    MPI_Type_free(&pair);
    CHECK_ERROR(FTKIT_ERR_NOT_FOUND, p.ft, "'arr'", ftkit_unregister(p.ft, "arr"));
    /* and when it is there already */
    CHECK(FTKIT_OK, p.ft, ARRAY(a, MPI_DOUBLE, 1, ((size_t[]){ 9 }), g, zero, NULL));
    CHECK_ERROR(FTKIT_ERR_SIZE, p.ft, "'arr'|shape",
        ARRAY(a, MPI_DOUBLE, 1, ((size_t[]){ 8 }), g, zero, NULL));
    CHECK_ERROR(FTKIT_ERR_SIZE, p.ft, "'arr'|shape",
        ARRAY(a, MPI_DOUBLE, 2, ((size_t[]){ 9, 1 }), g, zero, NULL));
    CHECK_ERROR(FTKIT_ERR_TYPE, p.ft, "'arr'|type",
        ARRAY(a, MPI_INT64_T, 1, ((size_t[]){ 9 }), g, zero, NULL));
    CHECK_ERROR(FTKIT_ERR_STATE, p.ft, "'arr'", ftkit_resize(p.ft, "arr", a, 2));
    CHECK(FTKIT_OK, p.ft, ftkit_unregister(p.ft, "arr"));
    kept();
}

static void bad_arguments(void **state)
{
    (void)state;
    MPI_Comm bound[20];
    MPI_Comm many[70];
    ftkit_info info = { .size = 0 };
    ftkit_failure lost;
    int done = 5, none = 0, less = -1;
    size_t n;
    start();
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "ftkit_query", ftkit_query(p.ft, NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "ftkit_query|size", ftkit_query(p.ft, &info));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "ftkit_failures", ftkit_failures(p.ft, NULL, NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "ftkit_failures", ftkit_failures(p.ft, NULL, &done));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "ftkit_failures", ftkit_failures(p.ft, &lost, &less));
    CHECK(FTKIT_OK, p.ft, ftkit_failures(p.ft, NULL, &none));
    assert_int_equal(none, 0);
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "ftkit_test", ftkit_test(p.ft, 1, NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "ftkit_test|0", ftkit_test(p.ft, 0, &done));
    assert_int_equal(done, 5);
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "ftkit_bind_comm", ftkit_bind_comm(p.ft, NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "ftkit_track_comm", ftkit_track_comm(p.ft, MPI_COMM_NULL));
    CHECK_ERROR(FTKIT_ERR_NOT_FOUND, p.ft, "not tracked", ftkit_untrack_comm(p.ft, MPI_COMM_WORLD));
    for (n = 0; n < COUNT(bound); n++) {
        int rc = ftkit_bind_comm(p.ft, &bound[n]);
        if (rc != FTKIT_OK) {
            CHECK_ERROR(FTKIT_ERR_STATE, p.ft, "ftkit_bind_comm|at most", rc);
            break;
        }
        assert_true(bound[n] == ftkit_comm(p.ft));
    }
    assert_in_range(n, 8, COUNT(bound) - 1);
    for (n = 0; n < COUNT(many); n++) {
        MPI_Comm_dup(MPI_COMM_SELF, &many[n]);
        int rc = ftkit_track_comm(p.ft, many[n]);
        if (rc != FTKIT_OK) {
            CHECK_ERROR(FTKIT_ERR_STATE, p.ft, "at most|communicators", rc);
            MPI_Comm_free(&many[n]);
            break;
        }
    }
    assert_in_range(n, 8, COUNT(many) - 1);
    CHECK(FTKIT_OK, p.ft, ftkit_untrack_comm(p.ft, many[0]));
    CHECK_ERROR(FTKIT_ERR_NOT_FOUND, p.ft, "not tracked", ftkit_untrack_comm(p.ft, many[0]));
    CHECK(FTKIT_OK, p.ft, ftkit_track_comm(p.ft, many[0]));
    for (size_t i = 0; i < n; i++)
        MPI_Comm_free(&many[i]); /* and forget it */
    MPI_Comm_dup(MPI_COMM_SELF, &many[0]);
    CHECK(FTKIT_OK, p.ft, ftkit_track_comm(p.ft, many[0]));
    kept(); /* closes with one tracked */
    MPI_Comm_free(&many[0]);
}

/* ---- Order of calls ------------------------------------------------------------------ */

static void out_of_order(void **state)
{
    (void)state;
    begin();
    CHECK_ERROR(
        FTKIT_ERR_STATE, p.ft, "ftkit_checkpoint|before ftkit_recover", ftkit_checkpoint(p.ft));
    CHECK_ERROR(FTKIT_ERR_STATE, p.ft, "ftkit_finish|before ftkit_recover", ftkit_finish(p.ft));
    CHECK(FTKIT_OK, p.ft, ftkit_on_repair(p.ft, nothing, NULL));
    CHECK(FTKIT_OK, p.ft, ftkit_request(p.ft, 1)); /* allowed: counts later */
    CHECK(FTKIT_NO_SET, p.ft, ftkit_recover(p.ft, NULL));
    CHECK_ERROR(FTKIT_ERR_STATE, p.ft, "ftkit_recover|once", ftkit_recover(p.ft, NULL));
    CHECK_ERROR(FTKIT_ERR_STATE, p.ft, "ftkit_on_repair|ftkit_recover",
        ftkit_on_repair(p.ft, nothing, NULL));
    saved();
    CHECK_ERROR(FTKIT_ERR_STATE, p.ft, "ftkit_recover|once", ftkit_recover(p.ft, NULL));
    CHECK(FTKIT_OK, p.ft, ftkit_finish(p.ft));
    CHECK(FTKIT_OK, p.ft, ftkit_finish(p.ft)); /* harmless */
    CHECK(FTKIT_OK, p.ft, ftkit_wait(p.ft));
    kept();
}

/* The body of a loop with ftkit_step() is entered with this code, or is not. */
#define ENTER(want, more)                                                                          \
    do {                                                                                           \
        int code = 77;                                                                             \
        assert_int_equal(ftkit_step(p.ft, &code), (more));                                         \
        CHECK((want), p.ft, code);                                                                 \
    } while (0)

static void steps(void **state)
{
    int rc = 77;
    (void)state;
    begin();
    CHECK_ERROR(FTKIT_ERR_STATE, p.ft, "ftkit_end|body", ftkit_end(p.ft));
    CHECK(FTKIT_OK, p.ft, ftkit_request(p.ft, 1));
    ENTER(FTKIT_NO_SET, 1); /* writes the set of the first step */
    CHECK(FTKIT_OK, p.ft, ftkit_wait(p.ft));
    close_context(&p.ft);
    begin();
    ENTER(FTKIT_NO_SET, 1); /* as before: the state is that of the first step */
    CHECK_ERROR(FTKIT_ERR_STATE, p.ft, "ftkit_recover|once", ftkit_recover(p.ft, NULL));
    p.step = 5;
    CHECK(FTKIT_OK, p.ft, ftkit_request(p.ft, 1));
    ENTER(FTKIT_OK, 1);
    CHECK(FTKIT_OK, p.ft, ftkit_wait(p.ft));
    close_context(&p.ft);
    begin();
    ENTER(FTKIT_ROLLED_BACK, 1);
    assert_int_equal(p.step, 5);
    CHECK(FTKIT_OK, p.ft, ftkit_end(p.ft));
    CHECK(FTKIT_OK, p.ft, ftkit_end(p.ft)); /* harmless */
    ENTER(FTKIT_OK, 0);
    assert_int_equal(ftkit_step(p.ft, &rc), 0);
    CHECK_ERROR(FTKIT_ERR_STATE, p.ft, "ftkit_step|over", rc);
    CHECK_ERROR(FTKIT_ERR_STATE, p.ft, "ftkit_end|body", ftkit_end(p.ft));
    close_context(&p.ft);
    begin();
    CHECK(FTKIT_OK, p.ft, ftkit_recover(p.ft, NULL));
    assert_int_equal(ftkit_step(p.ft, &rc), 0);
    CHECK_ERROR(FTKIT_ERR_STATE, p.ft, "ftkit_step|ftkit_recover|before", rc);
    close_context(&p.ft);
    begin();
    assert_int_equal(ftkit_step(p.ft, NULL), 0);
    close_context(&p.ft);
}

/* A set that an older version of the program has written, without ftkit_step(). */
static void steps_from_older_set(void **state)
{
    (void)state;
    start();
    close_context(&p.ft);
    begin();
    ENTER(FTKIT_ROLLED_BACK, 1);
    assert_int_equal(p.step, 1);
    close_context(&p.ft);
}

/* A file to which the program appends. */
static void offsets(void **state)
{
    int64_t at = -1;
    struct stat st;
    int rc = 77;
    (void)state;
    begin();
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "offset", ftkit_register_offset(p.ft, "log", "log", NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, p.ft, "negative", ftkit_register_offset(p.ft, "log", "log", &at));
    at = 0;
    CHECK(FTKIT_OK, p.ft, ftkit_register_offset(p.ft, "log", "log", &at));
    CHECK_ERROR(FTKIT_ERR_EXISTS, p.ft, "'log'", ftkit_register_offset(p.ft, "log", "b", &at));
    FILE *f = fopen("log", "a");
    assert_non_null(f);
    fprintf(f, "old\n");
    fflush(f);
    ENTER(FTKIT_NO_SET, 1);
    assert_int_equal(stat("log", &st), 0);
    assert_int_equal(st.st_size, 0); /* a fresh start */
    fprintf(f, "one\n");
    at = 4;
    CHECK(FTKIT_OK, p.ft, ftkit_request(p.ft, 1));
    assert_int_equal(ftkit_step(p.ft, &rc), 1);
    CHECK_ERROR(FTKIT_ERR_STATE, p.ft, "0 bytes|offset is 4|fflush", rc);
    fflush(f);
    CHECK(FTKIT_OK, p.ft, ftkit_request(p.ft, 1));
    ENTER(FTKIT_OK, 1);
    CHECK(FTKIT_OK, p.ft, ftkit_wait(p.ft));
    fprintf(f, "two\n");
    fclose(f);
    close_context(&p.ft);
    at = 0;
    begin();
    CHECK(FTKIT_OK, p.ft, ftkit_register_offset(p.ft, "log", "log", &at));
    ENTER(FTKIT_ROLLED_BACK, 1);
    assert_int_equal(at, 4);
    assert_int_equal(stat("log", &st), 0);
    assert_int_equal(st.st_size, 4);
    close_context(&p.ft);
    assert_int_equal(truncate("log", 2), 0);
    begin();
    CHECK(FTKIT_OK, p.ft, ftkit_register_offset(p.ft, "log", "log", &at));
    assert_int_equal(ftkit_step(p.ft, &rc), 0);
    CHECK_ERROR(FTKIT_ERR_IO, p.ft, "2 bytes|had 4", rc);
    CHECK(FTKIT_ERR_IO, NULL, ftkit_close(&p.ft));
    assert_int_equal(unlink("log"), 0);
}

static void without_recover(void **state)
{
    (void)state;
    start();
    close_context(&p.ft);
    p.ft = open_context(); /* for nothing */
    CHECK(FTKIT_OK, p.ft, ftkit_register(p.ft, "x", p.x, ITEMS, MPI_DOUBLE));
    close_context(&p.ft);
    check_kept();
    kept();
}

/* The memory of a region moves and changes size; the library is told, or it is not. */
static void resized(void **state)
{
    (void)state;
    double *y = filled(10 * sizeof *y, 1);
    double *more = filled(30 * sizeof *y, 2);
    start();
    CHECK(FTKIT_OK, p.ft, ftkit_register(p.ft, "y", y, 10, MPI_DOUBLE));
    saved();
    /* step, x and y, each at a multiple of 64 bytes */
    assert_int_equal(query(p.ft).region_bytes, 64 + 832 + 80);
    free(y);
    CHECK_ERROR(FTKIT_ERR_EXISTS, p.ft, "'y'|ftkit_resize",
        ftkit_register(p.ft, "y", more, 30, MPI_DOUBLE));
    CHECK(FTKIT_OK, p.ft, ftkit_resize(p.ft, "y", more, 30));
    saved();
    CHECK(FTKIT_OK, p.ft, ftkit_resize(p.ft, "y", NULL, 0));
    saved();
    CHECK(FTKIT_OK, p.ft, ftkit_resize(p.ft, "y", more, 30));
    saved();
    close_context(&p.ft);
    free(more);
    check_kept();
    kept();
}

/* A region of the set that nobody asks for is ignored. */
static void fewer_regions(void **state)
{
    (void)state;
    double y[5] = { 1, 2, 3, 4, 5 };
    start();
    CHECK(FTKIT_OK, p.ft, ftkit_register(p.ft, "a", y, 5, MPI_DOUBLE));
    CHECK(FTKIT_OK, p.ft, ftkit_register(p.ft, "z", y, 5, MPI_DOUBLE));
    saved();
    close_context(&p.ft);
    check_kept();
    kept();
}

/* ---- Opening ------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void bad_configurations(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = { { "[spares]\ncuont = 2\n", "bad.ini|2|cuont|count" },
        { "[context]\nname = a\n\n[recover]\ntimeout = soon\n", "bad.ini|5|timeout|soon" },
        { "[level.hdf5]\ndirectory = nowhere\n", "bad.ini|nowhere" },
        { "[context]\nname = other\n\n[spares]\ncount = 1\n", "spares.count|1" } };
    ftkit_ctx *ft = (ftkit_ctx *)work; /* a value that must stay */
    ftkit_ctx *none = NULL;
    start();
    for (size_t i = 0; i < COUNT(bad); i++) {
        write_file("bad.ini", bad[i].text);
        CHECK_ERROR(
            FTKIT_ERR_CONFIG, NULL, bad[i].words, ftkit_open(MPI_COMM_SELF, "bad.ini", &ft));
        assert_ptr_equal(ft, work);
    }
    CHECK_ERROR(
        FTKIT_ERR_CONFIG, NULL, "missing.ini", ftkit_open(MPI_COMM_SELF, "missing.ini", &ft));
    setenv("FTKIT_CHECKPOINT_PERIOD", "often", 1);
    CHECK_ERROR(FTKIT_ERR_CONFIG, NULL, "FTKIT_CHECKPOINT_PERIOD|often",
        ftkit_open(MPI_COMM_SELF, NULL, &ft));
    unsetenv("FTKIT_CHECKPOINT_PERIOD");
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, "ftkit_open|ctx", ftkit_open(MPI_COMM_SELF, NULL, NULL));
    CHECK_ERROR(
        FTKIT_ERR_ARG, NULL, "ftkit_open|MPI_COMM_NULL", ftkit_open(MPI_COMM_NULL, NULL, &ft));
    assert_ptr_equal(ft, work);
    /* a good one after it, and both are independent */
    write_file("good.ini", "[context]\nname = other\n[checkpoint]\nperiod = 3 calls\n");
    CHECK(FTKIT_OK, NULL, ftkit_open(MPI_COMM_SELF, "good.ini", &none));
    CHECK(FTKIT_OK, none, ftkit_register(none, "x", p.x, ITEMS, MPI_DOUBLE));
    CHECK(FTKIT_NO_SET, none, ftkit_recover(none, NULL));
    saved();
    for (int i = 0; i < 7; i++)
        CHECK(FTKIT_OK, none, ftkit_checkpoint(none));
    assert_int_equal(query(none).committed, 3); /* calls 1, 4, 7 */
    assert_int_equal(query(p.ft).committed, 2);
    close_context(&none);
    kept();
}

/* ---- Information --------------------------------------------------------------------- */

static void texts(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *text;
    } all[] = {
#define ROW(name, value, text) { FTKIT_##name, text },
        FTKIT_STATUS_LIST(ROW)
#undef ROW
    };
    for (size_t i = 0; i < COUNT(all); i++) {
        assert_string_equal(ftkit_strerror(all[i].code), all[i].text);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(all[i].code, all[j].code);
            assert_string_not_equal(all[i].text, all[j].text);
        }
    }
    static const int unknown[] = { 6, 1000, -11, -19, -26, -98, -100, INT32_MIN, INT32_MAX };
    for (size_t i = 0; i < COUNT(unknown); i++)
        assert_string_equal(ftkit_strerror(unknown[i]), "unknown status");
    char version[40];
    snprintf(version, sizeof version, "%d.%d.%d", FTKIT_VERSION_MAJOR, FTKIT_VERSION_MINOR,
        FTKIT_VERSION_PATCH);
    assert_string_equal(ftkit_version(), version);
}

static void information(void **state)
{
    (void)state;
    unsigned char raw[sizeof(ftkit_info) + 64];
    ftkit_info info;
    size_t gap = offsetof(ftkit_info, rollbacks) + sizeof info.rollbacks;
    int done = 5;
    start();
    assert_string_equal(ftkit_detail(p.ft), ""); /* nothing has failed */
    info = query(p.ft);
    assert_int_equal(info.size, sizeof info);
    assert_int_equal(info.mode, FTKIT_MODE_RESTART); /* a singleton has no ULFM */
    assert_int_equal(info.rank, 0);
    assert_int_equal(info.nranks, 1);
    assert_int_equal(info.nspares, 0);
    assert_int_equal(info.incarnation, 0);
    assert_int_equal(info.repairs, 0);
    assert_int_equal(info.rollbacks, 0);
    assert_int_equal(info.committed, 1);
    assert_int_equal(info.durable, 1);
    assert_int_equal(info.restored, 0);
    assert_in_range(info.region_bytes, sizeof p.x + sizeof p.step, sizeof p.x + 128);
    assert_in_range(info.memory_bytes, info.region_bytes, info.region_bytes + 8192);
    assert_true(info.checkpoint_s > 0 && info.checkpoint_s < 60);
    /* a program with an older header: not a byte beyond its size */
    for (size_t size = sizeof info.size; size <= sizeof info; size++) {
        memset(raw, SCRIBBLE, sizeof raw);
        memcpy(raw, &size, sizeof size);
        CHECK(FTKIT_OK, p.ft, ftkit_query(p.ft, (ftkit_info *)(void *)raw));
        for (size_t i = sizeof size; i < size; i++)
            if (i < gap || i >= offsetof(ftkit_info, committed))
                assert_int_equal(raw[i], ((const unsigned char *)&info)[i]);
        assert_memory_equal(raw, &size, sizeof size);
        for (size_t i = size; i < sizeof raw; i++)
            assert_int_equal(raw[i], SCRIBBLE);
    }
    /* with a newer one: the rest is its own */
    size_t size = sizeof raw;
    memset(raw, SCRIBBLE, sizeof raw);
    memcpy(raw, &size, sizeof size);
    CHECK(FTKIT_OK, p.ft, ftkit_query(p.ft, (ftkit_info *)(void *)raw));
    for (size_t i = sizeof info; i < sizeof raw; i++)
        assert_int_equal(raw[i], SCRIBBLE);

    CHECK(FTKIT_OK, p.ft, ftkit_test(p.ft, 1, &done));
    assert_int_equal(done, 1);
    CHECK(FTKIT_OK, p.ft, ftkit_test(p.ft, 2, &done));
    assert_int_equal(done, 0);
    CHECK(FTKIT_OK, p.ft, ftkit_test(p.ft, UINT64_MAX, &done));
    assert_int_equal(done, 0);
    assert_int_equal(ftkit_failed(p.ft), 0);
    int cmp;
    MPI_Comm_compare(ftkit_comm(p.ft), MPI_COMM_SELF, &cmp);
    assert_int_equal(cmp, MPI_CONGRUENT);
    kept();
}

struct heard {
    int lines, worst;
    char all[8192];
};

static void listen(int level, const char *line, void *arg)
{
    struct heard *h = arg;
    size_t n = strlen(h->all);
    h->lines++;
    if (level < h->worst)
        h->worst = level;
    snprintf(h->all + n, sizeof h->all - n, "%s\n", line);
}

static void reports(void **state)
{
    (void)state;
    struct heard h = { .worst = FTKIT_DEBUG };
    CHECK(FTKIT_OK, NULL, ftkit_set_report(listen, &h));
    start();
    assert_true(h.lines > 0);
    assert_int_equal(h.worst, FTKIT_WARNING); /* that failures are not repaired */
    assert_non_null(strstr(h.all, "restart"));
    kept();
    assert_non_null(strstr(h.all, "restored set 2"));
    CHECK(FTKIT_OK, NULL, ftkit_set_report(NULL, NULL));
    int lines = h.lines;
    check_kept();
    kept();
    assert_int_equal(h.lines, lines);
}

/* ---- Storage ------------------------------------------------------------------------- */

static void no_files(void **state)
{
    (void)state;
    int done = 5;
    setenv("FTKIT_LEVEL_HDF5_ENABLED", "false", 1);
    begin();
    CHECK(FTKIT_NO_SET, p.ft, ftkit_recover(p.ft, NULL));
    CHECK_ERROR(FTKIT_ERR_UNSUPPORTED, p.ft, "level.hdf5.enabled", ftkit_request(p.ft, 1));
    CHECK(FTKIT_OK, p.ft, ftkit_request(p.ft, 0));
    CHECK(FTKIT_OK, p.ft, ftkit_checkpoint(p.ft));
    assert_int_equal(query(p.ft).committed, 1);
    assert_int_equal(query(p.ft).durable, 0);
    CHECK(FTKIT_OK, p.ft, ftkit_test(p.ft, 1, &done));
    assert_int_equal(done, 0);
    close_context(&p.ft);
    unsetenv("FTKIT_LEVEL_HDF5_ENABLED");
    start(); /* nobody finds anything */
    kept();
}

/* The directory of the sets is gone for a while: an error each time, and the run goes on.
 */
static void vanished_directory(void **state)
{
    (void)state;
    assert_int_equal(mkdir("sets", 0755), 0);
    setenv("FTKIT_LEVEL_HDF5_DIRECTORY", "sets", 1);
    start();
    assert_int_equal(rename("sets", "elsewhere"), 0);
    for (uint64_t set = 2; set < 4; set++) {
        CHECK(FTKIT_OK, p.ft, ftkit_request(p.ft, 1));
        CHECK(FTKIT_OK, p.ft, ftkit_checkpoint(p.ft));
        assert_int_equal(query(p.ft).committed, set); /* in memory it is there */
        CHECK_ERROR(FTKIT_ERR_IO, p.ft, "sets", ftkit_wait(p.ft));
        assert_int_equal(query(p.ft).durable, 1);
        CHECK(FTKIT_OK, p.ft, ftkit_checkpoint(p.ft));
    }
    assert_int_equal(rename("elsewhere", "sets"), 0);
    kept();
    unsetenv("FTKIT_LEVEL_HDF5_DIRECTORY");
}

/* Flip a bit of the region x that the set holds. */
static void flip(uint64_t set, const double *x)
{
    static char bytes[1 << 20];
    char path[80];
    snprintf(path, sizeof path, "default.ftkit/set-%010" PRIu64 "/part-00000.h5", set);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    const char *at = memmem(bytes, n, x, sizeof p.x);
    assert_non_null(at);
    assert_int_equal(fseek(f, at - bytes + 123, SEEK_SET), 0);
    assert_int_not_equal(fputc(at[123] ^ 0x10, f), EOF);
    assert_int_equal(fclose(f), 0);
}

/* A damaged set is never restored: the one before it is, and when there is none, that is
 * an error and no fresh start. */
static void damaged_sets(void **state)
{
    (void)state;
    double first[ITEMS];
    uint64_t set = 0;
    start();
    memcpy(first, p.x, sizeof first);
    saved();
    close_context(&p.ft);
    flip(2, p.last.x);
    begin();
    CHECK(FTKIT_OK, p.ft, ftkit_recover(p.ft, &set));
    assert_int_equal(set, 1);
    assert_int_equal(p.step, 1);
    check_bytes("x", p.x, first, 0, sizeof first);
    close_context(&p.ft);
    flip(1, first);
    begin();
    CHECK_ERROR(FTKIT_ERR_CORRUPT, p.ft, "set 1|'x'", ftkit_recover(p.ft, NULL));
    assert_int_equal(ftkit_close(&p.ft), FTKIT_ERR_CORRUPT);
}

/* ---- Before and after MPI ------------------------------------------------------------ */

static int outside_mpi(const char *when)
{
    ftkit_ctx *ft = NULL;
    int rc = ftkit_open(MPI_COMM_WORLD, NULL, &ft);
    if (rc == FTKIT_ERR_STATE && strstr(ftkit_detail(NULL), when) && !ft)
        return 0;
    fprintf(stderr, "%s: ftkit_open: %d: %s\n", when, rc, ftkit_detail(NULL));
    return 1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(no_context),
        TEST(bad_names),
        TEST(twice),
        TEST(bad_data),
        TEST(bad_before_late),
        TEST(bad_arrays),
        TEST(bad_arguments),
        TEST(out_of_order),
        TEST(steps),
        TEST(steps_from_older_set),
        TEST(offsets),
        TEST(without_recover),
        TEST(resized),
        TEST(fewer_regions),
        TEST(bad_configurations),
        TEST(texts),
        TEST(information),
        TEST(reports),
        TEST(no_files),
        TEST(vanished_directory),
        TEST(damaged_sets),
    };
    int bad = outside_mpi("before MPI_Init");
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS || make_work() != 0)
        return 1;
    bad |= cmocka_run_group_tests(tests, NULL, NULL);
    bad |= remove_work();
    MPI_Finalize();
    bad |= outside_mpi("after MPI_Finalize");
    return bad != 0;
}
