/* A file system that does not answer; to be preloaded.  In the ranks of a job, calls with a path
 * that has FTKIT_TEST_HANG_PATH in it wait as long as the file FTKIT_TEST_HANG exists.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static void await_answer(int dir, const char *path)
{
    const char *file = getenv("FTKIT_TEST_HANG"), *part = getenv("FTKIT_TEST_HANG_PATH");
    const struct timespec t = { 0, 5000000 };
    char proc[40], at[4096] = "";
    if (!file || !part || !getenv("PMIX_RANK"))
        return;
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", dir);
    if (dir >= 0 && (!path || path[0] != '/'))
        (void)!readlink(proc, at, sizeof at - 1);
    if (!strstr(at, part) && !(path && strstr(path, part)))
        return;
    while (access(file, F_OK) == 0)
        (void)nanosleep(&t, NULL);
}

/* The mode that follows, if the call makes a file. */
#define MODE(flags, mode)                                                                          \
    mode_t mode = 0;                                                                               \
    if ((flags)&O_CREAT) {                                                                         \
        va_list list;                                                                              \
        va_start(list, flags);                                                                     \
        mode = va_arg(list, mode_t);                                                               \
        va_end(list);                                                                              \
    }

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
    await_answer(dir, path);
    return (int)syscall(SYS_openat, dir, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    MODE(flags, mode)
    return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    MODE(flags, mode)
    return open_at(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    MODE(flags, mode)
    return open_at(dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
    MODE(flags, mode)
    return open_at(dir, path, flags | O_LARGEFILE, mode);
}

int mkdir(const char *path, mode_t mode)
{
    await_answer(-1, path);
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
    await_answer(dir, path);
    return (int)syscall(SYS_mkdirat, dir, path, mode);
}

int fsync(int fd)
{
    await_answer(fd, NULL);
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    await_answer(-1, from);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlinkat(int dir, const char *path, int flags)
{
    await_answer(dir, path);
    return (int)syscall(SYS_unlinkat, dir, path, flags);
}
