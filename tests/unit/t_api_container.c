/* ftkit_register_container(): an object says where its items are, and gets room for those of a set.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "t_api.h"

/* Items in one piece of memory. */
struct list {
    int *items;
    size_t n;
    int resized, fail; /* calls of resize() of this list; what it returns */
    size_t leave;      /* so many items less than asked for */
};

static void *data_of(void *arg)
{
    const struct list *l = arg;
    return l->items;
}

static size_t count_of(void *arg)
{
    const struct list *l = arg;
    return l->n;
}

static int resize(void *arg, size_t n)
{
    struct list *l = arg;
    l->resized++;
    if (l->fail)
        return l->fail;
    free(l->items);
    l->n = n - l->leave;
    l->items = n ? calloc(n, sizeof *l->items) : NULL;
    return n > 0 && !l->items;
}

static const ftkit_container ops = { sizeof ops, data_of, count_of, resize, sizeof(struct list) };

static void make(struct list *l, size_t n, uint64_t seed)
{
    free(l->items);
    *l = (struct list){ .items = n ? filled(n * sizeof *l->items, seed) : NULL, .n = n };
}

static ftkit_ctx *open_with(struct list *l, struct list *other)
{
    ftkit_ctx *ft = open_context();
    CHECK(FTKIT_OK, ft, ftkit_register_container(ft, "list", &ops, l, MPI_INT));
    CHECK(FTKIT_OK, ft, ftkit_register_container(ft, "other", &ops, other, MPI_INT));
    return ft;
}

static void check_list(const struct list *l, size_t n, uint64_t seed)
{
    void *want = filled(n * sizeof *l->items, seed);
    assert_int_equal(l->n, n);
    check_bytes("list", l->items, want, 0, n * sizeof *l->items);
    free(want);
}

/* Each set has what the object holds then; a restore brings back number and items. */
static void sizes(void **state)
{
    (void)state;
    static const size_t saved[] = { 0, 1, 1000, 300000, 0, 65536, 7 };
    static struct list l, other;
    for (size_t i = 0; i < COUNT(saved); i++) {
        if (i > 0) /* a new process has its own number of items */
            make(&l, i % 3 == 0 ? saved[i - 1] : i, 99);
        make(&other, 10, 98);
        ftkit_ctx *ft = open_with(&l, &other);
        CHECK(i > 0 ? FTKIT_OK : FTKIT_NO_SET, ft, ftkit_recover(ft, NULL));
        if (i > 0) {
            check_list(&l, saved[i - 1], i);
            assert_int_equal(l.resized, i % 3 == 0 || saved[i - 1] == i ? 0 : 1);
            check_list(&other, 10, i + 50);
        }
        make(&l, 5 + i, 97); /* an earlier set, of another size */
        save(ft);
        make(&l, saved[i], i + 1);
        make(&other, 10, i + 51);
        save(ft);
        close_context(&ft);
    }
    make(&l, 0, 0);
    make(&other, 0, 0);
}

/* A refusal of the object fails the restore; the set stays. */
static void refusals(void **state)
{
    (void)state;
    static struct list l, other;
    make(&l, 100, 1);
    make(&other, 3, 2);
    ftkit_ctx *ft = open_with(&l, &other);
    CHECK(FTKIT_NO_SET, ft, ftkit_recover(ft, NULL));
    save(ft);
    free(l.items);
    l.items = NULL; /* 100 items, and none there: no set, the last one holds */
    CHECK(FTKIT_OK, ft, ftkit_request(ft, 1));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, "'list'|NULL", ftkit_checkpoint(ft));
    close_context(&ft);
    for (int how = 0; how < 2; how++) {
        make(&l, 4, 3);
        l.fail = how == 0;
        l.leave = how == 1;
        ft = open_with(&l, &other);
        CHECK_ERROR(
            FTKIT_ERR_CALLBACK, ft, how ? "'list'|100|99" : "'list'|100", ftkit_recover(ft, NULL));
        CHECK_ERROR(FTKIT_ERR_CALLBACK, NULL, "'list'", ftkit_close(&ft));
    }
    make(&l, 4, 3);
    ft = open_with(&l, &other);
    CHECK(FTKIT_OK, ft, ftkit_recover(ft, NULL));
    check_list(&l, 100, 1);
    close_context(&ft);
    make(&l, 0, 0);
    make(&other, 0, 0);
}

static void arguments(void **state)
{
    (void)state;
    struct list l = { .n = 0 };
    ftkit_ctx *ft = open_context();
    for (int missing = 0; missing < 5; missing++) {
        ftkit_container bad = ops;
        if (missing == 1)
            bad.data = NULL;
        if (missing == 2)
            bad.count = NULL;
        if (missing == 3)
            bad.resize = NULL;
        if (missing == 4)
            bad.size = 8;
        CHECK_ERROR(FTKIT_ERR_ARG, ft, "'list'|callbacks",
            ftkit_register_container(ft, "list", missing ? &bad : NULL, &l, MPI_INT));
    }
    CHECK_ERROR(FTKIT_ERR_TYPE, ft, "'list'",
        ftkit_register_container(ft, "list", &ops, &l, MPI_DATATYPE_NULL));
    CHECK_ERROR(FTKIT_ERR_NAME, ft, "a/b", ftkit_register_container(ft, "a/b", &ops, &l, MPI_INT));
    CHECK(FTKIT_OK, ft, ftkit_register_container(ft, "list", &ops, &l, MPI_INT));
    CHECK_ERROR(FTKIT_ERR_EXISTS, ft, "ftkit_register_container|'list'",
        ftkit_register_container(ft, "list", &ops, &l, MPI_INT));
    CHECK_ERROR(FTKIT_ERR_STATE, ft, "'list'", ftkit_resize(ft, "list", &l, 3));
    CHECK(FTKIT_NO_SET, ft, ftkit_recover(ft, NULL));
    close_context(&ft);
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, "ftkit_register_container|context is NULL",
        ftkit_register_container(ft, "list", &ops, &l, MPI_INT));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(sizes),
        TEST(refusals),
        TEST(arguments),
    };
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS || make_work() != 0)
        return 1;
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    bad |= remove_work();
    MPI_Finalize();
    return bad != 0;
}
