/* How `ftkit test` compares two files of results (tools/compare.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../tools/compare.c"

#include <unistd.h>

/* of tools/main.c, which has the function main() of the program */
void *ftk_tool_grow(void *v, size_t n, size_t *room, size_t item)
{
    *room = n + 1;
    return realloc(v, *room * item);
}

static char why[FTK_WHY_MAX];
static char dir[] = "/tmp/ftkit-t-compare.XXXXXX";

static const char *save(const char *name, const void *data, size_t bytes)
{
    static char path[2][64];
    char *to = path[*name == 'b'];
    snprintf(to, sizeof path[0], "%s/%s", dir, name);
    FILE *f = fopen(to, "w");
    assert_non_null(f);
    assert_int_equal(bytes, fwrite(data, 1, bytes, f));
    assert_int_equal(0, fclose(f));
    return to;
}

static int bytes(const void *a, size_t n, const void *b, size_t m, double tolerance)
{
    why[0] = '\0';
    return ftk_compare_files(save("a", a, n), save("b", b, m), "u", tolerance, why);
}

static int text(const char *a, const char *b, double tolerance)
{
    return bytes(a, strlen(a), b, strlen(b), tolerance);
}

static void texts(void **state)
{
    (void)state;
    assert_int_equal(0, text("", "", -1));
    assert_int_equal(0, text("a 1\nb 2\n", "a 1\nb 2\n", -1));
    assert_int_equal(1, text("a 1\nb 2\n", "a 1\nb 3\n", -1));
    assert_string_equal("u differs in line 2: 'b 2' undisturbed, 'b 3' here", why);
    assert_int_equal(1, text("a 1\n", "a 1\nb\n", -1));
    assert_int_equal(1, text("a  1\n", "a 1\n", -1)); /* without a tolerance blanks count */
}

static void tolerances(void **state)
{
    (void)state;
    assert_int_equal(0, text("x=1.0 y\n", "x=1.0001 y\n", 1e-3));
    assert_int_equal(1, text("x=1.0 y\n", "x=1.0001 y\n", 1e-5));
    assert_int_equal(0, text("1e6 -2E+3\n", "1000000.5   -2000 \n", 1e-6));
    assert_int_equal(1, text("1e6\n", "1000002\n", 1e-6));
    assert_int_equal(0, text("1,2;3", "1.00000001,2;3", 1e-6));
    assert_int_equal(1, text("1 2\n", "1 2 3\n", 1e9));
    assert_int_equal(1, text("1 2\n", "12\n", 1e-6));
    assert_int_equal(1, text("a b\n", "ab\n", 1));
    assert_int_equal(1, text("x1 2\n", "x2 2\n", 1e9)); /* a name, not a number */
    assert_int_equal(1, text("1\n", "-1\n", 1e-6));
    assert_int_equal(0, text("nan inf\n", "nan inf\n", 0));
    assert_int_equal(1, text("1\n", "1\n2\n", 1));
    assert_int_equal(0, text("0\n", "1e-9\n", 1e-6));
}

static void binary(void **state)
{
    (void)state;
    assert_int_equal(0, bytes("a\0b", 3, "a\0b", 3, 1));
    assert_int_equal(1, bytes("a\0b1", 4, "a\0b2", 4, 1));
    assert_string_equal("u differs, first in byte 3 of 4", why);
    assert_int_equal(1, bytes("a\0b", 3, "a\0b2", 4, 1));
    assert_string_equal("u has 3 bytes undisturbed, and 4 here", why);
    assert_int_equal(1, ftk_compare_files("/nowhere/a", "/nowhere/b", "u", -1, why));
    assert_non_null(strstr(why, "u of the undisturbed run cannot be read: No such file"));
}

/* A file of format version 1; returns its length. */
static size_t npy(char file[512], const char *descr, const char *shape, const void *data, size_t n)
{
    memset(file, ' ', 128);
    memcpy(file, NPY_MAGIC "\x01\x00\x76\x00", 10);
    int len = snprintf(
        file + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
    file[10 + len] = ' ';
    file[127] = '\n';
    memcpy(file + 128, data, n);
    return 128 + n;
}

static void arrays(void **state)
{
    char a[512], b[512];
    double x[6] = { 1, 2, 3, 4, 5, 6 }, y[6] = { 1, 2, 3, 4, 5.5, 6.25 };
    float f[2] = { 1, 2 }, g[2] = { 1, 2.5F };
    int32_t i[2] = { -1, 7 }, j[2] = { -1, 8 };
    (void)state;
    size_t n = npy(a, "<f8", "2, 3", x, sizeof x), m = npy(b, "<f8", "2, 3", y, sizeof y);
    assert_int_equal(0, bytes(a, n, a, n, -1));
    assert_int_equal(1, bytes(a, n, b, m, -1));
    assert_string_equal("u differs in 2 of 6 numbers, first at [1][1]: 5 undisturbed, 5.5 here; "
                        "the largest difference is 0.5",
        why);
    assert_int_equal(0, bytes(a, n, b, m, 0.1));
    assert_int_equal(1, bytes(a, n, b, m, 0.05));
    m = npy(b, "<f8", "3, 2", x, sizeof x); /* another shape: another file */
    assert_int_equal(1, bytes(a, n, b, m, 1));
    n = npy(a, "<f4", "2,", f, sizeof f);
    m = npy(b, "<f4", "2,", g, sizeof g);
    assert_int_equal(1, bytes(a, n, b, m, 0.1));
    assert_non_null(strstr(why, "first at [1]: 2 undisturbed, 2.5 here"));
    n = npy(a, "<i4", "2,", i, sizeof i);
    m = npy(b, "<i4", "2,", j, sizeof j);
    assert_int_equal(1, bytes(a, n, b, m, 0.1));
    assert_non_null(strstr(why, "first at [1]: 7 undisturbed, 8 here"));
    n = npy(a, "<c16", "3,", x, sizeof x); /* the index is that of the complex number */
    m = npy(b, "<c16", "3,", y, sizeof y);
    assert_int_equal(1, bytes(a, n, b, m, -1));
    assert_non_null(strstr(why, "first at [2]: 5 undisturbed, 5.5 here"));
    n = npy(a, "<f8", "0, 3", x, 0); /* nothing but a head */
    assert_int_equal(0, bytes(a, n, a, n, -1));
    memset(a + 8, 0xff, 2); /* a head that is longer than the file */
    assert_int_equal(0, bytes(a, n, a, n, -1));
}

static void lines(void **state)
{
    (void)state;
    assert_int_equal(
        0, ftk_compare_lines(save("a", "1\n2\n3\n", 6), save("b", "1\n2\n2\n3\n", 8), "out", why));
    assert_int_equal(
        0, ftk_compare_lines(save("a", "1\n2\n", 4), save("b", "2\n1", 3), "out", why));
    assert_int_equal(1, ftk_compare_lines(save("a", "1\n2\n", 4), save("b", "1\n", 2), "out", why));
    assert_string_equal("out has no line '2' here", why);
    assert_int_equal(1, ftk_compare_lines(save("a", "1\n", 2), save("b", "1\n4\n", 4), "out", why));
    assert_string_equal("out has a line '4' only here", why);
    assert_int_equal(1, ftk_compare_lines(save("a", "", 0), save("b", "1\n", 2), "out", why));
}

static int begin(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int end(void **state)
{
    char path[64];
    int rc = 0;
    (void)state;
    snprintf(path, sizeof path, "%s/a", dir);
    rc |= unlink(path);
    snprintf(path, sizeof path, "%s/b", dir);
    rc |= unlink(path);
    return rc | rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(tolerances),
        cmocka_unit_test(binary),
        cmocka_unit_test(arrays),
        cmocka_unit_test(lines),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
