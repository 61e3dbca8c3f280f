/* Sets seen from outside: what is there, what is damaged, one region of it.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "t_h5.h"
#include "store/h5/h5_offline.h"

/* ---- What was told ------------------------------------------------------------------- */

/* HDF5 may crash on a damaged file (1.10 does, on the tables of virtual datasets), so a
 * child verifies; what it tells is in memory that is shared. */
static struct telling {
    int n;
    uint32_t file; /* that the child verifies */
    struct ftk_finding v[64];
} * shared;
#define told (shared->v)

static void tell(const struct ftk_finding *f, void *arg)
{
    (void)arg;
    if (shared->n < 64)
        told[shared->n] = *f;
    shared->n++;
}

/* A damaged count lets HDF5 1.10 allocate and clear gigabytes: more memory than a verification
 * needs is refused, as on a machine that does not have the memory.  The address space of a
 * sanitizer does not fit below a limit. */
static void limit_memory(void)
{
#ifndef __SANITIZE_ADDRESS__
    struct rlimit limit = { (rlim_t)512 << 20, (rlim_t)512 << 20 };
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        _exit(2);
#endif
}

/* The files of a set from a number in the manifest on; the master comes after the parts. */
static void verify_in_child(const struct ftk_manifest *m, uint32_t from)
{
    signal(SIGSEGV, SIG_DFL);
    signal(SIGABRT, SIG_DFL);
    close(STDERR_FILENO); /* last words of a crash */
    alarm(20);
    limit_memory();
    for (shared->file = from; shared->file <= m->nparts; shared->file++)
        if (shared->file < m->nparts)
            (void)ftk_h5_verify_part(dir, m, shared->file, tell, NULL);
        else
            (void)ftk_h5_verify_master(dir, m, tell, NULL);
    _exit(0);
}

/* Verify these files; the number of the file after the last one, or after that of a crash. */
static uint32_t verify_files(const struct ftk_manifest *m, uint32_t from)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        verify_in_child(m, from);
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (status == 0)
        return m->nparts + 1;
    struct ftk_finding f = { .code = FTKIT_ERR_CORRUPT, .rank = -1 };
    if (shared->file == m->nparts)
        snprintf(f.file, sizeof f.file, "master.h5");
    snprintf(f.text, sizeof f.text, "crash (status %d)", status);
    tell(&f, NULL);
    return shared->file + 1;
}

/* All parts and the master; the number of findings. */
static int verify(uint64_t set)
{
    struct ftk_manifest m;
    shared->n = 0;
    CHECK_RC(FTKIT_OK, ftk_h5_manifest_of(dir, CONTEXT, set, &m));
    for (uint32_t i = 0; i <= m.nparts;)
        i = verify_files(&m, i);
    ftk_manifest_free(&m);
    return shared->n;
}

static void flip(const char *path, off_t at, int bit)
{
    unsigned char c = 0;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &c, 1, at) == 1);
    c ^= (unsigned char)(1 << bit);
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
    close(fd);
}

static off_t size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

/* Where the data of a rank's region lie in a part. */
static off_t place_of(uint64_t set, const char *part, int rank, const char *region)
{
    char name[200];
    hid_t file = H5Fopen(path_of(set, part), H5F_ACC_RDONLY, H5P_DEFAULT);
    snprintf(name, sizeof name, "/rank_%05d/%s", rank, region);
    hid_t ds = H5Dopen2(file, name, H5P_DEFAULT);
    assert_true(ds >= 0);
    haddr_t at = H5Dget_offset(ds);
    H5Dclose(ds);
    H5Fclose(file);
    assert_true(at != HADDR_UNDEF);
    return (off_t)at;
}

/* ---- Damage -------------------------------------------------------------------------- */

static void good_sets(void **state)
{
    (void)state;
    int before = handles();
    for (uint64_t set = 1; set <= 3; set++) {
        extra_bytes = 100000 * (size_t)set;
        CHECK_RC(FTKIT_OK, write_set(set));
        if (verify(set) != 0)
            fail_msg("set %d: %s", (int)set, told[0].text);
    }
    assert_int_equal(handles(), before);
}

/* A bit anywhere is found, unless it is where nothing is kept. */
static void flipped_bits(void **state)
{
    (void)state;
    static const char *const files[] = { "part-00000.h5", "part-00001.h5", "master.h5" };
    CHECK_RC(FTKIT_OK, write_set(1));
    for (size_t k = 0; k < COUNT(files); k++) {
        char path[FTK_PATH_MAX];
        snprintf(path, sizeof path, "%s", path_of(1, files[k]));
        int flips = 0, unseen = 0;
        off_t size = size_of(path), step = size / (all_cases() ? 80 : 20);
        for (off_t at = 3; at < size; at += step, flips++) {
            flip(path, at, flips % 8);
            int n = verify(1);
            for (int i = 0; i < n; i++) /* a damaged part may hide what the master says */
                if (strcmp(told[i].file, files[k]) != 0)
                    fail_msg("bit %d of byte %lld of %s: told of '%s': %s", flips % 8,
                        (long long)at, files[k], told[i].file, told[i].text);
            if (n == 0 && ++unseen && k < 2)
                CHECK_RC(FTKIT_OK, verify_set(1));
            flip(path, at, flips % 8);
        }
        print_message("%s: %d flips, %d in empty space\n", files[k], flips, unseen);
        assert_true(k == 2 || unseen * 4 < flips);
    }
    assert_int_equal(verify(1), 0);
}

/* Every damaged block, and nothing else, with its rank and region. */
static void damage_is_named(void **state)
{
    (void)state;
    extra_bytes = (size_t)100 * BLOCK;
    CHECK_RC(FTKIT_OK, write_set(1));
    char path[FTK_PATH_MAX];
    snprintf(path, sizeof path, "%s", path_of(1, "part-00000.h5"));
    off_t at = place_of(1, "part-00000.h5", 2, "extra");
    flip(path, at + (off_t)50 * BLOCK, 3);
    flip(path, at + (off_t)50 * BLOCK + 9, 3);
    flip(path, at + (off_t)70 * BLOCK, 3);
    assert_int_equal(verify(1), 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(told[i].code, FTKIT_ERR_CORRUPT);
        assert_string_equal(told[i].file, "part-00000.h5");
        assert_string_equal(told[i].region, "extra");
        assert_int_equal(told[i].rank, 2);
    }
    assert_int_equal(told[1].block - told[0].block, 20);
}

static void damaged_files(void **state)
{
    (void)state;
    char path[FTK_PATH_MAX], away[FTK_PATH_MAX];
    CHECK_RC(FTKIT_OK, write_set(1));
    snprintf(path, sizeof path, "%s", path_of(1, "part-00001.h5"));
    snprintf(away, sizeof away, "%s/away", dir);
    assert_int_equal(rename(path, away), 0);
    assert_int_equal(verify(1), 1);
    assert_int_equal(told[0].code, FTKIT_ERR_NOT_FOUND);
    assert_string_equal(told[0].file, "part-00001.h5");
    assert_int_equal(symlink(away, path), 0); /* the right file, but not there */
    assert_int_equal(verify(1), 1);
    assert_int_equal(told[0].code, FTKIT_ERR_FORMAT);
    assert_int_equal(rename(away, path), 0);
    assert_int_equal(verify(1), 0);
    assert_int_equal(truncate(path, size_of(path) - 1), 0);
    assert_int_equal(verify(1), 1);
    assert_int_equal(told[0].code, FTKIT_ERR_CORRUPT);
    assert_int_equal(unlink(path_of(1, "master.h5")), 0);
    assert_int_equal(verify(1), 2);
    assert_string_equal(told[1].file, "master.h5");
}

/* A master that can be read but says something else. */
static void wrong_master(void **state)
{
    (void)state;
    CHECK_RC(FTKIT_OK, write_set(1));
    static const char *const names[] = { "step", "u2", "ranks" };
    for (size_t i = 0; i < COUNT(names); i++) {
        char path[FTK_PATH_MAX];
        snprintf(path, sizeof path, "%s", path_of(1, "master.h5"));
        size_t bytes;
        char *text = read_file(path, &bytes);
        hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
        assert_true(file >= 0);
        assert_true(H5Ldelete(file, names[i], H5P_DEFAULT) >= 0);
        assert_true(H5Lcreate_soft("/nothing", file, names[i], H5P_DEFAULT, H5P_DEFAULT) >= 0);
        H5Fclose(file);
        assert_true(verify(1) > 0);
        assert_string_equal(told[0].file, "master.h5");
        assert_non_null(strstr(told[0].text, names[i]));
        write_file(path, text, bytes);
        free(text);
    }
    assert_int_equal(verify(1), 0);
}

/* ---- What is there ------------------------------------------------------------------- */

static void survey(void **state)
{
    (void)state;
    struct ftk_set_entry *e = NULL, one;
    char(*names)[FTKIT_NAME_MAX + 1] = NULL;
    char path[FTK_PATH_MAX];
    size_t n = 0;
    for (uint64_t set = 1; set <= 5; set++)
        CHECK_RC(FTKIT_OK, write_set(set));
    assert_int_equal(unlink(path_of(5, "manifest")), 0);
    assert_int_equal(unlink(path_of(4, "part-00001.h5")), 0);
    flip(path_of(2, "manifest"), 40, 1);
    CHECK_RC(FTKIT_OK, begin_set(dir, "a", 1));
    snprintf(path, sizeof path, "%s/link.ftkit", dir);
    assert_int_equal(symlink("a.ftkit", path), 0);
    snprintf(path, sizeof path, "%s/file.ftkit", dir);
    write_file(path, "x", 1);
    CHECK_RC(FTKIT_OK, ftk_sets_dir_contexts(dir, &names, &n));
    assert_int_equal(n, 2);
    assert_string_equal(names[0], "a");
    assert_string_equal(names[1], CONTEXT);
    free(names);
    snprintf(path, sizeof path, "%s/%s.ftkit/set-0000000009", dir, CONTEXT);
    assert_int_equal(symlink("set-0000000001", path), 0);
    CHECK_RC(FTKIT_OK, ftk_sets_survey(dir, CONTEXT, &e, &n));
    static const int want[] = { FTK_SET_DAMAGED, FTK_SET_DAMAGED, FTK_SET_COMPLETE, FTK_SET_DAMAGED,
        FTK_SET_COMPLETE };
    assert_int_equal(n, 5);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(e[i].set, 5 - i);
        assert_int_equal(e[i].state, want[i]);
        assert_true((e[i].why[0] == '\0') == (want[i] == FTK_SET_COMPLETE));
        assert_int_equal(e[i].nranks, i == 0 || i == 3 ? 0 : NRANKS);
        assert_true(e[i].bytes > 1000 && e[i].written_s > time(NULL) - 600);
    }
    free(e);
    CHECK_RC(FTKIT_ERR_NOT_FOUND, ftk_h5_examine(dir, CONTEXT, 7, &one));
    CHECK_RC(FTKIT_OK, ftk_h5_remove(dir, CONTEXT, 4));
    assert_string_equal(listed(), "3 1");
    assert_false(exists(path_of(4, "manifest")));
}

static void regions_alone(void **state)
{
    (void)state;
    struct ftk_manifest m;
    void *seg = NULL;
    const struct ftk_seg_region *r = NULL;
    extra_bytes = 10 * BLOCK + 77;
    CHECK_RC(FTKIT_OK, write_set(1));
    CHECK_RC(FTKIT_OK, ftk_h5_open_set(dir, CONTEXT, 1, false, &m));
    for (uint32_t rank = 0; rank < NRANKS; rank++) {
        void *want = make_segment(1, rank);
        const struct ftk_seg_region *all = ftk_seg_regions_c(want);
        for (size_t i = 0; i < NREGIONS; i++) {
            CHECK_RC(FTKIT_OK, ftk_h5_read_region(dir, &m, rank, all[i].name, &seg, &r));
            assert_string_equal(r->name, all[i].name);
            assert_memory_equal(ftk_seg_data_c(seg) + r->offset,
                ftk_seg_data_c(want) + all[i].offset, all[i].bytes);
            free(seg);
        }
        free(want);
    }
    CHECK_RC(FTKIT_ERR_NOT_FOUND, ftk_h5_read_region(dir, &m, 0, "none", &seg, &r));
    CHECK_RC(FTKIT_ERR_ARG, ftk_h5_read_region(dir, &m, NRANKS, "u1", &seg, &r));
    flip(path_of(1, "part-00001.h5"), place_of(1, "part-00001.h5", 1, "extra"), 0);
    CHECK_RC(FTKIT_ERR_CORRUPT, ftk_h5_read_region(dir, &m, 1, "extra", &seg, &r));
    CHECK_RC(FTKIT_OK, ftk_h5_read_region(dir, &m, 1, "i8", &seg, &r));
    free(seg);
    ftk_manifest_free(&m);
}

/* A restart reads whole segments and checks each block while it reads.  Damage of any block ends
 * the restart, with the number of the block and the name of the region. */
static void restart_checks_blocks(void **state)
{
    (void)state;
    const size_t bytes = (size_t)70 * BLOCK + 100;
    extra_bytes = bytes;
    CHECK_RC(FTKIT_OK, write_set(1));
    const off_t at = place_of(1, "part-00001.h5", 1, "extra");
    struct ftk_manifest m;
    void *seg = NULL;
    size_t n;
    CHECK_RC(FTKIT_OK, ftk_h5_open_set(dir, CONTEXT, 1, true, &m));
    CHECK_RC(FTKIT_OK, read_segment(dir, &m, 1, &seg, &n));
    void *want = make_segment(1, 1);
    assert_int_equal(n, ftk_seg_bytes(want));
    assert_memory_equal(seg, want, n);
    const uint64_t offset = ftk_seg_find(seg, "extra")->offset;
    free(seg);
    free(want);
    const int before = handles();
    const size_t next = all_cases() ? BLOCK : 14 * BLOCK; /* 70 blocks, and a short one */
    for (size_t k = 0; k <= bytes; k += k < bytes && k + next > bytes ? bytes - k : next) {
        const size_t flipped = k < bytes ? k : bytes - 1;
        char text[64];
        snprintf(text, sizeof text, "block %d of", (int)((offset + flipped) / BLOCK));
        flip(path_of(1, "part-00001.h5"), at + (off_t)flipped, 5);
        CHECK_RC(FTKIT_ERR_CORRUPT, read_segment(dir, &m, 1, &seg, &n));
        assert_non_null(strstr(ftk_detail_text(), text));
        assert_non_null(strstr(ftk_detail_text(), "extra'"));
        flip(path_of(1, "part-00001.h5"), at + (off_t)flipped, 5);
    }
    CHECK_RC(FTKIT_OK, read_segment(dir, &m, 1, &seg, &n));
    free(seg);
    assert_int_equal(handles(), before);
    ftk_manifest_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(good_sets),
        TEST(flipped_bits),
        TEST_PACKED(good_sets),
        TEST_PACKED(flipped_bits),
        TEST(damage_is_named),
        TEST(damaged_files),
        TEST(wrong_master),
        TEST(survey),
        TEST(regions_alone),
        TEST(restart_checks_blocks),
    };
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests(tests, make_work, remove_work);
}
