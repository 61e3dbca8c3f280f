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
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_own_file),
        cmocka_unit_test(another_file_of_windows),
        cmocka_unit_test(another_file),
        cmocka_unit_test(a_process_that_is_over),
        cmocka_unit_test(is_reserved_in_pieces),
    };
    if (setenv("FTKIT_FAULT", "memfd.reserve:*:9:ENOSPC", 1)
        != 0) /* the last piece of the last file */
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
