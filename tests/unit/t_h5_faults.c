/* HDF5 sets: no failing call, kill or damage ever shows half a set, gives wrong data or
 * harms an older set.
 *
 * The children of the fault tests run with FTKIT_FAULT and check from inside what the failing
 * process itself must see.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "t_h5.h"

/* ---- Faults -------------------------------------------------------------------------- */

static bool deflate_in_child; /* compress the parts there, and not here */

static const struct fault {
    const char *point;
    int nth;
} write_faults[] = {
    { "h5.begin", 1 },
    { "h5.part.create", 1 },
    { "h5.part.create", 3 },
    { "h5.part.write", 1 },
    { "h5.part.write", 2 },
    { "h5.part.write", 3 },
    { "h5.part.write", 5 },
    { "h5.part.write", 8 },
    { "h5.part.write", 13 },
    { "h5.part.fsync", 1 },
    { "h5.part.fsync", 3 },
    { "h5.part.close", 1 },
    { "h5.part.close", 2 },
    { "h5.part.rename", 1 },
    { "h5.part.rename", 3 },
    { "h5.part.dirsync", 3 },
    { "h5.master.write", 1 },
    { "h5.master.write", 2 },
    { "h5.xdmf.write", 1 },
    { "h5.manifest.write", 1 },
    { "h5.manifest.fsync", 1 },
    { "h5.manifest.rename", 1 },
    { "h5.manifest.dirsync", 1 },
};

/* In the child: set 2 fails, set 1 holds, the next attempt succeeds. */
static int child_write(void)
{
    int rc = write_set(2);
    if (rc == FTKIT_OK)
        return 100; /* the fault was not reached */
    if (!*ftk_detail_text())
        return 101;
    if (strcmp(listed(), "1") != 0 || verify_set(1) != FTKIT_OK)
        return 102;
    DIR *d = opendir(path_of(2, ""));
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strstr(e->d_name, ".tmp"))
            return 103;
    if (d)
        closedir(d);
    if (write_set(2) != FTKIT_OK || verify_set(2) != FTKIT_OK)
        return 104;
    return -rc;
}

static int child_prune(void)
{
    int rc = ftk_sets_prune(dir, CONTEXT, RUN, 1);
    if (rc == FTKIT_OK)
        return 100;
    if (verify_set(3) != FTKIT_OK)
        return 101;
    return ftk_sets_prune(dir, CONTEXT, RUN, 1) == FTKIT_OK ? -rc : 102;
}

/* Children with a fault.  A process reads FTKIT_FAULT once, so this one, which has passed no fault
 * point, forks them: a new program would take longer. */
static struct request {
    char dir[64], rule[96];
    bool prune, deflate;
} request;
static int to_server[2], from_server[2];
static pid_t server;

static void child(void)
{
    setenv("FTKIT_FAULT", request.rule, 1);
    snprintf(dir, sizeof dir, "%s", request.dir);
    extra_bytes = 100;
    deflate = request.deflate;
    exit(request.prune ? child_prune() : child_write());
}

static void serve(void)
{
    close(to_server[1]); /* its end is the end of the tests */
    while (read(to_server[0], &request, sizeof request) == (ssize_t)sizeof request) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0)
            child();
        if (pid < 0 || waitpid(pid, &status, 0) != pid
            || write(from_server[1], &status, sizeof status) != (ssize_t)sizeof status)
            _exit(1);
    }
    _exit(0);
}

static bool start_server(void)
{
    if (pipe(to_server) != 0 || pipe(from_server) != 0)
        return false;
    server = fork();
    if (server == 0)
        serve();
    close(from_server[1]); /* so that reads end with the server */
    return server > 0;
}

/* Write set 2, or prune, in a child with a fault; its wait status. */
static int run_child(bool prune, const struct fault *f, const char *action)
{
    int status = -1;
    memset(&request, 0, sizeof request);
    snprintf(request.rule, sizeof request.rule, "%s:*:%d:%s", f->point, f->nth, action);
    snprintf(request.dir, sizeof request.dir, "%s", dir);
    request.prune = prune;
    request.deflate = deflate_in_child;
    assert_int_equal(write(to_server[1], &request, sizeof request), sizeof request);
    assert_int_equal(read(from_server[0], &status, sizeof status), sizeof status);
    return status;
}

static void every_fault(void **state, size_t next)
{
    for (size_t i = 0; i < COUNT(write_faults); i += next) {
        const struct fault *f = &write_faults[i];
        bool full = i % 2 == 1;
        new_dir(state);
        CHECK_RC(FTKIT_OK, write_set(1));
        int status = run_child(false, f, full ? "ENOSPC" : "EIO");
        int want = full ? -FTKIT_ERR_NOSPACE : -FTKIT_ERR_IO;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != want)
            fail_msg("%s:%d: status %#x", f->point, f->nth, (unsigned)status);
        assert_string_equal(listed(), "2 1");
        CHECK_RC(FTKIT_OK, verify_set(1));
        CHECK_RC(FTKIT_OK, verify_set(2));
    }
}

static void faults_are_clean(void **state)
{
    every_fault(state, 1);
}

/* HDF5 reads and writes more of its own where there are chunks. */
static void faults_are_clean_packed(void **state)
{
    deflate_in_child = true;
    every_fault(state, all_cases() ? 1 : 3);
    deflate_in_child = false;
}

static void kills_are_clean(void **state)
{
    for (size_t i = 0; i < COUNT(write_faults); i++) {
        const struct fault *f = &write_faults[i];
        new_dir(state);
        CHECK_RC(FTKIT_OK, write_set(1));
        int status = run_child(false, f, "kill");
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            fail_msg("%s:%d: status %#x", f->point, f->nth, (unsigned)status);
        CHECK_RC(FTKIT_OK, verify_set(1));
        if (strcmp(f->point, "h5.manifest.dirsync") == 0) {
            assert_string_equal(listed(), "2 1"); /* complete, whoever finished it */
        } else {
            assert_string_equal(listed(), "1");
            CHECK_RC(FTKIT_OK, write_set(2));
        }
        CHECK_RC(FTKIT_OK, verify_set(2));
    }
}

static void prune_faults_are_clean(void **state)
{
    for (int nth = 1; nth <= 10; nth++) {
        struct fault f = { "h5.prune", nth };
        for (int killed = 0; killed < 2; killed++) {
            if (!all_cases() && killed != nth % 2)
                continue;
            new_dir(state);
            for (uint64_t set = 1; set <= 3; set++)
                CHECK_RC(FTKIT_OK, write_set(set));
            int status = run_child(true, &f, killed ? "kill" : "EIO");
            if (killed ? !WIFSIGNALED(status)
                       : !WIFEXITED(status) || WEXITSTATUS(status) != -FTKIT_ERR_IO)
                fail_msg("h5.prune:%d: status %#x", nth, (unsigned)status);
            CHECK_RC(FTKIT_OK, verify_set(3));
            for (const char *t = listed(); *t; t += strspn(t, " 0123456789"))
                CHECK_RC(FTKIT_OK, verify_set(strtoull(t, NULL, 10)));
            CHECK_RC(FTKIT_OK, ftk_sets_prune(dir, CONTEXT, RUN, 1));
            assert_string_equal(listed(), "3");
            assert_false(exists(path_of(1, "")) || exists(path_of(2, "")));
        }
    }
}

/* ---- Damage -------------------------------------------------------------------------- */

/* HDF5 1.10 loses memory of its own when it finds an object header damaged, and says at
 * exit that it could not close ("infinite loop"): no news about us. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libhdf5";
}

static void check_code(int rc, const char *what, size_t at)
{
    if (rc != FTKIT_OK && rc != FTKIT_ERR_CORRUPT && rc != FTKIT_ERR_FORMAT && rc != FTKIT_ERR_IO)
        fail_msg("%s at %zu: %d: %s", what, at, rc, ftk_detail_text());
}

/* Read the ranks of part 0 with file as its content: identical, or an error. */
static int read_damaged(
    const struct ftk_manifest *m, void *const want[NRANKS], const char *what, size_t at)
{
    int errors = 0;
    for (int r = 0; r < NRANKS; r++) {
        void *seg = NULL;
        size_t bytes = 0;
        if (part_of[r] != 0)
            continue;
        int rc = read_segment(dir, m, r, &seg, &bytes);
        check_code(rc, what, at);
        if (rc != FTKIT_OK)
            errors++;
        else if (bytes != ftk_seg_bytes(want[r]) || memcmp(seg, want[r], bytes) != 0)
            fail_msg("%s at %zu: other data came back", what, at);
        free(seg);
    }
    return errors;
}

static void damaged_parts(void **state)
{
    (void)state;
    struct ftk_manifest m, deep;
    void *want[NRANKS];
    size_t bytes;
    CHECK_RC(FTKIT_OK, write_set(1));
    CHECK_RC(FTKIT_OK, ftk_h5_open_set(dir, CONTEXT, 1, true, &m));
    for (uint32_t r = 0; r < NRANKS; r++)
        want[r] = make_segment(1, r);
    char path[FTK_PATH_MAX];
    snprintf(path, sizeof path, "%s", path_of(1, "part-00000.h5"));
    char *text = read_file(path, &bytes);
    int fd = open(path, O_RDWR);
    uint64_t x = 20240229;
    const size_t tries = all_cases() ? 1200 : 150;
    size_t errors = 0;
    const int before = handles();
    for (size_t i = 0; i < tries; i++) {
        /* one bit; every third time up to 64 bytes of noise */
        size_t n = i % 3 == 2 ? 1 + next_random(&x) % 64 : 1;
        size_t at = i < tries / 12 ? i * 1200 / tries : next_random(&x) % (bytes - n);
        char damage[64];
        memcpy(damage, text + at, n);
        for (size_t k = 0; k < n; k++)
            damage[k] = (char)(n == 1 ? damage[k] ^ 1 << next_random(&x) % 8
                                      : (int)(next_random(&x) & 0xff));
        assert_int_equal(pwrite(fd, damage, n, (off_t)at), n);
        errors += read_damaged(&m, want, "damage", at) > 0;
        if (i % 8 == 0) {
            int rc = ftk_h5_open_set(dir, CONTEXT, 1, true, &deep);
            check_code(rc, "deep open", at);
            if (rc == FTKIT_OK)
                ftk_manifest_free(&deep);
        }
        assert_int_equal(pwrite(fd, text + at, n, (off_t)at), n);
    }
    assert_int_equal(handles(), before);
    assert_true(errors > tries / 2);          /* most of the file is data and heads */
    for (size_t i = 0; i < tries / 20; i++) { /* even if the manifest agreed with a short file */
        size_t at = i < tries / 60 ? i * 9600 / tries : next_random(&x) % bytes;
        assert_int_equal(ftruncate(fd, (off_t)at), 0);
        m.parts[0].file_bytes = at;
        assert_int_equal(read_damaged(&m, want, "cut", at), 2);
        assert_int_equal(pwrite(fd, text, bytes, 0), bytes);
    }
    m.parts[0].file_bytes = bytes;
    assert_int_equal(read_damaged(&m, want, "repaired", 0), 0);
    CHECK_RC(FTKIT_OK, verify_set(1));
    close(fd);
    free(text);
    for (int r = 0; r < NRANKS; r++)
        free(want[r]);
    ftk_manifest_free(&m);
}

static void damaged_manifest(void **state)
{
    (void)state;
    struct ftk_manifest m;
    size_t bytes;
    CHECK_RC(FTKIT_OK, write_set(1));
    CHECK_RC(FTKIT_OK, write_set(2));
    char path[FTK_PATH_MAX];
    snprintf(path, sizeof path, "%s", path_of(2, "manifest"));
    char *text = read_file(path, &bytes);
    for (size_t bit = 0; bit < 8 * bytes; bit += all_cases() ? 1 : 5) {
        text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
        write_file(path, text, bytes);
        text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
        int rc = ftk_h5_open_set(dir, CONTEXT, 2, false, &m);
        if (rc != FTKIT_ERR_CORRUPT && rc != FTKIT_ERR_FORMAT)
            fail_msg("bit %zu: %d", bit, rc);
        if (bit % 64 == 0)
            assert_string_equal(listed(), "1");
    }
    for (size_t n = 0; n < bytes; n += all_cases() ? 1 : 3) {
        write_file(path, text, n);
        int rc = ftk_h5_open_set(dir, CONTEXT, 2, false, &m);
        assert_true(rc == FTKIT_ERR_CORRUPT || rc == FTKIT_ERR_FORMAT);
    }
    write_file(path, text, bytes);
    CHECK_RC(FTKIT_OK, verify_set(2));
    free(text);
}

/* Content that nobody wrote, with the right checksum. */
static void forged_manifests(void **state)
{
    (void)state;
    static const char *const forged[] = {
        "",
        "ftkit.manifest = 2\n",
        "%sset = 2\nrun = 1\nnranks = 1\nnparts = 1\n",
        "%sset = 1\nrun = 1\nnranks = 4294967295\nnparts = 4294967295\n",
        "%sset = 1\nrun = 1\nnranks = 16777216\nnparts = 16777216\n",
        "%sset = 1\nrun = 1\nnranks = 0\nnparts = 0\n",
        "%sset = 1\nrun = 1\nnranks = 1\nnparts = 0\nranks = 0 0 0\n",
        "%sset = 99999999999999999999\nrun = 1\nnranks = 1\nnparts = 1\n",
        "%sset = 1\nrun = -1\nnranks = 1\nnparts = 1\n",
        "%sset = 01\nrun = 1\nnranks = 1\nnparts = 1\n",
        "%sset = 1\nrun = 1\nnranks = 1\nnparts = 1\npart = ../x 1 1 0000000000000000\n"
        "ranks = 0 0 0\n",
        "%sset = 1\nrun = 1\nnranks = 1\nnparts = 1\npart = 0 1 1 000000000000000X\n"
        "ranks = 0 0 0\n",
        "%sset = 1\nrun = 1\nnranks = 2\nnparts = 1\npart = 0 2 1 0000000000000000\n"
        "ranks = 0 0 0\n",
        "%sset = 1\nrun = 1\nnranks = 2\nnparts = 1\npart = 0 2 1 0000000000000000\n"
        "ranks = 0 2 0\n",
        "%sset = 1\nrun = 1\nnranks = 2\nnparts = 1\npart = 0 2 1 0000000000000000\n"
        "ranks = 1 0 0\n",
        "%sset = 1\nrun = 1\nnranks = 2\nnparts = 1\npart = 0 2 1 0000000000000000\n"
        "ranks = 0 1 1\n",
        "%sset = 1\nrun = 1\nnranks = 2\nnparts = 1\npart = 0 1 1 0000000000000000\n"
        "ranks = 0 1 0\n",
        "%sset = 1\nrun = 1\nnranks = 1\nnparts = 1\npart = 0 1 18446744073709551615 "
        "0000000000000000\nranks = 0 0 0\n",
        "%sset = 1\nrun = 1\nnranks = 1\nnparts = 1\npart = 0 1 1 0000000000000000\n"
        "ranks = 0 0 0\nmore = 1\n",
    };
    struct ftk_manifest m;
    char text[1024];
    CHECK_RC(FTKIT_OK, write_set(1));
    for (size_t i = 0; i < COUNT(forged); i++) {
        const char *rest = strncmp(forged[i], "%s", 2) == 0 ? forged[i] + 2 : forged[i];
        const char *head = rest == forged[i] ? "" : "ftkit.manifest = 1\ncontext = " CONTEXT "\n";
        int n = snprintf(text, sizeof text, "%s%s", head, rest);
        n += snprintf(text + n, sizeof text - (size_t)n, "checksum = %016" PRIx64 "\n",
            XXH3_64bits(text, (size_t)n));
        write_file(path_of(1, "manifest"), text, (size_t)n);
        CHECK_RC(FTKIT_ERR_FORMAT, ftk_h5_open_set(dir, CONTEXT, 1, false, &m));
        assert_string_equal(listed(), "");
    }
    int fd = open(path_of(1, "manifest"), O_RDWR);
    assert_int_equal(ftruncate(fd, 17 << 20), 0); /* nobody reads that */
    close(fd);
    CHECK_RC(FTKIT_ERR_FORMAT, ftk_h5_open_set(dir, CONTEXT, 1, false, &m));
}

/* ---- A full file system -------------------------------------------------------------- */

static int unmount(void **state)
{
    (void)state;
    umount2(dir, MNT_DETACH);
    return 0;
}

static void full_disk(void **state)
{
    (void)state;
    char path[FTK_PATH_MAX], command[128];
    snprintf(command, sizeof command, "mkdir -p '%s'", dir);
    assert_int_equal(system(command), 0);
    if (mount("none", dir, "tmpfs", 0, "size=2m") != 0)
        skip();
    CHECK_RC(FTKIT_OK, write_set(1));
    int before = handles();
    extra_bytes = 3 << 20;
    CHECK_RC(FTKIT_ERR_NOSPACE, write_set(2));
    extra_bytes = 100;
    CHECK_RC(FTKIT_OK, verify_set(1));
    /* leave more and more room, so that every step of a set meets the end of it once */
    int failed = 0, room;
    snprintf(path, sizeof path, "%s/ballast", dir);
    for (room = 0; room < 2000; room += 4) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        while (write(fd, path, sizeof path) > 0)
            ;
        struct stat st;
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(ftruncate(fd, st.st_size - room * 1024), 0);
        close(fd);
        int rc = write_set(2);
        assert_int_equal(unlink(path), 0);
        CHECK_RC(FTKIT_OK, verify_set(1));
        if (rc == FTKIT_OK)
            break;
        CHECK_RC(FTKIT_ERR_NOSPACE, rc);
        assert_string_equal(listed(), "1");
        failed++;
    }
    assert_true(failed > 20);
    assert_int_equal(handles(), before);
    CHECK_RC(FTKIT_OK, verify_set(2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(faults_are_clean),
        TEST(faults_are_clean_packed),
        TEST(kills_are_clean),
        TEST(prune_faults_are_clean),
        TEST(damaged_parts),
        TEST(damaged_manifest),
        TEST(forged_manifests),
        cmocka_unit_test_setup_teardown(full_disk, new_dir, unmount),
    };
    if (!start_server())
        return 1;
    const int failed = cmocka_run_group_tests_name("h5_faults", tests, make_work, remove_work);
    close(to_server[1]);
    return waitpid(server, NULL, 0) == server ? failed : 1;
}
