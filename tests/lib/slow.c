/* A slow machine; to be preloaded.  Every pread() takes FTKIT_TEST_SLOW_MS milliseconds longer, and
 * the list of all processes takes FTKIT_TEST_SLOW_LIST_MS milliseconds longer.  The environment of
 * processes of the name FTKIT_TEST_HIDDEN cannot be read, as that of another user.  When the file
 * FTKIT_TEST_LATER is there, the monotonic clock is two hours ahead.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void take_long(const char *variable)
{
    const char *set = getenv(variable);
    long ms = set ? strtol(set, NULL, 10) : 0;
    const struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
    (void)nanosleep(&t, NULL);
}

static ssize_t slow_read(int fd, void *buf, size_t bytes, off_t at)
{
    take_long("FTKIT_TEST_SLOW_MS");
    return syscall(SYS_pread64, fd, buf, bytes, at);
}

ssize_t pread(int fd, void *buf, size_t bytes, off_t at)
{
    return slow_read(fd, buf, bytes, at);
}

ssize_t pread64(int fd, void *buf, size_t bytes, off_t at)
{
    return slow_read(fd, buf, bytes, at);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    const char *later = getenv("FTKIT_TEST_LATER");
    long rc = syscall(SYS_clock_gettime, clock, t);
    if (rc == 0 && clock == CLOCK_MONOTONIC && later && access(later, F_OK) == 0)
        t->tv_sec += 7200;
    return (int)rc;
}

DIR *opendir(const char *name)
{
    DIR *(*next)(const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "opendir");
    if (strcmp(name, "/proc") == 0)
        take_long("FTKIT_TEST_SLOW_LIST_MS");
    return next(name);
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    const char *hidden = getenv("FTKIT_TEST_HIDDEN");
    char comm[64], name[64] = "";
    int pid, end = 0;
    if (hidden && sscanf(path, "/proc/%d/environ%n", &pid, &end) == 1 && end > 0) {
        snprintf(comm, sizeof comm, "/proc/%d/comm", pid);
        FILE *f = next(comm, "re");
        int n = f ? fscanf(f, "%63s", name) : 0;
        if (f)
            (void)fclose(f);
        if (n == 1 && strcmp(name, hidden) == 0) {
            errno = EACCES;
            return NULL;
        }
    }
    return next(path, mode);
}
