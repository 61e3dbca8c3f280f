/* A file system that does not answer; to be preloaded.  In the ranks of a job, calls with a path
 * that has FTKIT_TEST_HANG_PATH in it wait as long as the file FTKIT_TEST_HANG exists.
 *
 * And a rank that goes no further than a step: FTKIT_TEST_HOLD=NAME:STEP:FILE,...  A process that
 * writes its pid and its step to a file whose path ends in NAME waits at that, once the file has
 * STEP or a later one.  The process waits as long as FILE exists.  So a test can kill a process,
 * however late the test is.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 22 }; /* length of a line with a pid and a step, or one less than that */

static const struct timespec turn = { 0, 5000000 };

/* The beginning of a file as text; false: it is not there. */
static bool peek(const char *path, char *text, size_t bytes)
{
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    const ssize_t n = fd >= 0 ? read(fd, text, bytes - 1) : -1;
    if (fd >= 0)
        (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    return fd >= 0;
}

static void await_release(const char *path)
{
    char text[64];
    const char *list = getenv("FTKIT_TEST_HOLD");
    char name[256], file[4096];
    int used = 0;
    long step, now;
    for (; list && getenv("PMIX_RANK"); list += used + (list[used] == ',')) {
        if (sscanf(list, "%255[^:]:%ld:%4095[^,]%n", name, &step, file, &used) != 3)
            return;
        const size_t n = strlen(path), m = strlen(name);
        if (n < m || strcmp(path + n - m, name) != 0)
            continue;
        if (!peek(path, text, sizeof text) || sscanf(text, "%*d %ld", &now) != 1 || now < step)
            continue;
        while (peek(file, text, sizeof text))
            (void)nanosleep(&turn, NULL);
    }
}

static void await_answer(int dir, const char *path)
{
    const char *file = getenv("FTKIT_TEST_HANG"), *part = getenv("FTKIT_TEST_HANG_PATH");
    char proc[40], at[4096] = "";
    if (!file || !part || !getenv("PMIX_RANK"))
        return;
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", dir);
    if (dir >= 0 && (!path || path[0] != '/'))
        (void)!readlink(proc, at, sizeof at - 1);
    if (!strstr(at, part) && !(path && strstr(path, part)))
        return;
    while (access(file, F_OK) == 0)
        (void)nanosleep(&turn, NULL);
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

ssize_t write(int fd, const void *buf, size_t bytes)
{
    char proc[40], at[4096];
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
    const ssize_t n = bytes == LINE || bytes == LINE + 1 ? readlink(proc, at, sizeof at - 1) : -1;
    at[n > 0 ? n : 0] = '\0';
    if (n > 0)
        await_release(at);
    return syscall(SYS_write, fd, buf, bytes);
}

int rename(const char *from, const char *to)
{
    await_answer(-1, from);
    await_release(to);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlinkat(int dir, const char *path, int flags)
{
    await_answer(dir, path);
    return (int)syscall(SYS_unlinkat, dir, path, flags);
}
