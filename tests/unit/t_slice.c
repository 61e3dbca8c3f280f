/* Slices of files that all ranks write together, and the directories in which these pass them on:
 * the slices of any number of ranks make the same files again, and nothing damaged passes.
 *
 * t_slice --write-golden FILE writes tests/data/slice-v1.bin, which pins the format: a change that
 * needs a new file breaks every set with joint files and takes a new version.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/hash.h"
#include "store/joint_dir.h"
#include "store/scratch.h"
#include "store/sets_dir.h"
#include "store/slice.h"
#include "store/tree.h"

enum { RANKS = 40 };
#define LARGE ((size_t)100003)

static struct ftk_scratch from, to;

static char content(const char *name, size_t i)
{
    return (char)(i * 31 + i / 257 + (unsigned char)name[0] + strlen(name));
}

static const char *in(const struct ftk_scratch *s, const char *name)
{
    static char path[8][sizeof s->path + 512];
    static unsigned turn;
    char *p = path[turn++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", s->path, name);
    return p;
}

static void make_file(const char *name, size_t bytes, mode_t mode)
{
    FILE *f = fopen(in(&from, name), "w");
    assert_non_null(f);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(fputc(content(name, i), f), (unsigned char)content(name, i));
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(in(&from, name), mode), 0);
}

static void check_file(const char *name, size_t bytes, mode_t mode)
{
    struct stat st;
    assert_int_equal(stat(in(&to, name), &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
    assert_int_equal(st.st_size, bytes);
    FILE *f = fopen(in(&to, name), "r");
    assert_non_null(f);
    for (size_t i = 0; i < bytes; i++)
        if (fgetc(f) != (unsigned char)content(name, i))
            fail_msg("%s: byte %zu", name, i);
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
}

static void make_tree(size_t large)
{
    make_file("all.h5", large, 0440);
    make_file("none", 0, 0600);
    assert_int_equal(mkdir(in(&from, "sub"), 0755), 0);
    assert_int_equal(mkdir(in(&from, "empty"), 0700), 0);
    make_file("sub/text", 4097, 0644);
}

static void check_tree(size_t large)
{
    struct stat st;
    check_file("all.h5", large, 0440);
    check_file("none", 0, 0600);
    check_file("sub/text", 4097, 0644);
    assert_true(stat(in(&to, "empty"), &st) == 0 && S_ISDIR(st.st_mode));
}

static int setup(void **state)
{
    (void)state;
    umask(022);
    assert_int_equal(ftk_scratch_make("", &from), FTKIT_OK);
    assert_int_equal(ftk_scratch_make("", &to), FTKIT_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ftk_scratch_remove(&from);
    ftk_scratch_remove(&to);
    return 0;
}

struct piece {
    char *at; /* malloc'd */
    size_t bytes;
};

/* The slice of a rank, read in pieces of so many bytes. */
static struct piece take(const char *dir, int rank, int nranks, size_t each)
{
    struct ftk_archive *a = NULL;
    assert_int_equal(ftk_archive_scan(dir, &a), FTKIT_OK);
    struct piece p = { NULL, ftk_slice_bytes(a, rank, nranks) };
    p.at = malloc(p.bytes);
    assert_non_null(p.at);
    memset(p.at, 0x55, p.bytes);
    for (size_t at = 0; at < p.bytes; at += each) {
        const size_t n = p.bytes - at < each ? p.bytes - at : each;
        assert_int_equal(ftk_slice_read(a, rank, nranks, p.at + at, at, n), FTKIT_OK);
    }
    ftk_archive_free(a);
    return p;
}

static int spread(struct piece p, bool finish)
{
    struct ftk_slice s;
    assert_int_equal(ftk_slice_check(p.at, p.bytes, &s), FTKIT_OK);
    int rc = finish ? ftk_slice_finish(&s, to.path) : ftk_slice_spread(&s, to.path);
    free(s.list.v);
    return rc;
}

/* All slices of so many ranks, which write in another order, make the files again. */
static void round_trip(size_t large, int nranks)
{
    struct piece p[RANKS];
    size_t shortest = SIZE_MAX, longest = 0;
    for (int r = 0; r < nranks; r++) {
        p[r] = take(from.path, r, nranks, r % 2 ? 4096 : 1000);
        shortest = p[r].bytes < shortest ? p[r].bytes : shortest;
        longest = p[r].bytes > longest ? p[r].bytes : longest;
    }
    for (int k = 0; k < nranks; k++) {
        const int r = (k * 7 + 3) % nranks; /* 7 divides no number of ranks */
        assert_int_equal(spread(p[r], false), FTKIT_OK);
    }
    assert_int_equal(spread(p[0], true), FTKIT_OK);
    check_tree(large);
    assert_true(longest < 600 + large / (size_t)nranks + 4097 / (size_t)nranks + 3 * 4096);
    for (int r = 0; r < nranks; r++)
        free(p[r].at);
    assert_int_equal(ftk_scratch_empty(&to), FTKIT_OK);
}

static void comes_back(void **state)
{
    static const size_t large[] = { 0, 1, 4096, 4097, LARGE };
    static const int ranks[] = { 1, 2, 3, 4, 5, 8, 13, 26, 40 };
    (void)state;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        make_tree(large[i]);
        for (size_t k = 0; k < sizeof ranks / sizeof *ranks; k++)
            round_trip(large[i], ranks[k]);
        assert_int_equal(ftk_scratch_empty(&from), FTKIT_OK);
    }
}

/* A slice that no rank has laid out is missed, and so are bytes and files. */
static void missing_slice(void **state)
{
    (void)state;
    make_tree(LARGE);
    for (int lost = 0; lost < 5; lost++) {
        struct piece first = take(from.path, 0, 5, SIZE_MAX);
        for (int r = 0; r < 5; r++) {
            struct piece p = take(from.path, r, 5, SIZE_MAX);
            if (r != lost)
                assert_int_equal(spread(p, false), FTKIT_OK);
            free(p.at);
        }
        /* in the middle of a file only the vote of the ranks shows it */
        const bool shows = lost == 0 || lost == 4;
        assert_int_equal(spread(first, true), shows ? FTKIT_ERR_IO : FTKIT_OK);
        free(first.at);
        assert_int_equal(ftk_scratch_empty(&to), FTKIT_OK);
    }
}

static void empty_and_absent(void **state)
{
    (void)state;
    struct ftk_slice s;
    for (int absent = 0; absent < 2; absent++)
        for (int r = 0; r < 3; r++) {
            struct piece p = take(absent ? NULL : from.path, r, 3, SIZE_MAX);
            assert_int_equal(ftk_slice_check(p.at, p.bytes, &s), FTKIT_OK);
            assert_int_equal((s.list.head.flags & FTK_ARCHIVE_ABSENT) != 0, absent);
            assert_int_equal(s.from, s.to);
            free(s.list.v);
            free(p.at);
        }
}

/* Each rank compares the files behind its last piece, although it has read a part of them alone. */
static void changing_files(void **state)
{
    (void)state;
    for (int r = 0; r < 4; r++) {
        struct ftk_archive *a = NULL;
        make_tree(LARGE);
        assert_int_equal(ftk_archive_scan(from.path, &a), FTKIT_OK);
        const size_t bytes = ftk_slice_bytes(a, r, 4);
        char *buf = malloc(bytes);
        assert_non_null(buf);
        assert_int_equal(ftk_slice_read(a, r, 4, buf, 0, bytes - 1), FTKIT_OK);
        assert_int_equal(chmod(in(&from, "all.h5"), 0640), 0);
        int fd = open(in(&from, "all.h5"), O_WRONLY);
        assert_true(fd >= 0 && pwrite(fd, "x", 1, 5) == 1 && close(fd) == 0);
        assert_int_equal(ftk_slice_read(a, r, 4, buf + bytes - 1, bytes - 1, 1), FTKIT_ERR_STATE);
        ftk_archive_free(a);
        free(buf);
        assert_int_equal(ftk_scratch_empty(&from), FTKIT_OK);
    }
}

/* No changed byte of the head and the entries passes, and no other length. */
static void damaged_slices(void **state)
{
    (void)state;
    struct ftk_slice s;
    make_tree(5000);
    struct piece p = take(from.path, 1, 2, SIZE_MAX);
    assert_int_equal(ftk_slice_check(p.at, p.bytes, &s), FTKIT_OK);
    const size_t heads = (size_t)(s.contents - p.at);
    free(s.list.v);
    for (size_t i = 0; i < heads; i++) {
        p.at[i] ^= 0x10;
        const int rc = ftk_slice_check(p.at, p.bytes, &s);
        if (rc != FTKIT_ERR_CORRUPT && rc != FTKIT_ERR_FORMAT)
            fail_msg("byte %zu of the head: %d", i, rc);
        p.at[i] ^= 0x10;
    }
    for (size_t n = 0; n < p.bytes; n++)
        assert_true(ftk_slice_check(p.at, n, &s) < 0);
    assert_int_equal(ftk_slice_check(p.at, p.bytes, &s), FTKIT_OK);
    free(s.list.v);
    free(p.at);
}

/* A head with a checksum that is right, and another meaning. */
static void forged_head(void **state)
{
    (void)state;
    make_tree(5000);
    for (int what = 0; what < 4; what++) {
        struct piece p = take(from.path, 1, 3, SIZE_MAX);
        struct ftk_slice_head h;
        struct ftk_slice s;
        memcpy(&h, p.at, sizeof h);
        h.nranks = what == 0 ? 0 : what == 1 ? 2 : h.nranks;
        h.rank = what == 2 ? 2 : h.rank;
        h.entries_sum ^= what == 3;
        h.sum = 0;
        h.sum = ftk_xxh3(&h, sizeof h);
        memcpy(p.at, &h, sizeof h);
        assert_int_equal(ftk_slice_check(p.at, p.bytes, &s), FTKIT_ERR_CORRUPT);
        free(p.at);
    }
}

static void failing_writes(void **state)
{
    (void)state;
    make_tree(LARGE);
    struct piece p = take(from.path, 0, 1, SIZE_MAX);
    ftk_fault_rank(1, 0);
    assert_int_equal(spread(p, false), FTKIT_ERR_NOSPACE);
    ftk_fault_rank(0, 0);
    free(p.at);
}

/* ---- the golden file ----------------------------------------------------------------- */

static void make_golden_tree(void)
{
    make_file("restart.bin", 9333, 0644);
    make_file("none", 0, 0600);
    assert_int_equal(mkdir(in(&from, "sub"), 0755), 0);
    make_file("sub/restart.txt", 65, 0440);
}

/* The slices of two ranks, one behind the other. */
static void golden_file(void **state)
{
    (void)state;
    static char want[32768];
    char path[4096];
    const char *slash = strrchr(__FILE__, '/');
    const int dir = slash ? (int)(slash - __FILE__) - (int)strlen("unit") : 0;
    snprintf(path, sizeof path, "%.*sdata/slice-v1.bin", dir, __FILE__);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(want, 1, sizeof want, f), at = 0;
    fclose(f);
    make_golden_tree();
    for (int r = 0; r < 2; r++) {
        struct piece p = take(from.path, r, 2, SIZE_MAX), old = { want + at, p.bytes };
        assert_true(at + p.bytes <= n);
        assert_memory_equal(p.at, want + at, p.bytes);
        assert_int_equal(spread(old, false), FTKIT_OK);
        at += p.bytes;
        free(p.at);
    }
    assert_int_equal(at, n);
    check_file("restart.bin", 9333, 0600); /* the last rank sets permissions */
    struct piece last = { want, 0 };
    struct ftk_slice_head h;
    memcpy(&h, want, sizeof h);
    last.bytes = (size_t)h.bytes;
    assert_int_equal(spread(last, true), FTKIT_OK);
    check_file("restart.bin", 9333, 0644);
    check_file("sub/restart.txt", 65, 0440);
    check_file("none", 0, 0600);
}

/* ---- directories --------------------------------------------------------------------- */

static int is_owner(void *arg)
{
    return *(const int *)arg;
}

static void directories(void **state)
{
    (void)state;
    struct ftk_joint one = { from.path, "ctx", "one" }, two = { from.path, "ctx", "o.ne" };
    struct ftk_joint all = { from.path, "ctx", NULL };
    uint64_t id[4];
    size_t n = 7;
    char path[FTK_JOINT_PATH_MAX];
    int still = FTKIT_OK;
    struct stat st;
    assert_int_equal(ftk_joint_sweep(&one, 0, NULL, NULL, false, &n), FTKIT_OK); /* none is there */
    assert_int_equal(n, 0);
    assert_int_equal(ftk_joint_make(&one, &id[0]), FTKIT_ERR_IO); /* no context is there */
    assert_int_equal(mkdir(in(&from, "ctx.ftkit"), 0755), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ftk_joint_make(i < 3 ? &one : &two, &id[i]), FTKIT_OK);
        assert_int_equal(ftk_joint_look(i < 3 ? &one : &two, id[i]), FTKIT_OK);
    }
    assert_true(id[0] != id[1] && id[1] != id[2] && id[0] != id[2]);
    assert_int_equal(mkdir(in(&from, "ctx.ftkit/joint/of the user.one"), 0755), 0);
    still = FTKIT_ERR_BUSY; /* another job owns the sets */
    assert_int_equal(ftk_joint_sweep(&one, id[1], is_owner, &still, false, &n), FTKIT_ERR_BUSY);
    assert_int_equal(ftk_joint_look(&one, id[0]), FTKIT_OK);
    still = FTKIT_OK;
    assert_int_equal(ftk_joint_path(&one, id[0], path), FTKIT_OK);
    strcat(path, "/sub");
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(ftk_joint_sweep(&one, id[1], is_owner, &still, false, &n), FTKIT_OK);
    assert_int_equal(n, 2);
    assert_int_equal(ftk_joint_look(&one, id[0]), FTKIT_ERR_IO);
    assert_int_equal(ftk_joint_look(&one, id[1]), FTKIT_OK);
    assert_int_equal(ftk_joint_look(&two, id[3]), FTKIT_OK); /* of another region */
    assert_int_equal(ftk_joint_sweep(&all, 0, NULL, NULL, true, &n), FTKIT_OK);
    assert_int_equal(n, 2);
    assert_int_equal(ftk_joint_remove(&one, id[1]), FTKIT_OK);
    assert_int_equal(ftk_joint_remove(&one, id[1]), FTKIT_OK); /* it is gone */
    assert_int_equal(ftk_joint_sweep(&all, 0, NULL, NULL, false, &n), FTKIT_OK);
    assert_int_equal(n, 1);
    assert_int_equal(ftk_joint_look(&two, id[3]), FTKIT_ERR_IO);
    assert_int_equal(stat(in(&from, "ctx.ftkit/joint/of the user.one"), &st), 0);
    assert_int_equal(rmdir(in(&from, "ctx.ftkit/joint/of the user.one")), 0);
    assert_int_equal(ftk_joint_remove(&one, 0), FTKIT_OK);
    assert_int_equal(stat(in(&from, "ctx.ftkit/joint"), &st), -1);
}

static void long_path(void **state)
{
    (void)state;
    static char dir[FTK_PATH_MAX];
    char path[FTK_JOINT_PATH_MAX];
    memset(dir, 'd', sizeof dir - 80);
    struct ftk_joint j = { dir, "ctx",
        "a-name-of-a-region-that-is-as-long-as-a-name-can-be--.-63--xx" };
    for (size_t n = sizeof dir - 80; n > 0; n--) {
        dir[n] = '\0';
        if (ftk_joint_path(&j, 1, path) == FTKIT_OK)
            assert_true(strlen(path) < FTK_JOINT_PATH_MAX && strstr(path, "--xx"));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_slice, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_and_absent, setup, teardown),
        cmocka_unit_test_setup_teardown(changing_files, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_slices, setup, teardown),
        cmocka_unit_test_setup_teardown(forged_head, setup, teardown),
        cmocka_unit_test_setup_teardown(failing_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(golden_file, setup, teardown),
        cmocka_unit_test_setup_teardown(directories, setup, teardown),
        cmocka_unit_test_setup_teardown(long_path, setup, teardown),
    };
    if (argc == 3 && strcmp(argv[1], "--write-golden") == 0) {
        setup(NULL);
        make_golden_tree();
        FILE *f = fopen(argv[2], "wb");
        assert_non_null(f);
        for (int r = 0; r < 2; r++) {
            struct piece p = take(from.path, r, 2, SIZE_MAX);
            assert_int_equal(fwrite(p.at, 1, p.bytes, f), p.bytes);
            free(p.at);
        }
        assert_int_equal(fclose(f), 0);
        return teardown(NULL);
    }
    setenv("FTKIT_FAULT", "slice.write:1:1:ENOSPC", 1);
    ftk_fault_rank(0, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
