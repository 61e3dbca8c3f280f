/* Regions beyond 2 and 4 GiB, saved and restored through the file system.  Takes up to
 * 9 GiB of memory, 5 GiB of disk and a minute: only with FTKIT_TEST_LARGE=1.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "t_api.h"

#define GIB ((size_t)1 << 30)
#define MARK 64 /* bytes */

/* Memory that costs nothing until it is written: all zero but for marks, at both ends and
 * around every multiple of 1 GiB. */
static unsigned char *sparse(size_t bytes)
{
    void *p = mmap(
        NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

static size_t mark_at(size_t bytes, size_t i)
{
    size_t at = i * GIB;
    if (at + MARK > bytes)
        return bytes - MARK;
    return i == 0 ? 0 : at - MARK / 2;
}

static size_t nmarks(size_t bytes)
{
    return bytes / GIB + 2;
}

static void mark(unsigned char *p, size_t bytes)
{
    for (size_t i = 0; i < nmarks(bytes); i++)
        fill(p + mark_at(bytes, i), MARK, i);
}

static void scribble(unsigned char *p, size_t bytes)
{
    for (size_t i = 0; i < nmarks(bytes); i++)
        memset(p + mark_at(bytes, i), SCRIBBLE, MARK);
    memset(p + bytes / 3, SCRIBBLE, MARK);
}

/* Take the marks away, then nothing is left.  Of every stride bytes only the first keep
 * are looked at. */
static void check_marks(unsigned char *p, size_t bytes, size_t keep, size_t stride)
{
    unsigned char want[MARK];
    uint64_t sum = 0;
    for (size_t i = 0; i < nmarks(bytes); i++) {
        unsigned char *m = p + mark_at(bytes, i);
        fill(want, MARK, i);
        for (size_t k = 0; k < MARK; k++)
            if ((size_t)(m + k - p) % stride < keep)
                assert_int_equal(m[k], want[k]);
        memset(m, 0, MARK);
    }
    for (size_t at = 0; at + 8 <= bytes; at += stride < 8 ? 8 : stride) {
        uint64_t word;
        memcpy(&word, p + at, sizeof word);
        sum |= word;
    }
    assert_int_equal(sum, 0);
}

static void there_and_back(
    size_t bytes, size_t count, MPI_Datatype type, size_t keep, size_t stride, const size_t *shape)
{
    static const size_t zero[2] = { 0, 0 };
    static const size_t halo[2] = { 1, 1 };
    unsigned char *p = sparse(bytes);
    uint64_t set = 0;
    for (int run = 0; run < 2; run++) {
        ftkit_ctx *ft = open_context();
        CHECK(FTKIT_OK, ft,
            shape ? ftkit_register_array(ft, "x", p, type, 2, shape, shape, zero, halo)
                  : ftkit_register(ft, "x", p, count, type));
        if (run == 0) {
            mark(p, bytes);
            CHECK(FTKIT_NO_SET, ft, ftkit_recover(ft, &set));
            save(ft);
            assert_true(query(ft).region_bytes > 2 * GIB);
            assert_int_equal(munmap(p, bytes), 0);
            p = sparse(bytes);
            scribble(p, bytes);
        } else {
            CHECK(FTKIT_OK, ft, ftkit_recover(ft, &set));
            assert_int_equal(set, 1);
        }
        close_context(&ft);
    }
    check_marks(p, bytes, keep, stride);
    assert_int_equal(munmap(p, bytes), 0);
}

static void skip_unless_asked(void)
{
    const char *v = getenv("FTKIT_TEST_LARGE");
    if (!v || strcmp(v, "1") != 0)
        skip();
}

/* More than 4 GiB and more than INT_MAX items. */
static void flat(void **state)
{
    (void)state;
    skip_unless_asked();
    size_t bytes = 4 * GIB + 5 * 1000 * 1000 + 3;
    there_and_back(bytes, bytes, MPI_CHAR, 1, 1, NULL);
}

/* Every other double of 4 GiB. */
static void strided(void **state)
{
    (void)state;
    skip_unless_asked();
    MPI_Datatype type;
    size_t bytes = 4 * GIB + 16 * 1000;
    MPI_Type_create_resized(MPI_DOUBLE, 0, 16, &type);
    there_and_back(bytes, bytes / 16, type, 8, 16, NULL);
    MPI_Type_free(&type);
}

static void array(void **state)
{
    (void)state;
    skip_unless_asked();
    static const size_t shape[2] = { 16999, 16001 };
    there_and_back(17001 * (size_t)16003 * 8, 0, MPI_DOUBLE, 1, 1, shape);
}

static int clean(void **state)
{
    (void)state;
    return chdir(work) != 0 || system("rm -rf test-*") != 0;
}
#define LARGE(f)                                                                                   \
    {                                                                                              \
#f, f, enter, clean, NULL                                                                  \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        LARGE(flat),
        LARGE(strided),
        LARGE(array),
    };
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS || make_work() != 0)
        return 1;
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    bad |= remove_work();
    MPI_Finalize();
    return bad != 0;
}
