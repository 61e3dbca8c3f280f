/* The file of shared memory: an address of another file, or of a process that is over, is never
 * opened (log/win/share_file.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/memfd.h"
#include "log/win/share_file.h"

enum { BYTES = 8192, TOKEN = 4711 };

static int open_at(int fd, size_t bytes, uint64_t token)
{
    int found = -1;
    const int err = ftk_share_file_open(ftk_share_file_address(fd), bytes, token, &found);
    assert_true((err == 0) == (found >= 0));
    if (found >= 0)
        close(found);
    return err;
}

static void its_own_file(void **state)
{
    int fd = -1, found = -1;
    char sign = 'a';
    (void)state;
    assert_int_equal(ftk_share_file_make(BYTES, TOKEN, &fd), 0);
    assert_int_equal(ftk_share_file_open(ftk_share_file_address(fd), BYTES, TOKEN, &found), 0);
    assert_true(fcntl(found, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(pwrite(found, &sign, 1, BYTES - 1), 1);
    sign = 'b';
    assert_int_equal(pread(fd, &sign, 1, BYTES - 1), 1);
    assert_int_equal(sign, 'a');
    close(found);
    close(fd);
}

static void another_file_of_windows(void **state)
{
    int fd = -1;
    (void)state;
    assert_int_equal(ftk_share_file_make(BYTES, TOKEN, &fd), 0);
    assert_int_equal(open_at(fd, BYTES, TOKEN + 1), ESTALE);
    assert_int_equal(open_at(fd, (size_t)2 * BYTES, TOKEN), ESTALE);
    close(fd);
    assert_int_equal(open_at(fd, BYTES, TOKEN), ENOENT);
}

/* The number of a process may be that of another one, with any file behind the descriptor. */
static void another_file(void **state)
{
    char path[] = "/tmp/ftkit-share-XXXXXX";
    const uint64_t token = TOKEN;
    int fd = mkstemp(path), watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    char event[256];
    (void)state;
    assert_true(fd >= 0 && watch >= 0);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    assert_int_equal(pwrite(fd, &token, sizeof token, 0), sizeof token);
    assert_true(inotify_add_watch(watch, path, IN_OPEN) >= 0);
    assert_int_equal(open_at(fd, BYTES, TOKEN), ESTALE);
    assert_int_equal(read(watch, event, sizeof event), -1); /* nobody has opened the file */
    assert_int_equal(errno, EAGAIN);
    close(watch);
    close(fd);
    unlink(path);

    fd = memfd_create("ftkit-win2", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    assert_int_equal(pwrite(fd, &token, sizeof token, 0), sizeof token);
    assert_int_equal(open_at(fd, BYTES, TOKEN), ESTALE);
    close(fd);
}

static void a_process_that_is_over(void **state)
{
    int status, found = -1;
    (void)state;
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(ftk_share_file_open((uint64_t)child << 32 | 3, BYTES, TOKEN, &found), ENOENT);
    assert_int_equal(ftk_share_file_open(0, BYTES, TOKEN, &found), ENOENT);
    assert_int_equal(found, -1);
}

/* A signal undoes one piece, and not all that is reserved: each piece passes the point. */
static void is_reserved_in_pieces(void **state)
{
    enum { LARGE = 12 << 20 };
    struct stat st;
    int fd = -1;
    (void)state;
    assert_int_equal(ftk_share_file_make(LARGE + BYTES, TOKEN, &fd), 0); /* see main() */
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, LARGE + BYTES);
    assert_true(st.st_blocks * 512 >= LARGE + BYTES);
    close(fd);
    fd = -1;
    assert_int_equal(ftk_share_file_make(LARGE, TOKEN, &fd), ENOSPC);
    assert_int_equal(fd, -1);
}

static off_t bytes_used(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_blocks * 512;
}

static void has_memory_at_its_first_use(void **state)
{
    enum { LARGE = 64 << 20, AT = 9 << 20, SMALL = 1 << 20 };
    char *copy = malloc(LARGE);
    int fd = -1;
    (void)state;
    assert_non_null(copy);
    memset(copy, 1, LARGE);
    assert_int_equal(ftk_share_file_make_sparse(LARGE, TOKEN, &fd), 0);
    char *at = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(at != MAP_FAILED);
    at[AT] = 'a';
    at[LARGE - 1] = 'b';
    ftk_memfd_copy(fd, BYTES, at + BYTES, copy, LARGE - BYTES);
    assert_true(bytes_used(fd) < SMALL);
    for (size_t i = 0; i < LARGE - BYTES; i++)
        if (copy[i] != (i + BYTES == AT ? 'a' : i + BYTES == LARGE - 1 ? 'b' : 0))
            fail();
    at[BYTES] = 'c';
    at[BYTES + 1] = 'd';
    ftk_memfd_copy(fd, BYTES + 1, at + BYTES + 1, copy, 1); /* not more than was asked for */
    assert_memory_equal(copy, "d\0", 2);
    munmap(at, LARGE);
    close(fd);
    free(copy);
}

static void is_no_more_than_the_node_has(void **state)
{
    int fd = -1;
    (void)state;
    assert_int_equal(ftk_share_file_make_sparse((size_t)1 << 50, TOKEN, &fd), ENOMEM);
    assert_int_equal(fd, -1);
}

/* A limit of the shell (ulimit -f) is an error, and no signal. */
static void is_no_longer_than_a_file_may_be(void **state)
{
    struct rlimit was, low;
    int fd = -1;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    low = was;
    low.rlim_cur = BYTES;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    assert_int_equal(ftk_share_file_make_sparse(2 * BYTES, TOKEN, &fd), EFBIG);
    assert_int_equal(ftk_share_file_make(2 * BYTES, TOKEN, &fd), EFBIG);
    assert_int_equal(fd, -1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
}

/* Where the kernel counts memory, a store must not find none. */
static void is_reserved_where_memory_is_counted(void **state)
{
    enum { LARGE = 8 << 20 };
    int fd = -1;
    (void)state;
    assert_int_equal(ftk_share_file_make_sparse(LARGE, TOKEN, &fd), 0); /* see main() */
    assert_true(bytes_used(fd) >= LARGE);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_own_file),
        cmocka_unit_test(another_file_of_windows),
        cmocka_unit_test(another_file),
        cmocka_unit_test(a_process_that_is_over),
        cmocka_unit_test(is_reserved_in_pieces),
        cmocka_unit_test(has_memory_at_its_first_use),
        cmocka_unit_test(is_no_more_than_the_node_has),
        cmocka_unit_test(is_no_longer_than_a_file_may_be),
        cmocka_unit_test(is_reserved_where_memory_is_counted),
    };
    /* the last piece of the last file that is reserved in pieces; the second file that is sparse */
    if (setenv("FTKIT_FAULT", "memfd.reserve:*:9:ENOSPC,memfd.counted:*:2:EIO", 1) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
