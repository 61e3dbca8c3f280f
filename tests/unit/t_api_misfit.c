/* A set whose regions are not those of the program: refused with a code and a text that
 * names the region, and neither the program's memory nor the set comes to harm.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "t_api.h"

#define ITEMS 100

static int resize_nothing(void **data, size_t count, void *arg)
{
    (void)data;
    (void)count;
    (void)arg;
    return 1;
}

/* What the second run registers instead of the first one's regions. */
struct variant {
    const char *what;
    int want;
    const char *words;
    int (*put)(ftkit_ctx *ft);
};

static struct {
    double x[ITEMS], other[2 * ITEMS];
    float grid[8][8];
    void *list;
    size_t nlist;
    int step;
} v;

static const size_t grid_shape[2] = { 6, 6 };
static const size_t grid_zero[2] = { 0, 0 };
static const size_t grid_halo[2] = { 1, 1 };

static int put_good(ftkit_ctx *ft)
{
    return ftkit_register_replicated(ft, "step", &v.step, 1, MPI_INT)
           | ftkit_register(ft, "x", v.x, ITEMS, MPI_DOUBLE)
           | ftkit_register_array(
               ft, "grid", v.grid, MPI_FLOAT, 2, grid_shape, grid_shape, grid_zero, grid_halo)
           | ftkit_register_growing(ft, "list", &v.list, &v.nlist, MPI_INT16_T, NULL, NULL);
}

/* Everything as it was, but for one region. */
static int put_but(ftkit_ctx *ft, const char *name)
{
    int rc = put_good(ft);
    return rc != FTKIT_OK ? rc : ftkit_unregister(ft, name);
}

static int put_smaller(ftkit_ctx *ft)
{
    return put_good(ft) | ftkit_resize(ft, "x", v.x, ITEMS - 1);
}
static int put_larger(ftkit_ctx *ft)
{
    return put_good(ft) | ftkit_resize(ft, "x", v.other, ITEMS + 1);
}
static int put_none(ftkit_ctx *ft)
{
    return put_good(ft) | ftkit_resize(ft, "x", NULL, 0);
}
static int put_type(ftkit_ctx *ft)
{
    return put_but(ft, "x") | ftkit_register(ft, "x", v.other, ITEMS, MPI_INT64_T);
}
static int put_width(ftkit_ctx *ft)
{
    return put_but(ft, "x") | ftkit_register(ft, "x", v.other, ITEMS, MPI_FLOAT);
}
static int put_kind(ftkit_ctx *ft)
{
    return put_but(ft, "x") | ftkit_register_replicated(ft, "x", v.other, ITEMS, MPI_DOUBLE);
}
static int put_extra(ftkit_ctx *ft)
{
    return put_good(ft) | ftkit_register(ft, "news", v.other, 1, MPI_DOUBLE);
}
static int put_shape(ftkit_ctx *ft)
{
    static const size_t shape[2] = { 6, 7 };
    return put_but(ft, "grid")
           | ftkit_register_array(
               ft, "grid", v.other, MPI_FLOAT, 2, shape, grid_shape, grid_zero, grid_halo);
}
static int put_transposed(ftkit_ctx *ft)
{
    static const size_t shape[1] = { 36 };
    return put_but(ft, "grid")
           | ftkit_register_array(ft, "grid", v.other, MPI_FLOAT, 1, shape, shape, grid_zero, NULL);
}
static int put_element(ftkit_ctx *ft)
{
    return put_but(ft, "grid")
           | ftkit_register_array(
               ft, "grid", v.other, MPI_INT32_T, 2, grid_shape, grid_shape, grid_zero, grid_halo);
}
static int put_list_type(ftkit_ctx *ft)
{
    return put_but(ft, "list")
           | ftkit_register_growing(ft, "list", &v.list, &v.nlist, MPI_UINT16_T, NULL, NULL);
}
static int put_no_memory(ftkit_ctx *ft)
{
    return put_but(ft, "list")
           | ftkit_register_growing(
               ft, "list", &v.list, &v.nlist, MPI_INT16_T, resize_nothing, NULL);
}

static const struct variant variants[] = {
    { "smaller", FTKIT_ERR_SIZE, "'x'|100|99", put_smaller },
    { "larger", FTKIT_ERR_SIZE, "'x'|100|101", put_larger },
    { "nothing", FTKIT_ERR_SIZE, "'x'|100", put_none },
    { "other type, same size", FTKIT_ERR_TYPE, "'x'|f64|i64", put_type },
    { "other size", FTKIT_ERR_TYPE, "'x'|f64|f32", put_width },
    { "other kind", FTKIT_ERR_TYPE, "'x'|per-rank|replicated", put_kind },
    { "not in the set", FTKIT_ERR_NOT_FOUND, "'news'", put_extra },
    { "other array", FTKIT_ERR_SIZE, "'grid'", put_shape },
    { "other dimensions", FTKIT_ERR_SIZE, "'grid'", put_transposed },
    { "other element", FTKIT_ERR_TYPE, "'grid'|f32|i32", put_element },
    { "other list", FTKIT_ERR_TYPE, "'list'|i16|u16", put_list_type },
    { "list without memory", FTKIT_ERR_CALLBACK, "'list'|25", put_no_memory },
};

static void fresh_variant(void)
{
    free(v.list);
    memset(&v, SCRIBBLE, sizeof v);
    v.list = NULL;
    v.nlist = 0;
}

static int untouched(void)
{
    const unsigned char *b = (const unsigned char *)&v;
    size_t end = (size_t)((const char *)&v.list - (const char *)&v);
    for (size_t i = 0; i < end; i++)
        if (b[i] != SCRIBBLE)
            return 0;
    return v.nlist == 0 && !v.list;
}

/* A set of other regions is refused with a name, and left alone. */
static void misfits(void **state)
{
    (void)state;
    uint64_t set = 0;
    v.list = filled(25 * sizeof(int16_t), 3);
    v.nlist = 25;
    fill(v.x, sizeof v.x, 1);
    fill(v.grid, sizeof v.grid, 2);
    v.step = 42;
    ftkit_ctx *ft = open_context();
    CHECK(FTKIT_OK, ft, put_good(ft));
    CHECK(FTKIT_NO_SET, ft, ftkit_recover(ft, &set));
    save(ft);
    close_context(&ft);
    for (size_t i = 0; i < COUNT(variants); i++) {
        const struct variant *a = &variants[i];
        fresh_variant();
        ft = open_context();
        CHECK(FTKIT_OK, ft, a->put(ft));
        CHECK_ERROR(a->want, ft, a->words, ftkit_recover(ft, &set));
        assert_int_equal(set, 0);
        if (!untouched())
            fail_msg("%s: the regions are not as they were", a->what);
        /* only closing is left, and every call says why */
        CHECK_ERROR(FTKIT_ERR_ENDED, ft, a->words, ftkit_checkpoint(ft));
        CHECK_ERROR(FTKIT_ERR_ENDED, ft, a->words, ftkit_finish(ft));
        CHECK_ERROR(FTKIT_ERR_ENDED, ft, a->words, ftkit_recover(ft, &set));
        assert_int_equal(query(ft).restored, 0);
        CHECK_ERROR(a->want, NULL, a->words, ftkit_close(&ft));
        assert_null(ft);
        /* the set is as good as before */
        fresh_variant();
        ft = open_context();
        CHECK(FTKIT_OK, ft, put_good(ft));
        CHECK(FTKIT_OK, ft, ftkit_recover(ft, &set));
        assert_int_equal(set, 1);
        set = 0;
        assert_int_equal(v.step, 42);
        unsigned char *want = filled(sizeof v.x, 1);
        check_bytes("x", v.x, want, 0, sizeof v.x);
        free(want);
        want = filled(sizeof v.grid, 2);
        check_bytes("grid", v.grid, want, 0, sizeof v.grid);
        free(want);
        assert_int_equal(v.nlist, 25);
        want = filled(25 * sizeof(int16_t), 3);
        check_bytes("list", v.list, want, 0, 25 * sizeof(int16_t));
        free(want);
        close_context(&ft);
    }
    free(v.list);
    v.list = NULL;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { TEST(misfits) };
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS || make_work() != 0)
        return 1;
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    bad |= remove_work();
    MPI_Finalize();
    return bad != 0;
}
